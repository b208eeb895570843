"""Memory stores: the rows of `memory_stores` (contract section 3, endpoints 1 to 6), and the lock that each is."""

import json
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Integer, Text, bindparam, case, delete, insert, select, tuple_, update

from memfs.model.errors import InvalidRequest, NotFound, StoreArchived
from memfs.model.ids import StoreId, new_store_id
from memfs.model.objects import DeletedStore, Page, Store
from memfs.stores.base import MAX_LIMIT, Usage
from memfs.stores.sql import paging
from memfs.stores.sql.rows import from_us, now_us
from memfs.stores.sql.schema import stores
from memfs.stores.sql.statement import Connection, Row, Statement

MAX_NAME = 255
MAX_DESCRIPTION = 1024
MAX_METADATA_PAIRS = 16
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 512

_COLUMNS = [
    stores.c.id,
    stores.c.name,
    stores.c.description,
    stores.c.metadata,
    stores.c.created_at,
    stores.c.updated_at,
    stores.c.archived_at,
]
_AT = stores.c.id == bindparam("store", type_=Text)
_BY = bindparam("by_memories", type_=BigInteger), bindparam("by_bytes", type_=BigInteger)
_NOW = bindparam("now", type_=BigInteger)

_INSERT = Statement(insert(stores).inline())
_RETRIEVE = Statement(select(*_COLUMNS).where(_AT))
# Where a transaction will write, the row is locked before anything else is read: only a later statement sees what the
# previous holder of the lock committed.
_LOCK_WHOLE = Statement(select(*_COLUMNS).where(_AT).with_for_update())
_LOCK = Statement(select(stores.c.archived_at).where(_AT).with_for_update(key_share=True))
_COUNT = Statement(
    update(stores)
    .where(_AT)
    .values(
        memory_count=stores.c.memory_count + _BY[0],
        content_bytes=stores.c.content_bytes + _BY[1],
        last_version_at=case((stores.c.last_version_at >= _NOW, stores.c.last_version_at + 1), else_=_NOW),
    )
    .returning(stores.c.last_version_at, stores.c.memory_count, stores.c.archived_at)
)
_CHANGE = Statement(
    update(stores)
    .where(_AT)
    .values(
        name=bindparam("new_name"),
        description=bindparam("new_description"),
        metadata=bindparam("new_metadata"),
        updated_at=bindparam("new_updated_at"),
        archived_at=bindparam("new_archived_at"),
    )
)
_DELETE = Statement(delete(stores).where(_AT))
_USAGE = Statement(select(stores.c.memory_count, stores.c.content_bytes).where(_AT))


def unknown_store(store_id: str) -> NotFound:
    return NotFound(f"there is no memory store {store_id!a}: list the stores to see which there are")


def archived(store_id: str) -> StoreArchived:
    return StoreArchived(f"memory store {store_id} is archived: it takes no changes but deletions and redactions")


def check_exists(connection: Connection, store_id: StoreId) -> None:
    """Raise `NotFound` unless there is such a store."""
    if connection.row(_RETRIEVE, {"store": store_id}) is None:
        raise unknown_store(store_id)


def lock(connection: Connection, store_id: StoreId) -> bool:
    """Take the store's lock until the end of the transaction; return whether it is archived. Raises `NotFound`."""
    row = connection.row(_LOCK, {"store": store_id})
    if row is None:
        raise unknown_store(store_id)
    return row[0] is not None


def count_version(connection: Connection, store_id: StoreId, memories: int, content_bytes: int) -> Row:
    """Take the store's lock, add to its counters, and draw the time of one new version.

    Returns that time, the new number of memories and the time of archiving (None: active). Raises `NotFound`.
    """
    row = connection.row(_COUNT, {"store": store_id, "by_memories": memories, "by_bytes": content_bytes, "now": now_us()})
    if row is None:
        raise unknown_store(store_id)
    return row


def create(connection: Connection, name: str, description: str, metadata: Mapping[str, str]) -> Store:
    check_name(name)
    check_description(description)
    check_metadata(metadata)
    now = now_us()
    values: dict[str, Any] = {
        "id": new_store_id(),
        "name": name,
        "description": description,
        "metadata": json.dumps(dict(metadata)),
        "created_at": now,
        "updated_at": now,
        "archived_at": None,
        "memory_count": 0,
        "content_bytes": 0,
        "last_version_at": 0,
    }
    connection.run(_INSERT, values)
    return _store_of([values[column.name] for column in _COLUMNS])


def retrieve(connection: Connection, store_id: StoreId) -> Store:
    row = connection.row(_RETRIEVE, {"store": store_id})
    if row is None:
        raise unknown_store(store_id)
    return _store_of(row)


