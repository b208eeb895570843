"""`memfs mount`, `umount`, `status`, `sync` and `log` on real mounts, dead and busy ones too."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memfs.cli.mountpoints import mounted_at, mounts
from memfs.cli.registry import MountRecord
from tests.cli.conftest import Program
from tests.harness.waiting import eventually

SECONDS = 20.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def record_of(program: Program) -> MountRecord:
    record = program.registry.find(str(program.mountpoint))
    assert record is not None
    return record


def mounted(path: Path) -> bool:
    return mounted_at(str(path)) is not None


def test_mount_prints_its_place_and_nothing_else(program: Program) -> None:
    done = program.run("mount", program.mountpoint)
    assert (done.returncode, done.stdout) == (0, f"{program.mountpoint}\n")
    assert done.stderr == f"memfs: created {program.mountpoint}\n"
    assert os.listdir(program.mountpoint / "memory") == []
    assert [store["name"] for store in program.objects("stores", "list")] == ["Memory"]
    record = record_of(program)
    assert record.state == "live"
    assert record.session_id.startswith("sesn_")
    assert program.run("umount", program.mountpoint).returncode == 0
    assert not mounted(program.mountpoint)
    assert not record.process.alive
    assert program.registry.find(str(program.mountpoint)) is None


def test_command_substitution_returns(program: Program) -> None:
    command = f'place=$({sys.executable} -m memfs mount "$1"); echo "got $place"'
    done = subprocess.run(
        ["bash", "-c", command, "bash", program.mountpoint],
        env=program.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert done.stdout == f"got {program.mountpoint}\n"


def test_the_daemon_is_on_its_own(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    daemon = Path(f"/proc/{record_of(program).process.pid}")
    assert os.readlink(daemon / "cwd") == "/"
    descriptors = {number: os.readlink(daemon / "fd" / number) for number in ("0", "1", "2")}
    assert descriptors == {"0": "/dev/null", "1": "/dev/null", "2": record_of(program).log}
    assert os.getsid(int(daemon.name)) == int(daemon.name)
    assert Path(record_of(program).log).stat().st_mode & 0o077 == 0


def test_what_is_written_is_in_the_log_with_its_session(program: Program) -> None:
    program.ok("mount", program.mountpoint, "--session", "sesn_01me")
    note = program.mountpoint / "memory/notes/a.md"
    note.parent.mkdir()
    note.write_text("one\n")
    note.write_text("two\n")
    versions = program.objects("log", note)
    assert [(v["operation"], v["path"], v["content_size_bytes"]) for v in versions] == [
        ("modified", "/notes/a.md", 4),
        ("created", "/notes/a.md", 4),
    ]
    assert {json.dumps(v["created_by"]) for v in versions} == {'{"type": "session_actor", "session_id": "sesn_01me"}'}
    assert all(v["type"] == "memory_version" and v["content"] is None for v in versions)

    (program.mountpoint / "memory/b.md").write_text("b")
    note.rename(note.with_name("c.md"))
    (program.mountpoint / "memory/notes/c.md").unlink()
    expected = ["deleted", "modified", "modified", "created"]
    for path in (note, note.with_name("c.md"), note.parent):
        assert [v["operation"] for v in program.objects("log", path)] == expected, path
    for path in (program.mountpoint, program.mountpoint / "memory"):
        assert len(program.objects("log", path)) == 5
    assert len(program.objects("log", "-n", "2", program.mountpoint)) == 2

    line = program.ok("log", program.mountpoint / "memory/b.md").rstrip("\n").split("\t")
    assert line[1:5] == ["created", "sesn_01me", "1", "memory/b.md"]
    assert "no history" in program.refused("log", program.mountpoint / "memory/never.md")
    assert "no store" in program.refused("log", program.mountpoint / "elsewhere/x.md")


def test_the_same_path_through_a_link_and_from_inside(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    (program.mountpoint / "memory/a.md").write_text("x")
    link = program.root / "link"
    link.symlink_to(program.mountpoint / "memory")
    assert len(program.objects("log", link / "a.md")) == 1
    done = subprocess.run(
        [sys.executable, "-m", "memfs", "log", "a.md", "--json"],
        cwd=program.mountpoint / "memory",
        env=program.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert json.loads(done.stdout)["path"] == "/a.md"


def test_sync_and_status(program: Program) -> None:
    program.ok("stores", "create", "Second", "--description", "Another")
    program.ok("stores", "create", "Memory")
    program.ok("mount", program.mountpoint, "--store", "second:ro", "--store", "Memory", "--session", "sesn_01me")
    note = program.mountpoint / "memory/a.md"
    note.write_text("x")
    for path in ([], [program.mountpoint], [note], [note.with_name("gone.md")]):
        assert program.ok("sync", *path) == ""
    (status,) = program.objects("status")
    assert (status["mountpoint"], status["state"], status["session_id"]) == (str(program.mountpoint), "live", "sesn_01me")
    assert status["pid"] == record_of(program).process.pid
    stores = {store["name"]: store for store in status["stores"]}
    assert {name: store["access"] for name, store in stores.items()} == {"memory": "read_write", "second": "read_only"}
    assert stores["memory"]["pending"] == 0
    assert program.objects("status", program.mountpoint)[0]["pid"] == status["pid"]
    printed = program.ok("status")
    assert "sesn_01me" in printed
    assert "second" in printed
    with pytest.raises(OSError, match="Read-only"):
        (program.mountpoint / "second/x.md").write_text("x")


def test_an_idle_mount_writes_no_status_and_still_tells_its_age(program: Program) -> None:
    program.ok("mount", program.mountpoint, "--max-staleness", "0.5")
    os.listdir(program.mountpoint / "memory")

    def age() -> float:
        (said,) = program.objects("status")
        return float(said["stores"][0]["seconds_since_change_poll"])

    eventually(lambda: age() > 2, True, within=10)  # idle after two bounds
    status_file = Path(record_of(program).status_file)
    written = status_file.stat().st_mtime_ns
    eventually(lambda: age() > 5, True, within=10)
    assert status_file.stat().st_mtime_ns == written
    (program.mountpoint / "memory" / "a.md").write_text("a\n")
    eventually(lambda: status_file.stat().st_mtime_ns > written, True, within=5)


def test_a_mounted_place_is_refused(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    said = program.refused("mount", program.mountpoint)
    assert "mounted already" in said
    assert f"pid {record_of(program).process.pid}" in said
    assert record_of(program).state == "live"
    assert "mounted already" in program.refused("mount", "-f", program.mountpoint)


def test_two_at_once_give_one_mount(program: Program) -> None:
    program.mountpoint.mkdir()
    command = [sys.executable, "-m", "memfs", "mount", str(program.mountpoint)]
    both = [
        subprocess.Popen(command, env=program.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=SECONDS) for one in both]
    assert sorted(one.returncode for one in both) == [0, 1], said
    assert sum(errors.count("mounted already") for _, errors in said) == 1, said
    assert [entry.mountpoint for entry in mounts()].count(str(program.mountpoint)) == 1


def test_a_dead_mount_is_cleared_away_by_the_next(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    (program.mountpoint / "memory/a.md").write_text("kept\n")
    first = record_of(program)
    os.kill(first.process.pid, signal.SIGKILL)
    wait_until(lambda: not first.process.alive)
    assert mounted(program.mountpoint)
    assert record_of(program).state == "dead"

    done = program.run("status", "--json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (1, "dead")
    findings = [json.loads(line) for line in program.run("doctor", "--json").stdout.splitlines()]
    assert [f["ok"] for f in findings if f["subject"] == f"mount {program.mountpoint}"] == [False]

    done = program.run("mount", program.mountpoint)
    assert (done.returncode, done.stdout) == (0, f"{program.mountpoint}\n"), done.stderr
    assert f"process {first.process.pid} is gone" in done.stderr
    assert (program.mountpoint / "memory/a.md").read_text() == "kept\n"
    assert record_of(program).process != first.process
    assert [entry.mountpoint for entry in mounts()].count(str(program.mountpoint)) == 1


def test_a_dead_mount_is_freed_by_umount(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    process = record_of(program).process
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not process.alive)
    done = program.run("umount", program.mountpoint)
    assert done.returncode == 0
    assert "is gone" in done.stderr
    assert not mounted(program.mountpoint)
    assert "nothing is mounted" in program.refused("umount")


def test_a_stuck_daemon_hangs_no_command_and_is_ended_by_force(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    process = record_of(program).process
    os.kill(process.pid, signal.SIGSTOP)
    try:
        assert program.objects("status")[0]["state"] == "live"
        assert "mounted already" in program.refused("mount", program.mountpoint)
        assert "after 1 s" in program.run("umount", "--timeout", "1", program.mountpoint).stderr
        stuck = subprocess.Popen(
            ["stat", program.mountpoint / "memory/x"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert program.ok("umount", "--force", program.mountpoint) == ""
        assert stuck.wait(SECONDS) != 0
    finally:
        if process.alive:
            os.kill(process.pid, signal.SIGKILL)
    assert not mounted(program.mountpoint)
    assert not process.alive
    program.ok("mount", program.mountpoint)


def test_a_mount_in_use_is_not_taken_away(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    user = subprocess.Popen(["sleep", "60"], cwd=program.mountpoint / "memory")
    try:
        said = program.refused("umount", program.mountpoint)
        assert f"sleep (pid {user.pid})" in said
        assert record_of(program).state == "live"
    finally:
        user.kill()
        user.wait()
    program.ok("umount", program.mountpoint)


def test_a_foreground_mount_ends_with_sigterm(program: Program) -> None:
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
    assert record_of(program).process.pid == process.pid
    (program.mountpoint / "memory/a.md").write_text("x")
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (0, "")
    assert [line.split()[1] for line in errors.splitlines()] == ["info", "info"]  # its log: mounted, unmounted
    assert not mounted(program.mountpoint)
    ended = program.registry.last_exit(str(program.mountpoint))
    assert ended is not None
    assert (ended.process.pid, ended.status, ended.message) == (process.pid, 0, "")


def test_an_unmount_by_others_ends_the_daemon(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    process = record_of(program).process
    subprocess.run(["fusermount3", "-u", program.mountpoint], check=True)
    wait_until(lambda: not process.alive)
    assert program.registry.find(str(program.mountpoint)) is None
    program.ok("mount", program.mountpoint)


def test_options_of_mount8_mean_the_same(program: Program) -> None:
    program.ok("mount", program.mountpoint, "-o", "ro,umask=077,noauto,no_index,uid=12,gid=34")
    with pytest.raises(OSError, match="Read-only"):
        (program.mountpoint / "memory/x").write_text("x")
    assert os.listdir(program.mountpoint) == ["memory"]
    found = (program.mountpoint / "memory").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o077) == (12, 34, 0)


def test_a_password_in_the_url_is_not_in_the_list_of_processes(program: Program) -> None:
    """A database that is not there: the daemon fails, but not before it was started."""
    command = [sys.executable, "-m", "memfs", "mount", str(program.mountpoint)]
    said = subprocess.run(
        [*command, "--url", "postgresql://me:topsecret@127.0.0.1:1/db", "--timeout", "1"],
        env=program.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said.returncode == 1
    assert len(said.stderr.splitlines()) == 2  # the directory was created
    assert "topsecret" not in said.stderr
    for file in (program.home / "state").rglob("*"):
        assert not file.is_file() or b"topsecret" not in file.read_bytes()


def test_a_directory_that_is_not_empty_is_refused_until_asked(program: Program) -> None:
    program.mountpoint.mkdir()
    (program.mountpoint / "mine").touch()
    assert "nonempty" in program.refused("mount", program.mountpoint)
    program.ok("mount", program.mountpoint, "-o", "nonempty")
    assert not (program.mountpoint / "mine").exists()
    program.ok("umount", program.mountpoint)
    assert (program.mountpoint / "mine").exists()


def test_places_that_cannot_be_mounted_on(program: Program) -> None:
    (program.root / "file").touch()
    assert "not a directory" in program.refused("mount", program.root / "file")
    assert "mkdir -p" in program.refused("mount", program.root / "not/there")
    assert not (program.root / "not").exists()


def test_stores_that_cannot_be_mounted(program: Program) -> None:
    program.mountpoint.mkdir()
    ids = [program.ok("stores", "create", name).strip() for name in ("Same name", "same-NAME")]
    said = program.refused("mount", program.mountpoint)
    assert all(store_id in said for store_id in ids)
    assert "no store 'Other'" in program.refused("mount", program.mountpoint, "--store", "Other")
    assert "twice" in program.refused("mount", program.mountpoint, "--store", ids[0], "--store", ids[0])
    assert not mounted(program.mountpoint)
    program.ok("mount", program.mountpoint, "--store", ids[1])
    assert os.listdir(program.mountpoint / "same-name") == []


def test_an_archived_store_is_left_out_or_read_only(program: Program) -> None:
    program.ok("stores", "create", "Old")
    program.ok("stores", "create", "New")
    program.ok("stores", "archive", "Old")
    program.ok("mount", program.mountpoint, "-o", "noindex")
    assert os.listdir(program.mountpoint) == ["new"]
    program.ok("umount", program.mountpoint)
    assert "archived" in program.refused("mount", program.mountpoint, "--store", "old:rw")
    program.ok("mount", program.mountpoint, "--store", "old")
    with pytest.raises(OSError, match="Read-only"):
        (program.mountpoint / "old/x").write_text("x")


def test_several_mounts_stand_side_by_side(program: Program) -> None:
    other = program.root / "n"
    program.ok("mount", program.mountpoint)
    program.ok("mount", other)
    assert [status["mountpoint"] for status in program.objects("status")] == [str(program.mountpoint), str(other)]
    assert str(other) in program.refused("umount", code=2)
    program.ok("umount", other)
    program.ok("umount")
    assert program.ok("status") == ""


@pytest.mark.parametrize(
    "options",
    [
        ["--timeout", "0"],
        ["--timeout", "nan"],
        ["--max-staleness", "-1"],
        ["--umask", "8"],
        ["--cache-size", "many"],
        ["--uid", "nobody-of-this-name"],
        ["--session", "../x"],
        ["-o", "nonsense"],
        ["-o", "timeout=x"],
    ],
)
def test_wrong_options_are_wrong_usage(program: Program, options: list[str]) -> None:
    program.refused("mount", program.mountpoint, *options, code=2)
    assert not program.mountpoint.exists()


def test_what_stops_the_start_is_told_once_and_leaves_no_process(program: Program) -> None:
    program.mountpoint.mkdir()
    (program.root / "broken.db").write_text("this is no database" * 100)
    program.refused("mount", program.mountpoint, "--url", f"sqlite:///{program.root / 'broken.db'}")
    assert program.registry.records() == []
    program.ok("mount", program.mountpoint)
