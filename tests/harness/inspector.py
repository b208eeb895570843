"""Looks into, and writes to, a database behind the back of every mount: with a connection and an actor of its own."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import trio

from memfs.model.ids import MemoryId, SessionId, StoreId, new_session_id
from memfs.model.objects import Memory, MemoryVersion, SessionActor, Store
from memfs.stores.base import MAX_FULL_LIMIT, MemoryStore
from memfs.stores.credentials import Credentials
from memfs.stores.open import open_service

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Admission:
    """How a mount reaches a service, and in whose name."""

    url: str
    session_id: SessionId
    environment: dict[str, str] = field(repr=False)
    """Its credential."""


class Database:
    """The stores behind a URL, as another session sees them. Every call opens the database and closes it again."""

    def __init__(self, url: str, *, kind: str = "sqlite", environment: Mapping[str, str] | None = None) -> None:
        """`kind` says which service it is, `environment` holds its credential."""
        self.url = url
        self.kind = kind
        self.environment = dict(environment or {})
        self.renames = not kind.startswith("qoder")
        """A memory can get another path; else a rename is a new memory and the end of the old one."""
        self.keeps_blank = not kind.startswith("qoder")
        """A memory can be empty."""
        self.names_actors = kind in ("sqlite", "http", "tablestore")
        """A version says who made it."""
        self.session_id: SessionId = new_session_id()
        """In whose name this object writes."""

    def admit(self, stores: Sequence["Inspector"]) -> Admission:
        """For a new mount of `stores`, by a session of its own."""
        return Admission(self.url, new_session_id(), self.environment)

    def call(self, work: Callable[[MemoryStore], Awaitable[Answer]]) -> Answer:
        async def main() -> Answer:
            service = await open_service(
                self.url,
                actor=SessionActor(session_id=self.session_id),
                credentials=Credentials(environment=self.environment),
            )
            try:
                return await work(service)
            finally:
                await service.aclose()

        return trio.run(main)

    def create_store(self, name: str, *, description: str = "") -> "Inspector":
        store = self.call(lambda service: service.create_store(name, description=description))
        return Inspector(self, store)

    @contextlib.contextmanager
    def own_store(self, name: str) -> Iterator["Inspector"]:
        """A store for a fixture: deleted where that fails, so that it can be tried again on a service of unique names."""
        made = self.create_store(name)
        try:
            yield made
        except BaseException:
            self.call(lambda service: service.delete_store(made.id))
            raise


class Inspector:
    """One store. Paths are the contract's: absolute within the store."""

    def __init__(self, database: Database, store: Store) -> None:
        self.database = database
        self.store = store

    @property
    def id(self) -> StoreId:
        return self.store.id

    def heads(self, prefix: str = "/") -> dict[str, Memory]:
        """Every memory below `prefix` by path, without content."""

        async def work(service: MemoryStore) -> dict[str, Memory]:
            found: dict[str, Memory] = {}
            page: str | None = None
            while True:
                answer = await service.list_memories(
                    self.id, path_prefix=prefix, limit=service.capabilities.max_limit, page=page
                )
                found.update((item.path, item) for item in answer.data if isinstance(item, Memory))
                page = answer.next_page
                if page is None:
                    return found

        return self.database.call(work)

    def memories(self, prefix: str = "/") -> dict[str, str]:
        """Every memory below `prefix`: path and content."""

        async def work(service: MemoryStore) -> dict[str, str]:
            found: dict[str, str] = {}
            page: str | None = None
            while True:
                answer = await service.list_memories(self.id, path_prefix=prefix, limit=MAX_FULL_LIMIT, page=page, view="full")
                for item in answer.data:
                    if isinstance(item, Memory):
                        assert item.content is not None
                        found[item.path] = item.content
                page = answer.next_page
                if page is None:
                    return found

        return self.database.call(work)

    def content(self, path: str) -> str:
        """Raises `KeyError` when there is no such memory."""
        memory_id = self.memory_id(path)

        async def work(service: MemoryStore) -> str:
            memory = await service.retrieve_memory(self.id, memory_id)
            assert memory.content is not None
            return memory.content

        return self.database.call(work)

    def memory_id(self, path: str) -> MemoryId:
        """Raises `KeyError` when there is no such memory."""
        prefix = path[: path.rindex("/") + 1]
        return self.heads(prefix)[path].id

    def count(self, prefix: str = "/") -> int:
        return len(self.heads(prefix))

    def history(self, prefix: str = "/") -> list[MemoryVersion]:
        """Every version that has a path below `prefix`, oldest first, without content."""

        async def work(service: MemoryStore) -> list[MemoryVersion]:
            found: list[MemoryVersion] = []
            page: str | None = None
            while True:
                answer = await service.list_versions(self.id, limit=service.capabilities.max_limit, page=page)
                found.extend(answer.data)
                page = answer.next_page
                if page is None:
                    return found

        versions = self.database.call(work)
        return [version for version in reversed(versions) if version.path is not None and version.path.startswith(prefix)]

    def versions(self, path: str) -> list[MemoryVersion]:
        """The versions that have exactly this path, oldest first, without content."""
        return [version for version in self.history(path) if version.path == path]

    def operations(self, path: str) -> list[str]:
        """What happened to the memories at `path`, oldest first: created, modified, deleted."""
        return [version.operation for version in self.versions(path)]

    def put(self, path: str, content: str) -> Memory:
        """Create the memory, or update the one that is there."""
        return self.put_all([(path, content)])[0]

    def put_all(self, items: Iterable[tuple[str, str]]) -> list[Memory]:
        """As `put`, for many with one connection."""
        ids = {path: memory.id for path, memory in self.heads().items()}

        async def work(service: MemoryStore) -> list[Memory]:
            written = []
            for path, content in items:
                memory_id = ids.get(path)
                if memory_id is None:
                    written.append(await service.create_memory(self.id, path, content))
                else:
                    written.append(await service.update_memory(self.id, memory_id, content=content))
            return written

        return self.database.call(work)

    def delete(self, path: str) -> None:
        """Raises `KeyError` when there is no such memory."""
        memory_id = self.memory_id(path)
        self.database.call(lambda service: service.delete_memory(self.id, memory_id))

    def archive(self) -> None:
        self.database.call(lambda service: service.archive_store(self.id))
