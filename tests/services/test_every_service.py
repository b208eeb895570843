"""What holds on every service: one mutation a save, conflicts found, nothing lost in an outage."""

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness.dialects import DIALECTS, Dialect
from tests.harness.errnos import refuses
from tests.harness.inspector import Database
from tests.harness.mounts import Mount, Place, launch
from tests.harness.waiting import eventually
from tests.services.conftest import BOUND_SECONDS

NEVER = ["--max-staleness", "600"]
"""For a mount that hears of nothing while the test runs."""


def shows(file: Path, text: str) -> None:
    """Wait until the mount shows what somebody else has stored."""
    eventually(lambda: file.read_text() if file.exists() else None, text, within=5)


def test_a_save_is_one_mutation_and_one_version(place: Place, shared: Dialect) -> None:
    for command, made in (
        ("echo one > a.md", "created"),
        ("echo two > a.md", "modified"),
        ("echo three >> a.md", "modified"),
        ("sed -i s/two/zwei/ a.md", "modified"),
        ("echo four > a.md.tmp && mv a.md.tmp a.md", "modified"),
    ):
        before = shared.mutations()
        place.sh(command)
        assert shared.mutations() - before == 1, command
        assert place.operations("a.md")[-1] == made
    assert len({version.memory_id for _, version in place.named_versions()}) == 1
    assert len(place.operations("a.md")) == 5


def test_what_was_saved_here_is_no_news(place: Place) -> None:
    (place / "d").mkdir()
    (place / "a.md").write_text("one\n")
    (place / "d" / "b.md").write_text("two\n")
    os.rename(place / "d", place / "e")

    def seen() -> list[object]:
        files = [place / "a.md", place / "e" / "b.md"]
        return [
            (os.stat(file).st_ino, os.stat(file).st_mtime_ns, os.getxattr(file, "user.memory.version_id")) for file in files
        ]

    before = seen()
    for _ in range(3):
        time.sleep(BOUND_SECONDS)
        assert seen() == before


def test_reading_asks_little(database: Database, running: Dialect, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    store.put_all((f"/d/{number}.md", f"{number}\n") for number in range(30))
    with launch(tmp_path, store, database=database, options=NEVER) as mount:
        before = len(running.emulator.requests)
        assert len(mount.sh("ls -l d").splitlines()) == 31
        assert len(running.emulator.requests) - before <= 2
        mount.sh("cat d/*")
        again = len(running.emulator.requests)
        mount.sh("cat d/* && ls -lR && stat d/*")
        assert len(running.emulator.requests) == again


def test_two_sessions_on_different_lines_are_merged(place: Place) -> None:
    place.inspector.put(place.at("a.md"), "one\ntwo\nthree\nfour\nfive\n")
    shows(place / "a.md", "one\ntwo\nthree\nfour\nfive\n")
    with open(place / "a.md", "r+") as file:
        ours = file.read().replace("one", "ONE")
        place.inspector.put(place.at("a.md"), "one\ntwo\nthree\nfour\nFIVE\n")
        file.seek(0)
        file.write(ours)
    assert place.memories() == {"a.md": "ONE\ntwo\nthree\nfour\nFIVE\n"}


def test_two_sessions_on_one_line_conflict_and_both_stay(place: Place) -> None:
    place.inspector.put(place.at("a.md"), "one\n")
    shows(place / "a.md", "one\n")
    descriptor = os.open(place / "a.md", os.O_RDWR)
    assert os.read(descriptor, 100) == b"one\n"
    place.inspector.put(place.at("a.md"), "theirs\n")
    os.pwrite(descriptor, b"ours", 0)
    with refuses(errno.ESTALE):
        os.fsync(descriptor)
    os.close(descriptor)
    memories = place.memories()
    assert memories.pop("a.md") == "theirs\n"
    ((sidecar, text),) = memories.items()
    assert sidecar.startswith("a.conflict-")
    assert text == "ours"


def test_a_removal_of_what_somebody_else_just_changed_is_refused(database: Database, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    store.put("/a.md", "one\n")
    with launch(tmp_path, store, database=database, options=NEVER) as mount:
        assert (mount.store / "a.md").read_text() == "one\n"
        store.put("/a.md", "two\n")
        os.unlink(mount.store / "a.md")
        eventually(lambda: os.listdir(mount.store), ["a.md"], within=5)
        assert (mount.store / "a.md").read_text() == "two\n"
        assert store.memories() == {"/a.md": "two\n"}


def test_nothing_is_lost_in_an_outage(place: Place, shared: Dialect) -> None:
    (place / "a.md").write_text("before\n")
    shared.emulator.faults.outage = True

    def write(name: str, text: str) -> None:
        with refuses(errno.EIO):
            (place / name).write_text(text)

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, ("a.md", "b.md"), ("during\n", "new\n")))
    assert (place / "a.md").read_text() == "during\n"
    assert os.getxattr(place / "a.md", "user.memory.state") == b"pending"
    shared.emulator.faults.outage = False
    eventually(place.memories, {"a.md": "during\n", "b.md": "new\n"}, within=15)
    eventually(lambda: os.getxattr(place / "a.md", "user.memory.state"), b"stored", within=5)
    assert place.operations("a.md") == ["created", "modified"]


