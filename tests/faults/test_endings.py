"""The end of a mount with a slow service or none, and stores that nobody may write any more."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.proxy import Fault, fine, slow
from tests.faults.worlds import World, drained, lines_of, status
from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, launch, new_database
from tests.harness.waiting import eventually

PENDING = 100


def write_during_outage(world: World, mount: Mount) -> dict[str, str]:
    """Leave `PENDING` files behind that the store does not have; returns what it should have."""
    assert os.listdir(mount.store) == []
    world.proxy.down = True

    def write(number: int) -> None:
        with refuses(errno.EIO):
            (mount.store / f"f{number}").write_text(f"{number}\n")

    with ThreadPoolExecutor(PENDING) as pool:
        list(pool.map(write, range(PENDING)))
    assert status(mount)["pending"] == PENDING
    return {f"/f{number}": f"{number}\n" for number in range(PENDING)}


def test_unmounting_waits_for_a_slow_service(bad: World) -> None:
    with bad.mount("m", "--timeout", "2") as mount:
        wanted = write_during_outage(bad, mount)
        bad.proxy.script = slow(0.3)
        bad.proxy.down = False
        assert mount.stop() == 0
    assert bad.store.memories() == wanted
    assert len(bad.store.history()) == PENDING


def test_unmounting_says_what_it_could_not_store_and_the_next_mount_does(bad: World) -> None:
    with bad.mount("m", "--timeout", "1", "--drain-timeout", "3") as mount:
        wanted = write_during_outage(bad, mount)
        began = time.monotonic()
        assert mount.stop() == 1
        assert time.monotonic() - began < 20
        said = mount.log()
        assert f"{PENDING} change(s) could not be stored" in said
        assert str(Path(mount.environment["XDG_STATE_HOME"]) / "memfs" / bad.store.id) in said
        assert "notes/f" in said
        bad.proxy.down = False
        mount.start()
        drained(mount, within=30)
        assert bad.store.memories() == wanted
        assert len(bad.store.history()) == PENDING


def test_a_kill_in_the_middle_of_the_drain_loses_nothing(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        wanted = write_during_outage(bad, mount)
        bad.proxy.script = slow(0.1)
        bad.proxy.down = False
        os.kill(mount.pid, signal.SIGTERM)
        time.sleep(1)
        mount.kill9()
        bad.proxy.script = fine
        mount.start()
        drained(mount, within=30)
        assert bad.store.memories() == wanted
        assert len(bad.store.history()) == PENDING


def test_deletions_and_renames_wait_for_the_service_too(bad: World) -> None:
    with bad.mount("m", "--timeout", "1", "--drain-timeout", "2") as mount:
        for name in ("a", "b", "c"):
            (mount.store / name).write_text(f"{name}\n")
        os.listdir(mount.store)
        bad.proxy.script = lambda method, target: Fault() if method == "GET" else Fault(passes=False, answer=0.0)
        os.unlink(mount.store / "a")
        os.rename(mount.store / "b", mount.store / "b.bak")
        time.sleep(0.5)
        assert sorted(os.listdir(mount.store)) == ["b.bak", "c"]
        assert mount.stop() == 1
        bad.proxy.script = fine
        mount.start()
        assert sorted(os.listdir(mount.store)) == ["b.bak", "c"]
        assert bad.store.memories() == {"/b.bak": "b\n", "/c": "c\n"}


def refused_from_now_on(mount: Mount) -> None:
    with refuses(errno.EROFS):
        os.open(mount.store / "a", os.O_WRONLY)
    with refuses(errno.EROFS):
        (mount.store / "other").write_text("x")
    with refuses(errno.EROFS):
        os.unlink(mount.store / "a")
    with refuses(errno.EROFS):
        os.mkdir(mount.store / "d")


def test_a_store_archived_while_it_is_mounted_over_http(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "a").write_text("before\n")
        bad.proxy.down = True
        with refuses(errno.EIO):
            (mount.store / "a").write_text("pending\n")
        bad.store.archive()
        bad.proxy.down = False
        eventually(lambda: status(mount)["refused"], 1, within=15)
        refused_from_now_on(mount)
        told = status(mount)
        assert told["access"] == "read_only"
        assert [(one["path"], one["state"]) for one in told["unsaved"]] == [("/a", "refused")]
        assert "archived" in told["unsaved"][0]["reason"]
        assert any("archived" in line["message"] for line in lines_of(mount, "errors"))
        assert (mount.store / "a").read_text() == "pending\n"
        assert mount.stop() == 1
        mount.start()
        assert (mount.store / "a").read_text() == "pending\n"
        assert [one["path"] for one in status(mount)["unsaved"]] == ["/a"]
        assert bad.store.memories() == {"/a": "before\n"}
        discarding = [sys.executable, "-m", "memfs", "pending", "discard", str(mount.store / "a")]
        options = {"cwd": mount.root, "env": mount.environment, "timeout": 60, "check": False}
        assert subprocess.run(discarding, **options).returncode == 1  # the kernel lets nothing through
        assert mount.stop() == 1
        assert subprocess.run(discarding, **options).returncode == 0
        mount.start()
        assert (mount.store / "a").read_text() == "before\n"
        assert status(mount)["unsaved"] == []


def test_a_store_archived_while_it_is_mounted_and_written_to(bad: World) -> None:
    """Nothing tells of it but the refusal of the first write: that one says EROFS, and so does everything after it."""
    with bad.mount("m", "--timeout", "1", "--drain-timeout", "1") as mount:
        (mount.store / "a").write_text("before\n")
        bad.store.archive()
        descriptor = os.open(mount.store / "a", os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, b"more\n")
        with refuses(errno.EROFS):
            os.close(descriptor)
        refused_from_now_on(mount)
        assert status(mount)["pending"] + status(mount)["refused"] == 1
        assert mount.stop() == 1


def test_a_store_archived_while_it_is_mounted_embedded(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        (mount.store / "a").write_text("before\n")
        store.archive()
        time.sleep(0.2)
        os.listdir(mount.store)
        eventually(lambda: status(mount)["access"], "read_only", within=3)
        refused_from_now_on(mount)
        assert (mount.store / "a").read_text() == "before\n"


def test_a_full_store_takes_it_when_there_is_room_again(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "a").write_text("a\n")
        full = Fault(passes=False, status=400, body="memory store holds at most 10000 memories")
        bad.proxy.script = lambda method, target: full if method == "POST" and "/memories?" in target else Fault()
        with refuses(errno.ENOSPC):
            (mount.store / "b").write_text("b\n")
        (mount.store / "a").write_text("existing ones can be edited\n")
        time.sleep(2.5)
        assert [(one["path"], one["state"]) for one in status(mount)["unsaved"]] == [("/b", "pending")]
        bad.proxy.script = fine
        drained(mount, within=40)
        assert bad.store.memories() == {"/a": "existing ones can be edited\n", "/b": "b\n"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stores_what_is_parked_and_settling(bad: World, number: signal.Signals) -> None:
    with bad.mount("m") as mount:
        for name in ("gone", "kept"):
            (mount.store / name).write_text(f"{name}\n")
        os.unlink(mount.store / "gone")
        os.rename(mount.store / "kept", mount.store / "kept.orig")
        mount.sh(
            "t=$(mktemp -p . noteXXXXXX) && echo text > $t && mv $t final && u=$(mktemp -p . stayXXXXXX) && echo stay > $u"
        )
        os.kill(mount.pid, number)
        assert mount.ended(within=20) == 0
        memories = bad.store.memories()
        assert {path: text for path, text in memories.items() if "stay" not in path} == {
            "/final": "text\n",
            "/kept.orig": "kept\n",
        }
        assert [text for path, text in memories.items() if "stay" in path] == ["stay\n"]
