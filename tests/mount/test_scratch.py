"""Scratch files and directories stay on this machine; a save that takes the old file away first is still one save."""

import errno
import json
import os
import time
from dataclasses import dataclass

import pytest

from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, Place, settle
from tests.harness.waiting import eventually

SCRATCH_NAMES = [
    ".note.md.swp",
    ".note.md.swo",
    ".note.md.swx",
    "note.md~",
    "#note.md#",
    ".#note.md",
    "4913",
    "note.tmp",
    "note.md.tmp.123",
    "note.md.tmp-abc",
    ".~lock.note.md#",
    ".goutputstream-A1B2C3",
    "note.md.crswap",
    ".fuse_hidden0000001",
    ".nfs00000001",
    "._note.md",
    ".DS_Store",
]

SCRATCH_DIRECTORIES = [".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", ".~tmp~"]

BINARY = bytes(range(256)) * 1000


def state(place: Place, name: str) -> str:
    return os.getxattr(place / name, "user.memory.state").decode()


# Each step is done for all first, so that what settles has to be waited for only once.


@dataclass
class Settled:
    """Directories in which something was done a while ago."""

    mount: Mount

    def place(self, name: str) -> Place:
        return Place(self.mount, name)


@pytest.fixture(scope="module")
def settled(mount: Mount) -> Settled:
    settled = Settled(mount)
    for name, prepare in PREPARED.items():
        place = settled.place(name)
        place.path.mkdir()
        prepare(place)
    settle()
    return settled


def _scratch_names(place: Place) -> None:
    (place / "note.md").write_text("text\n")
    for name in SCRATCH_NAMES:
        (place / name).write_bytes(BINARY)


def _mkstemp_left(place: Place) -> None:
    place.sh("mktemp -p . keepXXXXXX >$TMPDIR/name; echo text > $(cat $TMPDIR/name); mv $(cat $TMPDIR/name) keep")
    place.sh("t=$(mktemp -p . leftXXXXXX); echo text > $t")
    (place / "note.md").write_text("text\n")
    place.sh("echo other > note.md.x7Gk2Qpa")


def _backup_only(place: Place) -> None:
    place.sh("echo text > a.md && mv a.md a.md.bak")


def _scratch_only(place: Place) -> None:
    place.sh("echo text > a.md && mv a.md a.md~")


def _scratch_then_gone(place: Place) -> None:
    place.sh("echo text > a.md && mv a.md a.md~ && rm a.md~")


def _continued(place: Place) -> None:
    place.sh("echo one > a.md; mv a.md a.md~; echo two > a.md; echo one > b.md; mv b.md b.md.orig; echo two > b.md")


def _parked_is_written(place: Place) -> None:
    place.sh("echo one > a.md; mv a.md a.md.old; echo two >> a.md.old")


def _removed_scratch(place: Place) -> None:
    for name in SCRATCH_NAMES:
        (place / name).write_text("x")
        os.unlink(place / name)


def _git(place: Place) -> None:
    place.sh("git init -q . && echo 1 > f && mkdir d && echo 2 > d/g && git add . && git commit -qm first")
    place.sh("echo 3 >> f && git commit -qam second && git gc -q && git fsck --strict")


PREPARED = {
    "scratch-names": _scratch_names,
    "mkstemp-left": _mkstemp_left,
    "backup-only": _backup_only,
    "scratch-only": _scratch_only,
    "scratch-then-gone": _scratch_then_gone,
    "continued": _continued,
    "parked-is-written": _parked_is_written,
    "removed-scratch": _removed_scratch,
    "git": _git,
}


def test_scratch_names_never_reach_the_store(settled: Settled) -> None:
    place = settled.place("scratch-names")
    assert place.history() == [("created", "note.md")]
    assert set(os.listdir(place.path)) == {"note.md", *SCRATCH_NAMES}
    for name in SCRATCH_NAMES:
        assert (place / name).read_bytes() == BINARY
        assert state(place, name) == "scratch"
    assert state(place, "note.md") == "stored"


