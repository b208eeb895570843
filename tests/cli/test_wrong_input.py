"""What a newcomer types wrong, or lacks: one line each, and the line names the next step."""

import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import Program
from tests.harness.disks import fill, small_disk
from tests.harness.serving import serving_in_thread


@pytest.mark.parametrize("command", ["mount", "umount", "shadow", "sync", "log"])
def test_an_empty_path_is_not_the_current_directory(program: Program, command: str) -> None:
    assert "write . for the current directory" in program.refused(command, "")


@pytest.mark.parametrize("command", ["mount", "shadow"])
def test_a_place_whose_bytes_are_no_text(program: Program, command: str) -> None:
    place = os.fsdecode(os.fsencode(program.root) + b"/x\xff")
    os.mkdir(place)
    assert f"{program.root}/x? are not UTF-8: choose another place" in program.refused(command, place)
    assert program.ok("status") == ""


def test_an_export_to_an_empty_path(program: Program) -> None:
    assert "write . for the current directory" in program.refused("export", "Notes", "", code=2)


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:99999", "qoder+https://here:port/"])
@pytest.mark.parametrize("command", ["stores list", "mount x", "doctor"])
def test_a_url_that_cannot_be_read(program: Program, command: str, url: str) -> None:
    assert "write https://HOST" in program.refused(*command.split(), "--url", url)


def test_a_path_is_no_url(program: Program) -> None:
    assert "write sqlite:///PATH" in program.refused("stores", "list", MEMFS_URL="/tmp/x.db")


def test_nobody_answers(program: Program) -> None:
    program.mountpoint.mkdir()
    said = program.refused("mount", "-f", program.mountpoint, "--url", "http://127.0.0.1:1", "--timeout", "0.2")
    assert said.startswith("http://127.0.0.1:1 did not answer: no connection (Connection refused): check $MEMFS_URL or --url")


def test_a_new_database_is_told_once(program: Program) -> None:
    mistyped = program.root / "mistyped.db"
    done = program.run("mount", program.mountpoint, "--url", "sqlite:///mistyped.db")
    assert done.stdout == f"{program.mountpoint}\n"
    assert done.stderr == f"memfs: created {program.mountpoint}\nmemfs: created the database {mistyped}\n"
    assert program.run("stores", "list", MEMFS_URL=f"sqlite:///{mistyped}").stderr == ""
    assert "created the database" in program.run("keys", "list", "--url", "sqlite:///other.db").stderr
    source = program.root / "third.db"
    assert str(source) in program.refused("import", f"sqlite:///{source}", "Notes")
    assert not source.exists()


def test_a_service_that_wants_another_credential(program: Program) -> None:
    with serving_in_thread(f"sqlite:///{program.root}/served.db") as server:
        server.keyring.create_key("tests")
        program.mountpoint.mkdir()
        for command in (("stores", "list"), ("import", program.mountpoint, "Notes"), ("mount", "-f", program.mountpoint)):
            said = program.refused(*command, MEMFS_URL=server.url, MEMFS_API_KEY="wrong")
            assert "401" in said
            assert "MEMFS_API_KEY" in said
            assert "--credentials-file" in said


@pytest.mark.parametrize(
    ("status", "words"), [(403, "a credential that allows it is needed"), (500, "try again later"), (503, "try again later")]
)
def test_a_service_that_refuses_says_what_to_do(program: Program, status: int, words: str) -> None:
    class Refuser(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with HTTPServer(("127.0.0.1", 0), Refuser) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            said = program.refused("stores", "list", "--url", url, MEMFS_API_KEY="k")
        finally:
            server.shutdown()
            thread.join()
    assert f"answered {status}" in said
    assert words in said


def test_a_key_that_was_revoked_is_why_the_end_waits(program: Program) -> None:
    with serving_in_thread(f"sqlite:///{program.root}/served.db") as server:
        key, minted = server.keyring.create_key("tests")
        variables = {"MEMFS_URL": server.url, "MEMFS_API_KEY": minted.secret}
        program.ok("mount", program.mountpoint, "--timeout", "1", **variables)
        note = program.mountpoint / "memory/a.md"
        note.write_text("stored\n")
        server.keyring.revoke_key(key.id)
        with pytest.raises(PermissionError):
            note.write_text("kept\n")
        said = program.refused("umount", "--timeout", "1.5", program.mountpoint)
        assert "1 change of memory to be stored (the service answered 401" in said


@pytest.mark.parametrize("command", ["mount", "shadow"])
def test_a_full_disk_under_the_state_directory(program: Program, command: str) -> None:
    with small_disk(program.home / "state"):
        fill(program.home / "state")
        place = program.root / "place"
        place.mkdir()
        said = program.refused(command, place)
    assert "No space left on device" in said
    assert "free some space" in said


def test_a_place_that_cannot_be(program: Program) -> None:
    (program.root / "file").touch()
    for command in ("mount", "shadow"):
        assert "is not a directory: choose another place" in program.refused(command, program.root / "file")
    assert "name another with --log" in program.refused("mount", program.mountpoint, "--log", Path("/proc/none/x"))
