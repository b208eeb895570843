"""The contract's objects (section 2), as the wire shows them.

Times are aware datetimes in UTC. Unknown fields of a newer service are ignored.
"""

from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from memfs.model.content import Sha256
from memfs.model.ids import ApiKeyId, MemoryId, SessionId, StoreId, VersionId

Operation = Literal["created", "modified", "deleted"]
View = Literal["basic", "full"]
Item = TypeVar("Item")

Access = Literal["read_write", "read_only"]


def format_time(time: datetime) -> str:
    """RFC 3339 in UTC with microseconds and ``Z``: ``2026-08-25T05:52:19.185042Z``."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Time = Annotated[datetime, PlainSerializer(format_time, return_type=str)]


class Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Store(Model):
    """A memory store. Writing memories does not move `updated_at`; archiving does."""

    id: StoreId
    type: Literal["memory_store"] = "memory_store"
    name: str
    description: str = ""
    metadata: dict[str, str] = Field(default_factory=dict)
    created_at: Time
    updated_at: Time
    archived_at: Time | None = None


class Memory(Model):
    """The head of a memory. `content` is None in the basic view. The id survives renames.

    The last three are not of the contract, and no wire shows them: services that know more fill them in.
    """

    id: MemoryId
    type: Literal["memory"] = "memory"
    memory_store_id: StoreId
    memory_version_id: VersionId
    path: str
    content: str | None = None
    content_sha256: Sha256
    content_size_bytes: int
    created_at: Time
    updated_at: Time
    media_type: str | None = Field(default=None, exclude=True)
    """Set for a binary memory, which can only be read; its `content` is None."""
    binary: bytes | None = Field(default=None, exclude=True, repr=False)
    """The content of a binary memory, in the full view."""
    metadata: dict[str, str] = Field(default_factory=dict, exclude=True)


class MemoryPrefix(Model):
    """A directory in a listing with depth 1; its path ends with a slash."""

    type: Literal["memory_prefix"] = "memory_prefix"
    path: str


class SessionActor(Model):
    type: Literal["session_actor"] = "session_actor"
    session_id: SessionId = Field(min_length=1)


class ApiActor(Model):
    """`api_key_id` is None where a service does not name the key (OMA's console users)."""

    type: Literal["api_actor"] = "api_actor"
    api_key_id: ApiKeyId | None = None


class UserActor(Model):
    type: Literal["user_actor"] = "user_actor"
    user_id: str = Field(min_length=1)


class ServiceAccountActor(Model):
    type: Literal["service_account_actor"] = "service_account_actor"
    service_account_id: str = Field(min_length=1)


class UnknownActor(Model):
    """An actor of a type that this program does not know yet."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    type: str


KnownActor = Annotated[SessionActor | ApiActor | UserActor | ServiceAccountActor, Field(discriminator="type")]
Actor = Annotated[KnownActor | UnknownActor, Field(union_mode="left_to_right")]


class MemoryVersion(Model):
    """One change of one memory.

    A deleted version has a path but no content, hash or size; a redacted one has neither, and `redacted_at` is set.
    """

    id: VersionId
    type: Literal["memory_version"] = "memory_version"
    memory_store_id: StoreId
    memory_id: MemoryId
    operation: Operation
    path: str | None = None
    content: str | None = None
    content_sha256: Sha256 | None = None
    content_size_bytes: int | None = None
    created_at: Time
    created_by: Actor | None = None
    redacted_at: Time | None = None
    redacted_by: Actor | None = None
    media_type: str | None = Field(default=None, exclude=True)
    """As those of `Memory`; not of the contract."""
    binary: bytes | None = Field(default=None, exclude=True, repr=False)


class DeletedMemory(Model):
    """What a deletion answers."""

    id: MemoryId
    type: Literal["memory_deleted"] = "memory_deleted"


class DeletedStore(Model):
    id: StoreId
    type: Literal["memory_store_deleted"] = "memory_store_deleted"


class Page(Model, Generic[Item]):
    """One page of a listing; `next_page` is the cursor of the next one, None on the last."""

    data: list[Item]
    next_page: str | None = None
