"""`MemoryStore` over Model Studio's memory stores: near the contract, and different in what matters most.

* Documentation and SDK name the hash that guards an update differently, and a name that the service does not know is ignored
  without a word: both are sent, and `try_guard` finds out whether either counts. When none does, the content is compared here
  before each update, which leaves a moment in which an edit of somebody else can be lost from the live memory.
* A deletion has no guard; the content is compared here before it.
* The directories of a listing come apart from its memories.
* A conflict does not name the memory in the way; it is looked for.
"""

import contextlib
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, TypeAdapter

from memfs.model import content as contents
from memfs.model import paths
from memfs.model.content import Sha256, sha256_of
from memfs.model.errors import (
    BadAnswer,
    InvalidRequest,
    MemfsError,
    NotFound,
    NotSupported,
    PathConflict,
    PreconditionFailed,
    StoreArchived,
)
from memfs.model.ids import ApiKeyId, MemoryId, SessionId, StoreId, VersionId
from memfs.model.objects import (
    DeletedMemory,
    DeletedStore,
    Memory,
    MemoryPrefix,
    MemoryVersion,
    Model,
    Operation,
    Page,
    Store,
    View,
)
from memfs.stores.answers import checked_hash, checked_limit, gone_by_us, intact, page_of, result, time_parameter
from memfs.stores.base import DEFAULT_LIMIT, MAX_FULL_LIMIT, MAX_LIMIT, Capabilities, Listed, Usage
from memfs.stores.credentials import Credentials
from memfs.stores.transport import DEFAULT_TIMEOUT, Answer, Method, Transport, bearer, load, require_tls


def _typed(value: Any) -> Any:
    if not isinstance(value, dict) or value.get("type") != "memory_store":
        raise ValueError("not a memory_store")
    return {**value, "description": value.get("description") or "", "metadata": value.get("metadata") or {}}


class _Listing(Model):
    """A page of memories, and the directories that it passes."""

    data: list[Memory]
    prefixes: list[str] = Field(default_factory=list)
    next_page: str | None = None


_STORE: TypeAdapter[Store] = TypeAdapter(Annotated[Store, BeforeValidator(_typed)])
_STORES: TypeAdapter[Page[Store]] = TypeAdapter(Page[Annotated[Store, BeforeValidator(_typed)]])
_LISTING = TypeAdapter(_Listing)
_MEMORY = TypeAdapter(Memory)
_VERSIONS = TypeAdapter(Page[MemoryVersion])
_VERSION = TypeAdapter(MemoryVersion)


class _Connection(Transport):
    async def call(
        self,
        endpoint: str,
        method: Method,
        *segments: str,
        query: Mapping[str, str | None] | None = None,
        body: Mapping[str, Any] | None = None,
        repeatable: bool = True,
    ) -> Answer:
        return await self.request(endpoint, method, "memory_stores", *segments, query=query, body=body, repeatable=repeatable)


