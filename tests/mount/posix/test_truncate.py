"""truncate(2) and ftruncate(2)."""

import errno
import os
from pathlib import Path

import pytest

from memfs.model.content import MAX_CONTENT_BYTES
from tests.harness.errnos import refuses
from tests.mount.posix.calls import opened

TEXT = b"0123456789" * 500


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 5000, 5001, 8192, 65_536, MAX_CONTENT_BYTES])
@pytest.mark.parametrize("way", ["path", "handle", "unwritten handle"])
def test_lengths(here: Path, length: int, way: str) -> None:
    file = here / "f"
    file.write_bytes(TEXT)
    expected = TEXT[:length] + bytes(max(0, length - len(TEXT)))
    if way == "path":
        os.truncate(file, length)
    else:
        with opened(file, os.O_RDWR) as f:
            if way == "handle":
                os.pwrite(f, b"X", 0)
                expected = (b"X" + TEXT[1:])[:length] + bytes(max(0, length - len(TEXT)))
            os.ftruncate(f, length)
            assert os.fstat(f).st_size == length
            assert os.pread(f, 2 * MAX_CONTENT_BYTES, 0) == expected
    assert file.stat().st_size == length
    assert file.read_bytes() == expected


def test_what_was_cut_does_not_come_back(here: Path) -> None:
    file = here / "f"
    file.write_bytes(TEXT)
    with opened(file, os.O_RDWR) as f:
        assert os.pread(f, 5000, 0) == TEXT  # it is in the page cache now
        os.ftruncate(f, 10)
        os.ftruncate(f, 5000)
        assert os.pread(f, 5000, 0) == TEXT[:10] + bytes(4990)
        os.ftruncate(f, 3)
        os.pwrite(f, b"end", 4100)
    assert file.read_bytes() == TEXT[:3] + bytes(4097) + b"end"


def test_refusals(here: Path) -> None:
    (here / "d").mkdir()
    (here / "f").write_bytes(TEXT)
    for path, length, number in (
        (here / "d", 0, errno.EISDIR),
        (here / "f", -1, errno.EINVAL),
        (here / "missing", 0, errno.ENOENT),
        (here / "f/x", 0, errno.ENOTDIR),
        (here / ("n" * 256), 0, errno.ENAMETOOLONG),
        (here / "f", 1 << 60, errno.EFBIG),
    ):
        with refuses(number):
            os.truncate(path, length)
    with opened(here / "f", os.O_RDONLY) as f, refuses(errno.EINVAL):
        os.ftruncate(f, 0)
    with opened(here / "f", os.O_RDWR) as f, refuses(errno.EINVAL):
        os.ftruncate(f, -1)
    with opened(here / "d", os.O_RDONLY) as d, refuses(errno.EINVAL):
        os.ftruncate(d, 0)
    assert (here / "f").read_bytes() == TEXT


def test_truncation_shows_in_every_descriptor(here: Path) -> None:
    file = here / "f"
    file.write_bytes(TEXT)
    with opened(file, os.O_RDONLY) as reader:
        os.truncate(file, 7)
        assert os.fstat(reader).st_size == 7
        assert os.pread(reader, 100, 0) == TEXT[:7]
        os.truncate(file, 9)
        assert os.pread(reader, 100, 0) == TEXT[:7] + bytes(2)
        with opened(file, os.O_WRONLY | os.O_TRUNC):
            assert os.fstat(reader).st_size == 0
            assert os.pread(reader, 100, 0) == b""
