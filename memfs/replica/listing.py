"""Brings the store's listings into the tree: one directory at a time, or all below one."""

from collections.abc import AsyncIterator, Iterator

import trio

from memfs.model.content import encode
from memfs.model.errors import MemfsError
from memfs.model.ids import MemoryId
from memfs.model.objects import Memory, MemoryPrefix
from memfs.replica.attached import Attached
from memfs.replica.parking import Parking
from memfs.replica.tree import Directory, File, can_be_shown
from memfs.replica.walks import Abandoned, Walk, Walks
from memfs.stores.base import MAX_FULL_LIMIT, Listed


class Listing:
    def __init__(self, attached: Attached, parking: Parking) -> None:
        self.attached = attached
        self.parking = parking
        self.walks = Walks(attached, self._start_walk)

    async def directory(self, directory: Directory, *, reading: bool = False) -> None:
        """Make all children of `directory` known, if they are not: one listing, shared by all who wait for it.

        `reading`: because somebody reads its entries, perhaps on a walk through all below.
        """
        if reading:
            directory.read_at = trio.current_time()
        if directory.listed or directory.dead:
            return
        if not self.attached.service.capabilities.depth_listing:
            await self._everything(directory)
            return
        if not self.attached.service.capabilities.local:
            await self.walks.list_by_walk(directory, reading=reading)
            if directory.listed or directory.dead:
                return
        async with self._lock(directory):
            if not directory.listed:
                await self._list(directory, depth=1)

    async def _everything(self, directory: Directory) -> None:
        """`directory` on a service that lists all or nothing: then everything is known after one listing."""
        root = self.attached.tree.root
        async with self._lock(root):
            if not directory.listed:
                await self._list(root, depth=None)
                directory.listed = True

    @staticmethod
    def _lock(directory: Directory) -> trio.Lock:
        """Held by the one listing of a directory that is under way."""
        if directory.listing is None:
            directory.listing = trio.Lock()
        return directory.listing

    def _start_walk(self, walk: Walk) -> None:
        self.attached.timers.after(0, lambda: self._walk(walk))

    async def _walk(self, walk: Walk) -> None:
        try:
            self._lock(walk.top)  # what is placed there while the walk is under way is needed
            await self._list(walk.top, depth=1 if walk.shallow else None, walk=walk)
        except Abandoned:
            pass
        except MemfsError as error:
            self.attached.report("list", walk.top.path, error)
        finally:
            self.walks.ended(walk)

    async def relist(self) -> None:
        """List again every directory that is listed; where that can tell nothing now, the next poll does it."""
        tree = self.attached.tree
        if self.attached.between_places:
            self.attached.doubtful = True
            return
        if not self.attached.service.capabilities.depth_listing:
            async with self._lock(tree.root):
                await self._list(tree.root, depth=None)
            return
        for directory in [tree.root, *tree.directories_below(tree.root)]:
            if directory.listed and directory.listing is not None:
                await self.again(directory)

    async def again(self, directory: Directory) -> None:
        """List one directory again, as `relist` does all; where that can tell nothing now, the next poll lists all."""
        if directory.dead or not self.attached.service.capabilities.depth_listing:
            return
        async with self._lock(directory):
            if self.attached.between_places:
                self.attached.doubtful = True
                return
            await self._list(directory, depth=1)

    async def below(self, directory: Directory) -> None:
        """Make all memories below `directory` known, at any depth."""
        if not self.attached.service.capabilities.depth_listing:
            await self.directory(directory)
            return
        pending = [directory]
        while pending:
            unlisted = pending.pop()
            if not unlisted.listed:
                async with self._lock(unlisted):
                    await self._list(unlisted, depth=None)
            pending.extend(child for child in unlisted.children.values() if isinstance(child, Directory))

    async def _list(self, directory: Directory, depth: int | None, walk: Walk | None = None) -> None:
        """One listing into the tree; what changed here while it was under way counts more than what it says."""
        started = trio.current_time()
        touched: set[str] = set()
        directory.touched += (touched,)
        found: set[MemoryId] = set()
        directories: set[str] = set()
        prefix = f"{directory.path}/"
        grouped = depth is None and self.attached.service.capabilities.grouped_listing
        place = directory.path
        directory.walked += depth is None
        try:
            async for item in self._items(prefix, depth, walk):
                self._take(directory, item, prefix, started, touched, found, directories)
                if grouped and (here := item.path.rpartition("/")[0]) != place:
                    for path in _left(place, here):
                        if path[len(prefix) :].split("/", 1)[0] not in touched:
                            self._complete(path, found, directories, started)
                    place = here
            self._drop_missing(directory, found, directories, started, depth)
        finally:
            directory.walked -= depth is None
            directory.touched = tuple(names for names in directory.touched if names is not touched)
        directory.listed = True

    def _complete(self, path: str, found: set[MemoryId], directories: set[str], started: float) -> None:
        """The listing has named all below `path`: nobody who reads that has to wait for the rest."""
        directory = self.attached.tree.find(path)
        if isinstance(directory, Directory):
            self._drop_missing(directory, found, directories, started, None)
            directory.listed = True

    async def _items(self, prefix: str, depth: int | None, walk: Walk | None) -> AsyncIterator[Listed]:
        attached = self.attached
        full = walk is not None and walk.full
        page: str | None = None
        while True:
            answer = await attached.service.list_memories(
                attached.store_id,
                path_prefix=None if prefix == "/" else prefix,
                depth=depth,
                limit=MAX_FULL_LIMIT if full else attached.service.capabilities.max_limit,
                page=page,
                view="full" if full else "basic",
            )
            for item in answer.data:
                if isinstance(item, Memory) and item.content is not None:
                    attached.blobs.put(item.content_sha256, encode(item.content))
                yield item
            page = answer.next_page
            if page is None:
                return
            if walk is not None:
                await walk.page_done()

    def _take(
        self,
        directory: Directory,
        item: Listed,
        prefix: str,
        started: float,
        touched: set[str],
        found: set[MemoryId],
        directories: set[str],
    ) -> None:
        attached = self.attached
        path = item.path.removesuffix("/") if isinstance(item, MemoryPrefix) else item.path
        if not path.startswith(prefix) or not can_be_shown(path):
            attached.notices.error(
                store=attached.name,
                path=prefix,
                operation="list",
                error="EINVAL",
                message=f"the service lists a path that no file system can show, it is left out: {item.path!r}",
            )
            return
        first = item.path[len(prefix) :].split("/", 1)[0]
        below = isinstance(item, MemoryPrefix) or "/" in item.path[len(prefix) :]
        if below:
            directories.add(first)
        if isinstance(item, Memory):
            found.add(item.id)
            if item.id in self.parking.ids or attached.changed_since(item.id, started):
                return
        if first in touched:
            return
        # Placing what a listing says is no change of somebody else: neither this listing nor another must take it for one.
        under_way, directory.touched = directory.touched, ()
        try:
            if isinstance(item, Memory):
                self._place(item, directory)
            else:
                attached.tree.ensure_directory(directory, first)
        finally:
            directory.touched = under_way

    def _place(self, memory: Memory, directory: Directory) -> None:
        attached = self.attached
        head = attached.head(memory)
        place = directory
        for segment in memory.path[len(directory.path) + 1 :].split("/")[:-1]:
            place = attached.tree.ensure_directory(place, segment)
            if place.listing is None:
                place.listing = trio.Lock()
        attached.place(head, memory.path)

    def _drop_missing(
        self, directory: Directory, found: set[MemoryId], directories: set[str], started: float, depth: int | None
    ) -> None:
        """What the tree knows and the listing does not is gone, unless it is new, local, or changed since."""
        attached = self.attached
        for name, node in list(directory.children.items()):
            if any(name in names for names in directory.touched):
                continue
            if isinstance(node, File):
                head = node.head
                if head is None or node.park is not None:
                    continue
                if head.memory_id in found and attached.tree.by_id.get(head.memory_id) is node:
                    continue
                if attached.holds_name(node) or attached.changed_since(head.memory_id, started):
                    continue
                attached.let_go(node)
            elif isinstance(node, Directory):
                if depth is None:
                    self._drop_missing(node, found, directories, started, depth)
                    node.listed = True
                if node.segment in directories or node.kept or self._holds_local(node, started):
                    continue
                if not node.children or depth == 1:
                    self._drop_directory(node)

    def _holds_local(self, directory: Directory, started: float) -> bool:
        """Whether anything below is of this mount alone, or was changed here since a listing began."""
        tree = self.attached.tree
        if any(below.kept for below in tree.directories_below(directory)):
            return True
        for node in directory.children.values():
            if isinstance(node, Directory):
                if self._holds_local(node, started):
                    return True
                continue
            if not isinstance(node, File) or node.head is None or self.attached.holds_name(node):
                return True
            if self.attached.changed_since(node.head.memory_id, started):
                return True
        return False

    def _drop_directory(self, directory: Directory) -> None:
        attached = self.attached
        for file in list(attached.tree.files_below(directory)):
            attached.let_go(file)
        attached.tree.detach(directory)
        directory.dead = True


def _left(place: str, here: str) -> Iterator[str]:
    """The directories that end where a listing in groups goes on from `place` to `here`, innermost first."""
    while not f"{here}/".startswith(f"{place}/"):
        yield place
        place = place.rpartition("/")[0]
