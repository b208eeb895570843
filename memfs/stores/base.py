"""`MemoryStore`: the one seam between memfs and the services that keep memories.

The methods are the contract's 14 endpoints (section 3) in its own words, and every backend behaves as section 3 says; where a
service differs, its `Capabilities` say so, as data. All methods raise the errors of `memfs.model.errors`, and besides those
named with each: `Unauthenticated`, `PermissionDenied`, `NotFound` for an unknown store, memory or version, and `Unavailable`.

A backend object acts in the name of one actor, that of its credential or of the session it was opened for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from memfs.model.content import Sha256
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

MAX_LIMIT = 100
MAX_FULL_LIMIT = 20
DEFAULT_LIMIT = 20

Listed = Memory | MemoryPrefix


@dataclass(frozen=True)
class Capabilities:
    """What a service can do beyond, or short of, the contract. The defaults are the contract.

    `prefix_excludes_memory`, `native_rename` and `guarded_delete` tell people what to expect, and a test holds each backend to
    them. The layers above need not ask: what a service answers says which id a renamed memory has and what lies where, and a
    backend whose service checks no hash of a deletion compares it first.
    """

    local: bool = False
    """Calls take microseconds and cannot be lost on the way: no journal before a request, no cache behind it."""
    chooses_memory_id: bool = False
    """`create_memory` takes the id from the caller, so that a new file knows its inode number before its first save."""
    max_limit: int = MAX_LIMIT
    """The largest page that `list_memories` and `list_versions` give in the basic view."""
    change_token: bool = False
    """`change_token` tells cheaply whether anything may have changed."""
    strict_time_order: bool = False
    """No two versions of a store share a `created_at`, and a later one has a later time."""
    time_resolution_ns: int = 1_000
    """What `created_at` and `updated_at` are rounded to, in nanoseconds (OMA: whole seconds)."""
    prefix_excludes_memory: bool = True
    """``/a`` and ``/a/b`` never both exist (false on OMA)."""
    empty_content: bool = True
    """A memory may be empty, or hold nothing but white space."""
    native_rename: bool = True
    """`update_memory` changes a path and keeps the id."""
    guard: Literal["sha256", "version", "none"] = "sha256"
    """What a precondition on an update is checked against; "none": a conflict cannot be detected."""
    guarded_delete: bool = True
    """`delete_memory` honours `expected_content_sha256`."""
    versions: bool = True
    """Versions can be listed and retrieved."""
    version_times: bool = True
    """`list_versions` honours `created_at_gte` and `created_at_lte`."""
    attribution: bool = True
    """Versions name the actor that made them."""
    search: bool = False
    """The service has a search of its own."""
    max_memories: int | None = None
    """How many memories a store may hold, where known beforehand."""
    read_only: bool = False
    """Nobody but the service itself writes here."""
    depth_listing: bool = True
    """`list_memories` with depth 1 costs what it shows; false: it reads all below the prefix, however deep."""
    grouped_listing: bool = False
    """`list_memories` without a depth names all below one directory together, so that a part of it tells which are complete."""
    head_versions: bool = True
    """`memory_version_id` is the id of a version in the history; false: only something that changes with every version."""


@dataclass(frozen=True)
class Usage:
    """What a store holds: live memories, and the bytes of their heads."""

    memories: int
    content_bytes: int


class MemoryStore(Protocol):
    """The stores of one service, as one actor may use them."""

    @property
    def capabilities(self) -> Capabilities: ...

    # Stores

    async def create_store(self, name: str, *, description: str = "", metadata: Mapping[str, str] | None = None) -> Store: ...

    async def list_stores(
        self,
        *,
        include_archived: bool = False,
        created_at_gte: datetime | None = None,
        created_at_lte: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        page: str | None = None,
    ) -> Page[Store]:
        """Newest first."""
        ...

    async def retrieve_store(self, store_id: StoreId) -> Store: ...

    async def update_store(
        self,
        store_id: StoreId,
        *,
        name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Store:
        """`metadata` is a patch: a text sets a key, None deletes it. Raises `StoreArchived`."""
        ...

    async def delete_store(self, store_id: StoreId) -> DeletedStore: ...

    async def archive_store(self, store_id: StoreId) -> Store:
        """One way; archiving again changes nothing."""
        ...

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
        """Never overwrites. `memory_id` only where the capabilities allow it: then a repeat of a call whose answer was lost
        (same id, path and content) answers like the first.

        Raises `InvalidPath`, `ContentTooLarge`, `ContentNotText`, `PathConflict`, `StoreArchived`, `StoreFull`.
        """
        ...

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
        """All below `path_prefix` (None: the whole store); with depth 1 its direct children, deeper ones as prefixes."""
        ...

    async def retrieve_memory(self, store_id: StoreId, memory_id: MemoryId, *, view: View = "full") -> Memory: ...

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
        """One new version, or none where nothing changes (then the precondition does not count, section 3.2).

        Raises `PreconditionFailed` when the stored hash is not `precondition`, and as `create_memory` does.
        """
        ...

    async def delete_memory(
        self, store_id: StoreId, memory_id: MemoryId, *, expected_content_sha256: Sha256 | None = None
    ) -> DeletedMemory:
        """Raises `PreconditionFailed`."""
        ...

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
        """Newest first; both times inclusive."""
        ...

    async def retrieve_version(self, store_id: StoreId, version_id: VersionId, *, view: View = "full") -> MemoryVersion: ...

    async def redact_version(self, store_id: StoreId, version_id: VersionId) -> MemoryVersion:
        """Raises `InvalidRequest` for the head of a live memory. Redacting again changes nothing."""
        ...

    # Not of the contract

    async def usage(self, store_id: StoreId) -> Usage | None:
        """What the store holds, where the service can say so at once; else None."""
        ...

    async def change_token(self, store_id: StoreId) -> object | None:
        """A value that differs from an earlier one when the store may have changed since; None where that is not known.

        Costs no request.
        """
        ...

    async def sync(self) -> None:
        """Return when all that was stored would survive a loss of power."""
        ...

    async def aclose(self) -> None: ...


# What some services can do besides; a service that can has the method


@runtime_checkable
class TriesGuard(Protocol):
    """A service whose documentation leaves open how, and so whether, it checks a precondition."""

    async def try_guard(self, store_id: StoreId) -> str | None:
        """Find out with a memory made for that. None: conflicts are detected; else a sentence that says why they are not.

        Afterwards `capabilities.guard` tells the same.
        """
        ...


@dataclass(frozen=True)
class SearchRequest:
    """What to ask of a service that searches by meaning. None: the service's own default."""

    query: str
    scope: str | None = None
    """``app/tenant/agent/run``, later parts may be left out or ``*``; None: that of the mount."""
    filter: Mapping[str, Any] | None = None
    context_scope: str | None = None
    """An exact scope whose memories come first among equals."""
    top_k: int | None = None
    min_similarity: float | None = None
    """Between 0 and 1, as `min_score`."""
    min_score: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    rerank: bool = True
    evidence: bool = False