class ModelStudioMemoryStore:
    """The memory stores of one workspace.

    Every call of the service ends within the connection's time-out. A call that raises `Unavailable` may have been applied.
    """

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._guarded = True
        """Until the contrary is known."""

    def __repr__(self) -> str:
        return f"<ModelStudioMemoryStore {self._connection.url}>"

    @property
    def capabilities(self) -> Capabilities:
        known = Capabilities(
            time_resolution_ns=1_000_000,
            prefix_excludes_memory=False,
            guarded_delete=False,
            attribution=False,
        )
        return known if self._guarded else replace(known, guard="none")

    @property
    def requests(self) -> "Counter[str]":
        """Requests sent so far, repeated ones too, by the name of the method that sent them."""
        return self._connection.requests

    # Stores

    async def create_store(self, name: str, *, description: str = "", metadata: Mapping[str, str] | None = None) -> Store:
        """Two stores may bear one name, so a repeat after a lost answer would make a second: it is left to the caller."""
        body = {"name": _checked_name(name), "description": description, "metadata": dict(metadata or {})}
        return result(await self._connection.call("create_store", "POST", body=body, repeatable=False), _STORE)

    async def list_stores(
        self,
        *,
        include_archived: bool = False,
        created_at_gte: datetime | None = None,
        created_at_lte: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        page: str | None = None,
    ) -> Page[Store]:
        """The service does not filter by time: that is done here, so that a page may hold less than `limit`."""
        checked_limit(limit, MAX_LIMIT)
        query = {"include_archived": "true" if include_archived else None, "limit": str(limit), "page": page}
        answer = await self._connection.call("list_stores", "GET", query=query)
        found = page_of(result(answer, _STORES), page)
        if "has_more" in load(answer.body):
            raise BadAnswer("this is not Model Studio, whose lists have no `has_more`: is it Qoder (qoder+https://)?")
        kept = [
            store
            for store in found.data
            if (created_at_gte is None or store.created_at >= created_at_gte)
            and (created_at_lte is None or store.created_at <= created_at_lte)
        ]
        return Page(data=kept, next_page=found.next_page)

    async def retrieve_store(self, store_id: StoreId) -> Store:
        return result(await self._connection.call("retrieve_store", "GET", store_id), _STORE)

    async def update_store(
        self,
        store_id: StoreId,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Store:
        """The service replaces the whole metadata, so the patch is applied here."""
        body: dict[str, Any] = {} if name is None else {"name": _checked_name(name)}
        if description is not None:
            body["description"] = description
        if metadata is not None:
            merged = {**(await self.retrieve_store(store_id)).metadata, **metadata}
            body["metadata"] = {key: value for key, value in merged.items() if value is not None}
        return result(await self._connection.call("update_store", "POST", store_id, body=body), _STORE)

    async def delete_store(self, store_id: StoreId) -> DeletedStore:
        answer = await self._connection.call("delete_store", "DELETE", store_id)
        if answer.failure is not None and not gone_by_us(answer):
            return result(answer, TypeAdapter(DeletedStore))
        return DeletedStore(id=store_id)

    async def archive_store(self, store_id: StoreId) -> Store:
        return result(await self._connection.call("archive_store", "POST", store_id, "archive"), _STORE)

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
        answer = await self._connection.call("create_memory", "POST", store_id, "memories", body=body)
        try:
            made = result(answer, _MEMORY, creating=True)
        except PathConflict as conflict:
            standing = await self._at(store_id, path)
            if standing is None or not answer.maybe_applied or standing.content_sha256 != ours:
                raise _naming(conflict, path, standing) from None
            made = standing
        except InvalidRequest:
            await self._check_active(store_id)
            raise
        return await self._viewed(store_id, made, view)

    async def _viewed(self, store_id: StoreId, memory: Memory, view: View) -> Memory:
        """Whether a write tells the content is not sure: it is fetched where it is wanted, and left out where it is not."""
        if view == "full":
            return await self.retrieve_memory(store_id, memory.id)
        return memory.model_copy(update={"content": None})

    async def _at(self, store_id: StoreId, path: str) -> Memory | None:
        """The memory with that path: nobody can be asked but the list."""
        page: str | None = None
        while True:
            found = await self.list_memories(
                store_id, path_prefix=paths.parent_prefix(path), depth=1, limit=MAX_LIMIT, page=page
            )
            for item in found.data:
                if isinstance(item, Memory) and item.path == path:
                    return item
            page = found.next_page
            if page is None:
                return None

    async def _check_active(self, store_id: StoreId) -> None:
        store = await self.retrieve_store(store_id)
        if store.archived_at is not None:
            raise StoreArchived(f"the store {store.name!r} is archived and can only be read")

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
        checked_limit(limit, MAX_LIMIT)
        prefix = paths.check_prefix(path_prefix) if path_prefix else None
        if prefix is not None and not paths.can_hold(prefix):
            return Page(data=[])
        query = {
            "path_prefix": prefix,
            "depth": "1" if depth else None,
            "limit": str(min(limit, MAX_FULL_LIMIT) if view == "full" else limit),  # a larger one is refused, not cut
            "page": page,
            "view": view,
        }
        answer = await self._connection.call("list_memories", "GET", store_id, "memories", query=query)
        found = result(answer, _LISTING)
        rows: list[Listed] = [*found.data, *(MemoryPrefix(path=path) for path in found.prefixes)]
        rows.sort(key=lambda row: row.path.encode("utf-8", "surrogatepass"))
        return page_of(Page[Listed](data=rows, next_page=found.next_page), page)

    async def retrieve_memory(self, store_id: StoreId, memory_id: MemoryId, *, view: View = "full") -> Memory:
        answer = await self._connection.call("retrieve_memory", "GET", store_id, "memories", memory_id)
        memory = intact(result(answer, _MEMORY), "full")
        return memory if view == "full" else memory.model_copy(update={"content": None})

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
        """Raises `PreconditionFailed`; surely where the service detects conflicts, see `try_guard`."""
        if content is None and path is None:
            raise InvalidRequest("an update must give a content or a path")
        body: dict[str, Any] = {}
        if content is not None:
            contents.encode(content)
            body["content"] = content
        if path is not None:
            body["path"] = paths.check_path(path)
        if precondition is not None:
            checked_hash(precondition)
            body |= _guard(precondition)
            if not self._guarded:
                await self._compare(store_id, memory_id, precondition, body)
        answer = await self._connection.call("update_memory", "POST", store_id, "memories", memory_id, body=body)
        try:
            changed = result(answer, _MEMORY)
        except PathConflict as conflict:
            assert path is not None
            raise _naming(conflict, path, await self._at(store_id, path)) from None
        except InvalidRequest:
            await self._check_active(store_id)
            raise
        return await self._viewed(store_id, changed, view)

    async def _compare(self, store_id: StoreId, memory_id: MemoryId, expected: Sha256, change: Mapping[str, Any]) -> None:
        """Raise `PreconditionFailed` when the content is another one now, unless `change` changes nothing."""
        memory = await self.retrieve_memory(store_id, memory_id)
        if memory.content_sha256 == expected:
            return
        if change.get("content", memory.content) != memory.content or change.get("path", memory.path) != memory.path:
            raise PreconditionFailed("the memory's content is another one by now")

    async def delete_memory(
        self, store_id: StoreId, memory_id: MemoryId, *, expected_content_sha256: Sha256 | None = None
    ) -> DeletedMemory:
        """The expected hash is compared before the deletion, for the service does not."""
        if expected_content_sha256 is not None:
            checked_hash(expected_content_sha256)
            memory = await self.retrieve_memory(store_id, memory_id, view="basic")
            if memory.content_sha256 != expected_content_sha256:
                raise PreconditionFailed("the memory's content is another one by now")
        answer = await self._connection.call("delete_memory", "DELETE", store_id, "memories", memory_id)
        if gone_by_us(answer):
            return DeletedMemory(id=memory_id)
        try:
            return result(answer, TypeAdapter(DeletedMemory))
        except InvalidRequest:
            await self._check_active(store_id)
            raise

    async def try_guard(self, store_id: StoreId) -> str | None:
        """Makes a memory, updates it with a wrong hash, which must be refused, and deletes it."""
        name = f"/.memfs-guard-{secrets.token_hex(8)}.tmp"
        made = await self.create_memory(store_id, name, "memfs tests whether this service detects conflicts")
        try:
            wrong = _guard(sha256_of(b"not what it holds"))
            answer = await self._connection.call(
                "try_guard", "POST", store_id, "memories", made.id, body={"content": "conflicts are not detected", **wrong}
            )
            self._guarded = answer.failure is not None and answer.failure.status in (409, 412)
            if answer.failure is not None and not self._guarded:
                result(answer, _MEMORY)
        finally:
            with contextlib.suppress(NotFound):
                await self.delete_memory(store_id, made.id)
        if self._guarded:
            return None
        return (
            "CONFLICTS CANNOT BE DETECTED: this service stored an update whose content hash was wrong, so two sessions that "
            "save one memory at the same moment may overwrite each other"
        )

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
        """The service records no actors: a filter by actor finds nothing."""
        checked_limit(limit, MAX_LIMIT)
        if session_id is not None or api_key_id is not None or service_account_id is not None:
            return Page(data=[])
        query = {
            "memory_id": memory_id,
            "operation": operation,
            "created_at.gte": time_parameter(created_at_gte),
            "created_at.lte": time_parameter(created_at_lte),
            "limit": str(min(limit, MAX_FULL_LIMIT) if view == "full" else limit),
            "page": page,
            "view": view,
        }
        answer = await self._connection.call("list_versions", "GET", store_id, "memory_versions", query=query)
        return page_of(result(answer, _VERSIONS), page)

    async def retrieve_version(self, store_id: StoreId, version_id: VersionId, *, view: View = "full") -> MemoryVersion:
        answer = await self._connection.call("retrieve_version", "GET", store_id, "memory_versions", version_id)
        version = result(answer, _VERSION)
        return version if view == "full" else version.model_copy(update={"content": None})

    async def redact_version(self, store_id: StoreId, version_id: VersionId) -> MemoryVersion:
        """The service would redact what a memory holds now; it is refused here."""
        version = await self.retrieve_version(store_id, version_id, view="basic")
        try:
            head = await self.retrieve_memory(store_id, version.memory_id, view="basic")
        except NotFound:
            head = None
        if head is not None and head.memory_version_id == version_id:
            raise InvalidRequest("this is what the memory holds now: change or delete the memory first")
        answer = await self._connection.call("redact_version", "POST", store_id, "memory_versions", version_id, "redact")
        return result(answer, _VERSION)

    # Not of the endpoints

    async def usage(self, store_id: StoreId) -> Usage | None:
        return None

    async def change_token(self, store_id: StoreId) -> object | None:
        return None

    async def sync(self) -> None:
        """What a service has answered is stored; there is nothing left to do here."""

    async def aclose(self) -> None:
        await self._connection.aclose()


async def open_modelstudio(
    url: str, *, credentials: Credentials | None = None, timeout: float = DEFAULT_TIMEOUT
) -> ModelStudioMemoryStore:
    """The stores at `url`, ``modelstudio+https://HOST/api/v1/agentstudio``. Asks nothing yet.

    `credentials` None: those of the environment. `timeout` bounds each call, in seconds. Raises `InvalidRequest` for another
    URL; a key goes over TLS only, but to this machine itself.
    """
    address = url.removeprefix("modelstudio+")
    require_tls(address)
    if not urlsplit(address).path.strip("/"):
        raise InvalidRequest("the URL of this service ends in the path of its API, such as /api/v1/agentstudio")
    return ModelStudioMemoryStore(_Connection(address, credentials or Credentials(), timeout=timeout, authorize=bearer))


def _guard(sha256: Sha256) -> dict[str, Any]:
    """The hash that an update is based on, as the SDK names it and as the documentation does."""
    return {"content_sha256": sha256, "precondition": {"type": "content_sha256", "content_sha256": sha256}}


def _naming(conflict: PathConflict, path: str, standing: Memory | None) -> MemfsError:
    named = PathConflict(conflict.message, path=path, memory_id=None if standing is None else standing.id)
    named.maybe_applied = conflict.maybe_applied
    return named


def _checked_name(name: str) -> str:
    if not 1 <= len(name) <= 255 or not name.isprintable():
        raise InvalidRequest("a store's name has 1 to 255 characters, and no line break")
    return name
