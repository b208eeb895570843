"""What a memory store cannot do is refused with the errno that programs take for "not here"."""

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.errnos import refuses
from tests.mount.posix.calls import O_TMPFILE, fallocate, opened


def _bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path.parent)
        try:
            listener.bind(path.name)
        finally:
            os.chdir("/")


ABSENT: dict[str, tuple[Callable[[Path], object], int]] = {
    "link": (lambda d: os.link(d / "f", d / "g"), errno.EPERM),
    "symlink": (lambda d: os.symlink("f", d / "g"), errno.EPERM),
    "mkfifo": (lambda d: os.mkfifo(d / "g"), errno.EPERM),
    "device": (lambda d: os.mknod(d / "g", stat.S_IFCHR | 0o600, os.makedev(1, 3)), errno.EPERM),
    "socket": (lambda d: _bind(d / "g"), errno.EPERM),
    "unnamed file": (lambda d: os.open(d, O_TMPFILE | os.O_RDWR), errno.EOPNOTSUPP),
    "extended attribute": (lambda d: os.setxattr(d / "f", "user.x", b"y"), errno.EOPNOTSUPP),
}


@pytest.mark.parametrize("name", ABSENT)
def test_what_a_store_has_no_word_for(there: Path, name: str) -> None:
    (there / "f").write_text("x")
    call, number = ABSENT[name]
    with refuses(number):
        call(there)
    assert os.listdir(there) == ["f"]


def test_mknod_of_a_regular_file_is_refused_too(there: Path) -> None:
    with refuses(errno.EPERM):
        os.mknod(there / "f", stat.S_IFREG | 0o644)
    assert os.listdir(there) == []


def test_what_has_no_handler(there: Path) -> None:
    with opened(there / "f", os.O_CREAT | os.O_RDWR) as f:
        with refuses(errno.EOPNOTSUPP):
            fallocate(f, 0, 0, 100)
        os.posix_fallocate(f, 0, 10_000)
        assert os.fstat(f).st_size == 10_000
        os.pwrite(f, b"text", 0)
        os.ftruncate(f, 4)
    assert (there / "f").read_text() == "text"