@runtime_checkable
class SearchesMemories(Protocol):
    """A service with a search of its own (`Capabilities.search`)."""

    async def search_memories(self, store_id: StoreId, request: SearchRequest) -> dict[str, Any]:
        """The service's answer as it came: `results`, `fileResults` and, where asked for, `evidence`.

        Raises `InvalidRequest` for what the service would refuse, before anything is sent where that can be told.
        """
        ...

    def finds_memories(self, store_id: StoreId) -> bool:
        """Whether the service's search covers the memories that are written through it."""
        ...


@runtime_checkable
class KeepsMetadata(Protocol):
    """A service that keeps a few short texts beside the content of a memory (`Memory.metadata`)."""

    async def update_metadata(
        self, store_id: StoreId, memory_id: MemoryId, changes: Mapping[str, str | None], *, precondition: Sha256
    ) -> Memory:
        """`changes` is a patch: a text sets a key, None deletes it. One new version, or none where nothing changes.

        Raises `PreconditionFailed` when the stored hash is not `precondition`, `MetadataTooLong` and `MetadataFull`.
        """
        ...


@dataclass(frozen=True)
class StructuredMemory:
    """A memory that a service made from messages: no file of the store, to be read only."""

    id: str
    kind: str
    """Such as ``atomic_fact``."""
    title: str
    text: str
    facts: Mapping[str, Any]
    """What else is known, by name: keywords, metadata, times."""
    created_at: datetime
    updated_at: datetime


@runtime_checkable
class KeepsStructured(Protocol):
    """A service with memories that are no files."""

    async def structured_memories(self, store_id: StoreId) -> Sequence[StructuredMemory]:
        """All of them, in an order that stays; none where the store keeps none."""
        ...
