"""`MemoryStore` over Qoder's memory stores.

What the service lacks is made up for here, as well as it can be:

* paths are relative there, and absolute here;
* a rename is a new memory with the same content and metadata, then the deletion of the old one: the history begins anew, and
  that is logged. The new one comes first, so that a failure in between leaves two, never none;
* a deletion has no guard: the content is compared first, which leaves a moment in which an edit of somebody else can be lost
  from the live memory (it stays in the history);
* lists are flat: those of one directory read everything below it.

A refusal is judged by its status alone, for the pages of the service contradict each other on its type.
"""

import logging
import uuid
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from memfs.model import content as contents
from memfs.model import paths
from memfs.model.content import Sha256, sha256_of
from memfs.model.errors import (
    BadAnswer,
    ConcurrentModification,
    InvalidRequest,
    MemfsError,
    MetadataFull,
    MetadataTooLong,
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
    Operation,
    Page,
    Store,
    View,
)
from memfs.stores.answers import checked_hash, checked_limit, gone_by_us
from memfs.stores.base import DEFAULT_LIMIT, MAX_FULL_LIMIT, MAX_LIMIT, Capabilities, Listed, Usage
from memfs.stores.credentials import Credentials
from memfs.stores.failures import error_of
from memfs.stores.qoder import wire
from memfs.stores.qoder.wire import GENERATIONS, Generation, Head
from memfs.stores.transport import DEFAULT_TIMEOUT, Answer, Method, Transport, bearer, load, require_tls

log = logging.getLogger(__name__)

T = TypeVar("T")

CONFLICT_STATUSES = frozenset({409, 412})
"""How the service refuses a taken path, an old guard, an archived store: documented as 409; 412 is taken for the same."""
MAX_ROUNDS = 10
"""How often an unguarded update is tried on yet another head."""
_KNOWN_HEADS = 20_000
_MAX_PAIRS, _MAX_KEY, _MAX_VALUE = 16, 64, 512
"""Of the metadata of a store or a memory: keys, and characters of each and of its value."""


class _Connection(Transport):
    """Adds what every request carries; a write has a key by which the service knows its repetition."""

    async def call(
        self,
        endpoint: str,
        method: Method,
        *segments: str,
        query: Mapping[str, str | None] | None = None,
        body: Mapping[str, Any] | None = None,
        repeatable: bool = True,
    ) -> Answer:
        headers = {} if method == "GET" else {"idempotency-key": str(uuid.uuid4())}
        return await self.request(
            endpoint, method, "memory_stores", *segments, query=query, body=body, headers=headers, repeatable=repeatable
        )


