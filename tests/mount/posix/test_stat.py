"""stat(2) and statvfs(3)."""

import os
import stat
from pathlib import Path

from tests.mount.posix.calls import opened


def test_fields(here: Path) -> None:
    (here / "f").write_bytes(b"x" * 5000)
    (here / "e").touch()
    (here / "d").mkdir()
    file, empty, folder = ((here / name).stat() for name in ("f", "e", "d"))
    assert stat.S_ISREG(file.st_mode)
    assert stat.S_ISDIR(folder.st_mode)
    assert (file.st_size, empty.st_size) == (5000, 0)
    assert file.st_blocks * 512 >= 5000
    assert empty.st_blocks == 0
    assert file.st_nlink == empty.st_nlink == 1
    assert file.st_blksize >= 4096
    assert len({file.st_dev, folder.st_dev, here.stat().st_dev}) == 1
    assert len({file.st_ino, empty.st_ino, folder.st_ino, here.stat().st_ino}) == 4
    with opened(here / "f", os.O_RDONLY) as f:
        assert os.fstat(f) == file
    assert os.lstat(here / "f") == file
    with os.scandir(here) as entries:
        for entry in entries:
            assert entry.inode() == entry.stat().st_ino == (here / entry.name).stat().st_ino
            assert entry.is_dir() == (entry.name == "d")


def test_size_and_blocks_follow_the_writes(here: Path) -> None:
    with opened(here / "f", os.O_CREAT | os.O_RDWR) as f:
        for size in (1, 511, 512, 513, 4096, 50_000):
            os.ftruncate(f, 0)
            os.pwrite(f, b"x" * size, 0)
            os.fsync(f)
            found = (here / "f").stat()
            assert found.st_size == size
            assert found.st_blocks * 512 >= size


def test_statvfs(there: Path) -> None:
    found = os.statvfs(there)
    assert found.f_namemax == 255
    assert found.f_bfree <= found.f_blocks
    assert found.f_bavail <= found.f_bfree
    assert 0 < found.f_ffree < found.f_files
    (there / "f").write_bytes(b"x" * 100_000)
    assert os.statvfs(there).f_bfree <= found.f_bfree
    assert os.statvfs(there).f_ffree < found.f_ffree
