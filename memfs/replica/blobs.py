"""Contents by their SHA-256, in memory, bounded."""

from collections import OrderedDict

from memfs.model.content import Sha256

DEFAULT_BYTES = 64 * 1024 * 1024


class BlobCache:
    """The least recently used contents go first when more than `limit` bytes are held."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit = limit
        self.held = 0
        self.hits = 0
        self.misses = 0
        self._blobs: OrderedDict[Sha256, bytes] = OrderedDict()

    def get(self, sha256: Sha256) -> bytes | None:
        blob = self._blobs.get(sha256)
        if blob is None:
            self.misses += 1
            return None
        self.hits += 1
        self._blobs.move_to_end(sha256)
        return blob

    def put(self, sha256: Sha256, content: bytes) -> None:
        if sha256 in self._blobs:
            self._blobs.move_to_end(sha256)
            return
        self._blobs[sha256] = content
        self.held += len(content)
        while self.held > self.limit and len(self._blobs) > 1:
            _, dropped = self._blobs.popitem(last=False)
            self.held -= len(dropped)

    def forget(self, sha256: Sha256) -> None:
        """Drop a content for good, as after a redaction."""
        blob = self._blobs.pop(sha256, None)
        if blob is not None:
            self.held -= len(blob)

    def __len__(self) -> int:
        return len(self._blobs)
