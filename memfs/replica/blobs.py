"""Contents by their SHA-256: the newest in memory, and for stores over a network on disk too, shared by all mounts of the user.

A file of the disk cache is named by the hash of what it holds, is written under another name first, and is checked when it is
read. So several processes use one cache, and anybody may delete any of it at any time. Both parts are bounded, least recently
used first out.

Only contents that a memory has now stay for long. The head of a live memory cannot be redacted (contract section 5), and a
redaction is announced nowhere; so what stops being a head is dropped when that is known, and asked for again where it must be.
"""

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from pathlib import Path

import trio

from memfs.model.content import Sha256, sha256_of

MEMORY_BYTES = 32 * 1024 * 1024
MEMORY_BYTES_BESIDE_DISK = 8 * 1024 * 1024
"""Enough for what is read ahead and not asked for yet; the disk has the rest, and the kernel what was read."""
DISK_BYTES = 256 * 1024 * 1024
_KEPT_SHARE = 0.9
"""How much of the limit an eviction leaves, so that it does not come again at once."""
_EVICT_AFTER_SHARE = 1 / 16
"""An eviction looks at all files: not before so much of the limit was written since the last."""
_WRITE_AFTER_SECONDS = 0.2
"""Contents wait so long for the disk: what is replaced at once never comes there."""
_WAITING_BYTES = 8 * 1024 * 1024
"""So much may wait; more is written where it stands."""


class DiskBlobs:
    """The disk's part. Failures of the disk are misses: it is only a cache.

    While `run` runs, it writes what is `put`, a little later and off the event loop: a new file costs more time than all else
    that is done with a small content.
    """

    def __init__(self, directory: Path, limit: int = DISK_BYTES) -> None:
        self.directory = directory
        self.limit = limit
        self._running = False
        self._waiting: dict[Sha256, bytes] = {}
        """What `run` has still to write, until it is written."""
        self._held = 0
        """Bytes waiting."""
        self._wanted = trio.Event()
        self._written = limit  # the first eviction comes with the first write: earlier processes may have left too much

    def _path(self, sha256: Sha256) -> Path:
        return self.directory / sha256[:2] / sha256[2:]

    def has(self, sha256: Sha256) -> bool:
        return sha256 in self._waiting or os.path.exists(self._path(sha256))

    def get(self, sha256: Sha256) -> bytes | None:
        if (waiting := self._waiting.get(sha256)) is not None:
            return waiting
        path = self._path(sha256)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if sha256_of(content) != sha256:
            self.forget(sha256)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # its last use
        return content

    def put(self, sha256: Sha256, content: bytes) -> None:
        if sha256 in self._waiting:
            return
        if not self._running or self._held + len(content) > _WAITING_BYTES:
            self._write({sha256: content})
        else:
            self._waiting[sha256] = content
            self._held += len(content)
            self._wanted.set()

    def forget(self, sha256: Sha256) -> None:
        self._drop(sha256)
        with contextlib.suppress(OSError):
            self._path(sha256).unlink()

    def _drop(self, sha256: Sha256) -> None:
        self._held -= len(self._waiting.pop(sha256, b""))

    def _write(self, contents: dict[Sha256, bytes], wanted: Container[Sha256] | None = None) -> None:
        """`wanted`: leave out what is not in it, also what somebody forgets while it is written."""
        for sha256, content in contents.items():
            path = self._path(sha256)
            if os.path.exists(path) or (wanted is not None and sha256 not in wanted):
                continue
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                with open(descriptor, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)
                if wanted is not None and sha256 not in wanted:
                    path.unlink()
            except OSError:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                continue
            self._written += len(content)

    async def run(self) -> None:
        """Write what is put, and evict whenever enough was written; ends by cancellation, and then all is written."""
        self._running = True
        try:
            while True:
                await self._wanted.wait()
                self._wanted = trio.Event()
                await trio.sleep(_WRITE_AFTER_SECONDS)
                await self._write_waiting()
                if self._written > self.limit * _EVICT_AFTER_SHARE:
                    self._written = 0
                    await trio.to_thread.run_sync(self.evict)
        finally:
            self._running = False
            self._write(self._waiting)
            self._waiting.clear()
            self._held = 0

    async def _write_waiting(self) -> None:
        batch = dict(self._waiting)
        await trio.to_thread.run_sync(self._write, batch, self._waiting)
        for sha256 in batch:
            self._drop(sha256)

    def evict(self) -> None:
        """Delete the files that were not used for longest, until the rest is within the limit."""
        files: list[tuple[int, int, str]] = []
        for directory, _, names in os.walk(self.directory):
            for name in names:
                path = os.path.join(directory, name)
                with contextlib.suppress(OSError):
                    status = os.stat(path, follow_symlinks=False)
                    files.append((status.st_mtime_ns, status.st_size, path))
        held = sum(size for _, size, _ in files)
        if held <= self.limit:
            return
        for _, size, path in sorted(files):
            if held <= self.limit * _KEPT_SHARE:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            held -= size


