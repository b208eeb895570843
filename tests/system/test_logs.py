"""Where a mount's log goes and what is in it; never content, never a secret."""

import json
import socket
import subprocess
import sys

from tests.cli.conftest import Program
from tests.harness.serving import serving_in_thread

SECRET = "the words nobody else may read"


def test_a_daemon_logs_to_its_file_and_names_what_was_refused(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    (program.mountpoint / "memory/a.md").write_text(SECRET)
    done = subprocess.run(["cp", "/bin/true", program.mountpoint / "memory/binary"], capture_output=True, check=False)
    assert done.returncode != 0
    (program.mountpoint / "memory/binary").unlink()
    (status,) = program.objects("status")
    program.ok("umount", program.mountpoint)
    with open(status["log"], encoding="utf-8") as log:
        lines = log.read().splitlines()
    assert " info memfs.cli.mount: mounted at " in lines[0]
    assert "unmounted" in lines[-1]
    assert any("/binary" in line and "warning" in line for line in lines)
    assert SECRET not in "\n".join(lines)


def test_json_to_a_file_and_levels(program: Program) -> None:
    log = program.root / "mount.log"
    program.ok("mount", program.mountpoint, "--log", log, "--log-json")
    program.ok("umount", program.mountpoint)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [record["level"] for record in records] == ["info", "info"]
    assert set(records[0]) == {"time", "level", "logger", "message"}
    log.unlink()
    program.ok("mount", program.mountpoint, "-o", f"log={log},log-level=error")
    program.ok("umount", program.mountpoint)
    assert log.read_text() == ""


def test_in_the_foreground_to_standard_error(program: Program) -> None:
    program.mountpoint.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "memfs", "mount", "-f", program.mountpoint],
        env=program.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"{program.mountpoint}\n"
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert "mounted at" in said


def test_a_place_that_cannot_be_logged_to(program: Program) -> None:
    assert "--log" in program.refused("mount", "-f", program.mountpoint, "--log", program.root / "no/where")


def test_no_credential_is_in_a_log_at_any_level(program: Program) -> None:
    program.ok("stores", "create", "Memory")
    with serving_in_thread(f"sqlite:///{program.database}") as server:
        _, minted = server.keyring.create_key("tests")
        log = program.root / "mount.log"
        variables = {"MEMFS_URL": server.url, "MEMFS_API_KEY": minted.secret}
        program.ok("mount", program.mountpoint, "--log", log, "--log-level", "debug", **variables)
        (program.mountpoint / "memory/a.md").write_text(SECRET)
        program.ok("umount", program.mountpoint)
    text = log.read_text()
    assert "mounted at" in text
    assert minted.secret not in text
    assert SECRET not in text


def test_syslog(program: Program) -> None:
    """Through a socket of the test's own: the machine may have no syslog."""
    address = program.root / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(address))
        listener.settimeout(10)
        code = (
            f"import memfs.cli.logging as l, logging; l.SYSLOG_SOCKET = {str(address)!r}; "
            "l.configure(l.LogSettings('syslog', 'info', False)); logging.getLogger('memfs.x').error('told')"
        )
        subprocess.run([sys.executable, "-c", code], env=program.environment, check=True, timeout=30)
        received = listener.recv(1000)
    assert b"memfs: error memfs.x: told" in received
    assert received.startswith(b"<27>")  # daemon.err
