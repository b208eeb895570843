"""Memory versions: list, retrieve, redact (contract sections 3 and 5, endpoints 12 to 14)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Integer, Text, bindparam, null, select, update

from memfs.model.errors import InvalidRequest, NotFound, PermissionDenied
from memfs.model.ids import StoreId, VersionId
from memfs.model.objects import Actor, MemoryVersion, Page, SessionActor, View
from memfs.stores.sql import paging, store_rows
from memfs.stores.sql.rows import VERSION_COLUMNS, actor_columns, now_us, version_of
from memfs.stores.sql.schema import memories, versions
from memfs.stores.sql.statement import Connection, Row, Statement

_CREATED_AT = VERSION_COLUMNS.index(versions.c.created_at)
_HERE = (versions.c.id == bindparam("version", type_=Text)) & (versions.c.store_id == bindparam("store", type_=Text))

_RETRIEVE = Statement(select(*VERSION_COLUMNS).where(_HERE))
_RETRIEVE_FULL = Statement(select(*VERSION_COLUMNS, versions.c.content).where(_HERE))
_HEAD_OF = Statement(select(memories.c.version_id).where(memories.c.id == bindparam("memory", type_=Text)))
_REDACT = Statement(
    update(versions)
    .where(versions.c.id == bindparam("version", type_=Text))
    .values(
        path=null(),
        content=null(),
        content_sha256=null(),
        content_size_bytes=null(),
        redacted_at=bindparam("now"),
        redacted_by_type=bindparam("by_type"),
        redacted_by_id=bindparam("by_id"),
    )
)


@dataclass(frozen=True)
class Filters:
    """Which versions to list; None: any. Actors are as in the table."""

    memory_id: str | None = None
    operation: str | None = None
    actors: tuple[tuple[str, str], ...] = ()
    """Types and ids; a version has one author, so that two of them match nothing."""
    gte: int | None = None
    lte: int | None = None

    def parameters(self) -> dict[str, Any]:
        """By the names of the statement's parameters; raises `InvalidRequest` for an unknown operation."""
        if self.operation not in (None, "created", "modified", "deleted"):
            raise InvalidRequest("operation must be created, modified or deleted")
        given = {"memory_id": self.memory_id, "operation": self.operation, "gte": self.gte, "lte": self.lte}
        for kind, identity in self.actors[:1]:
            given |= {"actor_type": kind, "actor_id": identity}
        return {name: value for name, value in given.items() if value is not None}

    def match_nothing(self) -> bool:
        """Whether no version can pass; such filters may hold what a database does not take."""
        texts = [self.memory_id or "", *(identity for _, identity in self.actors)]
        return len(self.actors) > 1 or not all(text.isascii() and "\0" not in text for text in texts)


def list_page(
    connection: Connection,
    store_id: StoreId,
    filters: Filters,
    limit: int,
    page: str | None,
    view: View,
    max_limit: int,
) -> Page[MemoryVersion]:
    paging.check_view(view)
    size = paging.check_limit(limit, max_limit, view)
    given = filters.parameters()
    request = ("memory_versions", store_id, *sorted(given.items()), view)
    parameters: dict[str, Any] = {**given, "store": store_id, "size": size + 1}
    if page is not None:
        (parameters["before"],) = paging.position(request, page, (int,))
    rows: Sequence[Row] = []
    if not filters.match_nothing():
        rows = connection.rows(_list_statement(frozenset(given), page is not None, view == "full"), parameters)
    if not rows:
        store_rows.check_exists(connection, store_id)
    more = len(rows) > size
    full = len(VERSION_COLUMNS)
    return Page.model_construct(
        data=[version_of(row, row[full] if view == "full" else None) for row in rows[:size]],
        next_page=paging.cursor(request, [rows[size - 1][_CREATED_AT]]) if more else None,
    )


@cache
def _list_statement(given: frozenset[str], continued: bool, full: bool) -> Statement:
    """One index serves each query: that of the memory, else that of the actor, the operation, or the time.

    The other conditions are written so that no database can choose their index, which may be far longer.
    """
    store: ColumnElement[str] = versions.c.store_id
    operation: ColumnElement[str] = versions.c.operation
    actor: ColumnElement[str] = versions.c.actor_id
    if "memory_id" in given:
        store, operation, actor = store.concat(""), operation.concat(""), actor.concat("")
    elif "actor_id" in given:
        operation = operation.concat("")
    query = select(*VERSION_COLUMNS, versions.c.content) if full else select(*VERSION_COLUMNS)
    query = query.where(store == bindparam("store", type_=Text))
    if "memory_id" in given:
        query = query.where(versions.c.memory_id == bindparam("memory_id", type_=Text))
    if "operation" in given:
        query = query.where(operation == bindparam("operation", type_=Text))
    if "actor_id" in given:
        query = query.where(
            actor == bindparam("actor_id", type_=Text), versions.c.actor_type == bindparam("actor_type", type_=Text)
        )
    if "gte" in given:
        query = query.where(versions.c.created_at >= bindparam("gte", type_=BigInteger))
    if "lte" in given:
        query = query.where(versions.c.created_at <= bindparam("lte", type_=BigInteger))
    if continued:
        query = query.where(versions.c.created_at < bindparam("before", type_=BigInteger))
    return Statement(query.order_by(versions.c.created_at.desc()).limit(bindparam("size", type_=Integer)))


def _unknown_version(connection: Connection, store_id: StoreId, version_id: VersionId) -> NotFound:
    store_rows.check_exists(connection, store_id)
    return NotFound(f"there is no memory version {version_id!a} in the store")


def retrieve(connection: Connection, store_id: StoreId, version_id: VersionId, view: View) -> MemoryVersion:
    statement = _RETRIEVE_FULL if view == "full" else _RETRIEVE
    row = connection.row(statement, {"version": version_id, "store": store_id})
    if row is None:
        raise _unknown_version(connection, store_id, version_id)
    return version_of(row, row[len(VERSION_COLUMNS)] if view == "full" else None)


def redact(connection: Connection, actor: Actor, store_id: StoreId, version_id: VersionId) -> MemoryVersion:
    """Remove a version's content, hash, size and path for good. Raises `PermissionDenied` for a session (section 5)."""
    if isinstance(actor, SessionActor):
        raise PermissionDenied("a session cannot redact: do it with an administrator's credential")
    store_rows.lock(connection, store_id)
    version = retrieve(connection, store_id, version_id, "basic")
    if version.redacted_at is not None:
        return version
    head = connection.row(_HEAD_OF, {"memory": version.memory_id})
    if head is not None and head[0] == version_id:
        raise InvalidRequest("this version is the memory's present content: write a new version or delete the memory first")
    by_type, by_id = actor_columns(actor)
    connection.run(_REDACT, {"version": version_id, "now": now_us(), "by_type": by_type, "by_id": by_id})
    return retrieve(connection, store_id, version_id, "basic")
