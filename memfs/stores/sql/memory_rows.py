"""Memories: create, retrieve, update, delete (contract section 3, endpoints 7 and 9 to 11).

Each function that writes runs inside one transaction and takes the store's lock first.
"""

from functools import cache

from sqlalchemy import Text, bindparam, delete, insert, or_, select, union_all, update

from memfs.model import content as contents
from memfs.model.content import Sha256
from memfs.model.errors import InvalidRequest, NotFound, PathConflict, PreconditionFailed, StoreFull
from memfs.model.ids import MemoryId, StoreId, new_memory_id, new_version_id
from memfs.model.objects import Actor, DeletedMemory, Memory, Operation, View
from memfs.model.paths import ancestors, check_path
from memfs.stores.sql import store_rows
from memfs.stores.sql.rows import MEMORY_COLUMNS, VERSION_COLUMNS, actor_columns, memory_of
from memfs.stores.sql.schema import memories, versions
from memfs.stores.sql.statement import Connection, Row, Statement

_HERE = (memories.c.id == bindparam("memory", type_=Text)) & (memories.c.store_id == bindparam("store", type_=Text))
_HEAD = versions.c.id == memories.c.version_id

_RETRIEVE = Statement(select(*MEMORY_COLUMNS).where(_HERE))
_RETRIEVE_FULL = Statement(select(*MEMORY_COLUMNS, versions.c.content).join(versions, _HEAD).where(_HERE))
_CONTENT = Statement(select(versions.c.content).where(versions.c.id == bindparam("version", type_=Text)))
_FIRST_VERSION = Statement(
    select(
        versions.c.memory_id,
        versions.c.path,
        versions.c.id,
        versions.c.content_sha256,
        versions.c.content_size_bytes,
        versions.c.created_at,
        versions.c.created_at,
        versions.c.store_id,
        select(memories.c.id).where(memories.c.id == versions.c.memory_id).exists(),
    )
    .where(versions.c.memory_id == bindparam("memory", type_=Text))
    .order_by(versions.c.created_at)
    .limit(1)
)
_INSERT = Statement(insert(memories).inline())
_INSERT_VERSION = Statement(insert(versions).inline())
# A renamed memory's content goes from one row to the next without passing through here.
_INSERT_RENAMED = Statement(
    insert(versions).from_select(
        [column.name for column in VERSION_COLUMNS] + ["content"],
        select(
            *(
                bindparam(f"new_{column.name}", type_=column.type).label(column.name) if column.name != "content" else column
                for column in [*VERSION_COLUMNS, versions.c.content]
            )
        ).where(versions.c.id == bindparam("from_version", type_=Text)),
    )
)
_MOVE_HEAD = Statement(
    update(memories)
    .where(memories.c.id == bindparam("memory", type_=Text))
    .values(
        path=bindparam("new_path"),
        version_id=bindparam("new_version_id"),
        content_sha256=bindparam("new_content_sha256"),
        content_size_bytes=bindparam("new_content_size_bytes"),
        updated_at=bindparam("new_updated_at"),
    )
)
_DELETE = Statement(delete(memories).where(memories.c.id == bindparam("memory", type_=Text)))


def unknown_memory(connection: Connection, store_id: StoreId, memory_id: MemoryId) -> NotFound:
    """The error for a memory that was not found, which may be the store's fault."""
    store_rows.check_exists(connection, store_id)
    return NotFound(f"there is no memory {memory_id!a} in the store: it may have been deleted")