def test_removed_scratch_leaves_no_version(settled: Settled) -> None:
    place = settled.place("removed-scratch")
    assert place.history() == []
    assert os.listdir(place.path) == []


def test_a_temporary_file_that_stays_becomes_a_memory(settled: Settled) -> None:
    place = settled.place("mkstemp-left")
    memories = place.memories()
    left = next(name for name in memories if name.startswith("left"))
    assert memories == {left: "text\n", "keep": "text\n", "note.md": "text\n", "note.md.x7Gk2Qpa": "other\n"}
    assert sorted(place.history(), key=lambda version: version[1]) == sorted(
        (("created", name) for name in memories), key=lambda version: version[1]
    )


def test_a_rename_to_a_backup_name_alone_is_a_rename(settled: Settled) -> None:
    place = settled.place("backup-only")
    assert place.memories() == {"a.md.bak": "text\n"}
    assert place.history() == [("created", "a.md"), ("modified", "a.md.bak")]
    assert len({version.memory_id for _, version in place.named_versions()}) == 1


def test_a_rename_to_a_scratch_name_alone_loses_nothing(settled: Settled) -> None:
    place = settled.place("scratch-only")
    assert (place / "a.md~").read_text() == "text\n"
    assert place.memories() == {"a.md~": "text\n"}
    assert place.history() == [("created", "a.md"), ("modified", "a.md~")]


def test_a_memory_renamed_to_scratch_and_removed_is_deleted(settled: Settled) -> None:
    place = settled.place("scratch-then-gone")
    assert place.history() == [("created", "a.md"), ("deleted", "a.md")]


def test_a_parked_memory_is_continued_under_its_name(settled: Settled) -> None:
    place = settled.place("continued")
    assert place.memories() == {"a.md": "two\n", "b.md": "two\n", "b.md.orig": "one\n"}
    assert place.operations("a.md") == ["created", "modified"]
    assert place.operations("b.md") == ["created", "modified"]
    assert place.operations("b.md.orig") == ["created"]
    assert (place / "a.md~").read_text() == "one\n"
    assert len({version.memory_id for name, version in place.named_versions() if name == "b.md"}) == 1


def test_a_parked_backup_that_is_written_was_renamed(settled: Settled) -> None:
    place = settled.place("parked-is-written")
    assert place.memories() == {"a.md.old": "one\ntwo\n"}
    assert {operation for operation, _ in place.history()} == {"created", "modified"}
    assert len({version.memory_id for _, version in place.named_versions()}) == 1


def test_git_works_inside_a_store_and_leaves_nothing_in_it(settled: Settled) -> None:
    place = settled.place("git")
    assert place.memories() == {"f": "1\n3\n", "d/g": "2\n"}
    assert {name for _, name in place.history()} == {"f", "d/g"}
    assert place.sh("git status --porcelain; git log --format=%s") == "second\nfirst\n"
    place.sh("git checkout -q HEAD~1 -- f && cat f && git stash -q && git checkout -q -B other && git status --porcelain")
    assert not any(".git" in path for path in place.inspector.heads())


def test_files_beside_a_memory_that_only_share_its_name_are_memories(place: Place) -> None:
    (place / "README").write_text("text\n")
    for name in ("README.Debian", "README.md", "README-2026", "README_old.txt", "READMEs", "README.v2", "README.backup"):
        (place / name).write_text(name)
        assert place.operations(name) == ["created"], name


def test_a_scratch_file_with_a_real_name_becomes_a_memory(place: Place) -> None:
    place.sh("echo one > .a.md.swp && mv .a.md.swp a.md && cat a.md")
    assert place.history() == [("created", "a.md")]


