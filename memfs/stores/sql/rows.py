"""Values as the tables keep them, and the contract's objects made of rows.

The objects are made without validation: what a row holds was checked when it was written.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from memfs.model.errors import InvalidRequest
from memfs.model.ids import StoreId
from memfs.model.objects import (
    Actor,
    ApiActor,
    Memory,
    MemoryVersion,
    ServiceAccountActor,
    SessionActor,
    UserActor,
)
from memfs.stores.sql.schema import memories, versions
from memfs.stores.sql.statement import Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

MEMORY_COLUMNS = [
    memories.c.id,
    memories.c.path,
    memories.c.version_id,
    memories.c.content_sha256,
    memories.c.content_size_bytes,
    memories.c.created_at,
    memories.c.updated_at,
]

VERSION_COLUMNS = [column for column in versions.columns if column.name != "content"]


def now_us() -> int:
    return time.time_ns() // 1000


def from_us(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def to_us(moment: datetime) -> int:
    """Raises `InvalidRequest` for a time without a zone."""
    if moment.tzinfo is None:
        raise InvalidRequest("a time needs a zone, such as 2026-08-25T05:52:19Z")
    return (moment - _EPOCH) // _MICROSECOND


def actor_columns(actor: Actor | None) -> tuple[str | None, str | None]:
    """Type and id of `actor`; raises `InvalidRequest` for one of an unknown type."""
    match actor:
        case None:
            return None, None
        case SessionActor():
            return actor.type, actor.session_id
        case ApiActor():
            return actor.type, actor.api_key_id
        case UserActor():
            return actor.type, actor.user_id
        case ServiceAccountActor():
            return actor.type, actor.service_account_id
    raise InvalidRequest(f"an actor of the type {actor.type} cannot write here")


def actor_of(kind: str | None, identity: Any) -> Actor | None:
    """The inverse of `actor_columns`."""
    match kind:
        case "session_actor":
            return SessionActor.model_construct(session_id=identity)
        case "api_actor":
            return ApiActor.model_construct(api_key_id=identity)
        case "user_actor":
            return UserActor.model_construct(user_id=identity)
        case "service_account_actor":
            return ServiceAccountActor.model_construct(service_account_id=identity)
    return None


def memory_of(row: Row, store_id: StoreId, content: str | None = None) -> Memory:
    """A row of `MEMORY_COLUMNS` as an object."""
    # Every field is named, also those that are as always: looking a default up takes longer than all the rest.
    return Memory.model_construct(
        id=row[0],
        type="memory",
        memory_store_id=store_id,
        memory_version_id=row[2],
        path=row[1],
        content=content,
        content_sha256=row[3],
        content_size_bytes=row[4],
        created_at=from_us(row[5]),
        updated_at=from_us(row[6]),
        media_type=None,
        binary=None,
        metadata={},
    )


def version_of(row: Row, content: bytes | None = None) -> MemoryVersion:
    """A row of `VERSION_COLUMNS` as an object."""
    (
        version_id,
        store_id,
        memory_id,
        operation,
        path,
        sha256,
        size,
        created_at,
        actor_type,
        actor_id,
        redacted_at,
        redacted_by_type,
        redacted_by_id,
    ) = row[:13]
    return MemoryVersion.model_construct(
        id=version_id,
        type="memory_version",
        memory_store_id=store_id,
        memory_id=memory_id,
        operation=operation,
        path=path,
        content=None if content is None else content.decode(),
        content_sha256=sha256,
        content_size_bytes=size,
        created_at=from_us(created_at),
        created_by=actor_of(actor_type, actor_id),
        redacted_at=None if redacted_at is None else from_us(redacted_at),
        redacted_by=actor_of(redacted_by_type, redacted_by_id),
        media_type=None,
        binary=None,
    )
