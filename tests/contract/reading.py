"""Reads whole listings through their pages."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from memfs.model.objects import MemoryVersion, Page, Store
from memfs.stores.base import Listed, MemoryStore

Item = TypeVar("Item")


async def pages(list_page: Callable[..., Awaitable[Page[Item]]], **parameters: Any) -> list[list[Item]]:
    """The items of each page, from the first to the last."""
    found = []
    page = None
    while True:
        answer = await list_page(page=page, **parameters)
        found.append(list(answer.data))
        page = answer.next_page
        if page is None:
            return found


async def listed(service: MemoryStore, store: Store, **parameters: Any) -> list[Listed]:
    """All entries of a listing of memories."""
    found = await pages(partial(service.list_memories, store.id), **parameters)
    return [item for page in found for item in page]


async def paths(service: MemoryStore, store: Store, **parameters: Any) -> list[str]:
    return [item.path for item in await listed(service, store, **parameters)]


async def versions(service: MemoryStore, store: Store, **parameters: Any) -> list[MemoryVersion]:
    """All versions, newest first."""
    found = await pages(partial(service.list_versions, store.id), **parameters)
    return [item for page in found for item in page]