def list_page(
    connection: Connection, include_archived: bool, gte: int | None, lte: int | None, limit: int, page: str | None
) -> Page[Store]:
    size = paging.check_limit(limit, MAX_LIMIT)
    request = ("memory_stores", include_archived, gte, lte)
    parameters: dict[str, Any] = {"size": size + 1}
    if gte is not None:
        parameters["gte"] = gte
    if lte is not None:
        parameters["lte"] = lte
    if page is not None:
        parameters["last_time"], parameters["last_id"] = paging.position(request, page, (int, str))
    statement = _list_statement(include_archived, gte is not None, lte is not None, page is not None)
    rows = connection.rows(statement, parameters)
    more = len(rows) > size
    return Page.model_construct(
        data=[_store_of(row) for row in rows[:size]],
        next_page=paging.cursor(request, [rows[size - 1][4], rows[size - 1][0]]) if more else None,
    )


@cache
def _list_statement(include_archived: bool, gte: bool, lte: bool, continued: bool) -> Statement:
    query = select(*_COLUMNS)
    if not include_archived:
        query = query.where(stores.c.archived_at.is_(None))
    if gte:
        query = query.where(stores.c.created_at >= bindparam("gte", type_=BigInteger))
    if lte:
        query = query.where(stores.c.created_at <= bindparam("lte", type_=BigInteger))
    if continued:
        last = tuple_(bindparam("last_time", type_=BigInteger), bindparam("last_id", type_=Text))
        query = query.where(tuple_(stores.c.created_at, stores.c.id) < last)
    query = query.order_by(stores.c.created_at.desc(), stores.c.id.desc())
    return Statement(query.limit(bindparam("size", type_=Integer)))


def change(
    connection: Connection,
    store_id: StoreId,
    name: str | None,
    description: str | None,
    metadata: Mapping[str, str | None] | None,
) -> Store:
    row = connection.row(_LOCK_WHOLE, {"store": store_id})
    if row is None:
        raise unknown_store(store_id)
    old = _store_of(row)
    if old.archived_at is not None:
        raise archived(store_id)
    merged = dict(old.metadata)
    for key, value in (metadata or {}).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    new_name = old.name if name is None else name
    new_description = old.description if description is None else description
    check_name(new_name)
    check_description(new_description)
    check_metadata(merged)
    if (new_name, new_description, merged) == (old.name, old.description, old.metadata):
        return old
    return _write(connection, row, new_name, new_description, json.dumps(merged), None)


def archive(connection: Connection, store_id: StoreId) -> Store:
    row = connection.row(_LOCK_WHOLE, {"store": store_id})
    if row is None:
        raise unknown_store(store_id)
    if row[6] is not None:
        return _store_of(row)
    return _write(connection, row, row[1], row[2], row[3], max(now_us(), row[5] + 1))


def _write(connection: Connection, row: Row, name: str, description: str, metadata: str, archived_at: int | None) -> Store:
    updated_at = archived_at or max(now_us(), row[5] + 1)
    connection.run(
        _CHANGE,
        {
            "store": row[0],
            "new_name": name,
            "new_description": description,
            "new_metadata": metadata,
            "new_updated_at": updated_at,
            "new_archived_at": archived_at,
        },
    )
    return _store_of([row[0], name, description, metadata, row[4], updated_at, archived_at])


def remove(connection: Connection, store_id: StoreId) -> DeletedStore:
    """Delete the store with its memories and versions."""
    if connection.run(_DELETE, {"store": store_id}) == 0:
        raise unknown_store(store_id)
    return DeletedStore(id=store_id)


def usage(connection: Connection, store_id: StoreId) -> Usage:
    row = connection.row(_USAGE, {"store": store_id})
    if row is None:
        raise unknown_store(store_id)
    return Usage(memories=row[0], content_bytes=row[1])


def _store_of(row: Row) -> Store:
    return Store.model_construct(
        id=row[0],
        type="memory_store",
        name=row[1],
        description=row[2],
        metadata=json.loads(row[3]),
        created_at=from_us(row[4]),
        updated_at=from_us(row[5]),
        archived_at=None if row[6] is None else from_us(row[6]),
    )


def check_name(name: str) -> None:
    if not 1 <= len(name) <= MAX_NAME:
        raise InvalidRequest(f"name must have 1 to {MAX_NAME} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise InvalidRequest("name must not contain control characters or lone surrogates")


def check_description(description: str) -> None:
    if len(description) > MAX_DESCRIPTION:
        raise InvalidRequest(f"description must have at most {MAX_DESCRIPTION:,} characters")
    _check_storable("description", description)


def check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MAX_METADATA_PAIRS:
        raise InvalidRequest(f"metadata must have at most {MAX_METADATA_PAIRS} pairs")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidRequest("metadata must map texts to texts")
        if not 1 <= len(key) <= MAX_METADATA_KEY:
            raise InvalidRequest(f"a metadata key must have 1 to {MAX_METADATA_KEY} characters")
        if len(value) > MAX_METADATA_VALUE:
            raise InvalidRequest(f"a metadata value must have at most {MAX_METADATA_VALUE} characters")
        _check_storable("metadata", key + value)


def _check_storable(what: str, text: str) -> None:
    # NUL is what PostgreSQL's text cannot hold; both databases refuse it, so that stores can move between them.
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidRequest(f"{what} must not contain NUL or lone surrogates")
