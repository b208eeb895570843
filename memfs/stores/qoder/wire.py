"""The service's objects in its two generations, read as the contract's.

The first, "entry", names things ``store_id``, ``entry_id``, ``size``, ``action``; the second, "memory", as the contract does. A
memory tells a number that grows with each version, but not the id of its newest version, unless the service is newer than its
documentation: where it is missing `head_version_id` makes up for it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from memfs.model.content import Sha256, sha256_of
from memfs.model.errors import BadAnswer
from memfs.model.ids import MemoryId, VersionId
from memfs.model.objects import Memory, MemoryVersion, Operation, Page, Store, View
from memfs.stores.transport import load

GenerationName = Literal["entry", "memory"]
Object = Mapping[str, Any]
T = TypeVar("T")

_HEAD_VERSION = re.compile(r"(?P<memory>.+)\.(?P<number>\d+)\.(?P<sha256>[0-9a-f]{12})")
_OPERATIONS: Mapping[str, Operation] = {
    "created": "created",
    "updated": "modified",
    "modified": "modified",
    "deleted": "deleted",
}


@dataclass(frozen=True)
class Generation:
    """What differs on the wire."""

    name: GenerationName
    update_method: Literal["PUT", "POST"]
    versions: str
    """The last segment of the history's address."""
    guard: Literal["version", "sha256"]
    """What an update names to be refused when it comes too late."""
    filters: bool
    """Lists take `path_prefix` and `memory_id`."""
    updates_stores: bool


ENTRY = Generation("entry", "PUT", "versions", "version", filters=False, updates_stores=False)
MEMORY = Generation("memory", "POST", "memory_versions", "sha256", filters=True, updates_stores=True)
GENERATIONS: Mapping[str, Generation] = {"entry": ENTRY, "memory": MEMORY}


@dataclass(frozen=True)
class Head:
    """A memory and the number that guards it."""

    memory: Memory
    number: int


def head_version_id(memory_id: str, number: int, sha256: str) -> VersionId:
    """What stands for the id of a memory's newest version where the service does not tell it."""
    return VersionId(f"{memory_id}.{number}.{sha256[:12]}")


def parse_head_version(version_id: str) -> tuple[MemoryId, str] | None:
    """The memory, and the beginning of the hash, that `head_version_id` was made of; None for an id of the service."""
    match = _HEAD_VERSION.fullmatch(version_id)
    return (MemoryId(match["memory"]), match["sha256"]) if match else None


def generation_of(row: Object) -> Generation | None:
    """Which generation a memory of a listing belongs to; None when it tells nothing."""
    if "memory_store_id" in row:
        return MEMORY
    return ENTRY if "store_id" in row else None


def _validated(make: Callable[[], T], what: str) -> T:
    try:
        return make()
    except (ValidationError, KeyError, TypeError, ValueError):
        # Not what was wrong: that may be content.
        raise BadAnswer(f"the service's {what} is not what its documentation says") from None


def store_of(row: Object) -> Store:
    def make() -> Store:
        if row["type"] != "memory_store":
            raise ValueError
        archived = row.get("archived_at") or (row["updated_at"] if row.get("status") == "archived" else None)
        return Store.model_validate(
            {
                "id": row["id"],
                "name": row["name"],
                "description": row.get("description") or "",
                "metadata": row.get("metadata") or {},
                "created_at": row["created_at"],
                "updated_at": row["updated_at"],
                "archived_at": archived,
            }
        )

    return _validated(make, "memory store")


def head_of(row: Object) -> Head:
    """Raises `BadAnswer` also when a content does not have the hash that came with it."""
    if str(row.get("path")).startswith("/"):
        raise BadAnswer("this is not Qoder, whose paths are relative: is it another service (modelstudio+https://)?")

    def make() -> Head:
        number = int(row.get("version") or 0)
        sha256 = Sha256(row["content_sha256"])
        memory = Memory.model_validate(
            {
                "id": row["id"],
                "memory_store_id": _either(row, "memory_store_id", "store_id"),
                "memory_version_id": row.get("memory_version_id") or head_version_id(row["id"], number, sha256),
                "path": f"/{row['path']}",
                "content": row.get("content"),
                "content_sha256": sha256,
                "content_size_bytes": _either(row, "content_size_bytes", "size"),
                "created_at": row["created_at"],
                "updated_at": row["updated_at"],
                "metadata": row.get("metadata") or {},
            }
        )
        return Head(memory, number)

    head = _validated(make, "memory")
    content = head.memory.content
    if content is not None and sha256_of(content.encode()) != head.memory.content_sha256:
        raise BadAnswer("the service sent a content that does not have its own hash")
    return head


def version_of(row: Object) -> MemoryVersion:
    def make() -> MemoryVersion:
        redacted = row.get("redacted_at") or (row["created_at"] if row.get("redacted") else None)
        deleted = _either(row, "operation", "action") == "deleted"
        sha256 = row.get("content_sha256") or None
        return MemoryVersion.model_validate(
            {
                "id": row["id"],
                "memory_store_id": _either(row, "memory_store_id", "store_id"),
                "memory_id": _either(row, "memory_id", "entry_id"),
                "operation": _OPERATIONS[_either(row, "operation", "action")],
                "path": f"/{_either(row, 'path', 'entry_path')}",
                "content": row.get("content"),
                "content_sha256": sha256,
                "content_size_bytes": None if deleted or sha256 is None else _either(row, "content_size_bytes", "size"),
                "created_at": row["created_at"],
                "redacted_at": redacted,
            }
        )

    return _validated(make, "memory version")


def _either(row: Object, name: str, other: str) -> Any:
    return row[name] if name in row else row[other]


def in_view(memory: Memory, view: View) -> Memory:
    """`memory` without its content in the basic view. Raises `BadAnswer` when the full view lacks it."""
    if view == "basic":
        return memory.model_copy(update={"content": None})
    if memory.content is None:
        raise BadAnswer("the service sent a memory without its content")
    return memory


def page_of(body: bytes, read: Callable[[Object], T], asked: str | None) -> Page[T]:
    """A page in either style: continued by `next_page`, or after the `last_id` while it `has_more`.

    Raises `BadAnswer` when the page's cursor is the one that was `asked` for.
    """
    answer = load(body)
    rows = answer.get("data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadAnswer("the service's list is not what its documentation says")
    following: str | None = None
    if answer.get("next_page"):
        following = f"page:{answer['next_page']}"
    elif answer.get("has_more") and rows:
        ids = [str(row.get("id")) for row in reversed(rows)]
        following = "after:" + ",".join(dict.fromkeys([str(answer.get("last_id") or ids[0]), *ids]))
    if following is not None and asked is not None and following.partition(",")[0] == asked.partition(",")[0]:
        raise BadAnswer("the service's listing does not get past one page")
    return Page[Any](data=[read(row) for row in rows], next_page=following)


def cursors(page: str | None) -> list[Mapping[str, str]]:
    """The query parameters that ask for a page that `page_of` named, best first.

    A list that continues after an id may not find its place again when that row was deleted: then it goes on after one before
    it, and when none is left from the start. So rows may come twice, and none is left out.
    """
    if page is None:
        return [{}]
    kind, _, value = page.partition(":")
    return [{"page": value}] if kind == "page" else [*({"after_id": one} for one in value.split(",")), {}]
