"""mkdir(2), rmdir(2), readdir(3) and where a working directory goes."""

import ctypes
import errno
import os
import stat
from pathlib import Path

from tests.harness.errnos import refuses
from tests.mount.posix.calls import opened


def test_mkdir_refusals(here: Path) -> None:
    (here / "f").write_text("f")
    (here / "d").mkdir()
    for path, number in (
        ("d", errno.EEXIST),
        ("f", errno.EEXIST),
        ("d/", errno.EEXIST),
        (".", errno.EEXIST),
        ("d/..", errno.EEXIST),
        ("f/x", errno.ENOTDIR),
        ("missing/x", errno.ENOENT),
        ("n" * 256, errno.ENAMETOOLONG),
        ("", errno.EEXIST),
    ):
        with refuses(number):
            os.mkdir(f"{here}/{path}")
    os.mkdir(f"{here}/e/")
    assert sorted(os.listdir(here)) == ["d", "e", "f"]


def test_rmdir_refusals(here: Path) -> None:
    (here / "f").write_text("f")
    (here / "full/empty").mkdir(parents=True)
    (here / "files").mkdir()
    (here / "files/x").write_text("x")
    for path, number in (
        ("missing", errno.ENOENT),
        ("f", errno.ENOTDIR),
        ("f/x", errno.ENOTDIR),
        ("full", errno.ENOTEMPTY),
        ("files", errno.ENOTEMPTY),
        ("full/.", errno.EINVAL),
        ("full/..", errno.ENOTEMPTY),
        ("full/empty/..", errno.ENOTEMPTY),
        ("n" * 256, errno.ENAMETOOLONG),
    ):
        with refuses(number):
            os.rmdir(f"{here}/{path}")
    os.rmdir(f"{here}/full/empty/")
    os.rmdir(here / "full")
    os.unlink(here / "files/x")
    os.rmdir(here / "files")
    assert os.listdir(here) == ["f"]


def test_a_removed_directory_takes_nothing(here: Path) -> None:
    (here / "d").mkdir()
    (here / "f").write_text("f")
    with opened(here / "d", os.O_RDONLY) as d:
        os.rmdir(here / "d")
        assert stat.S_ISDIR(os.fstat(d).st_mode)
        assert os.fstat(d).st_nlink == 0
        assert os.listdir(d) == []
        for call in (
            lambda: os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=d),
            lambda: os.mkdir("x", dir_fd=d),
            lambda: os.stat("x", dir_fd=d),
            lambda: os.rename(here / "f", "x", dst_dir_fd=d),
        ):
            with refuses(errno.ENOENT):
                call()
        (here / "d").mkdir()
        assert os.listdir(d) == []
    assert (here / "f").read_text() == "f"


def test_links_of_directories(there: Path) -> None:
    """Two and one for each directory below, as most Linux file systems count; tools that walk rely on it."""
    (there / "d").mkdir()
    assert (there / "d").stat().st_nlink == 2
    for number in range(3):
        (there / "d" / str(number)).mkdir()
        (there / "d" / f"file{number}").write_text("x")
        assert os.stat(there / "d").st_nlink == 3 + number
    (there / "e").mkdir()
    os.rename(there / "d/1", there / "e/1")
    assert [os.stat(there / name).st_nlink for name in ("d", "e", "e/1")] == [4, 3, 2]
    os.rmdir(there / "d/2")
    (there / "d/.git").mkdir()
    assert os.stat(there / "d").st_nlink == 4
    os.rename(there / "e/1", there / "d/0")
    assert [os.stat(there / name).st_nlink for name in ("d", "e")] == [4, 2]


class _Dirent(ctypes.Structure):
    _fields_ = (
        ("ino", ctypes.c_uint64),
        ("off", ctypes.c_int64),
        ("reclen", ctypes.c_ushort),
        ("type", ctypes.c_ubyte),
        ("name", ctypes.c_char * 256),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_libc.opendir.restype = ctypes.c_void_p
_libc.opendir.argtypes = (ctypes.c_char_p,)
_libc.readdir.restype = ctypes.POINTER(_Dirent)
for function in ("readdir", "telldir", "rewinddir", "closedir"):
    getattr(_libc, function).argtypes = (ctypes.c_void_p,)
_libc.telldir.restype = ctypes.c_long
_libc.seekdir.argtypes = (ctypes.c_void_p, ctypes.c_long)


def test_positions_can_be_returned_to(here: Path) -> None:
    expected = {".", ".."}
    for number in range(700):
        (here / f"{number:04}").touch()
        expected.add(f"{number:04}")
    directory = _libc.opendir(os.fsencode(here))
    names: list[str] = []
    positions: list[int] = []
    inodes: dict[str, int] = {}
    while True:
        positions.append(_libc.telldir(directory))
        entry = _libc.readdir(directory)
        if not entry:
            break
        name = entry.contents.name.decode()
        names.append(name)
        inodes[name] = entry.contents.ino
        assert entry.contents.type == (4 if name in (".", "..") else 8)
    assert set(names) == expected
    assert len(names) == len(expected)
    for place in (0, 1, 2, 3, 350, 701, 699, 5):
        _libc.seekdir(directory, positions[place])
        assert _libc.readdir(directory).contents.name.decode() == names[place]
    _libc.seekdir(directory, positions[702])
    assert not _libc.readdir(directory)
    _libc.rewinddir(directory)
    again = [_libc.readdir(directory).contents.name.decode() for _ in names]
    assert sorted(again) == sorted(names)
    _libc.closedir(directory)
    for name in ("0000", "0699", "."):
        assert inodes[name] == (here / name).stat().st_ino
    assert inodes[".."] == here.parent.stat().st_ino


def test_removal_while_listing(here: Path) -> None:
    """What `rm -r` does: read some, remove them, read on; at the end nothing is left."""
    for number in range(1200):
        (here / f"{number:05}").touch()
    removed = 0
    with os.scandir(here) as entries:
        for entry in entries:
            os.unlink(entry.path)
            removed += 1
    assert removed == 1200
    assert os.listdir(here) == []


def test_dots(here: Path) -> None:
    (here / "d/e").mkdir(parents=True)
    assert (here / "d/e/..").stat().st_ino == (here / "d").stat().st_ino
    assert (here / "d/e/../..").stat().st_ino == here.stat().st_ino
    assert os.path.samefile(here / "d/.", here / "d")
    with opened(here / "d/e", os.O_RDONLY) as e:
        assert os.stat("..", dir_fd=e).st_ino == (here / "d").stat().st_ino
        os.rename(here / "d/e", here / "e")
        assert os.stat("..", dir_fd=e).st_ino == here.stat().st_ino
