"""mmap(2): shared and private, against reads and writes of the same file."""

import errno
import mmap
import os
from pathlib import Path

from tests.harness.errnos import refuses
from tests.mount.posix.calls import opened
from tests.mount.tool_table import holds

SIZE = 20_000


@holds("python")
def test_mappings(here: Path) -> None:
    text = bytes(65 + number % 26 for number in range(SIZE))
    (here / "f").write_bytes(text)
    model = bytearray(text)
    with opened(here / "f", os.O_RDWR) as f, mmap.mmap(f, SIZE) as shared:
        with mmap.mmap(f, SIZE, access=mmap.ACCESS_COPY) as private:
            private[:3] = b"own"
            assert shared[:3] == text[:3]
        shared[5000:5003] = b"map"
        model[5000:5003] = b"map"
        assert os.pread(f, 3, 5000) == b"map"
        os.pwrite(f, b"write", 5001)
        model[5001:5006] = b"write"
        assert shared[4990:5010] == bytes(model[4990:5010])
        shared.flush()
        with opened(here / "f", os.O_RDONLY) as other:
            assert os.pread(other, SIZE + 1, 0) == bytes(model)
        shared[-1:] = b"!"
        model[-1:] = b"!"
    assert (here / "f").read_bytes() == bytes(model)


def test_the_rest_of_the_last_page_is_zeros(here: Path) -> None:
    (here / "f").write_bytes(b"short")
    with opened(here / "f", os.O_RDWR) as f, mmap.mmap(f, 0) as mapping:
        assert mapping[:] == b"short"
    with opened(here / "f", os.O_RDWR) as f:
        os.ftruncate(f, 4096)
        with mmap.mmap(f, 4096) as mapping:
            assert mapping[:] == b"short" + bytes(4091)
        os.ftruncate(f, 5)


def test_a_mapping_sees_a_truncation(here: Path) -> None:
    (here / "f").write_bytes(b"a" * 8192)
    with opened(here / "f", os.O_RDWR) as f, mmap.mmap(f, 8192) as mapping:
        os.ftruncate(f, 100)
        assert mapping[:200] == b"a" * 100 + bytes(100)
        os.ftruncate(f, 8192)
        assert mapping[:] == b"a" * 100 + bytes(8092)
        mapping[4096:4100] = b"back"
    assert (here / "f").read_bytes() == b"a" * 100 + bytes(3996) + b"back" + bytes(4092)


def test_rights_of_mappings(here: Path) -> None:
    (here / "f").write_bytes(b"text")
    with opened(here / "f", os.O_RDONLY) as f:
        with refuses(errno.EACCES):
            mmap.mmap(f, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        with mmap.mmap(f, 4, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
            assert mapping[:] == b"text"
    with opened(here / "f", os.O_WRONLY) as f, refuses(errno.EACCES):
        mmap.mmap(f, 4, mmap.MAP_SHARED, mmap.PROT_READ)
    with opened(here, os.O_RDONLY) as d, refuses(errno.ENODEV):
        mmap.mmap(d, 4096, mmap.MAP_SHARED, mmap.PROT_READ)


def test_processes_share_a_mapping(here: Path) -> None:
    (here / "f").write_bytes(b"." * 4096)
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            try:
                with opened(here / "f", os.O_RDWR) as f, mmap.mmap(f, 4096) as mapping:
                    for place in range(number, 4096, 4):
                        mapping[place : place + 1] = b"%d" % number
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert (here / "f").read_bytes() == b"0123" * 1024
