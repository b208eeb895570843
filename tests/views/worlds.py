"""A store with a history, and a view of it, for the tests of `.versions`."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from memfs.model.ids import MemoryId, StoreId, new_api_key_id, new_session_id
from memfs.model.objects import ApiActor, Memory, MemoryVersion, Page, SessionActor
from memfs.replica.blobs import BlobCache
from memfs.replica.tree import Head, head_of
from memfs.stores.base import Capabilities, MemoryStore
from memfs.stores.sql import SqlDatabase, SqlMemoryStore
from memfs.views.history import History
from memfs.views.tree import ViewDirectory, ViewFile
from memfs.views.versions import VersionsDirectory
from tests.contract.backends import HttpServices
from tests.harness.serving import serving_in_thread


class CountedStore(SqlMemoryStore):
    """The real store, which also counts the requests that a service would get for its history."""

    def __init__(self, database: SqlDatabase, *, local: bool) -> None:
        super().__init__(database, SessionActor(session_id=new_session_id()))
        self._local = local
        self.requests: Counter[str] = Counter()
        self.memory_ids: list[Any] = []
        """The `memory_id` of every listing."""

    @property
    def capabilities(self) -> Capabilities:
        capabilities = super().capabilities
        assert capabilities.local == self._local
        return capabilities if self._local else replace(capabilities, change_token=False)

    async def list_versions(self, store_id: StoreId, **arguments: Any) -> Page[MemoryVersion]:
        self.requests["list_versions"] += 1
        self.memory_ids.append(arguments.get("memory_id"))
        return await super().list_versions(store_id, **arguments)

    async def retrieve_version(self, *arguments: Any, **named: Any) -> MemoryVersion:
        self.requests[f"retrieve_version {named.get('view', 'full')}"] += 1
        return await super().retrieve_version(*arguments, **named)


class StoredPaths:
    """The paths that a store has, asked of the store itself every time."""

    def __init__(self, service: MemoryStore, store_id: StoreId) -> None:
        self.service = service
        self.store_id = store_id
        self.held_back: list[MemoryId] = []
        """Memories whose delete waits, as after an unlink."""

    async def settle(self) -> None:
        while self.held_back:
            await self.service.delete_memory(self.store_id, self.held_back.pop())

    async def _list(self, prefix: str) -> dict[str, Head | None]:
        found: dict[str, Head | None] = {}
        page: str | None = None
        while True:
            answer = await self.service.list_memories(self.store_id, path_prefix=prefix, depth=1, limit=100, page=page)
            for item in answer.data:
                segment = item.path.rstrip("/").rpartition("/")[2]
                found[segment] = head_of(item) if isinstance(item, Memory) else None
            page = answer.next_page
            if page is None:
                return found

    async def head(self, path: str) -> Head | None:
        prefix, _, segment = path.rpartition("/")
        return (await self._list(f"{prefix}/")).get(segment)

    async def children(self, prefix: str) -> Iterable[str]:
        return await self._list(prefix)


class World:
    """One store, and its `.versions`. `clock` is the time of the view in seconds; a test moves it by hand."""

    def __init__(self, service: MemoryStore, administrator: MemoryStore, store_id: StoreId, bound: float = 2.0) -> None:
        self.service = service
        self.administrator = administrator
        """Who may redact."""
        self.store_id = store_id
        self.clock = 0.0
        self.blobs = BlobCache()
        self._due: list[tuple[float, Callable[[], None]]] = []
        self.history = History(
            service,
            store_id,
            self.blobs,
            max_staleness=bound,
            timeout=8.0,
            later=lambda seconds, act: self._due.append((self.clock + seconds, act)),
            clock=lambda: self.clock,
        )
        self.paths = StoredPaths(service, store_id)
        self.root = VersionsDirectory(f"versions:{store_id}", self.history, self.paths, mtime_ns=1_000_000_000)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock += seconds
        due = [act for time, act in self._due if time <= self.clock]
        self._due = [(time, act) for time, act in self._due if time > self.clock]
        for act in due:
            act()

    @property
    def counted(self) -> CountedStore:
        assert isinstance(self.service, CountedStore)
        return self.service

    async def find(self, path: str) -> ViewDirectory | ViewFile | None:
        node: ViewDirectory | ViewFile | None = self.root
        for name in path.split("/"):
            if not isinstance(node, ViewDirectory):
                return None
            node = await node.lookup(name)
        return node

    async def directory(self, path: str) -> ViewDirectory:
        node = await self.find(path) if path else self.root
        assert isinstance(node, ViewDirectory), path
        return node

    async def ls(self, path: str) -> list[str]:
        return [name for name, _ in await (await self.directory(path)).entries()]

    async def read(self, path: str) -> bytes:
        node = await self.find(path)
        assert isinstance(node, ViewFile), path
        return await read(node)

    async def versions(self, **filters: Any) -> list[MemoryVersion]:
        """All versions of the store, newest first, asked of the store itself."""
        found: list[MemoryVersion] = []
        page: str | None = None
        while True:
            answer = await self.administrator.list_versions(self.store_id, limit=100, page=page, **filters)
            found += answer.data
            page = answer.next_page
            if page is None:
                return found


@asynccontextmanager
async def sql_world(directory: Path, *, local: bool) -> AsyncIterator[World]:
    """A store in a SQLite file: as the mount has it, or as services are: pages of 100, and nothing that tells of changes."""
    database = await SqlDatabase.open(f"sqlite:///{directory}/memory.db", threads=not local)
    administrator = database.store_service(ApiActor(api_key_id=new_api_key_id()))
    store = await administrator.create_store("Notes")
    yield World(CountedStore(database, local=local), administrator, store.id)
    await database.aclose()


@asynccontextmanager
async def served_world(directory: Path) -> AsyncIterator[World]:
    """A session's view of a store that a server holds in the same file."""
    url = f"sqlite:///{directory}/memory.db"
    with serving_in_thread(url) as server:
        async with AsyncExitStack() as closing:
            services = HttpServices(server, closing)
            administrator = (await services.key()).service
            store = await administrator.create_store("Notes")
            yield World((await services.session(store.id)).service, administrator, store.id)


async def read(file: ViewFile, size: int = 4_096) -> bytes:
    content = await file.open()
    text = b""
    while piece := await content.read(len(text), size):
        text += piece
    return text


async def tree(directory: ViewDirectory) -> dict[str, bytes]:
    """All files below `directory`, by path, each looked up by its name as well."""
    found: dict[str, bytes] = {}
    for name, node in await directory.entries():
        again = await directory.lookup(name)
        assert again is not None
        assert again.key == node.key
        if isinstance(node, ViewDirectory):
            found.update({f"/{name}{path}": content for path, content in (await tree(node)).items()})
        else:
            content = await read(node)
            assert node.size == len(content)
            found[f"/{name}"] = content
    return found
