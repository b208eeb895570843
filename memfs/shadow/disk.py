"""One file of the plain directory: what it is, its bytes, and how it is replaced without losing anybody's."""

import ctypes
import errno
import fcntl
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Facts:
    """What tells that a file was changed: any of these differs."""

    ino: int
    size: int
    mtime_ns: int
    mode: int
    """Permission bits."""


class Unknowable(OSError):
    """Nobody can tell what is there: it must not be taken for gone."""


class NotPlain(Exception):
    """Something is there that is no plain file."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class ChangedMeanwhile(Exception):
    """Somebody wrote to the file just now: their bytes stay."""


def facts_of(status: os.stat_result) -> Facts:
    return Facts(status.st_ino, status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode))


def look(path: Path) -> Facts | None:
    """None when nothing is there. Raises `NotPlain`, and `Unknowable` when that cannot be told."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unknowable(error.errno, error.strerror) from error
    if stat.S_ISREG(status.st_mode):
        return facts_of(status)
    if stat.S_ISDIR(status.st_mode):
        raise NotPlain("directory")
    raise NotPlain("symbolic link" if stat.S_ISLNK(status.st_mode) else "special file")


def is_there(path: Path) -> bool:
    """Whether anything has this name, or that cannot be told."""
    try:
        return look(path) is not None
    except (NotPlain, Unknowable):
        return True


def read(path: Path, limit: int) -> tuple[bytes, Facts]:
    """The bytes and facts that belong together; of a longer file its first `limit` + 1 bytes.

    Raises `ChangedMeanwhile` while it is written to, `FileNotFoundError`, and `Unknowable`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unknowable(error.errno, error.strerror) from error
    with open(descriptor, "rb") as file:
        before = os.fstat(descriptor)
        content = file.read(limit + 1)
        after = os.fstat(descriptor)
    if facts_of(before) != facts_of(after) or (len(content) != after.st_size and len(content) <= limit):
        raise ChangedMeanwhile
    return content, facts_of(after)


def has_writer(path: Path) -> bool:
    """Whether a process has the file open for writing; False where the kernel cannot tell (gVisor, some network disks).

    Asked with a read lease, which the kernel grants only while there is none (fcntl(2)); the process must ignore SIGIO.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno in (errno.EAGAIN, errno.EACCES)
    finally:
        os.close(descriptor)
    return False


def put(path: Path, content: bytes, *, expected: Facts | None, mode: int, mtime_ns: int, work: Path) -> Facts:
    """Give `path` this content at once, whole; `expected` is what is there now, None for nothing.

    Raises `ChangedMeanwhile` when something else is there; then that stays. `work` is a directory of the same file system.
    """
    descriptor, name = tempfile.mkstemp(dir=work)
    new = Path(name)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        new.chmod(mode)
        os.utime(new, ns=(mtime_ns, mtime_ns))
        written = facts_of(new.lstat())
        path.parent.mkdir(parents=True, exist_ok=True)
        if expected is None:
            _rename(new, path, _RENAME_NOREPLACE)
        else:
            _replace(new, path, expected)
        return written
    finally:
        new.unlink(missing_ok=True)


def take_away(path: Path, *, expected: Facts, work: Path) -> None:
    """Remove `path`. Raises `ChangedMeanwhile` when it is not what was expected; then it stays."""
    descriptor, name = tempfile.mkstemp(dir=work)
    os.close(descriptor)
    old = Path(name)
    try:
        path.replace(old)
    except FileNotFoundError:
        return
    finally_there = facts_of(old.lstat())
    if finally_there != expected:
        _rename(old, path, _RENAME_NOREPLACE)
        raise ChangedMeanwhile
    old.unlink()


def move(old: Path, new: Path) -> None:
    """Rename, never over something. Raises `ChangedMeanwhile` when something has the new name."""
    new.parent.mkdir(parents=True, exist_ok=True)
    _rename(old, new, _RENAME_NOREPLACE)


def _replace(new: Path, path: Path, expected: Facts) -> None:
    """Put `new` in the place of what is expected at `path`: exchange the two, then look at what came out."""
    try:
        _rename(new, path, _RENAME_EXCHANGE)
    except FileNotFoundError:
        raise ChangedMeanwhile from None
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        # No exchange here: look first, and accept the moment between.
        if facts_of(path.lstat()) != expected:
            raise ChangedMeanwhile from None
        new.replace(path)
        return
    if facts_of(new.lstat()) != expected:
        _rename(new, path, _RENAME_EXCHANGE)
        raise ChangedMeanwhile


def _rename(old: Path, new: Path, flags: int) -> None:
    if _libc.renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags) == 0:
        return
    number = ctypes.get_errno()
    if number == errno.EEXIST:
        raise ChangedMeanwhile
    if flags == _RENAME_NOREPLACE and number in (errno.EINVAL, errno.ENOSYS):
        try:
            os.link(old, new)
        except FileExistsError:
            raise ChangedMeanwhile from None
        old.unlink()
        return
    raise OSError(number, os.strerror(number), os.fspath(new))
