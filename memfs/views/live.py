"""The paths that a store has now, for the views of its history; and `.versions` of a replica."""

import contextlib
import unicodedata
from collections.abc import Callable, Iterable

from memfs.model.errors import MemfsError
from memfs.replica.replica import Replica
from memfs.replica.tree import Directory, File, Head, Node
from memfs.views.history import History
from memfs.views.versions import VersionsDirectory


class ReplicaPaths:
    """`LivePaths` of a replica. A look at the history first sends what waits for a moment (deletes, renames to a backup)."""

    def __init__(self, replica: Replica, history: History) -> None:
        self.replica = replica
        self.history = history
        self._edition = -1

    async def head(self, path: str) -> Head | None:
        node = await self._find(path)
        return node.head if isinstance(node, File) else None

    async def children(self, prefix: str) -> Iterable[str]:
        node = await self._find(prefix.rstrip("/"))
        if not isinstance(node, Directory):
            return []
        await self.replica.listing.directory(node)
        return [child.segment for child in node.children.values() if isinstance(child, Directory) or _is_memory(child)]

    async def _find(self, path: str) -> Node | None:
        await self.settle()
        node: Node = self.replica.root
        for segment in path.split("/")[1:]:
            if not isinstance(node, Directory):
                return None
            child = await self.replica.lookup(node, unicodedata.normalize("NFC", segment).encode())
            if child is None:
                return None
            node = child
        return node

    async def settle(self) -> None:
        with contextlib.suppress(MemfsError):  # noted by whoever waited for it; the history shows what is
            await self.replica.parking.finish_below("")
        if self.replica.attached.edition != self._edition:
            self._edition = self.replica.attached.edition
            self.history.expire()


def _is_memory(node: Node) -> bool:
    return isinstance(node, File) and node.head is not None


def versions_of(replica: Replica, *, max_staleness: float, timeout: float) -> VersionsDirectory:
    """`.versions` in the root of a store."""
    attached = replica.attached

    def later(seconds: float, act: Callable[[], None]) -> None:
        async def action() -> None:
            act()

        attached.timers.after(seconds, action)

    history = History(
        attached.service, attached.store_id, attached.blobs, max_staleness=max_staleness, timeout=timeout, later=later
    )
    live = ReplicaPaths(replica, history)
    return VersionsDirectory(f"versions:{attached.store_id}", history, live, mtime_ns=replica.created_ns)
