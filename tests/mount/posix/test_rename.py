"""rename(2): what meets what, and what stays as it was."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.errnos import refuses
from tests.mount.posix.actors import verdict
from tests.mount.posix.calls import opened, rename2

RENAME_NOREPLACE = 1

THINGS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "file": lambda path: path.write_text(path.name),
    "empty file": lambda path: path.touch(),
    "empty directory": lambda path: path.mkdir(),
    "full directory": lambda path: (path.mkdir(), (path / "x").write_text("x")),
    "deep directory": lambda path: (path / "a/b").mkdir(parents=True),
}
OUTCOMES = {
    "nothing": dict.fromkeys(THINGS, "ENOENT"),
    "file": {
        "nothing": "ok",
        "file": "ok",
        "empty file": "ok",
        "empty directory": "EISDIR",
        "full directory": "EISDIR",
        "deep directory": "EISDIR",
    },
    "empty directory": {
        "nothing": "ok",
        "file": "ENOTDIR",
        "empty file": "ENOTDIR",
        "empty directory": "ok",
        "full directory": "ENOTEMPTY",
        "deep directory": "ENOTEMPTY",
    },
}
OUTCOMES["empty file"] = OUTCOMES["file"]
OUTCOMES["full directory"] = OUTCOMES["deep directory"] = OUTCOMES["empty directory"]


def shape(path: Path) -> object:
    """Everything below `path`, as a value."""
    if path.is_dir():
        return {child.name: shape(child) for child in path.iterdir()}
    return path.read_text() if path.exists() else None


@pytest.mark.parametrize("source", THINGS)
@pytest.mark.parametrize("target", THINGS)
@pytest.mark.parametrize("apart", [False, True], ids=["one parent", "two parents"])
def test_what_meets_what(here: Path, source: str, target: str, apart: bool) -> None:
    (here / "p").mkdir()
    (here / "q").mkdir()
    old, new = here / "p" / "old", here / ("q" if apart else "p") / "new"
    THINGS[source](old)
    THINGS[target](new)
    old_shape, new_shape = shape(old), shape(new)
    old_inode = old.stat().st_ino if old.exists() else None
    expected = OUTCOMES[source][target]
    assert verdict(lambda: os.rename(old, new)) == expected
    if expected == "ok":
        assert shape(old) is None
        assert shape(new) == old_shape
        if target == "nothing":
            assert new.stat().st_ino == old_inode
    else:
        assert (shape(old), shape(new)) == (old_shape, new_shape)
    assert sorted(os.listdir(here / "p")) == sorted(
        name for name, path in (("old", old), ("new", here / "p/new")) if os.path.lexists(path)
    )


@pytest.mark.parametrize("source", ["file", "empty directory", "full directory"])
@pytest.mark.parametrize("target", ["file", "empty directory", "full directory"])
def test_noreplace_replaces_nothing(here: Path, source: str, target: str) -> None:
    THINGS[source](here / "old")
    THINGS[target](here / "new")
    before = shape(here)
    with refuses(errno.EEXIST):
        rename2(here / "old", here / "new", RENAME_NOREPLACE)
    assert shape(here) == before
    rename2(here / "old", here / "free", RENAME_NOREPLACE)
    assert sorted(os.listdir(here)) == ["free", "new"]


def test_a_directory_cannot_move_into_itself(here: Path) -> None:
    (here / "d/e").mkdir(parents=True)
    (here / "d/e/x").write_text("x")
    for new in ("d/new", "d/e", "d/e/new"):
        with refuses(errno.EINVAL, errno.ENOTEMPTY):
            os.rename(here / "d", here / new)
    with refuses(errno.EINVAL):
        os.rename(here / "d", here / "d/e/f")
    with refuses(errno.ENOTEMPTY):
        os.rename(here / "d/e", here / "d")
    with refuses(errno.EBUSY, errno.EINVAL):
        os.rename(f"{here}/d/.", here / "new")
    with refuses(errno.EBUSY, errno.EINVAL):
        os.rename(f"{here}/d/..", here / "new")
    assert shape(here) == {"d": {"e": {"x": "x"}}}


def test_paths_that_lead_nowhere(here: Path) -> None:
    (here / "f").write_text("f")
    (here / "d").mkdir()
    for old, new, number in (
        ("f/x", "g", errno.ENOTDIR),
        ("f", "f/x", errno.ENOTDIR),
        ("f", "missing/g", errno.ENOENT),
        ("missing/f", "g", errno.ENOENT),
        ("f", "n" * 256, errno.ENAMETOOLONG),
        ("n" * 256, "g", errno.ENAMETOOLONG),
        ("f", "g/", errno.ENOTDIR),
        ("f/", "g", errno.ENOTDIR),
    ):
        with refuses(number):
            os.rename(f"{here}/{old}", f"{here}/{new}")
    os.rename(f"{here}/d/", f"{here}/e/")
    assert shape(here) == {"f": "f", "e": {}}


def test_a_rename_keeps_what_the_file_is(here: Path) -> None:
    (here / "f").write_text("text\n")
    os.chmod(here / "f", 0o750)
    os.chown(here / "f", 1234, 4321)
    os.utime(here / "f", ns=(10**18 + 1, 10**18 + 2))
    before = (here / "f").stat()
    os.rename(here / "f", here / "g")
    after = (here / "g").stat()
    for field in ("st_ino", "st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns", "st_atime_ns", "st_nlink"):
        assert getattr(after, field) == getattr(before, field), field
    assert after.st_ctime_ns >= before.st_ctime_ns


def test_a_directory_keeps_what_it_is(here: Path) -> None:
    (here / "d").mkdir()
    (here / "d/x").write_text("x")
    os.chmod(here / "d", 0o1750)
    os.chown(here / "d", 1234, 4321)
    before = (here / "d").stat()
    with opened(here / "d", os.O_RDONLY) as d:
        os.rename(here / "d", here / "e")
        assert os.fstat(d).st_ino == before.st_ino
        assert os.listdir(d) == ["x"]
        with opened(here / "e/y", os.O_CREAT | os.O_WRONLY):
            pass
        assert sorted(os.listdir(d)) == ["x", "y"]
    after = (here / "e").stat()
    assert (after.st_ino, after.st_mode, after.st_uid, after.st_gid) == (
        before.st_ino,
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


def test_open_files_follow_their_name(here: Path) -> None:
    (here / "f").write_text("one\n")
    with opened(here / "f", os.O_RDWR | os.O_APPEND) as f:
        os.rename(here / "f", here / "g")
        os.write(f, b"two\n")
        assert os.fstat(f).st_nlink == 1
        os.fsync(f)
        os.rename(here / "g", here / "h")
        os.write(f, b"three\n")
    assert shape(here) == {"h": "one\ntwo\nthree\n"}


def test_the_replaced_file_lives_for_those_who_hold_it(here: Path) -> None:
    (here / "old").write_text("old\n")
    (here / "new").write_text("new\n")
    with opened(here / "old", os.O_RDWR) as f:
        os.rename(here / "new", here / "old")
        assert os.fstat(f).st_nlink == 0
        assert os.fstat(f).st_ino != (here / "old").stat().st_ino
        assert os.pread(f, 10, 0) == b"old\n"
        os.pwrite(f, b"OLD", 0)
        assert os.pread(f, 10, 0) == b"OLD\n"
        assert (here / "old").read_text() == "new\n"
    assert shape(here) == {"old": "new\n"}


def test_a_working_directory_moves_with_its_name(here: Path) -> None:
    (here / "d").mkdir()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(here / "d")
            os.rename(here / "d", here / "e")
            os.close(os.open("made", os.O_CREAT | os.O_WRONLY))
            os._exit(0 if os.getcwd() == str(here / "e") else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert stat.S_ISREG((here / "e/made").stat().st_mode)
