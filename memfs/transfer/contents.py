"""Reads of a whole store: its heads, and the contents of some of them with the fewest requests."""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from memfs.model.content import encode
from memfs.model.errors import NotFound
from memfs.model.ids import MemoryId, StoreId
from memfs.model.objects import Memory
from memfs.stores.base import MAX_FULL_LIMIT, MemoryStore
from memfs.transfer.pace import Pace
from memfs.transfer.workers import each

Taker = Callable[[Memory, bytes], Awaitable[None]]


def content_of(memory: Memory) -> bytes:
    """The bytes of a memory in the full view, a binary one too."""
    if memory.binary is not None:
        return memory.binary
    return encode(memory.content or "")


async def all_heads(service: MemoryStore, store_id: StoreId, pace: Pace) -> list[Memory]:
    """Every memory of the store without its content, in the service's order."""
    found: list[Memory] = []
    page: str | None = None
    while True:
        at = page
        answer = await pace.call(
            lambda: service.list_memories(store_id, limit=service.capabilities.max_limit, page=at)  # noqa: B023
        )
        found += [item for item in answer.data if isinstance(item, Memory)]
        page = answer.next_page
        if page is None:
            return found


async def read_contents(
    service: MemoryStore, store_id: StoreId, wanted: Iterable[Memory], *, total: int, pace: Pace, take: Taker
) -> list[Memory]:
    """Call `take` with each wanted memory as it is now, and its bytes; several at a time, in no order.

    `total` is how many memories the store has: where most are wanted, pages of full memories need fewer requests than one each.
    Returns those that were deleted meanwhile.
    """
    missing = {memory.id: memory for memory in wanted}
    if len(missing) > -(-total // MAX_FULL_LIMIT) and not service.capabilities.local:
        await _read_pages(service, store_id, missing, pace, take)
    return await _read_each(service, store_id, missing, pace, take)


async def _read_pages(
    service: MemoryStore, store_id: StoreId, missing: dict[MemoryId, Memory], pace: Pace, take: Taker
) -> None:
    """Take what the pages show out of `missing`."""
    page: str | None = None
    while missing:
        at = page
        answer = await pace.call(
            lambda: service.list_memories(store_id, limit=MAX_FULL_LIMIT, page=at, view="full")  # noqa: B023
        )
        shown = [item for item in answer.data if isinstance(item, Memory) and missing.pop(item.id, None) is not None]
        await each(shown, lambda memory: take(memory, content_of(memory)))
        page = answer.next_page
        if page is None:
            return


async def _read_each(
    service: MemoryStore, store_id: StoreId, missing: Mapping[MemoryId, Memory], pace: Pace, take: Taker
) -> list[Memory]:
    gone: list[Memory] = []

    async def one(wanted: Memory) -> None:
        try:
            memory = await pace.call(lambda: service.retrieve_memory(store_id, wanted.id))
        except NotFound:
            gone.append(wanted)
            return
        await take(memory, content_of(memory))

    await each(missing.values(), one)
    return gone
