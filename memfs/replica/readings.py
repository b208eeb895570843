"""Which version of a memory each process has read: what it writes next over the whole file was made from that.

A program that reads a file, thinks, and replaces it must not undo what others saved in between, though the mount has seen it by
then. So a replacement is stored on the version that its process opened last; where that process opened none (an agent reads with
one tool and writes with another), on the one that was opened last by any.
"""

from collections import OrderedDict

from memfs.model.ids import MemoryId
from memfs.replica.tree import Head

REMEMBERED = 16_384


class Readings:
    """The last readings, bounded; the oldest are forgotten first."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        self.limit = limit
        self._by_process: OrderedDict[tuple[MemoryId, int], Head] = OrderedDict()
        self._by_any: OrderedDict[MemoryId, Head] = OrderedDict()

    def note(self, head: Head, process: int) -> None:
        """`process` has seen the bytes of `head`, or wrote them."""
        self._by_process[head.memory_id, process] = head
        self._by_any[head.memory_id] = head
        if len(self._by_any) > self.limit:
            self._by_any.popitem(last=False)
        if len(self._by_process) > self.limit:
            self._by_process.popitem(last=False)

    def base(self, memory_id: MemoryId, process: int) -> Head | None:
        """What a whole new content written by `process` is based on; None when nobody here has read the memory."""
        return self._by_process.get((memory_id, process)) or self._by_any.get(memory_id)