def test_what_was_pending_at_a_kill_is_stored_by_the_next_mount(place: Place, shared: Dialect) -> None:
    (place / "a.md").write_text("before\n")
    shared.emulator.faults.outage = True
    with refuses(errno.EIO):
        (place / "a.md").write_text("during\n")
    place.mount.kill9()
    shared.emulator.faults.outage = False
    place.mount.start()
    eventually(place.memories, {"a.md": "during\n"}, within=10)
    assert (place / "a.md").read_text() == "during\n"


def test_a_lost_answer_makes_no_second_version(place: Place, shared: Dialect) -> None:
    shared.emulator.faults.lose = 1
    (place / "a.md").write_text("one\n")
    assert place.operations("a.md") == ["created"]
    shared.emulator.faults.lose = 1
    (place / "a.md").write_text("two\n")
    assert place.operations("a.md") == ["created", "modified"]
    shared.emulator.faults.lose = 1
    os.unlink(place / "a.md")
    eventually(lambda: place.operations("a.md"), ["created", "modified", "deleted"], within=5)
    assert place.memories() == {}


def test_a_service_that_slows_us_down_is_waited_for(place: Place, shared: Dialect) -> None:
    shared.emulator.faults.throttle = 2
    (place / "a.md").write_text("one\n")
    assert place.operations("a.md") == ["created"]


def test_an_expired_credential_is_told_and_nothing_is_lost(place: Place, shared: Dialect) -> None:
    (place / "a.md").write_text("before\n")
    shared.emulator.faults.expired = True
    before = shared.mutations()
    with refuses(errno.EACCES):
        (place / "a.md").write_text("during\n")
    assert shared.mutations() - before <= 2  # the second in the background, a second later at the earliest
    assert (place / "a.md").read_text() == "during\n"
    shared.emulator.faults.expired = False
    eventually(place.memories, {"a.md": "during\n"}, within=40)


@pytest.mark.parametrize("size", [102_401, 200_000])
def test_too_much_is_refused_before_anything_is_sent(place: Place, shared: Dialect, size: int) -> None:
    before = shared.mutations()
    with refuses(errno.EFBIG):
        (place / "big.md").write_text("x" * size)
    os.unlink(place / "big.md")
    assert shared.mutations() == before


def test_names_of_every_kind(place: Place) -> None:
    for name in ("a b.md", "é.md", "日本語.md", "100%.md", "a+b&c=d?.md", "#1.md", "x" * 200 + ".md"):
        (place / name).write_text(f"{name}\n")
    assert place.memories() == {name: f"{name}\n" for name in os.listdir(place.path)}
    assert len(os.listdir(place.path)) == 7


def test_two_mounts_of_one_store(place: Place, mount: Mount, tmp_path: Path) -> None:
    with launch(tmp_path, mount.inspector, database=mount.database, options=mount.options) as second:
        there = second.store / place.path.name
        (place / "a.md").write_text("one\n")
        shows(there / "a.md", "one\n")
        (there / "a.md").write_text("two\n")
        shows(place / "a.md", "two\n")
        os.rename(there / "a.md", there / "b.md")
        eventually(lambda: sorted(os.listdir(place.path)), ["b.md"], within=5)


def test_every_service_is_here() -> None:
    assert set(DIALECTS) == {"qoder-entry", "qoder-memory", "tablestore", "modelstudio"}
