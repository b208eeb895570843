"""`memfs status --watch` on a terminal and for a program."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

from memfs.cli.watch import Watch, unsaved
from tests.cli.conftest import Program
from tests.harness.waiting import eventually


def test_for_a_program_an_object_a_second(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    process = subprocess.Popen(
        [sys.executable, "-m", "memfs", "status", "--watch", "--json"],
        env=program.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        objects = [json.loads(process.stdout.readline()) for _ in range(2)]
    finally:
        process.kill()
        process.communicate()
    assert {item["mountpoint"] for item in objects} == {str(program.mountpoint)}
    looking, records = Watch(), program.registry.records()
    (first,) = looking.rows(records, 0.0)
    (second,) = looking.rows(records, 2.0)
    assert first[:2] == (f"{program.mountpoint}/memory", "live")
    assert (first[-1], second[-1]) == ("", "0.0")
    (program.mountpoint / "memory/a.md").write_text("x")
    with contextlib.suppress(OSError):
        (program.mountpoint / "memory/binary").write_bytes(b"\xff")
    eventually(lambda: [line.split()[0] for line in unsaved(program.registry.records())], ["refused"], within=4)
    (program.mountpoint / "memory/binary").unlink()
    assert "--json" in program.refused("status", "--watch", code=2)


def test_on_a_terminal_until_interrupted(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable, [sys.executable, "-m", "memfs", "status", "--watch"], {**program.environment, "TERM": "xterm"}
        )
    try:
        screen = b""
        deadline = time.monotonic() + 30
        while b"Ctrl-C" not in screen and time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                screen += os.read(terminal, 65536)
        os.write(terminal, b"\x03")
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            while os.read(terminal, 65536):
                pass
        _, status = os.waitpid(pid, 0)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(terminal)
    assert b"PENDING" in screen
    assert b"live" in screen
    assert os.waitstatus_to_exitcode(status) == 130
