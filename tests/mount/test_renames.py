"""Renames and removals, as the store sees them: ids stay, and each is one version."""

import ctypes
import errno
import os
import time
from pathlib import Path

import pytest

from memfs.model.objects import SessionActor
from tests.harness.errnos import refuses
from tests.harness.inspector import Database
from tests.harness.mounts import Place, launch
from tests.harness.waiting import eventually

pytestmark = pytest.mark.every_service

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


def rename2(old: Path, new: Path, flags: int) -> None:
    """renameat2(2), which Python does not offer."""
    if _libc.renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def removed(place: Place, name: str) -> None:
    """Wait until the deletion of `name` is in the store: an unlink parks for 100 ms."""
    eventually(lambda: name in place.memories(), False, within=2)


def test_mv_keeps_the_id_and_adds_one_version(place: Place) -> None:
    (place / "a.md").write_text("text\n")
    before = place.ids()["a.md"]
    place.sh("mv a.md b.md")
    assert place.memories() == {"b.md": "text\n"}
    assert place.same_ids(place.ids(), {"b.md": before})
    assert place.history() == [("created", "a.md"), *place.moved("a.md", "b.md")]


def test_mv_into_a_new_directory(place: Place) -> None:
    (place / "a.md").write_text("text\n")
    before = place.ids()["a.md"]
    place.sh("mkdir -p x/y && mv a.md x/y/ && cat x/y/a.md")
    assert place.same_ids(place.ids(), {"x/y/a.md": before})
    assert place.history() == [("created", "a.md"), *place.moved("a.md", "x/y/a.md")]


def test_mv_of_a_directory_keeps_every_id(place: Place) -> None:
    place.sh("mkdir -p d/s && for i in $(seq 40); do echo $i > d/s/$i; done && mkdir d/empty")
    before = place.ids()
    place.sh("mv d e")
    assert place.same_ids(place.ids(), {name.replace("d/", "e/", 1): memory_id for name, memory_id in before.items()})
    expected = [("created", name) for name in before]
    expected += [change for name in before for change in place.moved(name, name.replace("d/", "e/", 1))]
    assert sorted(place.history()) == sorted(expected)
    assert place.sh("find . -type f | wc -l; ls -d e/empty; ls -d d 2>&1 | wc -l; cat e/s/7") == "40\ne/empty\n1\n7\n"
    assert {entry.name for entry in place.path.iterdir()} == {"e"}


def test_mv_of_an_empty_directory_makes_no_version(place: Place) -> None:
    place.sh("mkdir d && mv d e && ls")
    assert place.history() == []


def test_a_directory_moves_over_an_empty_one_and_over_no_other(place: Place) -> None:
    place.sh("mkdir a b c && echo 1 > a/x && echo 2 > c/y")
    os.rename(place / "a", place / "b")
    assert place.memories() == {"b/x": "1\n", "c/y": "2\n"}
    with refuses(errno.ENOTEMPTY, errno.EEXIST):
        os.rename(place / "b", place / "c")
    with refuses(errno.EINVAL):
        os.rename(place / "b", place / "b/inside")
    with refuses(errno.ENOTDIR):
        os.rename(place / "b", place / "c/y")
    with refuses(errno.EISDIR):
        os.rename(place / "c/y", place / "b")
    assert place.memories() == {"b/x": "1\n", "c/y": "2\n"}


def test_a_memory_moved_over_a_memory_updates_it_and_is_deleted(place: Place) -> None:
    (place / "source.md").write_text("new\n")
    (place / "target.md").write_text("old\n")
    ids = place.ids()
    place.sh("mv -f source.md target.md && cat target.md")
    removed(place, "source.md")
    assert place.memories() == {"target.md": "new\n"}
    assert place.ids() == {"target.md": ids["target.md"]}
    assert place.operations("target.md") == ["created", "modified"]
    assert place.operations("source.md") == ["created", "deleted"]
    assert sorted(entry.name for entry in place.path.iterdir()) == ["target.md"]