def create(
    connection: Connection,
    actor: Actor,
    store_id: StoreId,
    path: str,
    text: str,
    view: View,
    memory_id: MemoryId | None,
    max_memories: int,
) -> Memory:
    check_path(path)
    content = contents.encode(text)
    sha256 = contents.sha256_of(content)
    size = len(content)
    if memory_id is not None:
        # Before the counters move. Of two such calls at once the second finds what the first one made.
        store_rows.lock(connection, store_id)
        first = connection.row(_FIRST_VERSION, {"memory": memory_id})
        if first is not None:
            return _repeated(first, store_id, path, sha256, text if view == "full" else None)
    at, count, archived_at = store_rows.count_version(connection, store_id, 1, size)
    if archived_at is not None:
        raise store_rows.archived(store_id)
    _check_free(connection, store_id, path, None)
    if count > max_memories:
        raise StoreFull(f"the store holds {max_memories:,} memories, which is its limit: delete some to create new ones")
    row = (memory_id or new_memory_id(), path, new_version_id(), sha256, size, at, at)
    connection.run(
        _INSERT,
        {
            "id": row[0],
            "store_id": store_id,
            "path": path,
            "version_id": row[2],
            "content_sha256": sha256,
            "content_size_bytes": size,
            "created_at": at,
            "updated_at": at,
        },
    )
    _insert_version(connection, actor, store_id, row, "created", content)
    return memory_of(row, store_id, text if view == "full" else None)


def _repeated(first: Row, store_id: StoreId, path: str, sha256: Sha256, content: str | None) -> Memory:
    """The answer to a create whose memory id is in use: the first answer again, if this is the first request again."""
    same = first[7] == store_id and first[1] == path and first[3] == sha256
    if not same or not first[8]:
        raise InvalidRequest(f"memory id {first[0]} was used before: a new memory needs a new id")
    return memory_of(first, store_id, content)


def retrieve(connection: Connection, store_id: StoreId, memory_id: MemoryId, view: View) -> Memory:
    row = connection.row(_RETRIEVE_FULL if view == "full" else _RETRIEVE, {"memory": memory_id, "store": store_id})
    if row is None:
        raise unknown_memory(connection, store_id, memory_id)
    return memory_of(row, store_id, row[7].decode() if view == "full" else None)


def change(
    connection: Connection,
    actor: Actor,
    store_id: StoreId,
    memory_id: MemoryId,
    text: str | None,
    path: str | None,
    precondition: Sha256 | None,
    view: View,
) -> Memory:
    """The decisions in the order of contract section 3.2."""
    is_archived = store_rows.lock(connection, store_id)
    old = connection.row(_RETRIEVE, {"memory": memory_id, "store": store_id})
    if old is None:
        raise unknown_memory(connection, store_id, memory_id)
    if is_archived:
        raise store_rows.archived(store_id)
    _, old_path, old_version_id, old_sha256, old_size, created_at, _ = old
    if text is None and path is None:
        raise InvalidRequest("an update needs content or path")
    if precondition is not None:
        check_sha256("precondition", precondition)
    if path is not None:
        check_path(path)
    content = None if text is None else contents.encode(text)
    sha256 = old_sha256 if content is None else contents.sha256_of(content)
    if sha256 == old_sha256:
        content = None
    new_path = old_path if path is None else path
    if content is not None or new_path != old_path:
        if precondition is not None and precondition != old_sha256:
            raise _changed()
        if new_path != old_path:
            _check_free(connection, store_id, new_path, memory_id)
        size = old_size if content is None else len(content)
        at = store_rows.count_version(connection, store_id, 0, size - old_size)[0]
        row: Row = (memory_id, new_path, new_version_id(), sha256, size, created_at, at)
        _insert_version(connection, actor, store_id, row, "modified", content, old_version_id)
        connection.run(
            _MOVE_HEAD,
            {
                "memory": memory_id,
                "new_path": new_path,
                "new_version_id": row[2],
                "new_content_sha256": sha256,
                "new_content_size_bytes": size,
                "new_updated_at": at,
            },
        )
    else:
        row = old
    if view == "full" and text is None:
        stored = connection.row(_CONTENT, {"version": row[2]})
        text = None if stored is None else stored[0].decode()
    return memory_of(row, store_id, text if view == "full" else None)


