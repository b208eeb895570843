"""The local state: a full disk, a damaged journal, other mount points' state, and what `memfs pending` makes of it."""

import contextlib
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from memfs.replica.replica import place_key
from tests.faults.proxy import LOST_ANSWER, Fault, fine
from tests.faults.worlds import World, drained, lines_of, status
from tests.harness.errnos import refuses
from tests.harness.mounts import Mount
from tests.harness.waiting import eventually


def memfs(mount: Mount, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memfs", *arguments],
        cwd=mount.root,
        env=mount.environment,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def state_directory(mount: Mount) -> Path:
    """Where the mount keeps its state of the store."""
    return Path(mount.environment["XDG_STATE_HOME"]) / "memfs" / mount.inspector.id / place_key(mount.path)


def pending(mount: Mount) -> list[dict[str, object]]:
    listed = memfs(mount, "pending", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """A file system of two megabytes at `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """Leave no room on the disk of `directory`; return the file to remove."""
    filler = directory / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return filler


def test_a_full_disk_refuses_the_write_and_loses_nothing(bad: World) -> None:
    state = bad.root / "home" / "xdg_state_home"
    with small_disk(state), bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "a").write_text("before\n")
        bad.proxy.down = True
        with refuses(errno.EIO):
            (mount.store / "a").write_text("pending\n")
        filler = fill(state)
        descriptor = os.open(mount.store / "a", os.O_WRONLY | os.O_APPEND)
        with refuses(errno.ENOSPC):
            os.write(descriptor, b"more\n")
        with contextlib.suppress(OSError):
            os.close(descriptor)
        with refuses(errno.ENOSPC):
            (mount.store / "new").write_text("new\n")
        assert (mount.store / "a").read_text() == "pending\n"
        assert any(line["error"] == "ENOSPC" and "full" in line["message"] for line in lines_of(mount, "errors"))
        mount.kill9()
        filler.unlink()
        bad.proxy.down = False
        mount.start()
        drained(mount, within=15)
        (mount.store / "new").write_text("new\n")
        assert bad.store.memories() == {"/a": "pending\n", "/new": "new\n"}


def test_a_disk_that_fills_between_write_and_close(bad: World) -> None:
    state = bad.root / "home" / "xdg_state_home"
    with small_disk(state), bad.mount("m", "--timeout", "1") as mount:
        os.listdir(mount.store)
        descriptor = os.open(mount.store / "a", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"text\n" * 10_000)
        filler = fill(state)
        with refuses(errno.ENOSPC):
            os.close(descriptor)
        assert (mount.store / "a").read_text() == "text\n" * 10_000
        assert bad.store.memories() == {}
        filler.unlink()
        drained(mount, within=15)
        assert bad.store.memories() == {"/a": "text\n" * 10_000}


def test_a_damaged_journal_is_set_aside_and_what_can_be_read_is_used(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        for number in range(3):
            (mount.store / f"f{number}").write_text("stored\n")
        bad.proxy.down = True
        for number in range(3):
            with refuses(errno.EIO):
                (mount.store / f"f{number}").write_text(f"pending {number}\n")
        mount.kill9()
        directory = state_directory(mount)
        with contextlib.closing(sqlite3.connect(directory / "journal.db")) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            page = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'attributes'").fetchone()[0]
        with open(directory / "journal.db", "r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 4096)
        bad.proxy.down = False
        mount.start()
        drained(mount, within=15)
        assert bad.store.memories() == {f"/f{number}": f"pending {number}\n" for number in range(3)}
        assert any("journal was damaged" in line["message"] for line in lines_of(mount, "errors"))
        assert list(directory.glob("journal.db.damaged-*"))


def test_a_journal_that_is_no_database_does_not_prevent_the_mount(bad: World) -> None:
    with bad.mount("m") as mount:
        mount.kill9()
        directory = state_directory(mount)
        for rubbish in (b"", b"half", os.urandom(8192)):
            for path in directory.glob("journal.db*"):
                path.unlink()
            (directory / "journal.db").write_bytes(rubbish)
            mount.start()
            (mount.store / "a").write_text(f"{len(rubbish)}\n")
            assert bad.store.content("/a") == f"{len(rubbish)}\n"
            mount.kill9()


def test_bytes_without_a_name_go_with_the_daemon_that_was_killed(bad: World) -> None:
    """As a tool's anonymous temporary file; what still has its name stays."""
    with bad.mount("m") as mount:
        files = state_directory(mount) / "files"
        (mount.store / ".named.swp").write_text("named")
        nameless = os.open(mount.store / ".nameless.swp", os.O_RDWR | os.O_CREAT)
        os.write(nameless, b"nameless")
        os.unlink(mount.store / ".nameless.swp")
        assert sorted(path.read_text() for path in files.iterdir()) == ["named", "nameless"]
        mount.kill9()
        with refuses(errno.ENOTCONN):
            os.close(nameless)
        mount.start()
        assert [path.read_text() for path in files.iterdir()] == ["named"]
        assert (mount.store / ".named.swp").read_text() == "named"


def test_bytes_whose_names_the_journal_has_lost_stay_on_this_machine(bad: World) -> None:
    with bad.mount("m") as mount:
        directory = state_directory(mount)
        (mount.store / ".a.swp").write_text("kept")
        mount.kill9()
        for path in directory.glob("journal.db*"):
            path.unlink()
        for _ in range(2):
            mount.start()
            assert [path.read_text() for path in (directory / "files").iterdir()] == ["kept"]
            said = [line["message"] for line in lines_of(mount, "errors")]
            mount.kill9()
            assert sum(f"kept as {directory}/files/*.lost" in message for message in said) == 1, "it is told once"


def test_a_journal_that_is_lost_again_writes_over_nothing_that_was_kept(bad: World) -> None:
    with bad.mount("m") as mount:
        directory = state_directory(mount)
        for text in ("first", "second"):
            (mount.store / ".a.swp").write_text(text)
            mount.kill9()
            for path in directory.glob("journal.db*"):
                path.unlink()
            mount.start()
        assert sorted(path.read_text() for path in (directory / "files").iterdir()) == ["first", "second"]


def test_a_half_written_log_of_the_journal_is_cut(bad: World) -> None:
    """A machine that stops in the middle of a write to the journal's log: everything before that write counts."""
    with bad.mount("m", "--timeout", "1") as mount:
        os.listdir(mount.store)
        bad.proxy.down = True
        for name in ("first", "second"):
            with refuses(errno.EIO):
                (mount.store / name).write_text(f"{name}\n")
        mount.kill9()
        log = state_directory(mount) / "journal.db-wal"
        os.truncate(log, log.stat().st_size - 1000)
        bad.proxy.down = False
        mount.start()
        drained(mount, within=15)
        memories = bad.store.memories()
        assert memories["/first"] == "first\n"
        assert set(memories) <= {"/first", "/second"}


def test_state_that_no_daemon_holds_goes_out_with_another_mount(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "old").write_text("old\n")
        (mount.store / "gone").write_text("gone\n")
        (mount.store / "dir").mkdir()
        bad.proxy.script = lambda method, target: Fault() if method == "GET" else Fault(passes=False, answer=0.0)
        with refuses(errno.EIO):
            (mount.store / "old").write_text("new\n")
        with refuses(errno.EIO):
            (mount.store / "dir" / "made").write_text("made\n")
        os.unlink(mount.store / "gone")
        mount.kill9()
        listed = {(str(one["path"]).removeprefix(f"{mount.store}/"), one["state"], one["mounted"]) for one in pending(mount)}
        assert listed == {("old", "pending", False), ("dir/made", "pending", False), ("gone", "delete", False)}
        bad.proxy.script = fine
        with bad.mount("other"):
            eventually(bad.store.memories, {"/old": "new\n", "/dir/made": "made\n"}, within=20)
        eventually(lambda: pending(mount), [], within=5)


def test_two_mounts_of_one_store_do_not_take_each_others_state(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as here:
        os.listdir(here.store)
        bad.proxy.down = True
        with refuses(errno.EIO):
            (here.store / "a").write_text("a\n")
        with bad.mount("n", direct=True) as there:
            time.sleep(2)
            assert os.listdir(there.store) == []
        bad.proxy.down = False
        drained(here, within=15)
        assert bad.store.operations("/a") == ["created"]


def test_pending_changes_are_listed_retried_and_discarded(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "a").write_text("stored\n")
        (mount.store / "b").write_text("stored\n")
        bad.proxy.script = lambda method, target: Fault(passes=method == "GET", status=None if method == "GET" else 400)
        for name in ("a", "b", "c"):
            with refuses(errno.EINVAL):
                (mount.store / name).write_text("new\n")
        eventually(lambda: status(mount)["refused"], 3, within=10)
        shown = {str(one["path"]): one for one in pending(mount)}
        assert set(shown) == {str(mount.store / name) for name in "abc"}
        assert all("bad weather" in str(one["reason"]) and one["mounted"] for one in shown.values())
        assert {one["state"] for one in shown.values()} == {"refused"}
        assert memfs(mount, "pending", "list").stdout.count("refused") == 3
        assert memfs(mount, "pending", "retry", str(mount.store)).returncode == 1
        for name, content in (("a", "stored\n"), ("c", None)):
            gone = memfs(mount, "pending", "discard", str(mount.store / name))
            assert (gone.returncode, gone.stderr) == (0, "")
            eventually((mount.store / name).exists, content is not None, within=4)
        assert (mount.store / "a").read_text() == "stored\n"
        again = memfs(mount, "pending", "discard", str(mount.store / "a"))
        assert again.returncode == 1
        assert "nothing of it waits" in again.stderr
        bad.proxy.script = fine
        assert memfs(mount, "pending", "retry", str(mount.store)).returncode == 0
        assert pending(mount) == []
        assert bad.store.memories() == {"/a": "stored\n", "/b": "new\n"}
        assert memfs(mount, "sync", str(mount.store)).returncode == 0


def test_what_a_dead_mount_left_can_be_discarded(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "a").write_text("stored\n")
        (mount.store / "b").write_text("stored\n")
        bad.proxy.down = True
        with refuses(errno.EIO):
            (mount.store / "a").write_text("new\n")
        os.unlink(mount.store / "b")
        mount.kill9()
        for name in "ab":
            assert memfs(mount, "pending", "discard", str(mount.store / name)).returncode == 0
        assert pending(mount) == []
        bad.proxy.down = False
        mount.start()
        time.sleep(1)
        assert bad.store.memories() == {"/a": "stored\n", "/b": "stored\n"}


def test_errors_and_conflicts_are_remembered_over_mounts(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "a").write_text("base\n")
        descriptor = os.open(mount.store / "a", os.O_RDWR)
        os.pwrite(descriptor, b"ours", 0)
        bad.store.put("/a", "theirs\n")
        with refuses(errno.ESTALE):
            os.close(descriptor)
        before = lines_of(mount, "conflicts"), lines_of(mount, "errors")
        assert len(before[0]) == 1
        mount.kill9()
        mount.start()
        assert lines_of(mount, "conflicts") == before[0]
        assert lines_of(mount, "errors")[: len(before[1])] == before[1]
        mount.remount()
        assert lines_of(mount, "conflicts") == before[0]


def test_a_lost_answer_to_a_rename_is_settled_by_looking(bad: World) -> None:
    with bad.mount("m", "--timeout", "1", "--max-staleness", "0.5") as mount:
        (mount.store / "a").write_text("text\n")
        (mount.store / "d").mkdir()
        (mount.store / "d" / "x").write_text("x\n")
        ids = {path: memory.id for path, memory in bad.store.heads().items()}
        bad.proxy.script = lambda method, target: LOST_ANSWER if method == "POST" else Fault()
        with refuses(errno.EIO):
            os.rename(mount.store / "a", mount.store / "b")
        with refuses(errno.EIO):
            os.rename(mount.store / "d", mount.store / "e")
        bad.proxy.script = fine
        eventually(lambda: sorted(os.listdir(mount.store)), ["b", "d"], within=5)  # a directory goes back to where it was
        eventually(
            lambda: {path: memory.id for path, memory in bad.store.heads().items()},
            {"/b": ids["/a"], "/d/x": ids["/d/x"]},
            within=5,
        )
        assert (mount.store / "b").read_text() == "text\n"
        assert (mount.store / "d" / "x").read_text() == "x\n"
        shutil.rmtree(mount.store / "d")
        assert bad.store.operations("/b") == ["modified"]
