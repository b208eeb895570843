"""open(2): flags, refusals, modes."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.errnos import refuses
from tests.mount.posix.calls import opened, umask

WRITERS = (os.O_WRONLY, os.O_RDWR)


def furnish(here: Path) -> None:
    (here / "file").write_text("text\n")
    (here / "empty").touch()
    (here / "dir").mkdir()
    (here / "dir" / "inside").write_text("inside\n")


REFUSED: dict[str, tuple[Callable[[Path], object], int]] = {
    "missing": (lambda d: os.open(d / "missing", os.O_RDONLY), errno.ENOENT),
    "missing parent": (lambda d: os.open(d / "missing/new", os.O_CREAT | os.O_WRONLY), errno.ENOENT),
    "empty name": (lambda d: os.open("", os.O_RDONLY), errno.ENOENT),
    "below a file": (lambda d: os.open(d / "file/x", os.O_RDONLY), errno.ENOTDIR),
    "create below a file": (lambda d: os.open(d / "file/x", os.O_CREAT | os.O_WRONLY), errno.ENOTDIR),
    "file with a slash": (lambda d: os.open(f"{d}/file/", os.O_RDONLY), errno.ENOTDIR),
    "create with a slash": (lambda d: os.open(f"{d}/new/", os.O_CREAT | os.O_WRONLY), errno.EISDIR),
    "exclusive, there": (lambda d: os.open(d / "file", os.O_CREAT | os.O_EXCL), errno.EEXIST),
    "exclusive, directory": (lambda d: os.open(d / "dir", os.O_CREAT | os.O_EXCL), errno.EEXIST),
    "write a directory": (lambda d: os.open(d / "dir", os.O_WRONLY), errno.EISDIR),
    "read and write a directory": (lambda d: os.open(d / "dir", os.O_RDWR), errno.EISDIR),
    "truncate a directory": (lambda d: os.open(d / "dir", os.O_RDONLY | os.O_TRUNC), errno.EISDIR),
    "create over a directory": (lambda d: os.open(d / "dir", os.O_CREAT | os.O_RDONLY), errno.EISDIR),
    "directory flag, file": (lambda d: os.open(d / "file", os.O_DIRECTORY), errno.ENOTDIR),
    "directory flag, file, no follow": (lambda d: os.open(d / "file", os.O_DIRECTORY | os.O_NOFOLLOW), errno.ENOTDIR),
    "name of 256 bytes": (lambda d: os.open(d / ("n" * 256), os.O_CREAT | os.O_WRONLY), errno.ENAMETOOLONG),
    "look-up of 256 bytes": (lambda d: os.open(d / ("n" * 256), os.O_RDONLY), errno.ENAMETOOLONG),
    "stat of 256 bytes": (lambda d: os.stat(d / ("n" * 256)), errno.ENAMETOOLONG),
    "path of 4,096 bytes": (lambda d: os.open(f"{d}/{'./' * 2048}file", os.O_RDONLY), errno.ENAMETOOLONG),
    "not a link": (lambda d: os.readlink(d / "file"), errno.EINVAL),
    "list a file": (lambda d: os.listdir(d / "file"), errno.ENOTDIR),
    "enter a file": (lambda d: os.chdir(d / "file"), errno.ENOTDIR),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(here: Path, name: str) -> None:
    furnish(here)
    before = {path.name: path.lstat().st_mtime_ns for path in here.iterdir()}
    call, number = REFUSED[name]
    with refuses(number):
        call(here)
    assert {path.name: path.lstat().st_mtime_ns for path in here.iterdir()} == before
    assert (here / "file").read_text() == "text\n"


def test_flags(here: Path) -> None:
    furnish(here)
    with opened(here / "dir", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as directory:
        inside = os.open("inside", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
        assert os.read(inside, 100) == b"inside\n"
        os.close(inside)
        with refuses(errno.EISDIR):
            os.read(directory, 10)
    with opened(here / "file", os.O_PATH) as path:
        assert os.fstat(path).st_size == 5
        with refuses(errno.EBADF):
            os.read(path, 1)
    for flags in WRITERS:
        with opened(here / "file", flags | os.O_CREAT) as descriptor:
            assert os.fstat(descriptor).st_size == 5
        with opened(here / "file", flags | os.O_SYNC | os.O_NONBLOCK | os.O_NOCTTY) as descriptor:
            assert os.write(descriptor, b"T") == 1
    assert (here / "file").read_text() == "Text\n"
    with opened(here / "file", os.O_WRONLY | os.O_TRUNC) as descriptor:
        assert os.fstat(descriptor).st_size == 0
    with opened(here / "new", os.O_CREAT | os.O_EXCL | os.O_RDWR) as descriptor:
        os.write(descriptor, b"new")
        assert os.pread(descriptor, 10, 0) == b"new"
    assert (here / "new").read_text() == "new"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o027, 0o077, 0o177])
def test_modes_of_new_files_and_directories(here: Path, mask: int) -> None:
    with umask(mask):
        for mode in (0o000, 0o400, 0o600, 0o644, 0o666, 0o751, 0o777, 0o4755, 0o2755, 0o1777):
            with opened(here / f"file-{mode:o}", os.O_CREAT | os.O_WRONLY, mode):
                pass
            os.mkdir(here / f"dir-{mode:o}", mode)
            assert f"{stat.S_IMODE((here / f'file-{mode:o}').stat().st_mode):o}" == f"{mode & ~mask:o}"
            expected = mode & ~mask & 0o1777  # mkdir(2) takes permissions and the sticky bit
            assert f"{stat.S_IMODE((here / f'dir-{mode:o}').stat().st_mode):o}" == f"{expected:o}"


def test_a_descriptor_keeps_the_rights_it_was_opened_with(here: Path) -> None:
    furnish(here)
    with opened(here / "file", os.O_RDONLY) as reader:
        for call in (
            lambda: os.write(reader, b"x"),
            lambda: os.pwrite(reader, b"x", 0),
        ):
            with refuses(errno.EBADF):
                call()
        with refuses(errno.EINVAL):
            os.ftruncate(reader, 0)
    with opened(here / "file", os.O_WRONLY) as writer, refuses(errno.EBADF):
        os.read(writer, 1)
    with opened(here / "made", os.O_CREAT | os.O_WRONLY, 0o000) as writer:
        assert os.write(writer, b"made") == 4  # the mode binds the next open, not this one
    with opened(here / "file", os.O_RDWR) as writer:
        os.chmod(here / "file", 0o000)
        assert os.pwrite(writer, b"T", 0) == 1
        assert os.pread(writer, 9, 0) == b"Text\n"
    assert (here / "made").stat().st_size == 4


def test_one_name_many_creators(here: Path) -> None:
    """Of many processes that create one name exclusively, exactly one succeeds."""
    children = []
    for _ in range(12):
        child = os.fork()
        if child == 0:
            try:
                os.close(os.open(here / "lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                os._exit(0)
            except FileExistsError:
                os._exit(1)
            finally:
                os._exit(2)
        children.append(child)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(statuses) == [0] + [1] * 11
