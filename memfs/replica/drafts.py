"""What was written to a file and is not in the store yet.

A file has at most one draft: every handle and mapping reads and writes it. It begins with the first write or truncation, from
the bytes of its *base* (the head that the writer saw), and ends when a commit has stored all of it. Files that never reach
the store keep their bytes in a local file instead of memory, and may be of any size.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import Protocol

from memfs.model.content import MAX_CONTENT_BYTES, Sha256, check_fragment
from memfs.model.errors import ContentNotText, ContentTooLarge, MemfsError
from memfs.replica.errors import CutShort
from memfs.replica.tree import Head

_CLOCK_REALTIME_COARSE = 5  # clock_gettime(2); the time module does not name it


CUTTING = (ContentTooLarge, ContentNotText, CutShort)
"""Refusals of a write: the draft then holds a part of what was to be in it."""


def now_ns() -> int:
    """The time as the kernel stamps files with: the precise clock runs up to a tick ahead of it."""
    return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)


class Buffer(Protocol):
    """Bytes that can be read and written anywhere; a gap that was never written holds zeros."""

    @property
    def size(self) -> int: ...

    def read(self, offset: int, size: int) -> bytes: ...

    def write(self, offset: int, data: bytes) -> None: ...

    def truncate(self, size: int) -> None: ...

    def content(self) -> bytes: ...

    def sync(self) -> None: ...

    def close(self) -> None:
        """Release what an idle buffer does not need; it can be used again."""
        ...


class MemoryBuffer:
    """A buffer in memory, for what a memory can hold."""

    __slots__ = ("_data",)

    def __init__(self, content: bytes = b"") -> None:
        self._data = bytearray(content)

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self._data[offset : offset + size])

    def write(self, offset: int, data: bytes) -> None:
        if offset > len(self._data):
            self._data.extend(bytes(offset - len(self._data)))
        self._data[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        if size <= len(self._data):
            del self._data[size:]
        else:
            self._data.extend(bytes(size - len(self._data)))

    def content(self) -> bytes:
        return bytes(self._data)

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class FileBuffer:
    """A buffer in a file of the state directory: it outlives the daemon by itself."""

    __slots__ = ("_descriptor", "_size", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._size = self._open_size()

    def _open_size(self) -> int:
        return os.fstat(self._file()).st_size

    def _file(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        return self._descriptor

    @property
    def size(self) -> int:
        return self._size

    @property
    def mtime_ns(self) -> int:
        return os.fstat(self._file()).st_mtime_ns

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._file(), size, offset)

    def write(self, offset: int, data: bytes) -> None:
        written = 0
        while written < len(data):
            written += os.pwrite(self._file(), data[written:], offset + written)
        self._size = max(self._size, offset + len(data))

    def truncate(self, size: int) -> None:
        os.ftruncate(self._file(), size)
        self._size = size

    def content(self) -> bytes:
        return os.pread(self._file(), self._size, 0)

    def sync(self) -> None:
        os.fsync(self._file())

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def delete(self) -> None:
        self.close()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


class Draft:
    """The bytes of a file as its writers see them.

    `generation` counts changes: a commit stores a snapshot, and what changed meanwhile stays dirty. `refusal` is set when a
    write was refused after another had been accepted; nothing of the draft is sent until it is truncated.
    """

    __slots__ = (
        "append_only",
        "base",
        "base_content",
        "buffer",
        "dirty",
        "generation",
        "mtime_ns",
        "refusal",
        "sent",
        "since_ns",
    )

    def __init__(self, buffer: Buffer, base: Head | None = None, base_content: bytes | None = None) -> None:
        self.buffer = buffer
        self.base = base
        """The version that the bytes derive from; None for a file that is new."""
        self.base_content = base_content
        """The bytes of `base`, where they are at hand; a merge fetches them otherwise."""
        self.append_only = True
        """All of it was appended to the base: written at its end through O_APPEND handles."""
        self.dirty = False
        self.generation = 0
        self.mtime_ns = now_ns()
        self.since_ns = self.mtime_ns
        self.refusal: MemfsError | None = None
        self.sent: set[Sha256] = set()
        """Contents that were sent while nobody knows whether they were stored: the answer was lost, or never came."""

    @property
    def cut(self) -> bool:
        """Whether a part of what was written is missing: it was refused, or there was no room for it."""
        return isinstance(self.refusal, CUTTING)

    def changed(self) -> None:
        self.dirty = True
        self.generation += 1
        self.mtime_ns = self.buffer.mtime_ns if isinstance(self.buffer, FileBuffer) else now_ns()

    def write(self, offset: int, data: bytes, *, limited: bool, appending: bool) -> None:
        """Take `data`; with `limited` raise `ContentTooLarge` or `ContentNotText` when a memory cannot hold it."""
        if limited:
            try:
                if offset + len(data) > MAX_CONTENT_BYTES:
                    raise ContentTooLarge(
                        f"a memory holds at most {MAX_CONTENT_BYTES:,} bytes, this write ends at byte {offset + len(data):,}: "
                        "split it into several files"
                    )
                check_fragment(data, at_start=offset == 0)
            except MemfsError as error:
                self.refusal = error
                raise
        if not appending:
            self.append_only = False
        self.buffer.write(offset, data)
        self.changed()

    def truncate(self, size: int, *, limited: bool) -> None:
        """Cut or fill with zeros; it makes a refused draft whole again."""
        if limited and size > MAX_CONTENT_BYTES:
            raise ContentTooLarge(f"a memory holds at most {MAX_CONTENT_BYTES:,} bytes, this would be {size:,}")
        self.refusal = None
        if size == self.buffer.size and self.dirty:
            return
        self.append_only = False
        self.buffer.truncate(size)
        self.changed()
