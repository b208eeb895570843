"""Contents by their SHA-256, in memory, bounded.

Only contents that a memory has now stay for long. The head of a live memory cannot be redacted (contract section 5), and a
redaction is announced nowhere; so what stops being a head is dropped when that is known, and asked for again where it must be.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from memfs.model.content import Sha256

DEFAULT_BYTES = 64 * 1024 * 1024


class BlobCache:
    """The least recently used contents go first when more than `limit` bytes are held."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit = limit
        self.held = 0
        self.hits = 0
        self.misses = 0
        self.in_use: list[Callable[[], Iterable[Sha256]]] = []
        """What tells the contents that memories have now, one for each store; see `sweep`."""
        self._blobs: OrderedDict[Sha256, bytes] = OrderedDict()
        self._unversioned: set[Sha256] = set()

    def get(self, sha256: Sha256) -> bytes | None:
        blob = self._blobs.get(sha256)
        if blob is None:
            self.misses += 1
            return None
        self.hits += 1
        self._blobs.move_to_end(sha256)
        return blob

    def put(self, sha256: Sha256, content: bytes, *, versioned: bool = True) -> None:
        """`versioned=False`: no version has exactly these bytes, as when they were merged on their way into the store. A later
        merge starts from them and no service could send them again, so that `sweep` leaves them."""
        if not versioned:
            self._unversioned.add(sha256)
        if sha256 in self._blobs:
            self._blobs.move_to_end(sha256)
            return
        self._blobs[sha256] = content
        self.held += len(content)
        while self.held > self.limit and len(self._blobs) > 1:
            evicted, dropped = self._blobs.popitem(last=False)
            self._unversioned.discard(evicted)
            self.held -= len(dropped)

    def forget(self, sha256: Sha256) -> None:
        """Drop a content for good, as after a redaction."""
        self._unversioned.discard(sha256)
        blob = self._blobs.pop(sha256, None)
        if blob is not None:
            self.held -= len(blob)

    def sweep(self) -> None:
        """Drop every content that no memory has now."""
        kept = self._unversioned.union(*(contents() for contents in self.in_use))
        for sha256 in [sha256 for sha256 in self._blobs if sha256 not in kept]:
            self.forget(sha256)

    def is_versioned(self, sha256: Sha256) -> bool:
        """Whether a service that keeps versions can send this content again, as far as is known here."""
        return sha256 not in self._unversioned

    def __len__(self) -> int:
        return len(self._blobs)