def test_a_memory_moved_over_a_memory_takes_along_what_another_session_has_just_saved_in_it(place: Place) -> None:
    """The kernel does not look it up again for the rename: what was read of it before is not what is moved."""
    place.sh("echo source > a.md; echo target > b.md; cat a.md b.md")
    place.inspector.put(place.at("a.md"), "another session's words\n")
    os.rename(place / "a.md", place / "b.md")
    # Where the mount did not know of them yet, they stay where they are.
    assert place.memories() in (
        {"b.md": "another session's words\n"},
        {"b.md": "source\n", "a.md": "another session's words\n"},
    )
    eventually(lambda: {path.name: path.read_text() for path in place.path.iterdir()}, place.memories(), within=5)


def test_a_memory_moved_with_unsaved_words_leaves_what_another_session_has_saved_in_it(place: Place) -> None:
    place.sh("echo source > a.md; echo target > b.md")
    with open(place / "a.md", "a") as file:
        file.write("ours\n")
        file.flush()
        place.inspector.put(place.at("a.md"), "another session's words\n")
        os.rename(place / "a.md", place / "b.md")
    assert place.memories()["b.md"] == "source\nours\n"
    assert "another session's words\n" in place.memories().values()
    eventually(lambda: {path.name: path.read_text() for path in place.path.iterdir()}, place.memories(), within=5)


def test_a_process_replaces_one_memory_again_and_again(place: Place) -> None:
    (place / "target").write_text("0")
    assert (place / "target").read_text() == "0"
    for number in range(1, 6):
        (place / f"source{number % 2}").write_text(f"{number}")
        os.replace(place / f"source{number % 2}", place / "target")
        if number == 3:
            assert (place / "target").read_text() == "3"
    assert (place / "target").read_text() == "5"
    eventually(place.memories, {"target": "5"}, within=2)
    assert place.operations("target") == ["created"] + ["modified"] * 5
    assert len({version.memory_id for name, version in place.named_versions() if name == "target"}) == 1


def test_a_rename_onto_itself_changes_nothing(place: Place) -> None:
    (place / "a.md").write_text("text\n")
    os.rename(place / "a.md", place / "a.md")
    assert place.history() == [("created", "a.md")]


def test_rename_of_what_is_not_there(place: Place) -> None:
    with refuses(errno.ENOENT):
        os.rename(place / "none", place / "b")
    (place / "a").write_text("a")
    with refuses(errno.ENOENT):
        os.rename(place / "a", place / "none/b")


def test_noreplace_and_exchange(place: Place) -> None:
    (place / "a").write_text("a")
    (place / "b").write_text("b")
    with refuses(errno.EEXIST):
        rename2(place / "a", place / "b", _RENAME_NOREPLACE)
    with refuses(errno.EINVAL):
        rename2(place / "a", place / "b", _RENAME_EXCHANGE)
    rename2(place / "a", place / "c", _RENAME_NOREPLACE)
    assert place.memories() == {"b": "b", "c": "a"}


def test_mv_n_leaves_the_target(place: Place) -> None:
    place.sh("echo a > a; echo b > b; mv -n a b || true")
    assert place.memories() == {"a": "a\n", "b": "b\n"}


def test_rm_is_one_deleted_version(place: Place) -> None:
    place.sh("echo x > a.md && rm a.md && ! ls a.md 2>&-")
    removed(place, "a.md")
    assert place.history() == [("created", "a.md"), ("deleted", "a.md")]
    actor = SessionActor(session_id=place.mount.session_id) if place.mount.database.names_actors else None
    assert [version.created_by for _, version in place.named_versions()] == [actor, actor]


def test_rm_r_is_one_deleted_version_each(place: Place) -> None:
    place.sh("mkdir -p d/s && for i in $(seq 25); do echo $i > d/s/$i; echo $i > d/$i; done && rm -r d && ! ls d 2>&-")
    eventually(lambda: place.memories(), {}, within=3)
    operations = [operation for operation, _ in place.history()]
    assert operations.count("created") == operations.count("deleted") == 50
    assert len(operations) == 100
    assert list(place.path.iterdir()) == []


def test_a_directory_stays_when_its_last_memory_is_removed_or_moved_away(place: Place) -> None:
    place.sh("mkdir d e && echo 1 > d/x && echo 1 > e/x && rm d/x && mv e/x .")
    time.sleep(0.3)
    assert place.sh("ls -d d e") == "d\ne\n"
    place.sh("rmdir d e")
    assert sorted(entry.name for entry in place.path.iterdir()) == ["x"]


