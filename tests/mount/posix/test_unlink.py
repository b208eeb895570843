"""unlink(2), and the life of a file that has no name any more."""

import errno
import mmap
import os
from pathlib import Path

from tests.harness.errnos import refuses
from tests.mount.posix.calls import opened


def test_refusals(here: Path) -> None:
    (here / "f").write_text("f")
    (here / "d").mkdir()
    for path, number in (
        ("missing", errno.ENOENT),
        ("f/x", errno.ENOTDIR),
        ("missing/x", errno.ENOENT),
        ("f/", errno.ENOTDIR),
        ("n" * 256, errno.ENAMETOOLONG),
        ("d", errno.EISDIR),
        ("d/", errno.EISDIR),
        (".", errno.EISDIR),
        ("d/..", errno.EISDIR),
        ("", errno.EISDIR),
    ):
        with refuses(number):
            os.unlink(f"{here}/{path}")
    assert sorted(os.listdir(here)) == ["d", "f"]


def test_an_unlinked_file_lives_for_those_who_hold_it(here: Path) -> None:
    (here / "f").write_text("0123456789")
    with opened(here / "f", os.O_RDWR) as f, opened(here / "f", os.O_RDONLY) as reader:
        before = os.fstat(f)
        os.unlink(here / "f")
        with refuses(errno.ENOENT):
            os.stat(here / "f")
        after = os.fstat(f)
        assert (after.st_nlink, after.st_size, after.st_ino) == (0, 10, before.st_ino)
        assert after.st_ctime_ns >= before.st_ctime_ns
        assert os.pread(f, 100, 0) == b"0123456789"
        os.pwrite(f, b"AB", 4)
        assert os.pread(reader, 100, 0) == b"0123AB6789"
        os.ftruncate(f, 3)
        assert (os.fstat(reader).st_size, os.pread(reader, 100, 0)) == (3, b"012")
        os.ftruncate(f, 4096)
        with mmap.mmap(f, 4096) as mapping:
            mapping[:5] = b"mapped"[:5]
            mapping.flush()
        assert os.pread(reader, 6, 0) == b"mappe\0"
        os.fchmod(f, 0o600)
        os.fchown(f, 1234, 4321)
        os.utime(f, ns=(5, 7))
        changed = os.fstat(reader)
        assert (changed.st_mode & 0o777, changed.st_uid, changed.st_gid, changed.st_mtime_ns) == (0o600, 1234, 4321, 7)
        os.fsync(f)
        (here / "f").write_text("another")
        assert os.pread(reader, 5, 0) == b"mappe"
        assert (here / "f").stat().st_ino != before.st_ino
    assert (here / "f").read_text() == "another"


def test_a_new_file_that_is_unlinked_before_its_close(here: Path) -> None:
    with opened(here / "f", os.O_CREAT | os.O_EXCL | os.O_RDWR) as f:
        os.write(f, b"private")
        os.unlink(here / "f")
        assert os.listdir(here) == []
        assert os.fstat(f).st_nlink == 0
        os.write(f, b" text")
        assert os.pread(f, 100, 0) == b"private text"
    assert os.listdir(here) == []


def test_the_name_is_free_at_once(here: Path) -> None:
    for content in ("one", "two", "three"):
        with opened(here / "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY) as f:
            os.write(f, content.encode())
        assert (here / "f").read_text() == content
        os.unlink(here / "f")
        assert os.listdir(here) == []
        (here / "f").mkdir()
        (here / "f").rmdir()
