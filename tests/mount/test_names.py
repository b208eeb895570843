"""Names between the store and the file system: spellings, case, and what a file system cannot show."""

import errno
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, Place, launch, new_database, settle
from tests.harness.waiting import eventually

NFC = "café.md"
NFD = unicodedata.normalize("NFD", NFC)


def test_both_spellings_are_one_memory(place: Place) -> None:
    (place / NFD).write_text("1\n")
    assert os.listdir(place.path) == [NFC]
    assert (place / NFC).read_text() == "1\n"
    (place / NFC).write_text("2\n")
    assert (place / NFD).read_text() == "2\n"
    assert (place / NFD).stat().st_ino == (place / NFC).stat().st_ino
    with refuses(errno.EEXIST):
        os.open(place / NFD, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    assert place.memories() == {NFC: "2\n"}
    assert place.history() == [("created", NFC), ("modified", NFC)]
    os.rename(place / NFD, place / "plain.md")
    os.rename(place / "plain.md", place / NFD)
    assert place.memories() == {NFC: "2\n"}
    os.unlink(place / NFD)
    assert not (place / NFC).exists()
    eventually(lambda: place.memories(), {}, within=2)


def test_both_spellings_of_a_directory(place: Place) -> None:
    folder = unicodedata.normalize("NFD", "Überblick")
    (place / folder).mkdir()
    (place / folder / "a").write_text("x")
    assert place.memories() == {"Überblick/a": "x"}
    assert os.listdir(place / "Überblick") == ["a"]
    with refuses(errno.EEXIST):
        os.mkdir(place / "Überblick")


def test_a_spelling_that_was_missing_is_found_once_its_twin_exists(place: Place) -> None:
    for name in (NFC, NFD):
        assert not (place / name).exists()
    (place / NFC).write_text("1\n")
    assert (place / NFD).read_text() == "1\n"
    os.unlink(place / NFC)
    assert not (place / NFD).exists()
    (place / NFD).write_text("2\n")
    assert (place / NFC).read_text() == "2\n"


def test_case_counts(place: Place) -> None:
    place.inspector.put_all([(place.at("Todo.md"), "A\n"), (place.at("todo.md"), "B\n")])
    eventually(lambda: sorted(os.listdir(place.path)), ["Todo.md", "todo.md"], within=4)
    assert place.sh("cat Todo.md todo.md && rm todo.md && cat Todo.md") == "A\nB\nA\n"
    eventually(lambda: place.memories(), {"Todo.md": "A\n"}, within=2)


LONG = "l" * 300
WIDE = "漢" * 100
HARD = {
    f"/{LONG}.md": "a long name\n",
    f"/dir/{WIDE}.md": "a wide name\n",
    f"/{LONG}/inside.md": "in a long directory\n",
    "/.versions": "a memory where the history is\n",
    "/.search/query": "a memory where the search is\n",
    "/plain.md": "plain\n",
}


@pytest.fixture
def hard(tmp_path: Path) -> Iterator[Mount]:
    """A mount of a store with names that a file system cannot show."""
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    store.put_all(HARD.items())
    with launch(tmp_path, store, database=database) as mount:
        yield mount


def files(mount: Mount) -> dict[str, Path]:
    """Memory id and file of everything that a walk through the mount finds."""
    walked = mount.sh("find . -type f -print0").split("\0")[:-1]
    paths = [mount.store / name for name in walked]
    return {os.getxattr(path, "user.memory.id").decode(): path for path in paths}


def test_everything_in_the_store_is_shown_under_some_name(hard: Mount) -> None:
    found = files(hard)
    heads = hard.inspector.heads()
    assert {heads[path].id: content for path, content in HARD.items()} == {
        memory_id: path.read_text() for memory_id, path in found.items()
    }
    assert all(len(os.fsencode(part)) <= 255 for path in found.values() for part in path.parts)
    assert found[heads["/plain.md"].id] == hard.store / "plain.md"


def test_an_escaped_name_can_be_edited_and_keeps_its_path(hard: Mount) -> None:
    found = files(hard)
    heads = hard.inspector.heads()
    for path in HARD:
        file = found[heads[path].id]
        hard.sh(f"echo more >> '{file}' && sed -i s/more/MORE/ '{file}'")
    settle()
    assert hard.inspector.memories() == {path: content + "MORE\n" for path, content in HARD.items()}
    assert {path: memory.id for path, memory in hard.inspector.heads().items()} == {p: heads[p].id for p in heads}
    assert files(hard) == found
    hard.remount()
    assert files(hard) == found
    first = found[heads[f"/{LONG}.md"].id]
    os.rename(first, hard.store / "short.md")
    assert hard.inspector.heads()["/short.md"].id == heads[f"/{LONG}.md"].id
    os.unlink(found[heads["/.versions"].id])
    eventually(lambda: "/.versions" in hard.inspector.heads(), False, within=2)
