"""The service's objects, read as the contract's."""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from memfs.model.errors import BadAnswer
from memfs.model.ids import StoreId
from memfs.model.objects import Memory, MemoryPrefix, MemoryVersion, Page, Store, View
from memfs.stores.base import Listed, StructuredMemory

Object = Mapping[str, Any]
T = TypeVar("T")

TYPE = "memoryfile"
OLD_GENERATION = "the service speaks an older generation of its protocol than memfs does: it needs the one with version ids"


def _validated(make: Callable[[], T], what: str) -> T:
    try:
        return make()
    except (ValidationError, KeyError, TypeError, ValueError, binascii.Error):
        # Not what was wrong: that may be content.
        raise BadAnswer(f"the service's {what} is not what its documentation says") from None


def time_of(value: object) -> datetime:
    """A time as RFC 3339 text, or as milliseconds since 1970. Raises `ValueError`."""
    if isinstance(value, str):
        time = datetime.fromisoformat(value.replace("Z", "+00:00"))
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000, UTC)
    raise ValueError("no time")


def outputs_of(row: Object) -> frozenset[str]:
    """What a store makes of its input: ``structured``, ``file`` or both; by its types, or by its older storage mode."""
    modes = {"ots": {"structured"}, "file+ots": {"structured", "file"}, "filemem": {"file"}}
    outputs = row.get("outputTypes")
    if isinstance(outputs, list):
        return frozenset(str(output) for output in outputs)
    return frozenset(modes.get(str(row.get("storageMode")), {"structured"}))


def takes_files(row: Object) -> bool:
    """Whether files are written by applications and not by the service."""
    return row["inputType"] == "file" if "inputType" in row else row.get("storageMode") == "filemem"


def store_of(row: Object, store_id: StoreId, *, created_at: datetime) -> Store:
    """`created_at` stands for times that the service does not tell."""

    def make() -> Store:
        created = time_of(row["createdAt"]) if row.get("createdAt") else created_at
        return Store(
            id=store_id,
            name=row["memoryStoreName"],
            description=row.get("description") or "",
            created_at=created,
            updated_at=time_of(row["updatedAt"]) if row.get("updatedAt") else created,
        )

    return _validated(make, "memory store")


def memory_of(row: Object, store_id: StoreId) -> Memory:
    if row.get("type") == TYPE and "itemId" in row and "latestVersionId" not in row:
        raise BadAnswer(OLD_GENERATION)

    def make() -> Memory:
        if row["type"] != TYPE:
            raise ValueError
        return Memory(
            id=row["itemId"],
            memory_store_id=store_id,
            memory_version_id=row["latestVersionId"],
            path=row["path"],
            content=row.get("content"),
            content_sha256=row["contentSha256"],
            content_size_bytes=row["contentSizeBytes"],
            created_at=time_of(row["createdAt"]),
            updated_at=time_of(row["updatedAt"]),
            media_type=row.get("mediaType"),
            binary=_decoded(row),
        )

    return _validated(make, "item")


def _decoded(row: Object) -> bytes | None:
    encoded = row.get("contentBase64")
    return base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else None


def listed_of(row: Object, store_id: StoreId) -> Listed:
    if row.get("type") == f"{TYPE}_prefix":
        return _validated(lambda: MemoryPrefix(path=row["path"]), "prefix")
    return memory_of(row, store_id)


def _actor(row: object) -> object:
    """An actor in the contract's words; one of a kind to come stays as it is."""
    if not isinstance(row, dict) or not row.get("actorType"):
        return None
    kind, identifier = str(row["actorType"]), row.get("actorId")
    known = {
        "session": {"type": "session_actor", "session_id": identifier},
        "api_key": {"type": "api_actor", "api_key_id": identifier},
        "user": {"type": "user_actor", "user_id": identifier},
    }
    return known.get(kind, {"type": kind, "id": identifier}) if identifier else {"type": kind}


def version_of(row: Object, store_id: StoreId) -> MemoryVersion:
    def make() -> MemoryVersion:
        redacted = row.get("redactedAt") or (row["createdAt"] if row.get("redacted") else None)
        deleted = row["operation"] == "deleted"
        return MemoryVersion.model_validate(
            {
                "id": row["versionId"],
                "memory_store_id": store_id,
                "memory_id": row["itemId"],
                "operation": row["operation"],
                "path": row.get("path") or None,
                "content": row.get("content"),
                "content_sha256": None if deleted else row.get("contentSha256") or None,
                "content_size_bytes": None if deleted else row.get("contentSizeBytes"),
                "created_at": time_of(row["createdAt"]),
                "created_by": _actor(row.get("createdBy")),
                "redacted_at": None if redacted is None else time_of(redacted),
                "redacted_by": _actor(row.get("redactedBy")),
                "media_type": row.get("mediaType"),
                "binary": _decoded(row),
            }
        )

    return _validated(make, "version")


def structured_of(row: Object) -> StructuredMemory:
    def make() -> StructuredMemory:
        created = time_of(row["created_at"])
        shown = ("keywords", "metadata", "effective_at", "time_precision", "topic", "speaker", "salience", "conversation_key")
        return StructuredMemory(
            id=str(row["id"]),
            kind=str(row.get("unit_type") or "memory"),
            title=str(row.get("title") or ""),
            text=str(row["text"]),
            facts={name: row[name] for name in shown if row.get(name) not in (None, "", [], {})},
            created_at=created,
            updated_at=time_of(row["updated_at"]) if row.get("updated_at") else created,
        )

    return _validated(make, "memory")


def page_of(answer: Object, name: str, read: Callable[[Object], T], asked: str | None) -> Page[T]:
    """A page of the list `name`. Raises `BadAnswer` when its cursor is the one that was `asked` for."""
    rows = answer.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadAnswer(f"the service's answer has no list of {name}")
    following = answer.get("nextToken") or None
    if following is not None and following == asked:
        raise BadAnswer("the service's listing does not get past one page")
    return Page[Any](data=[read(row) for row in rows], next_page=following)


def in_view(memory: Memory, view: View) -> Memory:
    return memory if view == "full" else memory.model_copy(update={"content": None, "binary": None})
