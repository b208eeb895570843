"""A mount whose service goes away: what the commands say, and that nothing is lost."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Program

SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def served(program: Program, port: int) -> Iterator[str]:
    """`memfs serve` on a database of the program's, and its URL."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "memfs",
            "serve",
            "--listen",
            f"127.0.0.1:{port}",
            "--url",
            f"sqlite:///{program.root}/served.db",
        ],
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"listening on http://127.0.0.1:{port}"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)


def test_a_history_that_cannot_be_read_says_where_the_reason_is(program: Program) -> None:
    note = program.mountpoint / "memory/a.md"
    with served(program, free_port()) as url:
        program.ok("mount", program.mountpoint, "--url", url, "--timeout", "1")
        note.write_text("stored\n")
    for arguments in (("diff", note), ("diff", note.parent, "@1h"), ("restore", note, "memver_01x"), ("restore", note, "@1h")):
        assert ".memfs/errors" in program.refused(*arguments)


def test_what_could_not_be_stored_is_named_and_stored_later(program: Program) -> None:
    port = free_port()
    note = program.mountpoint / "memory/a.md"
    with served(program, port) as url:
        program.ok("mount", program.mountpoint, "--url", url, "--timeout", "1")
        note.write_text("stored\n")
    with pytest.raises(OSError, match="Input/output error"):
        note.write_text("kept\n")

    assert note.read_text() == "kept\n"
    said = program.run("umount", "--timeout", "3", program.mountpoint)
    assert said.returncode == 1
    assert re.search(r"waiting for 1 change of memory to be stored", said.stderr)
    assert "--force" in said.stderr.splitlines()[-1]
    assert "Input/output error" in program.refused("sync", note)
    assert program.ok("umount", "--force", program.mountpoint) == ""

    assert url in program.refused("mount", program.mountpoint, "--url", url, "--timeout", "1")
    with served(program, port) as url:
        program.ok("mount", program.mountpoint, "--url", url)
        assert note.read_text() == "kept\n"
        program.ok("sync")
        assert [version["operation"] for version in program.objects("log", note)] == ["modified", "created"]
        program.ok("umount", program.mountpoint)
