"""`SqlMemoryStore`: a `SqlDatabase` as one actor may use it."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from memfs.model.content import Sha256
from memfs.model.errors import InvalidRequest, NotFound
from memfs.model.ids import ApiKeyId, MemoryId, SessionId, StoreId, VersionId
from memfs.model.objects import (
    Actor,
    DeletedMemory,
    DeletedStore,
    Memory,
    MemoryVersion,
    Operation,
    Page,
    Store,
    View,
)
from memfs.stores.base import DEFAULT_LIMIT, Capabilities, Listed, Usage
from memfs.stores.sql import listing, memory_rows, paging, store_rows, version_rows
from memfs.stores.sql.database import SqlDatabase
from memfs.stores.sql.rows import actor_columns, to_us


class SqlMemoryStore:
    """A `memfs.stores.base.MemoryStore`. Every write is recorded as made by one actor."""

    def __init__(self, database: SqlDatabase, actor: Actor, *, owns_database: bool = False) -> None:
        """With `owns_database` closing the service closes the database. Raises `InvalidRequest` for an unknown actor."""
        actor_columns(actor)
        self._database = database
        self._actor = actor
        self._owns_database = owns_database

    @property
    def capabilities(self) -> Capabilities:
        return self._database.capabilities

    async def create_store(self, name: str, *, description: str = "", metadata: Mapping[str, str] | None = None) -> Store:
        return await self._database.write(
            partial(store_rows.create, name=name, description=description, metadata=metadata or {})
        )

    async def list_stores(
        self,
        *,
        include_archived: bool = False,
        created_at_gte: datetime | None = None,
        created_at_lte: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        page: str | None = None,
    ) -> Page[Store]:
        gte, lte = _us(created_at_gte), _us(created_at_lte)
        return await self._database.read(
            partial(store_rows.list_page, include_archived=include_archived, gte=gte, lte=lte, limit=limit, page=page)
        )

    async def retrieve_store(self, store_id: StoreId) -> Store:
        _check_id(store_id)
        return await self._database.read(partial(store_rows.retrieve, store_id=store_id))

    async def update_store(
        self,
        store_id: StoreId,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Store:
        _check_id(store_id)
        return await self._database.write(
            partial(store_rows.change, store_id=store_id, name=name, description=description, metadata=metadata)
        )

    async def delete_store(self, store_id: StoreId) -> DeletedStore:
        _check_id(store_id)
        deleted = await self._database.write(partial(store_rows.remove, store_id=store_id), lengthy=True)
        await self._database.purge()
        return deleted

    async def archive_store(self, store_id: StoreId) -> Store:
        _check_id(store_id)
        return await self._database.write(partial(store_rows.archive, store_id=store_id))

    async def create_memory(
        self,
        store_id: StoreId,
        path: str,
        content: str,
        *,
        view: View = "basic",
        memory_id: MemoryId | None = None,
    ) -> Memory:
        _check_id(store_id)
        paging.check_view(view)
        if memory_id is not None and not (memory_id.startswith("mem_") and memory_id.isascii() and memory_id.isprintable()):
            raise InvalidRequest("a memory id begins with mem_ and has printable ASCII characters only")
        maximum = self._database.max_memories
        return await self._database.write(
            lambda connection: memory_rows.create(connection, self._actor, store_id, path, content, view, memory_id, maximum)
        )

    async def list_memories(
        self,
        store_id: StoreId,
        *,
        path_prefix: str | None = None,
        depth: int | None = None,
        limit: int = DEFAULT_LIMIT,
        page: str | None = None,
        view: View = "basic",
    ) -> Page[Listed]:
        _check_id(store_id)
        maximum = self.capabilities.max_limit
        return await self._database.read(
            lambda connection: listing.list_page(connection, store_id, path_prefix, depth, limit, page, view, maximum)
        )

    async def retrieve_memory(self, store_id: StoreId, memory_id: MemoryId, *, view: View = "full") -> Memory:
        _check_id(store_id, memory_id)
        paging.check_view(view)
        return await self._database.read(lambda connection: memory_rows.retrieve(connection, store_id, memory_id, view))

    async def update_memory(
        self,
        store_id: StoreId,
        memory_id: MemoryId,
        *,
        content: str | None = None,
        path: str | None = None,
        precondition: Sha256 | None = None,
        view: View = "basic",
    ) -> Memory:
        _check_id(store_id, memory_id)
        paging.check_view(view)
        return await self._database.write(
            lambda connection: memory_rows.change(
                connection, self._actor, store_id, memory_id, content, path, precondition, view
            )
        )

    async def delete_memory(
        self, store_id: StoreId, memory_id: MemoryId, *, expected_content_sha256: Sha256 | None = None
    ) -> DeletedMemory:
        _check_id(store_id, memory_id)
        return await self._database.write(
            lambda connection: memory_rows.remove(connection, self._actor, store_id, memory_id, expected_content_sha256)
        )

    async def list_versions(
        self,
        store_id: StoreId,
        *,
        memory_id: MemoryId | None = None,
        operation: Operation | None = None,
        session_id: SessionId | None = None,
        api_key_id: ApiKeyId | None = None,
        service_account_id: str | None = None,
        created_at_gte: datetime | None = None,
        created_at_lte: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        page: str | None = None,
        view: View = "basic",
    ) -> Page[MemoryVersion]:
        _check_id(store_id)
        actors = (
            ("session_actor", session_id),
            ("api_actor", api_key_id),
            ("service_account_actor", service_account_id),
        )
        filters = version_rows.Filters(
            memory_id=memory_id,
            operation=operation,
            actors=tuple((kind, identity) for kind, identity in actors if identity is not None),
            gte=_us(created_at_gte),
            lte=_us(created_at_lte),
        )
        maximum = self.capabilities.max_limit
        return await self._database.read(
            lambda connection: version_rows.list_page(connection, store_id, filters, limit, page, view, maximum)
        )

    async def retrieve_version(self, store_id: StoreId, version_id: VersionId, *, view: View = "full") -> MemoryVersion:
        _check_id(store_id, version_id)
        paging.check_view(view)
        return await self._database.read(lambda connection: version_rows.retrieve(connection, store_id, version_id, view))

    async def redact_version(self, store_id: StoreId, version_id: VersionId) -> MemoryVersion:
        """As the protocol says; raises `PermissionDenied` when the actor is a session (contract section 5)."""
        _check_id(store_id, version_id)
        redacted = await self._database.write(
            lambda connection: version_rows.redact(connection, self._actor, store_id, version_id)
        )
        await self._database.purge()
        return redacted

    async def usage(self, store_id: StoreId) -> Usage:
        _check_id(store_id)
        return await self._database.read(partial(store_rows.usage, store_id=store_id))

    async def change_token(self, store_id: StoreId) -> object | None:
        return await self._database.change_token()

    async def sync(self) -> None:
        await self._database.sync()

    async def aclose(self) -> None:
        if self._owns_database:
            await self._database.aclose()


def _us(moment: datetime | None) -> int | None:
    return None if moment is None else to_us(moment)


def _check_id(*ids: str) -> None:
    # The databases cannot take every text; no id of ours has another character than these.
    for one in ids:
        if not one.isascii() or "\0" in one:
            raise NotFound(f"there is nothing with the id {one!a}")
