"""What an operation costs does not grow with what else is in the store.

Measured in steps of SQLite's virtual machine, which are the same on every run, unlike time.
"""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from memfs.model.content import sha256_of
from memfs.model.errors import PathConflict
from memfs.model.objects import SessionActor, Store, UserActor
from memfs.stores.base import MemoryStore
from memfs.stores.sql import SqlDatabase
from memfs.stores.sql.sqlite_database import SqliteDatabase

FEW, MANY = 60, 3_000
_GRANULARITY = 10

Operation = Callable[[MemoryStore, Store], Awaitable[Any]]


class Measured:
    """A database with two stores, one with few memories and one with many."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.service = database.store_service(SessionActor(session_id="sesn_rare"))
        self._other = database.store_service(UserActor(user_id="user_often"))
        self._connection = cast(sqlite3.Connection, database._connection.driver)

    async def fill(self) -> None:
        self.few = await self._store(FEW)
        self.many = await self._store(MANY)

    async def _store(self, size: int) -> Store:
        store = await self._other.create_store(f"with {size}")
        # A directory with everything, one with much of it, and a few memories of other kinds.
        for number in range(size):
            await self._other.create_memory(store.id, f"/m/{number % 3}/{number:06}.md", "content")
        await self.service.create_memory(store.id, "/a.md", "a")
        await self.service.create_memory(store.id, "/z/one.md", "z")
        return store

    async def steps(self, operation: Operation, store: Store) -> int:
        """How many steps `operation` takes, in units of ten."""
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += 1
            return 0

        await operation(self.service, store)  # Statements are prepared by now.
        self._connection.set_progress_handler(count, _GRANULARITY)
        try:
            await operation(self.service, store)
        finally:
            self._connection.set_progress_handler(None, 0)
        return counted

    async def check(self, operation: Operation) -> None:
        few, many = await self.steps(operation, self.few), await self.steps(operation, self.many)
        # Deeper index trees and other cursors may cost a few steps, a scan costs thousands.
        assert many <= few * 1.1 + 10, f"{many * _GRANULARITY} steps among {MANY} memories, {few * _GRANULARITY} among {FEW}"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cost")


@pytest.fixture
async def measured(directory: Path) -> AsyncIterator[Measured]:
    database = await SqlDatabase.open(f"sqlite:///{directory / 'memories.db'}")
    assert isinstance(database, SqliteDatabase)
    result = Measured(database)
    stores = {store.name: store for store in (await result.service.list_stores()).data}
    if stores:
        result.few, result.many = stores[f"with {FEW}"], stores[f"with {MANY}"]
    else:
        await result.fill()
    yield result
    await database.aclose()


async def test_the_measure_finds_what_grows(measured: Measured) -> None:
    async def everything(service: MemoryStore, store: Store) -> None:
        await service.list_memories(store.id, limit=10_000)

    with pytest.raises(AssertionError, match="steps among"):
        await measured.check(everything)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"depth": 1},
        {"depth": 1, "view": "full"},
        {"depth": 1, "limit": 1},
        {"path_prefix": "/m/", "depth": 1},
        {"path_prefix": "/m/1/", "depth": 1, "limit": 5},
        {"path_prefix": "/m/1/", "limit": 5, "view": "full"},
        {"path_prefix": "/z/"},
        {"path_prefix": "/none/", "depth": 1},
    ],
)
async def test_listing(measured: Measured, parameters: dict[str, Any]) -> None:
    async def work(service: MemoryStore, store: Store) -> None:
        await service.list_memories(store.id, **parameters)

    await measured.check(work)


async def test_a_later_page(measured: Measured) -> None:
    pages = {}
    for store in (measured.few, measured.many):
        first = await measured.service.list_memories(store.id, path_prefix="/m/", limit=FEW * 2 // 3)
        pages[store.id] = first.next_page

    async def work(service: MemoryStore, store: Store) -> None:
        page = await service.list_memories(store.id, path_prefix="/m/", limit=10, page=pages[store.id])
        assert len(page.data) == 10

    await measured.check(work)


async def test_create_update_and_delete(measured: Measured) -> None:
    async def work(service: MemoryStore, store: Store) -> None:
        memory = await service.create_memory(store.id, "/m/new/memory.md", "one")
        memory = await service.update_memory(store.id, memory.id, content="two", precondition=sha256_of(b"one"))
        memory = await service.update_memory(store.id, memory.id, path="/m/1/other.md")
        await service.retrieve_memory(store.id, memory.id)
        await service.delete_memory(store.id, memory.id, expected_content_sha256=sha256_of(b"two"))

    await measured.check(work)


@pytest.mark.parametrize("path", ["/m", "/m/1", "/a.md", "/a.md/b", "/z/one.md/1/2/3/4/5"])
async def test_conflicts(measured: Measured, path: str) -> None:
    async def work(service: MemoryStore, store: Store) -> None:
        with pytest.raises(PathConflict):
            await service.create_memory(store.id, path, "")

    await measured.check(work)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"limit": 1, "view": "full"},
        {"session_id": "sesn_rare", "limit": 1},
        {"session_id": "sesn_nobody"},
        {"api_key_id": "apikey_nobody"},
        {"operation": "deleted", "limit": 1},
        {"session_id": "sesn_nobody", "operation": "created"},
        {"memory_id": "mem_nothing"},
        {"memory_id": "mem_nothing", "operation": "created", "session_id": "sesn_rare"},
    ],
)
async def test_versions(measured: Measured, parameters: dict[str, Any]) -> None:
    async def work(service: MemoryStore, store: Store) -> None:
        await service.list_versions(store.id, **parameters)

    await measured.check(work)


async def test_the_change_feed(measured: Measured) -> None:
    async def work(service: MemoryStore, store: Store) -> None:
        newest = (await service.list_versions(store.id, limit=1)).data[0]
        page = await service.list_versions(store.id, created_at_gte=newest.created_at, limit=100)
        assert page.data == [newest]

    await measured.check(work)


async def test_usage_and_stores(measured: Measured) -> None:
    async def work(service: MemoryStore, store: Store) -> None:
        await service.usage(store.id)
        await service.change_token(store.id)
        await service.update_store(store.id, description="changed")
        await service.update_store(store.id, description="")
        await service.list_stores()

    await measured.check(work)