@pytest.mark.parametrize("name", SCRATCH_DIRECTORIES)
def test_scratch_directories_hold_whatever_a_tool_puts_there(place: Place, name: str) -> None:
    folder = place / name
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "binary").write_bytes(BINARY * 5)
    (folder / "deep" / "er" / "odd\n\x01name").write_text("x")
    (folder / "tool").write_text("#!/bin/sh\necho ran\n")
    (folder / "tool").chmod(0o755)
    assert place.sh(f"./{name}/tool") == "ran\n"
    assert (folder / "binary").read_bytes() == BINARY * 5
    os.rename(folder / "deep", folder / "moved")
    os.rename(folder / "binary", folder / "moved" / "binary")
    assert sorted(os.listdir(folder)) == ["moved", "tool"]
    if name in ("node_modules", ".venv"):
        os.symlink("../tool", folder / "moved" / "link")
        assert os.readlink(folder / "moved" / "link") == "../tool"
        assert place.sh(f"./{name}/moved/link") == "ran\n"
    else:
        with refuses(errno.EPERM):
            os.symlink("tool", folder / "link")
    (place / "note.md").write_text("text\n")
    (folder / "file").write_text("local\n")
    with refuses(errno.EXDEV):
        os.rename(place / "note.md", folder / "note.md")
    place.sh(f"mv note.md {name}/note.md && cat {name}/note.md && mv {name}/note.md back.md && cat back.md")
    eventually(lambda: place.memories(), {"back.md": "text\n"}, within=2)
    place.sh(f"rm -rf {name} && ls -A")
    assert os.listdir(place.path) == ["back.md"]
    assert {path for _, path in place.history()} == {"note.md", "back.md"}


def test_a_directory_with_files_does_not_move_into_a_scratch_directory(place: Place) -> None:
    place.sh("mkdir -p d .git/e && echo x > d/f && echo y > .git/e/g")
    with refuses(errno.EXDEV):
        os.rename(place / "d", place / ".git/d")
    with refuses(errno.EXDEV):
        os.rename(place / ".git/e", place / "e")
    assert place.memories() == {"d/f": "x\n"}


def test_patterns_for_files_do_not_apply_to_directories(place: Place) -> None:
    place.sh("mkdir work.tmp backup~ && echo x > work.tmp/a.md && echo y > backup~/b.md")
    assert place.memories() == {"work.tmp/a.md": "x\n", "backup~/b.md": "y\n"}


def test_unlink_and_create_is_one_modified_version(place: Place) -> None:
    (place / "a.md").write_text("one\n")
    before = place.ids()["a.md"]
    os.unlink(place / "a.md")
    assert not (place / "a.md").exists()
    (place / "a.md").write_text("two\n")
    time.sleep(0.3)
    assert place.history() == [("created", "a.md"), ("modified", "a.md")]
    assert place.ids() == {"a.md": before}


def test_unlink_alone_is_deleted_soon(place: Place) -> None:
    (place / "a.md").write_text("one\n")
    os.unlink(place / "a.md")
    took = eventually(lambda: place.history(), [("created", "a.md"), ("deleted", "a.md")], within=1.5)
    assert took < 1.5
    (place / "a.md").write_text("two\n")
    assert place.history() == [("created", "a.md"), ("deleted", "a.md"), ("created", "a.md")]
    assert len({version.memory_id for _, version in place.named_versions()}) == 2


def test_the_status_counts_scratch(settled: Settled) -> None:
    status = json.loads((settled.mount.path / ".memfs" / "status.json").read_text())
    assert "scratch" in json.dumps(status)


def test_scratch_files_that_are_open_and_have_no_name_keep_their_bytes(place: Place) -> None:
    """As a tool's anonymous temporary file beside the next one of its kind."""
    with open(place / ".a.md.swp", "w+") as first:
        first.write("first")
        first.flush()
        os.unlink(place / ".a.md.swp")
        with open(place / ".b.md.swp", "w+") as second:
            second.write("second, longer")
            second.flush()
            os.unlink(place / ".b.md.swp")
            (place / ".c.md.swp").write_text("third")
            first.seek(0)
            second.seek(0)
            assert (first.read(), second.read()) == ("first", "second, longer")
    assert (place / ".c.md.swp").read_text() == "third"
    assert place.history() == []
