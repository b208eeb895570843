"""`MemoryStore` over Tablestore's AgentStorage: the files of one exact scope.

Every action is a POST with everything in its body. An update names the version that it is based on, so that it is refused also
after an edit that was taken back, and after a rename; where only the version moved and the content did not, it is sent again
with the new version.

Which code a conflict has is not told by the documentation, so that conflicts are judged by status and by looking.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from memfs.model import content as contents
from memfs.model import paths
from memfs.model.content import Sha256, sha256_of
from memfs.model.errors import (
    BadAnswer,
    ConcurrentModification,
    InvalidRequest,
    MemfsError,
    NotFound,
    NotSupported,
    PathConflict,
    PermissionDenied,
    PreconditionFailed,
    StoreArchived,
    StoreFull,
    Unauthenticated,
)
from memfs.model.ids import ApiKeyId, MemoryId, SessionId, StoreId, VersionId
from memfs.model.objects import (
    Actor,
    DeletedMemory,
    DeletedStore,
    Memory,
    MemoryVersion,
    Operation,
    Page,
    SessionActor,
    Store,
    View,
)
from memfs.stores.answers import checked_hash, checked_limit, gone_by_us, intact, time_parameter
from memfs.stores.base import (
    DEFAULT_LIMIT,
    MAX_FULL_LIMIT,
    MAX_LIMIT,
    Capabilities,
    Listed,
    SearchRequest,
    StructuredMemory,
    Usage,
)
from memfs.stores.credentials import REMEDY, Credential, Credentials
from memfs.stores.failures import error_of
from memfs.stores.tablestore import wire
from memfs.stores.tablestore.scope import Scope, parse_exact
from memfs.stores.tablestore.search import search_body
from memfs.stores.transport import DEFAULT_TIMEOUT, Answer, Failure, Transport, load, require_tls

CONFLICT_STATUSES = frozenset({409, 412})
"""How the service refuses a taken path or an old version: not documented; every related service uses one of these."""
SEARCHES_WRITTEN_FILES = False
"""Whether the service's search covers files that applications write: its pages speak of those that it made itself only."""
MAX_ROUNDS = 10
"""How often an update is sent again because the version moved and the content did not."""

