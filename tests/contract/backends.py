"""The services that the contract's cases run against: one context manager each, listed in `BACKENDS`.

A new backend is one entry more; the cases stay as they are.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from memfs.model.ids import ApiKeyId, StoreId, new_api_key_id, new_session_id
from memfs.model.objects import Actor, ApiActor, SessionActor
from memfs.model.sessions import MemoryStoreResource
from memfs.stores.base import MemoryStore
from memfs.stores.credentials import Credentials
from memfs.stores.managed import open_managed
from memfs.stores.open import open_service
from memfs.stores.sql import SqlDatabase
from tests.harness.dialects import DIALECTS, dialect
from tests.harness.postgres import running
from tests.harness.serving import ServerThread, serving_in_thread


@dataclass(frozen=True)
class Participant:
    """A service, and the actor that it records."""

    service: MemoryStore
    actor: Actor


class ServiceFactory(Protocol):
    """One fresh database, or server, and any number of participants that use it."""

    async def key(self) -> Participant:
        """The owner of a new API key, who may do anything."""
        ...

    async def session(self, *stores: StoreId) -> Participant:
        """A new session that attaches these stores for reading and writing."""
        ...


Backend = Callable[[Path, int], AbstractAsyncContextManager[ServiceFactory]]
"""A context manager of a directory to use and the number of memories that a store may hold."""


class SqlServices:
    """Every participant has the database open by itself, as another process would."""

    def __init__(self, url: str, threads: bool, max_memories: int, closing: AsyncExitStack) -> None:
        self._url = url
        self._threads = threads
        self._max_memories = max_memories
        self._closing = closing

    async def key(self) -> Participant:
        return await self._open(ApiActor(api_key_id=new_api_key_id()))

    async def session(self, *stores: StoreId) -> Participant:
        return await self._open(SessionActor(session_id=new_session_id()))

    async def _open(self, actor: Actor) -> Participant:
        database = await SqlDatabase.open(self._url, threads=self._threads, max_memories=self._max_memories)
        self._closing.push_async_callback(database.aclose)
        return Participant(database.store_service(actor), actor)


@asynccontextmanager
async def sqlite(directory: Path, max_memories: int, *, threads: bool) -> AsyncIterator[ServiceFactory]:
    async with AsyncExitStack() as closing:
        yield SqlServices(f"sqlite:///{directory / 'memories.db'}", threads, max_memories, closing)


class HttpServices:
    """Every participant has a credential of its own and its own connections to one server."""

    def __init__(self, server: ServerThread, closing: AsyncExitStack) -> None:
        self._server = server
        self._closing = closing

    async def key(self) -> Participant:
        key, minted = self._server.keyring.create_key("contract")
        return await self._open(ApiActor(api_key_id=key.id), "MEMFS_API_KEY", minted.secret)

    async def session(self, *stores: StoreId) -> Participant:
        attached = [MemoryStoreResource(memory_store_id=store) for store in stores]
        session = self._server.keyring.create_session(attached)
        minted = self._server.keyring.create_token(session.id)
        return await self._open(SessionActor(session_id=session.id), "MEMFS_AUTH_TOKEN", minted.secret)

    async def _open(self, actor: Actor, variable: str, secret: str) -> Participant:
        service = await open_managed(self._server.url, credentials=Credentials(environment={variable: secret}))
        self._closing.push_async_callback(service.aclose)
        # The first answer tells what the service can do.
        await service.list_stores(limit=1)
        return Participant(service, actor)


@asynccontextmanager
async def postgresql(directory: Path, max_memories: int) -> AsyncIterator[ServiceFactory]:
    async with AsyncExitStack() as closing:
        yield SqlServices(running().new_database(), True, max_memories, closing)


@asynccontextmanager
async def http(directory: Path, max_memories: int) -> AsyncIterator[ServiceFactory]:
    with serving_in_thread(f"sqlite:///{directory / 'served.db'}", max_memories=max_memories) as server:
        async with AsyncExitStack() as closing:
            yield HttpServices(server, closing)


class DialectServices:
    """Every participant has connections of its own to one emulator, which knows one credential."""

    def __init__(self, name: str, url: str, environment: dict[str, str], closing: AsyncExitStack) -> None:
        self._name = name
        self._url = url
        self._environment = environment
        self._closing = closing

    async def key(self) -> Participant:
        return await self._open(ApiActor(api_key_id=ApiKeyId("key-of-the-tests")))

    async def session(self, *stores: StoreId) -> Participant:
        return await self._open(SessionActor(session_id=new_session_id()))

    async def _open(self, actor: Actor) -> Participant:
        service = await open_service(self._url, actor=actor, credentials=Credentials(environment=self._environment))
        self._closing.push_async_callback(service.aclose)
        return Participant(service, actor)


@asynccontextmanager
async def other_service(directory: Path, max_memories: int, *, name: str) -> AsyncIterator[ServiceFactory]:
    with dialect(name) as running_dialect:
        async with AsyncExitStack() as closing:
            yield DialectServices(name, running_dialect.url, running_dialect.environment, closing)


SQL_BACKENDS: dict[str, Backend] = {
    "sqlite": partial(sqlite, threads=False),
    "sqlite-threads": partial(sqlite, threads=True),
    "postgresql": postgresql,
}
"""Those of `memfs.stores.sql`, which promise more than the contract."""

BACKENDS: dict[str, Backend] = {
    **SQL_BACKENDS,
    "http": http,
    **{name: partial(other_service, name=name) for name in DIALECTS},
}

_OTHERS = {"our ids", "above and below", "cap", "bound cursors", "precise times", "permissions", "deletes in archives"}
_QODER = {*_OTHERS, "empty", "rename", "order", "actors", "redacted path", "long names"}
LACKS: dict[str, set[str]] = {
    "qoder-entry": {*_QODER, "store changes"},
    "qoder-memory": _QODER,
    "tablestore": {*_OTHERS, "archives", "store changes", "store limits", "long names", "equal names", "store order"},
    "modelstudio": {*_OTHERS, "actors", "store limits"},
}
"""What a backend cannot do; a case marked ``needs`` such a thing does not concern it."""
