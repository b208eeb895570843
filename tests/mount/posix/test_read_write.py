"""Offsets, gaps, appending, vectors, and what must not happen when nothing is written."""

import errno
import fcntl
import os
import termios
from pathlib import Path

from tests.harness.errnos import refuses
from tests.mount.posix.calls import opened


def test_offsets(here: Path) -> None:
    (here / "f").write_bytes(b"0123456789")
    with opened(here / "f", os.O_RDWR) as f:
        assert os.read(f, 3) == b"012"
        assert os.lseek(f, 0, os.SEEK_CUR) == 3
        assert os.pread(f, 2, 8) == b"89"
        assert os.lseek(f, -4, os.SEEK_END) == 6
        assert os.read(f, 100) == b"6789"
        assert os.read(f, 100) == b""
        assert os.lseek(f, 100, os.SEEK_SET) == 100
        assert os.read(f, 1) == b""
        with refuses(errno.EINVAL):
            os.lseek(f, -1, os.SEEK_SET)
        with refuses(errno.EINVAL):
            os.pread(f, 1, -1)
        with refuses(errno.EINVAL):
            os.pwrite(f, b"x", -1)
        assert os.lseek(f, 0, os.SEEK_DATA) == 0
        assert os.lseek(f, 0, os.SEEK_HOLE) == 10
        with refuses(errno.ENXIO):
            os.lseek(f, 10, os.SEEK_DATA)
        os.lseek(f, 100, os.SEEK_SET)
        assert os.pwrite(f, b"ab", 4) == 2
        assert os.lseek(f, 0, os.SEEK_CUR) == 100
        assert os.write(f, b"end") == 3
        assert os.fstat(f).st_size == 103
    assert (here / "f").read_bytes() == b"0123ab6789" + bytes(90) + b"end"


def test_appending(here: Path) -> None:
    (here / "f").write_bytes(b"one\n")
    with opened(here / "f", os.O_RDWR | os.O_APPEND) as f, opened(here / "f", os.O_WRONLY | os.O_APPEND) as g:
        os.lseek(f, 0, os.SEEK_SET)
        os.write(f, b"two\n")
        assert os.lseek(f, 0, os.SEEK_CUR) == 8
        os.write(g, b"three\n")
        os.pwrite(f, b"four\n", 0)  # Linux appends all the same
        os.write(f, b"five\n")
        assert os.pread(f, 4, 0) == b"one\n"
        os.ftruncate(f, 4)
        os.write(g, b"six\n")
    assert (here / "f").read_bytes() == b"one\nsix\n"
    with opened(here / "f", os.O_RDWR) as f:
        fcntl.fcntl(f, fcntl.F_SETFL, os.O_APPEND)
        os.write(f, b"seven\n")
    assert (here / "f").read_bytes() == b"one\nsix\nseven\n"


def test_vectors(here: Path) -> None:
    with opened(here / "f", os.O_CREAT | os.O_RDWR) as f:
        assert os.writev(f, [b"one ", b"", b"two ", b"three"]) == 13
        assert os.pwritev(f, [b"TWO", b" "], 4) == 4
        buffers = [bytearray(4), bytearray(4), bytearray(100)]
        assert os.preadv(f, buffers, 0) == 13
        assert bytes(b"".join(buffers)).rstrip(b"\0") == b"one TWO three"


def test_duplicates_share_an_offset(here: Path) -> None:
    with opened(here / "f", os.O_CREAT | os.O_RDWR) as f:
        g = os.dup(f)
        os.write(f, b"one ")
        os.write(g, b"two ")
        os.close(g)
        os.write(f, b"three")
        child = os.fork()
        if child == 0:
            os.write(f, b" four")
            os._exit(0)
        os.waitpid(child, 0)
        os.write(f, b" five")
    assert (here / "f").read_bytes() == b"one two three four five"


def test_every_border_of_pages(here: Path) -> None:
    """Reads and writes across page borders and the end, one by one against a model."""
    model = bytearray(b"".join(b"%07d\n" % number for number in range(2048)))
    (here / "f").write_bytes(model)
    with opened(here / "f", os.O_RDWR) as f:
        for border in (0, 4096, 8192, 16384):
            for start in (border - 1, border, border + 1):
                for length in (1, 2, 4095, 4096, 4097):
                    if start < 0:
                        continue
                    data = b"%c" % (65 + (start + length) % 26) * length
                    assert os.pwrite(f, data, start) == length
                    if start > len(model):
                        model.extend(bytes(start - len(model)))
                    model[start : start + length] = data
                    assert os.pread(f, length + 2, max(start - 1, 0)) == model[max(start - 1, 0) :][: length + 2]
                    assert os.fstat(f).st_size == len(model)
    assert (here / "f").read_bytes() == model


def test_nothing_written_is_nothing_changed(here: Path) -> None:
    (here / "f").write_text("text\n")
    before = (here / "f").stat()
    with opened(here / "f", os.O_RDWR) as f:
        assert os.write(f, b"") == 0
        assert os.pwrite(f, b"", 1000) == 0
        assert os.read(f, 0) == b""
        assert os.fstat(f).st_size == 5
    after = (here / "f").stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ctime_ns) == (before.st_size, before.st_mtime_ns, before.st_ctime_ns)


def test_copies_within_the_kernel(here: Path) -> None:
    content = b"".join(b"line %d\n" % number for number in range(5000))
    (here / "from").write_bytes(content)
    with opened(here / "from", os.O_RDONLY) as source, opened(here / "to", os.O_CREAT | os.O_RDWR) as target:
        copied = 0
        while copied < len(content):
            count = os.copy_file_range(source, target, len(content) - copied)
            assert count > 0
            copied += count
        assert os.copy_file_range(source, target, 100) == 0
        os.lseek(source, 0, os.SEEK_SET)
        os.ftruncate(target, 0)
        os.lseek(target, 0, os.SEEK_SET)
        sent = 0
        while sent < len(content):
            sent += os.sendfile(target, source, sent, len(content) - sent)
        reading, writing = os.pipe()
        os.splice(source, writing, 1000, offset_src=0)
        os.splice(reading, target, 1000, offset_dst=len(content))
        os.close(reading)
        os.close(writing)
    assert (here / "to").read_bytes() == content + content[:1000]


def test_a_regular_file_is_no_terminal(here: Path) -> None:
    (here / "f").write_text("x")
    with opened(here / "f", os.O_RDWR) as f:
        assert not os.isatty(f)
        with refuses(errno.ENOTTY):
            fcntl.ioctl(f, termios.TCGETS, bytes(64))
