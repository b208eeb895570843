"""The kernel's table of mounts, paths near it, and processes that look alike."""

import os
import subprocess
from pathlib import Path

import pytest

from memfs.cli.mountpoints import MountEntry, canonical, parse_mountinfo, users_of
from memfs.cli.registry import AttachedStore, ExitRecord, MountRecord, Process, Registry
from memfs.model.errors import MemfsError

TABLE = (
    rb"""22 27 0:21 / /proc rw,relatime - proc proc rw
60 27 0:53 / /mnt/a\040b\134c\011d rw,nosuid shared:1 master:2 - fuse.memfs memfs rw,user_id=0
61 27 0:54 / /mnt/caf\303\251 rw - fuse /dev/x\040y rw
62 27 0:55 / /mnt/raw"""
    + b"\xff rw - ext4 /dev/sda rw\n"
)


def test_mountinfo_is_unescaped() -> None:
    assert parse_mountinfo(TABLE) == [
        MountEntry("0:21", "/proc", "proc", "proc"),
        MountEntry("0:53", "/mnt/a b\\c\td", "fuse.memfs", "memfs"),
        MountEntry("0:54", "/mnt/café", "fuse", "/dev/x y"),
        MountEntry("0:55", os.fsdecode(b"/mnt/raw\xff"), "ext4", "/dev/sda"),
    ]


@pytest.mark.parametrize(
    ("fstype", "source", "fuse", "memfs"),
    [
        ("fuse.memfs", "x", True, True),
        ("fuse", "memfs", True, True),
        ("fuse.sshfs", "memfs", True, False),
        ("fuseblk", "x", True, False),
        ("fusectl", "x", False, False),
        ("ext4", "memfs", False, False),
    ],
)
def test_kinds_of_mounts(fstype: str, source: str, fuse: bool, memfs: bool) -> None:
    entry = MountEntry("0:1", "/m", fstype, source)
    assert (entry.is_fuse, entry.is_memfs) == (fuse, memfs)


def test_canonical_is_realpath_where_nothing_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "relative").symlink_to("a/b")
    (tmp_path / "absolute").symlink_to(tmp_path / "a")
    (tmp_path / "a/up").symlink_to("../relative/../b")
    (tmp_path / "chain").symlink_to("absolute/up")
    monkeypatch.chdir(tmp_path)
    for path in ("a", "relative", "absolute/b", "chain", "chain/not/there", ".", "nowhere", "//a", "a/./b/", "~"):
        assert canonical(path) == os.path.realpath(path), path


def test_canonical_refuses_circles(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("y")
    (tmp_path / "y").symlink_to("x")
    with pytest.raises(MemfsError, match="too many"):
        canonical(str(tmp_path / "x"))


def test_users_of_a_directory_are_found(tmp_path: Path) -> None:
    inside = tmp_path / "in side"
    inside.mkdir()
    file = inside / "file"
    file.write_text("x")
    assert users_of(str(inside)) == []
    with file.open() as stream:
        standing = subprocess.Popen(["sleep", "60"], cwd=inside)
        reading = subprocess.Popen(["sleep", "60"], cwd="/", stdin=stream)
        try:
            found = users_of(str(inside))
            assert sorted(found) == sorted([f"sleep (pid {standing.pid})", f"sleep (pid {reading.pid})"])
            assert users_of(str(tmp_path / "in")) == []
        finally:
            for process in (standing, reading):
                process.kill()
                process.wait()


def test_a_process_is_itself_only_while_it_runs() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        process = Process.of(child.pid)
        assert process.alive
        assert not Process(process.pid, process.start_time + 1, process.boot_id).alive
        assert not Process(process.pid, process.start_time, "another boot").alive
    finally:
        child.kill()
    # A zombie, which nobody has waited for, serves nothing any more.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive
    child.wait()
    assert not process.alive


def a_record(registry: Registry, mountpoint: str, process: Process) -> MountRecord:
    return MountRecord(
        mountpoint=mountpoint,
        device="0:9999",
        process=process,
        url="sqlite:////x.db",
        session_id="sesn_01x",
        stores=(AttachedStore("memstore_01x", "memory", "read_write"),),
        log=str(registry.file(mountpoint, ".log")),
        status_file=str(registry.file(mountpoint, ".status.json")),
        mounted_at="2026-08-25T05:52:19.185042Z",
    )


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    record = a_record(registry, os.fsdecode(b"/mnt/caf\xc3\xa9\xff"), Process.of(os.getpid()))
    registry.write(record)
    assert registry.find(record.mountpoint) == record
    assert registry.records() == [record]
    assert record.state == "draining"
    assert registry.holding(f"{record.mountpoint}/x/y") == record
    assert registry.holding(f"{record.mountpoint}x") is None
    ended = ExitRecord(record.mountpoint, record.process, 1, "why")
    registry.write_exit(ended)
    assert registry.exit_of(record) == ended
    registry.remove(record)
    assert registry.records() == []


def test_records_of_which_nothing_is_left_are_removed(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    mine = Process.of(os.getpid())
    gone = a_record(registry, "/mnt/gone", Process(mine.pid, mine.start_time + 1, mine.boot_id))
    registry.write(gone)
    (tmp_path / "0123.json").write_text("{broken")
    (tmp_path / "4567.json").write_text('{"of": "another version"}')
    assert registry.records() == []
    assert registry.find(gone.mountpoint) is None


def test_the_exit_of_another_process_is_not_taken_for_ours(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    mine = Process.of(os.getpid())
    record = a_record(registry, "/mnt/m", mine)
    registry.write_exit(ExitRecord("/mnt/m", Process(mine.pid, mine.start_time - 1, mine.boot_id), 0, ""))
    assert registry.exit_of(record) is None


def test_the_longest_mount_point_holds_a_path(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    outer, inner = (a_record(registry, place, Process.of(os.getpid())) for place in ("/mnt/m", "/mnt/m/n"))
    registry.write(outer)
    registry.write(inner)
    assert registry.holding("/mnt/m/n/x") == inner
    assert registry.holding("/mnt/m/x") == outer


def test_a_claimed_place_is_refused_to_others_in_time(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    told: list[str] = []

    def give_up() -> None:
        raise KeyError

    with registry.claim("/mnt/m", seconds=1, waiting=lambda: told.append("first")):
        with (
            pytest.raises(MemfsError, match="/mnt/m"),
            registry.claim("/mnt/m", seconds=0.2, waiting=lambda: told.append("second")),
        ):
            pass
        with pytest.raises(KeyError), registry.claim("/mnt/m", seconds=60, waiting=give_up):
            pass
    assert set(told) == {"second"}
    with registry.claim("/mnt/m", seconds=0, waiting=lambda: told.append("third")):
        assert "third" not in told