def remove(
    connection: Connection, actor: Actor, store_id: StoreId, memory_id: MemoryId, expected: Sha256 | None
) -> DeletedMemory:
    store_rows.lock(connection, store_id)
    old = connection.row(_RETRIEVE, {"memory": memory_id, "store": store_id})
    if old is None:
        raise unknown_memory(connection, store_id, memory_id)
    if expected is not None:
        check_sha256("expected_content_sha256", expected)
        if expected != old[3]:
            raise _changed()
    at = store_rows.count_version(connection, store_id, -1, -old[4])[0]
    connection.run(_DELETE, {"memory": memory_id})
    _insert_version(connection, actor, store_id, (memory_id, old[1], new_version_id(), None, None, at, at), "deleted", None)
    return DeletedMemory.model_construct(id=memory_id, type="memory_deleted")


def check_sha256(what: str, text: str) -> None:
    if not contents.is_sha256(text):
        raise InvalidRequest(f"{what} must be the 64 lowercase hex digits of a SHA-256")


def _changed() -> PreconditionFailed:
    return PreconditionFailed("the memory's content is not the expected one: read it again, then decide")


def _insert_version(
    connection: Connection,
    actor: Actor,
    store_id: StoreId,
    row: Row,
    operation: Operation,
    content: bytes | None,
    content_of: str | None = None,
) -> None:
    """Add the version that makes a memory be `row`; its content is `content` or that of the version `content_of`."""
    memory_id, path, version_id, sha256, size, _, at = row
    actor_type, actor_id = actor_columns(actor)
    values = {
        "id": version_id,
        "store_id": store_id,
        "memory_id": memory_id,
        "operation": operation,
        "path": path,
        "content_sha256": sha256,
        "content_size_bytes": size,
        "created_at": at,
        "actor_type": actor_type,
        "actor_id": actor_id,
        "redacted_at": None,
        "redacted_by_type": None,
        "redacted_by_id": None,
    }
    if content is None and content_of is not None:
        renamed = {f"new_{name}": value for name, value in values.items()}
        connection.run(_INSERT_RENAMED, {**renamed, "from_version": content_of})
    else:
        connection.run(_INSERT_VERSION, {**values, "content": content})


@cache
def _blockers(above: int) -> Statement:
    """Which memories stand in the way of a path with so many ancestors: the one at it, one above it, the first below it."""
    mine = (memories.c.store_id == bindparam("store", type_=Text)) & (memories.c.id != bindparam("but", type_=Text))
    at_or_above = [bindparam(f"above_{number}", type_=Text) for number in range(above)] + [bindparam("wanted", type_=Text)]
    below = (
        select(memories.c.path, memories.c.id)
        .where(mine, memories.c.path >= bindparam("below", type_=Text), memories.c.path < bindparam("end", type_=Text))
        .order_by(memories.c.path)
        .limit(1)
        .subquery()
    )
    return Statement(
        union_all(
            select(memories.c.path, memories.c.id).where(mine, or_(*(memories.c.path == one for one in at_or_above))),
            select(below.c.path, below.c.id),
        )
    )


def _check_free(connection: Connection, store_id: StoreId, path: str, but: MemoryId | None) -> None:
    """Raise `PathConflict` when a memory other than `but` is at `path`, above or below it."""
    above = ancestors(path)
    # "0" is the character after the slash: what begins with "/a/" lies between "/a/" and "/a0".
    parameters = {"store": store_id, "but": but or "", "wanted": path, "below": f"{path}/", "end": f"{path}0"}
    parameters.update((f"above_{number}", ancestor) for number, ancestor in enumerate(above))
    found = connection.rows(_blockers(len(above)), parameters)
    if not found:
        return
    blocker, blocker_id = found[0]
    if blocker == path:
        message = f"there is a memory at {path} already"
    elif path.startswith(blocker):
        message = f"{blocker} is a memory, so nothing can be below it"
    else:
        message = f"{path} is the prefix of other memories, such as {blocker}"
    raise PathConflict(message, path=blocker, memory_id=blocker_id)
