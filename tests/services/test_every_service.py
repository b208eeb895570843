"""What holds on every service: one mutation a save, conflicts found, nothing lost in an outage."""

import errno
import os
import time
from pathlib import Path

import pytest

from tests.harness.dialects import DIALECTS, Dialect
from tests.harness.errnos import refuses
from tests.harness.inspector import Database
from tests.harness.mounts import Mount, launch
from tests.harness.waiting import eventually


def test_a_save_is_one_mutation_and_one_version(mount: Mount, running: Dialect) -> None:
    for command, made in (
        ("echo one > a.md", "created"),
        ("echo two > a.md", "modified"),
        ("echo three >> a.md", "modified"),
        ("sed -i s/two/zwei/ a.md", "modified"),
        ("echo four > a.md.tmp && mv a.md.tmp a.md", "modified"),
    ):
        before = running.mutations()
        mount.sh(command)
        assert running.mutations() - before == 1, command
        assert mount.inspector.operations("/a.md")[-1] == made
    assert len({version.memory_id for version in mount.inspector.versions("/a.md")}) == 1
    assert len(mount.inspector.versions("/a.md")) == 5


def test_what_was_saved_here_is_no_news(mount: Mount) -> None:
    (mount.store / "d").mkdir()
    (mount.store / "a.md").write_text("one\n")
    (mount.store / "d" / "b.md").write_text("two\n")
    os.rename(mount.store / "d", mount.store / "e")

    def seen() -> list[object]:
        files = [mount.store / "a.md", mount.store / "e" / "b.md"]
        return [
            (os.stat(file).st_ino, os.stat(file).st_mtime_ns, os.getxattr(file, "user.memory.version_id")) for file in files
        ]

    before = seen()
    for _ in range(3):
        time.sleep(1.5)
        assert seen() == before


def test_reading_asks_little(mount: Mount, running: Dialect) -> None:
    mount.inspector.put_all((f"/d/{number}.md", f"{number}\n") for number in range(30))
    time.sleep(2.5)
    before = len(running.emulator.requests)
    assert len(mount.sh("ls -l d").splitlines()) == 31
    assert len(running.emulator.requests) - before <= 4
    mount.sh("cat d/*")
    again = len(running.emulator.requests)
    mount.sh("cat d/* && ls -lR && stat d/*")
    assert len(running.emulator.requests) - again <= 2  # the feed's polls


def test_two_sessions_on_different_lines_are_merged(mount: Mount, database: Database, tmp_path: Path) -> None:
    mount.inspector.put("/a.md", "one\ntwo\nthree\nfour\nfive\n")
    time.sleep(2.5)
    with open(mount.store / "a.md", "r+") as file:
        ours = file.read().replace("one", "ONE")
        mount.inspector.put("/a.md", "one\ntwo\nthree\nfour\nFIVE\n")
        file.seek(0)
        file.write(ours)
    assert mount.inspector.content("/a.md") == "ONE\ntwo\nthree\nfour\nFIVE\n"


def test_two_sessions_on_one_line_conflict_and_both_stay(mount: Mount) -> None:
    mount.inspector.put("/a.md", "one\n")
    time.sleep(2.5)
    descriptor = os.open(mount.store / "a.md", os.O_RDWR)
    assert os.read(descriptor, 100) == b"one\n"
    mount.inspector.put("/a.md", "theirs\n")
    os.pwrite(descriptor, b"ours", 0)
    with refuses(errno.ESTALE):
        os.fsync(descriptor)
    os.close(descriptor)
    memories = mount.inspector.memories()
    assert memories.pop("/a.md") == "theirs\n"
    ((sidecar, text),) = memories.items()
    assert sidecar.startswith("/a.conflict-")
    assert text == "ours"


def test_a_removal_of_what_somebody_else_just_changed_is_refused(mount: Mount) -> None:
    mount.inspector.put("/a.md", "one\n")
    time.sleep(2.5)
    assert (mount.store / "a.md").read_text() == "one\n"
    mount.inspector.put("/a.md", "two\n")
    os.unlink(mount.store / "a.md")
    time.sleep(0.5)
    assert mount.inspector.memories() == {"/a.md": "two\n"}
    eventually(lambda: (mount.store / "a.md").read_text() if (mount.store / "a.md").exists() else "", "two\n", within=4)


