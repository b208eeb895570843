"""Which version of a memory each process has read: what it writes next over the whole file was made from that.

A program that reads a file, thinks, and replaces it must not undo what other sessions saved in between, though the mount has
seen it by then. So a replacement is stored on the version that its process opened last; where that process opened none (an
agent reads with one tool and writes with another), on the one that was opened last by any. What is written through this mount
counts as known to all who use it, as on any local disk.
"""

from collections import OrderedDict

from memfs.model.ids import MemoryId
from memfs.replica.tree import Head

MEMORIES = 16_384
PROCESSES = 16
"""How many memories, and how many readers of each, are remembered."""


class Readings:
    def __init__(self) -> None:
        self._last: OrderedDict[MemoryId, Head] = OrderedDict()
        self._readers: dict[MemoryId, dict[int, Head]] = {}

    def read(self, head: Head, process: int) -> None:
        """`process` sees the bytes of `head`."""
        memory_id = head.memory_id
        readers = self._readers.get(memory_id)
        if readers is None:
            readers = self._readers[memory_id] = {}
        elif readers.get(process) is head and self._last.get(memory_id) is head:
            return
        self._remember(head)
        if len(readers) >= PROCESSES and process not in readers:
            del readers[next(iter(readers))]
        readers[process] = head

    def wrote(self, head: Head) -> None:
        """This mount made `head`."""
        self._remember(head)
        self._readers.pop(head.memory_id, None)

    def _remember(self, head: Head) -> None:
        self._last[head.memory_id] = head
        self._last.move_to_end(head.memory_id)
        if len(self._last) > MEMORIES:
            forgotten, _ = self._last.popitem(last=False)
            self._readers.pop(forgotten, None)

    def base(self, memory_id: MemoryId, process: int) -> Head | None:
        """What a whole new content written by `process` is based on; None when nobody here has read the memory."""
        readers = self._readers.get(memory_id)
        if readers is not None and process in readers:
            return readers[process]
        return self._last.get(memory_id)