class BlobCache:
    """What a mount holds of contents. `disk` is None where text must not be left on disk, or the store is local."""

    def __init__(self, limit: int | None = None, disk: DiskBlobs | None = None) -> None:
        self.limit = limit or (MEMORY_BYTES if disk is None else MEMORY_BYTES_BESIDE_DISK)
        self.disk = disk
        self.held = 0
        self.hits = 0
        self.misses = 0
        self.in_use: list[Callable[[], Iterable[Sha256]]] = []
        """What tells the contents that memories have now, one for each store; see `sweep`."""
        self._blobs: OrderedDict[Sha256, bytes] = OrderedDict()
        self._superseded: set[Sha256] = set()
        self._unversioned: set[Sha256] = set()

    def has(self, sha256: Sha256) -> bool:
        return sha256 in self._blobs or (self.disk is not None and self.disk.has(sha256))

    def get(self, sha256: Sha256) -> bytes | None:
        blob = self._blobs.get(sha256)
        if blob is not None:
            self.hits += 1
            self._blobs.move_to_end(sha256)
            return blob
        if self.disk is not None:
            blob = self.disk.get(sha256)
            if blob is not None:
                self.hits += 1
                self._keep(sha256, blob)
                return blob
        self.misses += 1
        return None

    def put(self, sha256: Sha256, content: bytes, *, versioned: bool = True) -> None:
        """`versioned=False`: no version has exactly these bytes, as when they were merged on their way into the store. A later
        merge starts from them and no service could send them again, so that `sweep` leaves them."""
        if not versioned:
            self._unversioned.add(sha256)
        if sha256 in self._blobs:
            self._blobs.move_to_end(sha256)
            return
        self._keep(sha256, content)
        if self.disk is not None and versioned:
            self.disk.put(sha256, content)

    def _keep(self, sha256: Sha256, content: bytes) -> None:
        self._blobs[sha256] = content
        self.held += len(content)
        while self.held > self.limit and len(self._blobs) > 1:
            evicted, dropped = self._blobs.popitem(last=False)
            self._unversioned.discard(evicted)
            self.held -= len(dropped)

    def forget(self, sha256: Sha256) -> None:
        """Drop a content for good, as after a redaction."""
        self._unversioned.discard(sha256)
        self._superseded.discard(sha256)
        blob = self._blobs.pop(sha256, None)
        if blob is not None:
            self.held -= len(blob)
        if self.disk is not None:
            self.disk.forget(sha256)

    def supersede(self, sha256: Sha256) -> None:
        """A memory had this content and has another now, or is gone."""
        self._superseded.add(sha256)

    def sweep(self) -> None:
        """Drop every content that no memory has now."""
        kept = self._unversioned.union(*(contents() for contents in self.in_use))
        for sha256 in [sha256 for sha256 in (*self._blobs, *self._superseded) if sha256 not in kept]:
            self.forget(sha256)
        self._superseded.clear()

    def is_versioned(self, sha256: Sha256) -> bool:
        """Whether a service that keeps versions can send this content again, as far as is known here."""
        return sha256 not in self._unversioned

    def __len__(self) -> int:
        return len(self._blobs)