def test_rmdir_of_a_full_directory(place: Place) -> None:
    place.sh("mkdir d && echo 1 > d/x")
    with refuses(errno.ENOTEMPTY):
        os.rmdir(place / "d")
    with refuses(errno.ENOTDIR):
        os.rmdir(place / "d/x")
    with refuses(errno.EISDIR):
        os.unlink(place / "d")
    assert place.memories() == {"d/x": "1\n"}


def test_a_removed_name_is_free_for_a_directory(place: Place) -> None:
    place.sh("for i in $(seq 20); do echo 1 > x$i && rm x$i && mkdir x$i && echo 2 > x$i/y; done")
    eventually(place.memories, {f"x{i}/y": "2\n" for i in range(1, 21)}, within=2)
    assert place.operations("x7") == ["created", "deleted"]
    assert "free-for-a-directory" not in (place.mount.path / ".memfs" / "errors").read_text()


def test_a_removed_directory_is_free_for_a_memory(place: Place) -> None:
    place.sh("for i in $(seq 20); do mkdir x$i && echo 1 > x$i/y && rm -r x$i && echo 2 > x$i; done")
    eventually(place.memories, {f"x{i}": "2\n" for i in range(1, 21)}, within=2)
    assert place.operations("x7/y") == ["created", "deleted"]
    assert "free-for-a-memory" not in (place.mount.path / ".memfs" / "errors").read_text()


def test_a_chain_of_renames(place: Place) -> None:
    place.sh("echo text > a && mv a b && mv b c && mv c a && cat a")
    assert place.memories() == {"a": "text\n"}
    expected = [("created", "a"), *place.moved("a", "b"), *place.moved("b", "c"), *place.moved("c", "a")]
    assert place.history() == expected


def test_two_names_change_places(place: Place) -> None:
    place.sh("echo a > a; echo b > b; mv a c; mv b a; mv c b; cat a b")
    assert place.memories() == {"a": "b\n", "b": "a\n"}
    ids = place.ids()
    assert len(set(ids.values())) == 2


@pytest.mark.parametrize("way", ["unlink", "replace"])
def test_a_removal_is_stored_when_its_directory_is_synced(place: Place, way: str) -> None:
    (place / "a").write_text("a")
    if way == "unlink":
        os.unlink(place / "a")
    else:
        (place / "b").write_text("b")
        os.replace(place / "b", place / "a")
    folder = os.open(place.path, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    assert place.memories() == ({} if way == "unlink" else {"a": "b"})


def test_rename_while_the_file_is_written(place: Place) -> None:
    with open(place / "first.md", "w") as file:
        file.write("one\n")
        file.flush()
        os.rename(place / "first.md", place / "second.md")
        file.write("two\n")
    assert place.memories() == {"second.md": "one\ntwo\n"}
    if not place.mount.database.renames:
        return
    assert {name for operation, name in place.history() if operation == "deleted"} == set()
    assert len({version.memory_id for _, version in place.named_versions()}) == 1


def test_rename_of_unflushed_writes_over_a_memory(place: Place) -> None:
    (place / "target.md").write_text("old\n")
    target = place.ids()["target.md"]
    descriptor = os.open(place / "fresh.md", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"new\n")
    os.rename(place / "fresh.md", place / "target.md")
    os.close(descriptor)
    assert place.memories() == {"target.md": "new\n"}
    assert place.ids() == {"target.md": target}


def test_between_stores_mv_copies_and_removes(database: Database, tmp_path: Path) -> None:
    first, second = database.create_store("First"), database.create_store("Second")
    with launch(tmp_path, first, second, database=database) as mount:
        source, target = mount.directory(first), mount.directory(second)
        (source / "a.md").write_text("text\n")
        (source / "d").mkdir()
        with refuses(errno.EXDEV):
            os.rename(source / "a.md", target / "a.md")
        with refuses(errno.EXDEV):
            os.rename(source / "d", target / "d")
        assert second.memories() == {}
        mount.sh(f"mv {source}/a.md {target}/b.md && cat {target}/b.md")
        assert second.memories() == {"/b.md": "text\n"}
        eventually(lambda: first.memories(), {}, within=2)
        assert first.operations("/a.md") == ["created", "deleted"]