def test_nothing_is_lost_in_an_outage(mount: Mount, running: Dialect) -> None:
    (mount.store / "a.md").write_text("before\n")
    running.emulator.faults.outage = True
    with refuses(errno.EIO):
        (mount.store / "a.md").write_text("during\n")
    with refuses(errno.EIO):
        (mount.store / "b.md").write_text("new\n")
    assert (mount.store / "a.md").read_text() == "during\n"
    assert os.getxattr(mount.store / "a.md", "user.memory.state") == b"pending"
    running.emulator.faults.outage = False
    eventually(mount.inspector.memories, {"/a.md": "during\n", "/b.md": "new\n"}, within=15)
    eventually(lambda: os.getxattr(mount.store / "a.md", "user.memory.state"), b"stored", within=5)
    assert mount.inspector.operations("/a.md") == ["created", "modified"]


def test_what_was_pending_at_a_kill_is_stored_by_the_next_mount(mount: Mount, running: Dialect) -> None:
    (mount.store / "a.md").write_text("before\n")
    running.emulator.faults.outage = True
    with refuses(errno.EIO):
        (mount.store / "a.md").write_text("during\n")
    mount.kill9()
    running.emulator.faults.outage = False
    mount.start()
    eventually(mount.inspector.memories, {"/a.md": "during\n"}, within=10)
    assert (mount.store / "a.md").read_text() == "during\n"


def test_a_lost_answer_makes_no_second_version(mount: Mount, running: Dialect) -> None:
    running.emulator.faults.lose = 1
    (mount.store / "a.md").write_text("one\n")
    assert mount.inspector.operations("/a.md") == ["created"]
    running.emulator.faults.lose = 1
    (mount.store / "a.md").write_text("two\n")
    assert mount.inspector.operations("/a.md") == ["created", "modified"]
    running.emulator.faults.lose = 1
    os.unlink(mount.store / "a.md")
    eventually(lambda: mount.inspector.operations("/a.md"), ["created", "modified", "deleted"], within=5)
    assert mount.inspector.memories() == {}


def test_a_service_that_slows_us_down_is_waited_for(mount: Mount, running: Dialect) -> None:
    running.emulator.faults.throttle = 2
    (mount.store / "a.md").write_text("one\n")
    assert mount.inspector.operations("/a.md") == ["created"]


def test_an_expired_credential_is_told_and_nothing_is_lost(mount: Mount, running: Dialect) -> None:
    (mount.store / "a.md").write_text("before\n")
    running.emulator.faults.expired = True
    before = len(running.emulator.requests)
    with refuses(errno.EACCES):
        (mount.store / "a.md").write_text("during\n")
    assert len(running.emulator.requests) - before <= 2
    assert (mount.store / "a.md").read_text() == "during\n"
    running.emulator.faults.expired = False
    eventually(mount.inspector.memories, {"/a.md": "during\n"}, within=40)


@pytest.mark.parametrize("size", [102_401, 200_000])
def test_too_much_is_refused_before_anything_is_sent(mount: Mount, running: Dialect, size: int) -> None:
    before = running.mutations()
    with refuses(errno.EFBIG):
        (mount.store / "big.md").write_text("x" * size)
    os.unlink(mount.store / "big.md")
    assert running.mutations() == before


def test_names_of_every_kind(mount: Mount) -> None:
    for name in ("a b.md", "é.md", "日本語.md", "100%.md", "a+b&c=d?.md", "#1.md", "x" * 200 + ".md"):
        (mount.store / name).write_text(f"{name}\n")
    assert mount.inspector.memories() == {f"/{name}": f"{name}\n" for name in os.listdir(mount.store)}
    assert len(os.listdir(mount.store)) == 7


def test_two_mounts_of_one_store(mount: Mount, database: Database, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with launch(other, mount.inspector, database=database) as second:
        (mount.store / "a.md").write_text("one\n")
        eventually(lambda: (second.store / "a.md").exists() and (second.store / "a.md").read_text(), "one\n", within=5)
        (second.store / "a.md").write_text("two\n")
        eventually(lambda: (mount.store / "a.md").read_text(), "two\n", within=5)
        os.rename(second.store / "a.md", second.store / "b.md")
        eventually(lambda: sorted(os.listdir(mount.store)), ["b.md"], within=5)


def test_every_service_is_here() -> None:
    assert set(DIALECTS) == {"qoder-entry", "qoder-memory", "tablestore", "modelstudio"}
