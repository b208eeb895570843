"""`MemoryStore` over the contract's endpoints (section 3)."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter

from memfs.model import content as contents
from memfs.model import paths
from memfs.model.content import Sha256, sha256_of
from memfs.model.errors import ConcurrentModification, InvalidRequest, NotSupported, PathConflict
from memfs.model.ids import ApiKeyId, MemoryId, SessionId, StoreId, VersionId
from memfs.model.objects import (
    DeletedMemory,
    DeletedStore,
    Memory,
    MemoryPrefix,
    MemoryVersion,
    Operation,
    Page,
    Store,
    View,
)
from memfs.model.sessions import Session
from memfs.stores.answers import checked_hash, gone_by_us, intact, page_of, result, time_parameter
from memfs.stores.base import DEFAULT_LIMIT, Capabilities, Listed, Usage
from memfs.stores.credentials import Credentials
from memfs.stores.managed.connection import SESSIONS_BETA, Connection
from memfs.stores.transport import DEFAULT_TIMEOUT, encodable

T = TypeVar("T")


def _typed(value: Any) -> Any:
    # A service whose stores have no type speaks another contract, perhaps one whose create overwrites: it is refused at the
    # first answer of all, before anything is written.
    if not isinstance(value, dict) or value.get("type") != "memory_store":
        raise ValueError("not a memory_store")
    return value


_STORE: TypeAdapter[Store] = TypeAdapter(Annotated[Store, BeforeValidator(_typed)])
_STORES: TypeAdapter[Page[Store]] = TypeAdapter(Page[Annotated[Store, BeforeValidator(_typed)]])
_LISTING = TypeAdapter(Page[Annotated[Memory | MemoryPrefix, Field(discriminator="type")]])
_MEMORY = TypeAdapter(Memory)
_VERSIONS = TypeAdapter(Page[MemoryVersion])
_VERSION = TypeAdapter(MemoryVersion)
_DELETED_MEMORY = TypeAdapter(DeletedMemory)
_DELETED_STORE = TypeAdapter(DeletedStore)
_SESSION = TypeAdapter(Session)


class ManagedMemoryStore:
    """The stores of Claude, OMA or `memfs serve`, in the name of one credential.

    Every call ends within the connection's time-out. A call that raises `Unavailable` may have been applied.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"<ManagedMemoryStore {self._connection.url}>"

    @property
    def capabilities(self) -> Capabilities:
        """Cautious until the service has answered once."""
        return self._connection.service.capabilities

    @property
    def requests(self) -> "Counter[str]":
        """Requests sent so far, repeated ones too, by the name of the method that sent them."""
        return self._connection.requests

    # Stores

    async def create_store(self, name: str, *, description: str = "", metadata: Mapping[str, str] | None = None) -> Store:
        """Two stores may bear one name, so a repeat after a lost answer would make a second: it is left to the caller."""
        body = {"name": name, "description": description, "metadata": dict(metadata or {})}
        answer = await self._connection.call("create_store", "POST", "memory_stores", body=body, repeatable=False)
        return result(answer, _STORE)

    async def list_stores(
        self,
        *,
        include_archived: bool = False,
        created_at_gte: datetime | None = None,
        created_at_lte: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        page: str | None = None,
    ) -> Page[Store]:
        query = {
            "include_archived": "true" if include_archived else None,
            "created_at[gte]": time_parameter(created_at_gte),
            "created_at[lte]": time_parameter(created_at_lte),
            "limit": str(limit),
            "page": page,
        }
        answer = await self._connection.call("list_stores", "GET", "memory_stores", query=query)
        return page_of(result(answer, _STORES), page)

    async def retrieve_store(self, store_id: StoreId) -> Store:
        answer = await self._connection.call("retrieve_store", "GET", "memory_stores", store_id)
        return result(answer, _STORE)

    async def update_store(
        self,
        store_id: StoreId,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Store:
        given = {"name": name, "description": description, "metadata": None if metadata is None else dict(metadata)}
        body = {field: value for field, value in given.items() if value is not None}
        answer = await self._connection.call("update_store", "POST", "memory_stores", store_id, body=body)
        return result(answer, _STORE)

    async def delete_store(self, store_id: StoreId) -> DeletedStore:
        answer = await self._connection.call("delete_store", "DELETE", "memory_stores", store_id)
        if gone_by_us(answer):
            return DeletedStore(id=store_id)
        return result(answer, _DELETED_STORE)

    async def archive_store(self, store_id: StoreId) -> Store:
        answer = await self._connection.call("archive_store", "POST", "memory_stores", store_id, "archive")
        return result(answer, _STORE)

    # Memories

    async def create_memory(
        self,
        store_id: StoreId,
        path: str,
        content: str,
        *,
        view: View = "basic",
        memory_id: MemoryId | None = None,
    ) -> Memory:
        if memory_id is not None:
            raise NotSupported("this service chooses the ids of memories itself")
        body = {"path": paths.check_path(path), "content": content}
        ours = sha256_of(contents.encode(content))
        answer = await self._connection.call(
            "create_memory", "POST", "memory_stores", store_id, "memories", query={"view": view}, body=body
        )
        try:
            return result(answer, _MEMORY, creating=True)
        except PathConflict as conflict:
            # Section 3.3: after a lost answer the memory in the way may be the one that we just made.
            if not answer.maybe_applied or conflict.path != path or conflict.memory_id is None:
                raise
            standing = await self.retrieve_memory(store_id, conflict.memory_id, view=view)
            if standing.path != path or standing.content_sha256 != ours:
                raise
            return standing

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
        if depth not in (None, 0, 1):
            raise InvalidRequest("depth must be 0 or 1")
        if path_prefix and not encodable(paths.check_prefix(path_prefix)):
            return Page(data=[])  # no path can begin like this, and no URL can say it
        query = {
            "path_prefix": paths.check_prefix(path_prefix) if path_prefix else None,
            "depth": "1" if depth else None,  # some services refuse 0; leaving it out says the same everywhere
            "limit": str(limit),
            "page": page,
            "view": view,
        }
        answer = await self._connection.call("list_memories", "GET", "memory_stores", store_id, "memories", query=query)
        listing: Page[Listed] = result(answer, _LISTING)
        return page_of(listing, page)

    async def retrieve_memory(self, store_id: StoreId, memory_id: MemoryId, *, view: View = "full") -> Memory:
        answer = await self._connection.call(
            "retrieve_memory", "GET", "memory_stores", store_id, "memories", memory_id, query={"view": view}
        )
        return intact(result(answer, _MEMORY), view)

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
        body: dict[str, Any] = {}
        if content is not None:
            contents.encode(content)
            body["content"] = content
        if path is not None:
            body["path"] = paths.check_path(path)
        if not body:
            raise InvalidRequest("an update must give a content or a path")
        if precondition is not None:
            body["precondition"] = {"type": "content_sha256", "content_sha256": checked_hash(precondition)}
        answer = await self._connection.call(
            "update_memory", "POST", "memory_stores", store_id, "memories", memory_id, query={"view": view}, body=body
        )
        if answer.failure is not None and answer.failure.message in self._connection.service.lost_race_messages:
            raise ConcurrentModification(answer.failure.sentence())
        return result(answer, _MEMORY)

    async def delete_memory(
        self, store_id: StoreId, memory_id: MemoryId, *, expected_content_sha256: Sha256 | None = None
    ) -> DeletedMemory:
        expected = None if expected_content_sha256 is None else checked_hash(expected_content_sha256)
        answer = await self._connection.call(
            "delete_memory",
            "DELETE",
            "memory_stores",
            store_id,
            "memories",
            memory_id,
            query={"expected_content_sha256": expected},
        )
        if gone_by_us(answer):
            return DeletedMemory(id=memory_id)
        return result(answer, _DELETED_MEMORY)

    # Versions

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
        query = {
            "memory_id": memory_id,
            "operation": operation,
            "session_id": session_id,
            "api_key_id": api_key_id,
            "service_account_id": service_account_id,
            "created_at[gte]": time_parameter(created_at_gte),
            "created_at[lte]": time_parameter(created_at_lte),
            "limit": str(limit),
            "page": page,
            "view": view,
        }
        answer = await self._connection.call("list_versions", "GET", "memory_stores", store_id, "memory_versions", query=query)
        return page_of(result(answer, _VERSIONS), page)

    async def retrieve_version(self, store_id: StoreId, version_id: VersionId, *, view: View = "full") -> MemoryVersion:
        answer = await self._connection.call(
            "retrieve_version", "GET", "memory_stores", store_id, "memory_versions", version_id, query={"view": view}
        )
        return result(answer, _VERSION)

    async def redact_version(self, store_id: StoreId, version_id: VersionId) -> MemoryVersion:
        answer = await self._connection.call(
            "redact_version", "POST", "memory_stores", store_id, "memory_versions", version_id, "redact"
        )
        if answer.failure is not None and answer.failure.status == 409:  # how some services refuse the head
            raise InvalidRequest(answer.failure.sentence())
        return result(answer, _VERSION)

    # Not of the store endpoints

    async def retrieve_session(self, session_id: SessionId) -> Session:
        """The session and what it attaches (section 7). Raises `NotFound`."""
        answer = await self._connection.call("retrieve_session", "GET", "sessions", session_id, beta=SESSIONS_BETA)
        return result(answer, _SESSION)

    async def usage(self, store_id: StoreId) -> Usage | None:
        return None

    async def change_token(self, store_id: StoreId) -> object | None:
        return None

    async def sync(self) -> None:
        """What a service has answered is stored; there is nothing left to do here."""

    async def aclose(self) -> None:
        await self._connection.aclose()


async def open_managed(
    url: str, *, credentials: Credentials | None = None, timeout: float = DEFAULT_TIMEOUT
) -> ManagedMemoryStore:
    """The stores at `url`. Asks nothing yet; the first call finds out which service it is, and whether it is there.

    `credentials` None: those of the environment. `timeout` bounds each call, in seconds.
    """
    return ManagedMemoryStore(Connection(url, credentials or Credentials(), timeout=timeout))
