"""A process that makes system calls in several directories at once, the same in each, and tells what came of each."""

import contextlib
import errno
import mmap
import multiprocessing
import os
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.mount.posix.calls import rename2, umask

RENAME_NOREPLACE = 1

Outcome = tuple[str, Any]
"""("ok", what the call returned) or ("error", the errno's name)."""


class Hands:
    """The open descriptors and mappings of one process in one directory; a slot names one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.descriptors: dict[int, int] = {}
        self.mappings: dict[int, mmap.mmap] = {}

    def open(self, slot: int, path: str, flags: int, mode: int) -> None:
        self.descriptors[slot] = os.open(self.root / path, flags, mode)

    def dup(self, slot: int, new_slot: int) -> None:
        self.descriptors[new_slot] = os.dup(self.descriptors[slot])

    def close(self, slot: int) -> None:
        os.close(self.descriptors.pop(slot))

    def read(self, slot: int, count: int) -> bytes:
        return os.read(self.descriptors[slot], count)

    def pread(self, slot: int, count: int, offset: int) -> bytes:
        return os.pread(self.descriptors[slot], count, offset)

    def write(self, slot: int, data: bytes) -> int:
        return os.write(self.descriptors[slot], data)

    def pwrite(self, slot: int, data: bytes, offset: int) -> int:
        return os.pwrite(self.descriptors[slot], data, offset)

    def lseek(self, slot: int, offset: int, whence: int) -> int:
        return os.lseek(self.descriptors[slot], offset, whence)

    def ftruncate(self, slot: int, size: int) -> None:
        os.ftruncate(self.descriptors[slot], size)

    def fsync(self, slot: int) -> None:
        os.fsync(self.descriptors[slot])

    def fchmod(self, slot: int, mode: int) -> None:
        os.fchmod(self.descriptors[slot], mode)

    def fstat(self, slot: int) -> tuple[int, int, int]:
        return _shown(os.fstat(self.descriptors[slot]))

    def map(self, slot: int, new_slot: int, size: int) -> None:
        self.mappings[new_slot] = mmap.mmap(self.descriptors[slot], size)

    def read_map(self, slot: int, start: int, count: int) -> bytes:
        return self.mappings[slot][start : start + count]

    def write_map(self, slot: int, start: int, data: bytes) -> None:
        self.mappings[slot][start : start + len(data)] = data

    def map_size(self, slot: int) -> int:
        """The size of the mapped file now."""
        return self.mappings[slot].size()

    def unmap(self, slot: int) -> None:
        self.mappings.pop(slot).close()

    def stat(self, path: str) -> tuple[int, int, int]:
        return _shown((self.root / path).stat())

    def truncate(self, path: str, size: int) -> None:
        os.truncate(self.root / path, size)

    def rename(self, old: str, new: str) -> None:
        os.rename(self.root / old, self.root / new)

    def rename_noreplace(self, old: str, new: str) -> None:
        rename2(self.root / old, self.root / new, RENAME_NOREPLACE)

    def unlink(self, path: str) -> None:
        os.unlink(self.root / path)

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self.root / path, mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self.root / path)

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(self.root / path))

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self.root / path, mode)

    def utime(self, path: str, atime_ns: int, mtime_ns: int) -> tuple[int, int]:
        os.utime(self.root / path, ns=(atime_ns, mtime_ns))
        found = (self.root / path).stat()
        return found.st_atime_ns, found.st_mtime_ns

    def save(self, path: str, data: bytes) -> None:
        (self.root / path).write_bytes(data)

    def append(self, path: str, data: bytes) -> None:
        with (self.root / path).open("ab") as file:
            file.write(data)

    def replace(self, path: str, data: bytes) -> None:
        """An atomic save."""
        temporary = self.root / f"{path}.tmp"
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.rename(temporary, self.root / path)
        except OSError:
            temporary.unlink()
            raise

    def holds(self) -> dict[int, tuple[int, int, int]]:
        """What fstat(2) says of every descriptor."""
        return {slot: self.fstat(slot) for slot in sorted(self.descriptors)}

    def close_all(self) -> None:
        for mapping in self.mappings.values():
            mapping.close()
        self.mappings.clear()
        for slot in list(self.descriptors):
            self.close(slot)


def _shown(found: os.stat_result) -> tuple[int, int, int]:
    """Mode, size of a file, and its links (a directory's are counted in other ways)."""
    regular = found.st_mode & 0o170000 == 0o100000
    return found.st_mode, found.st_size if regular else 0, found.st_nlink if regular else 0


def attempt(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    try:
        return "ok", call(*arguments)
    except OSError as error:
        return "error", errno.errorcode[error.errno or 0]
    except (ValueError, IndexError) as error:
        return "error", type(error).__name__


def _work(pipe: Connection, roots: Mapping[str, Path]) -> None:
    worlds = {name: Hands(root) for name, root in roots.items()}
    with umask(0o022), contextlib.suppress(EOFError):
        while (call := pipe.recv()) is not None:
            name, arguments = call
            pipe.send({world: attempt(getattr(hands, name), arguments) for world, hands in worlds.items()})
    os._exit(0)


class Worker:
    """One process with hands in each of `roots`."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, roots), daemon=True)
        self.process.start()
        other.close()

    def do(self, name: str, *arguments: Any) -> dict[str, Outcome]:
        """Make the call in each directory, one after the other; the outcome by directory."""
        self.pipe.send((name, arguments))
        answer: dict[str, Outcome] = self.pipe.recv()
        return answer

    def end(self) -> None:
        if not self.pipe.closed:
            self.pipe.send(None)
            self.pipe.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