_BUSY_CODES = frozenset(
    {
        "OTSServerBusy",
        "OTSRowOperationConflict",
        "OTSNotEnoughCapacityUnit",
        "OTSTableNotReady",
        "OTSPartitionUnavailable",
        "OTSOperationConflict",
        "OTSOperationThrottled",
    }
)
"""Failures after which nothing was done and the same request may be sent again, whatever their status."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KNOWN_HEADS = 20_000


class _Connection(Transport):
    def was_refused_unread(self, failure: Failure) -> bool:
        return failure.status == 429 or failure.type in _BUSY_CODES

    async def call(self, endpoint: str, action: str, body: Mapping[str, Any], *, repeatable: bool = True) -> Answer:
        return await self.request(endpoint, "POST", action, body=body, repeatable=repeatable)


class TablestoreMemoryStore:
    """The memory stores of one instance, or one of them, as seen from one exact scope.

    Every call of the service ends within the connection's time-out. A call that raises `Unavailable` may have been applied.
    """

    def __init__(self, connection: _Connection, scope: Scope, *, store: str | None, session_id: SessionId | None) -> None:
        """`store` None: all stores of the instance. Writes are made in the name of `session_id`."""
        self._connection = connection
        self._scope = scope
        self._only = store
        self._session_id = session_id
        self._rows: dict[str, wire.Object] = {}
        """What is known of the stores, by name."""
        self._heads: OrderedDict[MemoryId, Memory] = OrderedDict()
        """The newest head that was seen of each item: an update names its version."""

    def __repr__(self) -> str:
        return f"<TablestoreMemoryStore {self._connection.url} {self._scope}>"

    @property
    def capabilities(self) -> Capabilities:
        """With one store, as that store allows; it has been looked at by then."""
        row = self._rows.get(self._only) if self._only is not None else None
        written = row is None or wire.takes_files(row)
        return Capabilities(
            time_resolution_ns=1_000_000_000,
            prefix_excludes_memory=False,
            guard="version",
            search=True,
            versions=written,
            read_only=not written,
        )

    @property
    def requests(self) -> "Counter[str]":
        """Requests sent so far, repeated ones too, by the name of the method that sent them."""
        return self._connection.requests

    # Ids of stores: the service has names only, and each scope has a content of its own

    def _id(self, name: str) -> StoreId:
        return StoreId(f"memstore_{name}-{hashlib.sha256(f'{self._connection.url} {self._scope}'.encode()).hexdigest()[:12]}")

    def _name(self, store_id: StoreId) -> str:
        """Raises `NotFound` for an id of another instance or scope, or none."""
        name = store_id.removeprefix("memstore_").rpartition("-")[0]
        if not name or self._id(name) != store_id or self._only not in (None, name):
            raise NotFound(f"there is no store {store_id!r} in scope {self._scope} here")
        return name

    async def _known(self, name: str) -> wire.Object:
        """What the service says about a store."""
        row = self._rows.get(name)
        if row is None:
            answer = await self._connection.call("retrieve_store", "GetMemoryStore", {"memoryStoreName": name})
            row = self._rows[name] = load(_body(answer))
        return row

    def _base(self, name: str) -> dict[str, Any]:
        return {"type": wire.TYPE, "memoryStoreName": name, "scope": self._scope.wire()}

    def _attributed(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if self._session_id is None else {**body, "sessionId": self._session_id}

    # Stores

    async def look(self) -> None:
        """Make sure that the one store exists and speaks this generation of the protocol; two requests, both reading."""
        if self._only is None:
            return
        row = await self._known(self._only)
        if "file" in wire.outputs_of(row):
            await self.list_memories(self._id(self._only), limit=1)

    async def create_store(self, name: str, *, description: str = "", metadata: Mapping[str, str] | None = None) -> Store:
        """A store that takes files. Names are unique here, so a repeat does no harm. Raises `NotSupported` for metadata."""
        if metadata:
            raise NotSupported("this service keeps no metadata of stores")
        if not name.isascii() or not name.replace("_", "").isalnum() or len(name) > 32:
            raise InvalidRequest("a store's name has 1 to 32 ASCII letters, digits and underscores here")
        if len(description.encode()) > 1024:
            raise InvalidRequest("a store's description has at most 1,024 bytes")
        body = {"memoryStoreName": name, "description": description, "inputType": "file", "outputTypes": ["file"]}
        answer = await self._connection.call("create_store", "CreateMemoryStore", body)
        if answer.failure is not None and answer.failure.status in CONFLICT_STATUSES:
            if not answer.maybe_applied:
                raise InvalidRequest(f"there is a store {name!r} already: names are unique on this service")
            return await self.retrieve_store(self._id(name))
        return wire.store_of(load(_body(answer)), self._id(name), created_at=_EPOCH)

    async def list_stores(
        self,
        *,
        include_archived: bool = False,
        created_at_gte: datetime | None = None,
        created_at_lte: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        page: str | None = None,
    ) -> Page[Store]:
        """In the service's order; no store is ever archived. One request a store, for their descriptions and times."""
        checked_limit(limit, MAX_LIMIT)
        if self._only is not None:
            names, following = [self._only], None
        else:
            body = {"limit": limit, **({"nextToken": page} if page is not None else {})}
            answer = await self._connection.call("list_stores", "ListMemoryStores", body)
            found = wire.page_of(load(_body(answer)), "stores", lambda row: str(row.get("memoryStoreName")), page)
            names, following = found.data, found.next_page
        stores = [await self.retrieve_store(self._id(name)) for name in names]
        kept = [
            store
            for store in stores
            if (created_at_gte is None or store.created_at >= created_at_gte)
            and (created_at_lte is None or store.created_at <= created_at_lte)
        ]
        return Page(data=kept, next_page=following)

    async def retrieve_store(self, store_id: StoreId) -> Store:
        name = self._name(store_id)
        self._rows.pop(name, None)
        return wire.store_of(await self._known(name), store_id, created_at=_EPOCH)

    async def update_store(
        self,
        store_id: StoreId,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Store:
        """Only the description can change."""
        own = self._name(store_id)
        if (name is not None and name != own) or metadata:
            raise NotSupported("this service changes nothing of a store but its description")
        if description is not None and len(description.encode()) > 1024:
            raise InvalidRequest("a store's description has at most 1,024 bytes")
        body = {"memoryStoreName": own, **({} if description is None else {"description": description})}
        answer = await self._connection.call("update_store", "UpdateMemoryStore", body)
        row = self._rows[own] = load(_body(answer))
        return wire.store_of(row, store_id, created_at=_EPOCH)

    async def delete_store(self, store_id: StoreId) -> DeletedStore:
        """Deletes the files of every scope."""
        name = self._name(store_id)
        answer = await self._connection.call("delete_store", "DeleteMemoryStore", {"memoryStoreName": name})
        if answer.failure is not None and not gone_by_us(answer):
            raise _error(answer)
        self._rows.pop(name, None)
        return DeletedStore(id=store_id)

    async def archive_store(self, store_id: StoreId) -> Store:
        self._name(store_id)
        raise NotSupported("this service cannot archive a store: mount it read-only instead")

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
        name = self._name(store_id)
        ours = sha256_of(contents.encode(content))
        body = {**self._base(name), "path": paths.check_path(path), "content": content, "view": view}
        answer = await self._connection.call("create_memory", "AddItem", self._attributed(body))
        if answer.failure is None:
            return self._read(answer, store_id, view)
        self._refuse_write(answer)
        if answer.failure.status not in CONFLICT_STATUSES:
            raise _error(answer)
        standing = await self._at(store_id, path)
        if standing is not None and answer.maybe_applied and standing.content_sha256 == ours:
            return await self.retrieve_memory(store_id, standing.id, view=view)
        memory = None if standing is None else standing.id
        raise _told(answer, PathConflict(answer.failure.sentence(), path=path, memory_id=memory))

    def _refuse_write(self, answer: Answer) -> None:
        """Raise what the service tells by a code of its own."""
        failure = answer.failure
        assert failure is not None
        if failure.type == "READ_ONLY_STORE":
            raise _told(answer, StoreArchived("the files of this store are written by the service itself, nobody else can"))
        if failure.type == "QUOTA_EXCEEDED":
            raise _told(answer, StoreFull(failure.sentence()))

    def _read(self, answer: Answer, store_id: StoreId, view: View) -> Memory:
        memory = intact(wire.memory_of(load(_body(answer)), store_id), view)
        return wire.in_view(self._seen(memory), view)

    def _seen(self, memory: Memory) -> Memory:
        """Remember what an update of this item has to name."""
        self._heads[memory.id] = wire.in_view(memory, "basic")
        self._heads.move_to_end(memory.id)
        if len(self._heads) > _KNOWN_HEADS:
            self._heads.popitem(last=False)
        return memory

    async def _at(self, store_id: StoreId, path: str) -> Memory | None:
        """The memory with that path."""
        body = {**self._base(self._name(store_id)), "path": path}
        answer = await self._connection.call("retrieve_memory", "GetItem", body)
        if answer.failure is not None and answer.failure.status == 404:
            return None
        return self._read(answer, store_id, "basic")

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
        """Binary items come without their content, also in the full view. A store without files has none."""
        if depth not in (None, 0, 1):
            raise InvalidRequest("depth must be 0 or 1")
        checked_limit(limit, MAX_LIMIT)
        name = self._name(store_id)
        if "file" not in wire.outputs_of(await self._known(name)):
            return Page(data=[])
        prefix = paths.check_prefix(path_prefix) if path_prefix else "/"
        if not paths.can_hold(prefix):
            return Page(data=[])
        body = {**self._base(name), "depth": depth or 0, "view": view}
        body["limit"] = min(limit, MAX_FULL_LIMIT) if view == "full" else limit
        if prefix != "/":
            body["pathPrefix"] = prefix
        if page is not None:
            body["nextToken"] = page
        answer = await self._connection.call("list_memories", "ListItems", body)
        found = wire.page_of(load(_body(answer)), "items", lambda row: wire.listed_of(row, store_id), page)
        for item in found.data:
            if isinstance(item, Memory):
                self._seen(item)
        return found

    async def retrieve_memory(self, store_id: StoreId, memory_id: MemoryId, *, view: View = "full") -> Memory:
        body = {**self._base(self._name(store_id)), "itemId": memory_id, "view": view}
        return self._read(await self._connection.call("retrieve_memory", "GetItem", body), store_id, view)

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
        name = self._name(store_id)
        if content is None and path is None:
            raise InvalidRequest("an update must give a content or a path")
        if precondition is not None:
            checked_hash(precondition)
        ours = None if content is None else sha256_of(contents.encode(content))
        change: dict[str, Any] = {} if content is None else {"content": content}
        if path is not None:
            change["path"] = paths.check_path(path)
        head = self._heads.get(memory_id)
        # A head that was seen earlier will do when the service compares it with its own.
        same = head is not None and (ours == head.content_sha256 or path == head.path)
        if head is None or same or precondition not in (None, head.content_sha256):
            head = await self.retrieve_memory(store_id, memory_id, view="basic")
        maybe_applied = False
        for _ in range(MAX_ROUNDS):
            if (ours in (None, head.content_sha256)) and path in (None, head.path):
                return head if view == "basic" else await self.retrieve_memory(store_id, memory_id)
            if precondition is not None and head.content_sha256 != precondition:
                failed = PreconditionFailed("the memory's content is another one by now")
                failed.maybe_applied = maybe_applied
                raise failed
            body = {**self._base(name), "itemId": memory_id, **change, "view": view}
            body["precondition"] = {"expectedVersionId": head.memory_version_id}
            answer = await self._connection.call("update_memory", "UpdateItem", self._attributed(body))
            if answer.failure is None:
                return self._read(answer, store_id, view)
            self._refuse_write(answer)
            if answer.failure.status not in CONFLICT_STATUSES:
                raise _error(answer)
            maybe_applied = maybe_applied or answer.maybe_applied
            earlier, head = head, await self.retrieve_memory(store_id, memory_id, view="basic")
            if earlier.memory_version_id == head.memory_version_id:
                # The version was right, so it is the path that is taken.
                standing = None if path is None else await self._at(store_id, path)
                if path is None or (standing is not None and standing.id == memory_id):
                    continue
                other = None if standing is None else standing.id
                raise _told(answer, PathConflict(answer.failure.sentence(), path=path, memory_id=other))
        raise ConcurrentModification("others save this memory all the time: read it again, then repeat")

    async def delete_memory(
        self, store_id: StoreId, memory_id: MemoryId, *, expected_content_sha256: Sha256 | None = None
    ) -> DeletedMemory:
        name = self._name(store_id)
        if expected_content_sha256 is not None:
            checked_hash(expected_content_sha256)
        head = self._heads.get(memory_id)
        for _ in range(MAX_ROUNDS):
            body = {**self._base(name), "itemId": memory_id}
            if expected_content_sha256 is not None:
                if head is None or head.content_sha256 != expected_content_sha256:
                    head = await self.retrieve_memory(store_id, memory_id, view="basic")
                if head.content_sha256 != expected_content_sha256:
                    raise PreconditionFailed("the memory's content is another one by now")
                body["precondition"] = {"expectedVersionId": head.memory_version_id}
            answer = await self._connection.call("delete_memory", "DeleteItem", self._attributed(body))
            if answer.failure is None or gone_by_us(answer):
                self._heads.pop(memory_id, None)
                return DeletedMemory(id=memory_id)
            self._refuse_write(answer)
            if answer.failure.status not in CONFLICT_STATUSES or expected_content_sha256 is None:
                raise _error(answer)
            head = await self.retrieve_memory(store_id, memory_id, view="basic")
        raise ConcurrentModification("others change this memory all the time: read it again, then repeat")

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
        """The service cannot filter by API key yet: that is done here, so that a page may hold less. None where the service
        writes the files itself."""
        name = self._name(store_id)
        checked_limit(limit, MAX_LIMIT)
        if service_account_id is not None or not wire.takes_files(await self._known(name)):
            return Page(data=[])
        given = {
            "itemId": memory_id,
            "operation": operation,
            "sessionId": session_id,
            "createdAtGte": time_parameter(created_at_gte),
            "createdAtLte": time_parameter(created_at_lte),
            "nextToken": page,
        }
        body = {**self._base(name), "limit": min(limit, MAX_FULL_LIMIT) if view == "full" else limit, "view": view}
        body |= {field: value for field, value in given.items() if value is not None}
        answer = await self._connection.call("list_versions", "ListItemVersions", body)
        found = wire.page_of(load(_body(answer)), "versions", lambda row: wire.version_of(row, store_id), page)
        if api_key_id is None:
            return found
        kept = [version for version in found.data if getattr(version.created_by, "api_key_id", None) == api_key_id]
        return Page(data=kept, next_page=found.next_page)

    async def retrieve_version(self, store_id: StoreId, version_id: VersionId, *, view: View = "full") -> MemoryVersion:
        body = {**self._base(self._name(store_id)), "versionId": version_id, "view": view}
        answer = await self._connection.call("retrieve_version", "GetItemVersion", body)
        return wire.version_of(load(_body(answer)), store_id)

    async def redact_version(self, store_id: StoreId, version_id: VersionId) -> MemoryVersion:
        """The service would redact what a memory holds now; it is refused here."""
        version = await self.retrieve_version(store_id, version_id, view="basic")
        try:
            head = await self.retrieve_memory(store_id, version.memory_id, view="basic")
        except NotFound:
            head = None
        if head is not None and head.memory_version_id == version_id:
            raise InvalidRequest("this is what the memory holds now: change or delete the memory first")
        body = {**self._base(self._name(store_id)), "versionId": version_id}
        answer = await self._connection.call("redact_version", "RedactItemVersion", self._attributed(body))
        return wire.version_of(load(_body(answer)), store_id)

    # Memories that are no files, and the service's search

    async def structured_memories(self, store_id: StoreId) -> Sequence[StructuredMemory]:
        name = self._name(store_id)
        if "structured" not in wire.outputs_of(await self._known(name)):
            return []
        found: list[StructuredMemory] = []
        page: str | None = None
        while True:
            body = {"memoryStoreName": name, "scope": self._scope.wire(), "limit": MAX_LIMIT}
            if page is not None:
                body["nextToken"] = page
            answer = await self._connection.call("structured_memories", "ListMemories", body)
            part = wire.page_of(load(_body(answer)), "memories", wire.structured_of, page)
            found += part.data
            page = part.next_page
            if page is None:
                return sorted(found, key=lambda memory: (memory.kind, memory.created_at, memory.id))

    async def search_memories(self, store_id: StoreId, request: SearchRequest) -> dict[str, Any]:
        name = self._name(store_id)
        row = await self._known(name)
        makes_files = "file" in wire.outputs_of(row)
        body = search_body(request, name, self._scope, has_files=makes_files)
        answer = dict(load(_body(await self._connection.call("search_memories", "SearchMemories", body))))
        for name_of_list in ("results", "fileResults"):
            if not isinstance(answer.get(name_of_list), list):
                raise BadAnswer(f"the service's answer to a search has no {name_of_list}")
        return answer

    def finds_memories(self, store_id: StoreId) -> bool:
        row = self._rows.get(self._name(store_id), {})
        return SEARCHES_WRITTEN_FILES or not wire.takes_files(row)

    # Not of the actions

    async def usage(self, store_id: StoreId) -> Usage | None:
        return None

    async def change_token(self, store_id: StoreId) -> object | None:
        return None

    async def sync(self) -> None:
        """What a service has answered is stored; there is nothing left to do here."""

    async def aclose(self) -> None:
        await self._connection.aclose()


async def open_tablestore(
    url: str, *, actor: Actor, credentials: Credentials | None = None, timeout: float = DEFAULT_TIMEOUT
) -> TablestoreMemoryStore:
    """The store at ``tablestore+https://INSTANCE.ENDPOINT/STORE?scope=app/tenant/agent/run``; without STORE all of them.

    ``&instance=NAME`` names the instance where it is not the first part of the host. `credentials` None: those of the
    environment. Raises `InvalidRequest` before anything is sent when the scope is not exact or the URL has no TLS; then the
    store is looked at once, so that a wrong endpoint, key, store or generation is told here and once.
    """
    address, _, query = url.removeprefix("tablestore+").partition("?")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    given = settings.pop("scope", None)
    require_tls(address, even_here=True)
    parts = urlsplit(address)
    instance = settings.pop("instance", None) or (parts.hostname or "").partition(".")[0]
    if settings:
        raise InvalidRequest(f"the URL of this service has no setting {next(iter(settings))[:40]!r}: it has scope and instance")
    if given is None:
        raise InvalidRequest("the URL of this service must name whose memories: ?scope=app/tenant/agent/run")
    scope = parse_exact(given)
    store = unquote(parts.path.strip("/"))
    if "/" in store:
        raise InvalidRequest("the URL of this service names one store: https://INSTANCE.ENDPOINT/STORE?scope=...")

    def authorize(credential: Credential) -> Mapping[str, str]:
        return {"x-ots-instancename": instance, "x-ots-apikey": credential.secret.get_secret_value()}

    connection = _Connection(
        f"{parts.scheme}://{parts.netloc}", credentials or Credentials(), timeout=timeout, authorize=authorize
    )
    session_id = actor.session_id if isinstance(actor, SessionActor) else None
    service = TablestoreMemoryStore(connection, scope, store=store or None, session_id=session_id)
    try:
        await service.look()
    except BaseException:
        await service.aclose()
        raise
    return service


def _told(answer: Answer, error: MemfsError) -> MemfsError:
    error.maybe_applied = answer.maybe_applied
    return error


def _error(answer: Answer) -> MemfsError:
    failure = answer.failure
    assert failure is not None
    if failure.type == "OTSUnsupportOperation" or (failure.status == 404 and not failure.type):
        return BadAnswer(f"{failure.sentence()}; {wire.OLD_GENERATION}")
    error = error_of(failure, creating=True)
    if isinstance(error, PermissionDenied) and "auth" in failure.type.lower():
        error = Unauthenticated(f"{error.message}; {REMEDY}")
    return _told(answer, error)


def _body(answer: Answer) -> bytes:
    """Raises the error of a failure."""
    if answer.failure is not None:
        raise _error(answer)
    return answer.body
