"""Where an import comes from: a directory, or another store."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

from memfs.model.content import Sha256, decode, sha256_of
from memfs.model.errors import MemfsError
from memfs.model.objects import Memory, Store
from memfs.model.paths import MemoryPath, check_path
from memfs.stores.base import MemoryStore
from memfs.transfer.contents import all_heads, read_contents
from memfs.transfer.pace import Pace
from memfs.transfer.scan import Item, read_file, scan
from memfs.transfer.steps import Step
from memfs.transfer.workers import each

TakeItem = Callable[[Item, bytes], Awaitable[None]]
TakeStep = Callable[[Step], None]


class Source(Protocol):
    async def look(self) -> tuple[list[Item], list[Step]]:
        """What can be memories, in path order, and what is left out, with the reason."""
        ...

    async def read(self, wanted: Sequence[Item], take: TakeItem, leave: TakeStep) -> None:
        """Call `take` with each wanted item, as it is by now, and its bytes; `leave` for what cannot be had any more."""
        ...


class DirectorySource:
    """A plain directory, or an export."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.empty_directories = 0
        self._files: dict[MemoryPath, Path] = {}

    async def look(self) -> tuple[list[Item], list[Step]]:
        found = scan(self.directory)
        self._files = found.files
        self.empty_directories = found.empty_directories
        return found.items, found.steps

    async def read(self, wanted: Sequence[Item], take: TakeItem, leave: TakeStep) -> None:
        async def one(item: Item) -> None:
            try:
                content = read_file(self._files[item.path])
            except MemfsError as error:
                leave(Step(item.path, "refused", error.message))
                return
            await take(Item(item.path, sha256_of(content), len(content)), content)

        await each(wanted, one)


class StoreSource:
    """A store of any service."""

    def __init__(self, service: MemoryStore, store: Store, pace: Pace) -> None:
        self.service = service
        self.store = store
        self.pace = pace
        self._heads: dict[str, Memory] = {}

    async def look(self) -> tuple[list[Item], list[Step]]:
        items: list[Item] = []
        steps: list[Step] = []
        for memory in await all_heads(self.service, self.store.id, self.pace):
            try:
                if memory.media_type is not None:
                    raise MemfsError("a binary memory: another store can hold text only")
                path = check_path(memory.path)
            except MemfsError as error:
                steps.append(Step(memory.path, "refused", error.message))
                continue
            self._heads[memory.path] = memory
            items.append(Item(path, memory.content_sha256, memory.content_size_bytes))
        return sorted(items, key=lambda item: item.path), steps

    async def read(self, wanted: Sequence[Item], take: TakeItem, leave: TakeStep) -> None:
        async def taken(memory: Memory, content: bytes) -> None:
            try:
                decode(content)
                path = check_path(memory.path)
            except MemfsError as error:
                leave(Step(memory.path, "refused", error.message))
                return
            await take(Item(path, Sha256(sha256_of(content)), len(content)), content)

        heads = [self._heads[item.path] for item in wanted]
        total = len(self._heads)
        gone = await read_contents(self.service, self.store.id, heads, total=total, pace=self.pace, take=taken)
        for memory in gone:
            leave(Step(memory.path, "skipped", "it was deleted meanwhile"))
