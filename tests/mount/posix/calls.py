"""System calls that Python has no function for, or hides the flags of."""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

AT_FDCWD = -100
UTIME_NOW = (1 << 30) - 1
UTIME_OMIT = (1 << 30) - 2
O_TMPFILE = os.O_TMPFILE

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def utimensat(path: Path, atime: tuple[int, int], mtime: tuple[int, int], flags: int = 0) -> None:
    """utimensat(2); each time is seconds and nanoseconds, the latter also `UTIME_NOW` or `UTIME_OMIT`."""
    times = (_Timespec * 2)(_Timespec(*atime), _Timespec(*mtime))
    _check(_libc.utimensat(AT_FDCWD, os.fsencode(path), times, flags))


def rename2(old: Path, new: Path, flags: int) -> None:
    """renameat2(2)."""
    _check(_libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags))


def fallocate(descriptor: int, mode: int, offset: int, length: int) -> None:
    """fallocate(2) itself, without what the C library does where a file system has none."""
    _libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    _check(_libc.fallocate(descriptor, mode, offset, length))


@contextlib.contextmanager
def opened(path: Path, flags: int, mode: int = 0o666) -> Iterator[int]:
    """An open descriptor."""
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    """The process's umask for a while."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