class QoderMemoryStore:
    """The memory stores of one account.

    `generation` None: found out at the first look into a store. Every call of the service ends within the connection's
    time-out. A call that raises `Unavailable` may have been applied.
    """

    def __init__(self, connection: _Connection, generation: Generation | None = None) -> None:
        self._connection = connection
        self._generation = generation
        self._heads: OrderedDict[MemoryId, Head] = OrderedDict()
        """The newest head that was seen of each memory: an update needs its number."""
        self._names_versions = False

    def __repr__(self) -> str:
        return f"<QoderMemoryStore {self._connection.url}>"

    @property
    def capabilities(self) -> Capabilities:
        guard = self._generation.guard if self._generation is not None else "sha256"
        return Capabilities(
            time_resolution_ns=1_000_000,
            prefix_excludes_memory=False,
            empty_content=False,
            native_rename=False,
            guard=guard,
            guarded_delete=False,
            version_times=False,
            attribution=False,
            depth_listing=False,
            head_versions=self._names_versions,
        )

    @property
    def requests(self) -> "Counter[str]":
        """Requests sent so far, repeated ones too, by the name of the method that sent them."""
        return self._connection.requests

    async def _of(self, store_id: StoreId) -> Generation:
        """The service's generation, asked for once: by what a memory looks like, else by which history exists."""
        if self._generation is not None:
            return self._generation
        answer = await self._connection.call("probe", "GET", store_id, "memories", query={"limit": "1"})
        rows = load(_body(answer)).get("data") or []
        found = wire.generation_of(rows[0]) if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None
        if found is None:
            modern = GENERATIONS["memory"]
            answer = await self._connection.call("probe", "GET", store_id, modern.versions, query={"limit": "1"})
            if answer.failure is not None and answer.failure.status not in (404, 405):
                raise error_of(answer.failure)
            found = modern if answer.failure is None else GENERATIONS["entry"]
        self._generation = found
        return found

    async def _list(
        self,
        endpoint: str,
        segments: Sequence[str],
        query: Mapping[str, str | None],
        page: str | None,
        read: Callable[[wire.Object], T],
    ) -> Page[T]:
        """One page of any list. Raises as `wire.page_of` does."""
        candidates = wire.cursors(page)
        for number, cursor in enumerate(candidates):
            answer = await self._connection.call(endpoint, "GET", *segments, query={**query, **cursor})
            refused = answer.failure is not None and answer.failure.status == 400
            if not refused or number == len(candidates) - 1:
                break
        return wire.page_of(_body(answer), read, page)

    # Stores

    async def create_store(self, name: str, *, description: str = "", metadata: Mapping[str, str] | None = None) -> Store:
        """Two stores may bear one name, so a repeat after a lost answer would make a second, but for its key."""
        _check_store(name, description, metadata)
        body = {"name": name, "description": description, "metadata": dict(metadata or {})}
        answer = await self._connection.call("create_store", "POST", body=body)
        return wire.store_of(load(_body(answer)))

    async def list_stores(
        self,
        *,
        include_archived: bool = False,
        created_at_gte: datetime | None = None,
        created_at_lte: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        page: str | None = None,
    ) -> Page[Store]:
        """A page may hold less than `limit`: the service filters nothing, so that is done here."""
        checked_limit(limit, MAX_LIMIT)
        query = {"limit": str(limit), "include_archived": "true" if include_archived else None}
        found = await self._list("list_stores", [], query, page, wire.store_of)
        kept = [
            store
            for store in found.data
            if (include_archived or store.archived_at is None)
            and (created_at_gte is None or store.created_at >= created_at_gte)
            and (created_at_lte is None or store.created_at <= created_at_lte)
        ]
        return Page(data=kept, next_page=found.next_page)

    async def retrieve_store(self, store_id: StoreId) -> Store:
        answer = await self._connection.call("retrieve_store", "GET", store_id)
        return wire.store_of(load(_body(answer)))

    async def update_store(
        self,
        store_id: StoreId,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Store:
        """The service replaces the whole metadata, so the patch is applied here. Raises `NotSupported` on the generation that
        cannot change a store."""
        if not (await self._of(store_id)).updates_stores:
            raise NotSupported("this generation of the service cannot change a store: make another one")
        current = await self.retrieve_store(store_id)
        if current.archived_at is not None:
            raise StoreArchived(f"the store {current.name!r} is archived and cannot be changed")
        body: dict[str, Any] = {}
        if name is not None:
            body["name"] = name
        if description is not None:
            body["description"] = description
        if metadata is not None:
            body["metadata"] = _patched(current.metadata, metadata)
        _check_store(body.get("name", "n"), body.get("description", ""), None)
        answer = await self._connection.call("update_store", "POST", store_id, body=body)
        return wire.store_of(load(_body(answer)))

    async def delete_store(self, store_id: StoreId) -> DeletedStore:
        answer = await self._connection.call("delete_store", "DELETE", store_id)
        if answer.failure is not None and not gone_by_us(answer):
            raise error_of(answer.failure)
        return DeletedStore(id=store_id)

    async def archive_store(self, store_id: StoreId) -> Store:
        answer = await self._connection.call("archive_store", "POST", store_id, "archive")
        if answer.failure is not None and answer.failure.status in CONFLICT_STATUSES:
            current = await self.retrieve_store(store_id)
            if current.archived_at is not None:
                return current
        return wire.store_of(load(_body(answer)))

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
        """Raises `InvalidRequest` for a blank content."""
        if memory_id is not None:
            raise NotSupported("this service chooses the ids of memories itself")
        return wire.in_view((await self._create(store_id, path, content, None)).memory, view)

    async def _create(self, store_id: StoreId, path: str, content: str, metadata: Mapping[str, str] | None) -> Head:
        body: dict[str, Any] = {"path": _relative(path), "content": _checked_content(content)}
        if metadata:
            body["metadata"] = dict(metadata)
        answer = await self._connection.call("create_memory", "POST", store_id, "memories", body=body)
        if answer.failure is None:
            return self._seen(wire.head_of(load(answer.body)))
        if answer.failure.status not in CONFLICT_STATUSES:
            raise _error(answer)
        standing = await self._at(store_id, path)
        if standing is None:
            await self._check_active(store_id)
            raise _told(answer, PathConflict(answer.failure.sentence(), path=path, memory_id=None))
        ours = sha256_of(content.encode())
        if answer.maybe_applied and standing.memory.content_sha256 == ours:
            return await self._retrieve(store_id, standing.memory.id)
        await self._check_active(store_id)
        raise _told(answer, PathConflict(answer.failure.sentence(), path=path, memory_id=standing.memory.id))

    async def _at(self, store_id: StoreId, path: str) -> Head | None:
        """The memory with that path: nobody can be asked but the list."""
        async for head in self._all(store_id, path):
            if head.memory.path == path:
                return head
        return None

    async def _check_active(self, store_id: StoreId) -> None:
        store = await self.retrieve_store(store_id)
        if store.archived_at is not None:
            raise StoreArchived(f"the store {store.name!r} is archived and can only be read")

    async def _all(self, store_id: StoreId, prefix: str) -> AsyncIterator[Head]:
        """Every memory whose path begins with `prefix`, in the service's order."""
        page: str | None = None
        while True:
            found = await self._page(store_id, prefix, MAX_LIMIT, page)
            for head in found.data:
                yield head
            page = found.next_page
            if page is None:
                return

    async def _page(self, store_id: StoreId, prefix: str, limit: int, page: str | None) -> Page[Head]:
        generation = await self._of(store_id)
        query: dict[str, str | None] = {"limit": str(limit)}
        if generation.filters and prefix != "/":
            query["path_prefix"] = prefix[1:]
        found = await self._list("list_memories", [store_id, "memories"], query, page, wire.head_of)
        heads = [self._seen(head) for head in found.data if head.memory.path.startswith(prefix)]
        return Page[Any](data=heads, next_page=found.next_page)

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
        """In the service's own order, and pages may hold less than `limit`; with depth 1 sorted, each page reads everything.

        In the full view one request a memory.
        """
        if depth not in (None, 0, 1):
            raise InvalidRequest("depth must be 0 or 1")
        checked_limit(limit, MAX_LIMIT)
        limit = min(limit, MAX_FULL_LIMIT) if view == "full" else limit
        prefix = paths.check_prefix(path_prefix) if path_prefix else "/"
        if not paths.can_hold(prefix):
            return Page(data=[])
        if depth == 1:
            rows, following = await self._children(store_id, prefix, limit, page)
        else:
            found = await self._page(store_id, prefix, limit, page)
            rows, following = [head.memory for head in found.data], found.next_page
        if view == "full":
            rows = [full for row in rows if (full := await self._in_full(store_id, row)) is not None]
        return Page(data=rows, next_page=following)

    async def _in_full(self, store_id: StoreId, row: Listed) -> Listed | None:
        """A row of a listing with its content; None when the memory was deleted since."""
        if isinstance(row, MemoryPrefix):
            return row
        try:
            return (await self._retrieve(store_id, row.id)).memory
        except NotFound:
            return None

    async def _children(self, store_id: StoreId, prefix: str, limit: int, page: str | None) -> tuple[list[Listed], str | None]:
        found: dict[str, Listed] = {}
        async for head in self._all(store_id, prefix):
            first, slash, _ = head.memory.path[len(prefix) :].partition("/")
            path = f"{prefix}{first}{slash}"
            found[path] = MemoryPrefix(path=path) if slash else head.memory
        after = "" if page is None else page.removeprefix("row:")
        rows = [row for path, row in sorted(found.items(), key=lambda one: one[0].encode()) if path.encode() > after.encode()]
        return rows[:limit], f"row:{rows[limit - 1].path}" if len(rows) > limit else None

    async def retrieve_memory(self, store_id: StoreId, memory_id: MemoryId, *, view: View = "full") -> Memory:
        return wire.in_view((await self._retrieve(store_id, memory_id)).memory, view)

    async def _retrieve(self, store_id: StoreId, memory_id: MemoryId) -> Head:
        answer = await self._connection.call("retrieve_memory", "GET", store_id, "memories", memory_id)
        return self._seen(wire.head_of(load(_body(answer))))

    def _seen(self, head: Head) -> Head:
        """Remember what an update of this memory has to name."""
        self._names_versions = self._names_versions or wire.parse_head_version(head.memory.memory_version_id) is None
        memory = head.memory
        kept = head if memory.content is None else Head(memory.model_copy(update={"content": None}), head.number)
        self._heads[memory.id] = kept
        self._heads.move_to_end(memory.id)
        if len(self._heads) > _KNOWN_HEADS:
            self._heads.popitem(last=False)
        return head

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
        """A change of the path gives a memory with another id. Raises `InvalidRequest` for a blank content."""
        if content is None and path is None:
            raise InvalidRequest("an update must give a content or a path")
        if precondition is not None:
            checked_hash(precondition)
        if content is not None:
            contents.encode(content)
        if path is not None:
            _relative(path)
        head = self._heads.get(memory_id)
        ours = None if content is None else sha256_of(content.encode())
        # A head that was seen earlier will do when the service compares it with its own.
        if path is not None or head is None or head.memory.content_sha256 != precondition or ours == precondition:
            head = await self._retrieve(store_id, memory_id)
        if path is not None and path != head.memory.path:
            return wire.in_view((await self._move(store_id, head, path, content, precondition)).memory, view)
        if ours is None or ours == head.memory.content_sha256:
            return await self._again(store_id, head, view)
        assert content is not None
        return wire.in_view((await self._update(store_id, head, content, precondition)).memory, view)

    async def update_metadata(
        self, store_id: StoreId, memory_id: MemoryId, changes: Mapping[str, str | None], *, precondition: Sha256
    ) -> Memory:
        """The service takes metadata with a content only, and all of it: both are read first.

        Where its guard is the content's hash, metadata that another session sets in that moment is lost.
        """
        head = await self._retrieve(store_id, memory_id)
        content = head.memory.content
        assert content is not None
        if _patched(head.memory.metadata, changes) != head.memory.metadata:
            head = await self._update(store_id, head, content, precondition, changes)
        return wire.in_view(head.memory, "basic")

    async def _again(self, store_id: StoreId, head: Head, view: View) -> Memory:
        """The memory as it is: there was nothing to change."""
        if view == "full" and head.memory.content is None:
            head = await self._retrieve(store_id, head.memory.id)
        return wire.in_view(head.memory, view)

    async def _update(
        self,
        store_id: StoreId,
        head: Head,
        content: str,
        precondition: Sha256 | None,
        changes: Mapping[str, str | None] | None = None,
    ) -> Head:
        """`changes` None: the metadata stays as it is."""
        _checked_content(content)
        generation = await self._of(store_id)
        ours = sha256_of(content.encode())
        memory_id = head.memory.id
        maybe_applied = False
        for _ in range(MAX_ROUNDS):
            if precondition is not None and head.memory.content_sha256 != precondition:
                failed = PreconditionFailed("the memory's content is another one by now")
                failed.maybe_applied = maybe_applied
                raise failed
            body: dict[str, Any] = {"content": content}
            if generation.guard == "sha256":
                body["content_sha256"] = head.memory.content_sha256
            else:
                body["version"] = head.number
            if changes is not None:
                body["metadata"] = _patched(head.memory.metadata, changes)
            answer = await self._connection.call(
                "update_memory",
                generation.update_method,
                store_id,
                "memories",
                memory_id,
                body=body,
            )
            if answer.failure is None:
                return self._seen(wire.head_of(load(answer.body)))
            if answer.failure.status not in CONFLICT_STATUSES:
                self._heads.pop(memory_id, None)
                raise _error(answer)
            maybe_applied = maybe_applied or answer.maybe_applied
            earlier, head = head, await self._retrieve(store_id, memory_id)
            applied = (
                head.memory.content_sha256 == ours and _patched(head.memory.metadata, changes or {}) == head.memory.metadata
            )
            if maybe_applied and applied:
                return head
            if (earlier.number, earlier.memory.content_sha256) == (head.number, head.memory.content_sha256):
                # The guard was right, so it is not what was refused.
                await self._check_active(store_id)
                break
        raise ConcurrentModification("others save this memory all the time: read it again, then repeat")

    async def _move(self, store_id: StoreId, head: Head, path: str, content: str | None, precondition: Sha256 | None) -> Head:
        """The memory under another path: a new one, then the end of the old one."""
        old = head.memory
        if precondition is not None and old.content_sha256 != precondition:
            raise PreconditionFailed("the memory's content is another one by now")
        assert old.content is not None
        made = await self._create(store_id, path, old.content if content is None else content, old.metadata)
        try:
            await self.delete_memory(store_id, old.id, expected_content_sha256=old.content_sha256)
        except NotFound:
            pass  # somebody removed it meanwhile: what is left is what was wanted
        except PreconditionFailed:
            # Edited meanwhile: the old one has words that the new one lacks, so the new one goes.
            await self.delete_memory(store_id, made.memory.id, expected_content_sha256=made.memory.content_sha256)
            raise ConcurrentModification(f"{old.path}: another session changed it meanwhile; it was not renamed") from None
        except MemfsError as error:
            log.warning("%s was copied to %s, and the old one is still there: %s", old.path, path, error.message)
            raise
        log.warning(
            "%s is %s now: this service cannot rename, so it is a new memory (%s, was %s) whose history begins here",
            old.path,
            path,
            made.memory.id,
            old.id,
        )
        return made

    async def delete_memory(
        self, store_id: StoreId, memory_id: MemoryId, *, expected_content_sha256: Sha256 | None = None
    ) -> DeletedMemory:
        """The expected hash is compared before the deletion, and named in it for a service that honours it."""
        query: dict[str, str | None] = {}
        if expected_content_sha256 is not None:
            checked_hash(expected_content_sha256)
            head = await self._retrieve(store_id, memory_id)
            if head.memory.content_sha256 != expected_content_sha256:
                raise PreconditionFailed("the memory's content is another one by now")
            if (await self._of(store_id)).filters:
                query["expected_content_sha256"] = expected_content_sha256
        answer = await self._connection.call("delete_memory", "DELETE", store_id, "memories", memory_id, query=query)
        if answer.failure is not None and not gone_by_us(answer):
            if answer.failure.status in CONFLICT_STATUSES:
                await self._check_active(store_id)
                raise _told(answer, PreconditionFailed(answer.failure.sentence()))
            raise _error(answer)
        self._heads.pop(memory_id, None)
        return DeletedMemory(id=memory_id)

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
        """Filters that the service lacks are applied here, so that a page may hold less than `limit`, or nothing.

        It records no actors: a filter by actor finds nothing. In the full view one request a version.
        """
        checked_limit(limit, MAX_LIMIT)
        if session_id is not None or api_key_id is not None or service_account_id is not None:
            return Page(data=[])
        limit = min(limit, MAX_FULL_LIMIT) if view == "full" else limit
        generation = await self._of(store_id)
        query: dict[str, str | None] = {"limit": str(limit)}
        if generation.filters:
            query["memory_id"] = memory_id
        found = await self._list("list_versions", [store_id, generation.versions], query, page, wire.version_of)
        too_old = created_at_gte is not None and bool(found.data) and found.data[-1].created_at < created_at_gte
        kept = [
            version
            for version in found.data
            if (memory_id is None or version.memory_id == memory_id)
            and (operation is None or version.operation == operation)
            and (created_at_gte is None or version.created_at >= created_at_gte)
            and (created_at_lte is None or version.created_at <= created_at_lte)
        ]
        if view == "full":
            kept = [await self.retrieve_version(store_id, version.id) for version in kept]
        return Page(data=kept, next_page=None if too_old else found.next_page)

    async def _history(self, store_id: StoreId, memory_id: MemoryId) -> AsyncIterator[MemoryVersion]:
        """The versions of one memory, newest first, read as far as they are asked for."""
        page: str | None = None
        while True:
            found = await self.list_versions(store_id, memory_id=memory_id, limit=MAX_LIMIT, page=page)
            for version in found.data:
                yield version
            page = found.next_page
            if page is None:
                return

    async def retrieve_version(self, store_id: StoreId, version_id: VersionId, *, view: View = "full") -> MemoryVersion:
        """Also by the id that stands for a memory's newest version."""
        head = wire.parse_head_version(version_id)
        if head is not None:
            version_id = await self._version_of_head(store_id, *head)
        generation = await self._of(store_id)
        answer = await self._connection.call("retrieve_version", "GET", store_id, generation.versions, version_id)
        version = wire.version_of(load(_body(answer)))
        return version if view == "full" else version.model_copy(update={"content": None})

    async def _version_of_head(self, store_id: StoreId, memory_id: MemoryId, sha256: str) -> VersionId:
        async for version in self._history(store_id, memory_id):
            if version.content_sha256 is not None and version.content_sha256.startswith(sha256):
                return version.id
        raise NotFound("the history of this memory has no such version")

    async def redact_version(self, store_id: StoreId, version_id: VersionId) -> MemoryVersion:
        version = await self.retrieve_version(store_id, version_id, view="basic")
        if version.redacted_at is not None:
            return version
        async for newest in self._history(store_id, version.memory_id):
            if newest.id == version.id and newest.operation != "deleted":
                raise InvalidRequest("this is what the memory holds now: change or delete the memory first")
            break
        generation = await self._of(store_id)
        answer = await self._connection.call("redact_version", "POST", store_id, generation.versions, version.id, "redact")
        if answer.failure is not None and answer.failure.status in CONFLICT_STATUSES:
            return await self.retrieve_version(store_id, version.id)
        return wire.version_of(load(_body(answer)))

    # Not of the endpoints

    async def usage(self, store_id: StoreId) -> Usage | None:
        return None

    async def change_token(self, store_id: StoreId) -> object | None:
        return None

    async def sync(self) -> None:
        """What a service has answered is stored; there is nothing left to do here."""

    async def aclose(self) -> None:
        await self._connection.aclose()


async def open_qoder(url: str, *, credentials: Credentials | None = None, timeout: float = DEFAULT_TIMEOUT) -> QoderMemoryStore:
    """The stores at `url`: ``qoder+https://HOST/api/v1/cloud[?generation=entry|memory]``. Asks nothing yet.

    `credentials` None: those of the environment. `timeout` bounds each call, in seconds. Raises `InvalidRequest` for another
    URL; a token goes over TLS only, but to this machine itself.
    """
    parts = urlsplit(url)
    settings = dict(parse_qsl(parts.query, keep_blank_values=True))
    name = settings.pop("generation", None)
    if settings or (name is not None and name not in GENERATIONS):
        raise InvalidRequest("the URL of this service takes one setting: generation=entry or generation=memory")
    address = url.partition("?")[0].removeprefix("qoder+")
    require_tls(address)
    connection = _Connection(address, credentials or Credentials(), timeout=timeout, authorize=bearer)
    return QoderMemoryStore(connection, GENERATIONS[name] if name is not None else None)


def _relative(path: str) -> str:
    """`path` as the service wants it. Raises `InvalidPath`."""
    checked = paths.check_path(path)
    return checked[1:]


def _checked_content(content: str) -> str:
    """`content`; raises `InvalidRequest` when it is blank, and as `contents.encode` does."""
    contents.encode(content)
    if not content.strip():
        raise InvalidRequest("this service keeps no memory without text")
    return content


def _patched(metadata: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Raises `MetadataTooLong` and `MetadataFull` when the service would not keep the result."""
    patched = {key: value for key, value in {**metadata, **changes}.items() if value is not None}
    if any(not 1 <= len(key) <= _MAX_KEY or len(value) > _MAX_VALUE for key, value in patched.items()):
        raise MetadataTooLong(f"metadata has keys of 1 to {_MAX_KEY} characters, and values of at most {_MAX_VALUE}")
    if len(patched) > _MAX_PAIRS:
        raise MetadataFull(f"metadata has at most {_MAX_PAIRS} keys: remove one first")
    return patched


def _check_store(name: str, description: str, metadata: Mapping[str, str] | None) -> None:
    """What the service would do to a name without a word: cut it, or refuse it with the whole request."""
    if not name.strip() or len(name.strip()) > 64 or not name.isprintable():
        raise InvalidRequest("a store's name has 1 to 64 characters here, and no line break")
    if len(description.strip()) > 1024:
        raise InvalidRequest("a store's description has at most 1,024 characters")
    _patched(metadata or {}, {})


def _error(answer: Answer) -> MemfsError:
    assert answer.failure is not None
    return _told(answer, error_of(answer.failure, creating=True))


def _told(answer: Answer, error: MemfsError) -> MemfsError:
    error.maybe_applied = answer.maybe_applied
    return error


def _body(answer: Answer) -> bytes:
    """Raises the error of a failure, `BadAnswer` for an empty answer."""
    if answer.failure is not None:
        raise _error(answer)
    if not answer.body:
        raise BadAnswer("the service's answer is empty")
    return answer.body
