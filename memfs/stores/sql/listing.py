"""Listing memories (contract section 3.1), at a cost of the page alone.

Paths come in the order of their bytes, so everything below a prefix is one range of the index, and a page is found by where
it starts. With depth 1 a prefix costs one step however much is below it: the next entry is looked up behind its range.
"""

from functools import cache
from typing import Any

from sqlalchemy import Integer, Text, and_, bindparam, case, func, literal, select

from memfs.model.errors import InvalidRequest
from memfs.model.ids import StoreId
from memfs.model.objects import MemoryPrefix, Page, View
from memfs.model.paths import check_prefix
from memfs.stores.base import Listed
from memfs.stores.sql import paging, store_rows
from memfs.stores.sql.rows import MEMORY_COLUMNS, memory_of
from memfs.stores.sql.schema import memories, versions
from memfs.stores.sql.statement import Connection, Row, Statement

# No path has a control character, so whatever follows a path in the order is at least that path and a space; and "0" is the
# character after the slash, so whatever begins with "/a/" lies before "/a0".
_AFTER_MEMORY = " "
_AFTER_PREFIX = "0"


def list_page(
    connection: Connection,
    store_id: StoreId,
    path_prefix: str | None,
    depth: int | None,
    limit: int,
    page: str | None,
    view: View,
    max_limit: int,
) -> Page[Listed]:
    prefix = check_prefix(path_prefix or "/")
    if depth not in (None, 0, 1):
        raise InvalidRequest("depth must be 0 or 1")
    paging.check_view(view)
    size = paging.check_limit(limit, max_limit, view)
    request = ("memories", store_id, prefix, depth or 0, view)
    start = prefix
    if page is not None:
        (start,) = paging.position(request, page, (str,))  # type: ignore[assignment]
    rows: list[Row] = []
    if _can_be_stored(prefix):
        parameters: dict[str, Any] = {"store": store_id, "start": start, "end": prefix[:-1] + _AFTER_PREFIX, "size": size + 1}
        if depth == 1:
            parameters["length"] = len(prefix)
        rows = list(connection.rows(_statement(depth == 1, view == "full", connection.dialect.name), parameters))
    if not rows:
        store_rows.check_exists(connection, store_id)
    more = len(rows) > size
    items = [_listed(row, store_id, prefix, depth, view) for row in rows[:size]]
    return Page.model_construct(data=items, next_page=paging.cursor(request, [_after(items[-1])]) if more else None)


def _listed(row: Row, store_id: StoreId, prefix: str, depth: int | None, view: View) -> Listed:
    if depth == 1:
        slash = row[1].find("/", len(prefix))
        if slash >= 0:
            return MemoryPrefix.model_construct(type="memory_prefix", path=row[1][: slash + 1])
    return memory_of(row, store_id, row[7].decode() if view == "full" else None)


def _after(last: Listed) -> str:
    """The smallest path that can come after `last` in a listing."""
    return last.path[:-1] + _AFTER_PREFIX if isinstance(last, MemoryPrefix) else last.path + _AFTER_MEMORY


def _can_be_stored(prefix: str) -> bool:
    # Nothing is below a prefix that no path can have; the databases must not be asked, since they cannot take such a text.
    return "\0" not in prefix and not any("\ud800" <= character <= "\udfff" for character in prefix)


@cache
def _statement(children: bool, full: bool, dialect: str) -> Statement:
    columns = [*MEMORY_COLUMNS, versions.c.content] if full else MEMORY_COLUMNS
    store = bindparam("store", type_=Text)
    end = bindparam("end", type_=Text)
    size = bindparam("size", type_=Integer)
    if not children:
        query = select(*columns).where(
            memories.c.store_id == store, memories.c.path >= bindparam("start", type_=Text), memories.c.path < end
        )
        if full:
            query = query.join(versions, versions.c.id == memories.c.version_id)
        return Statement(query.order_by(memories.c.path).limit(size))

    length = bindparam("length", type_=Integer)
    find = func.instr if dialect == "sqlite" else func.strpos

    def rest(path: Any) -> Any:
        """What follows the prefix."""
        return func.substr(path, length + 1, type_=Text)

    def first_from(start: Any) -> Any:
        """The first path at or after `start`: one step in the index."""
        found = memories.alias()
        return (
            select(found.c.path)
            .where(found.c.store_id == store, found.c.path >= start, found.c.path < end)
            .order_by(found.c.path)
            .limit(1)
        )

    entries = (
        select(first_from(bindparam("start", type_=Text)).scalar_subquery().label("path"), literal(1, Integer).label("number"))
    ).cte("entries", recursive=True)
    slash = find(rest(entries.c.path), "/", type_=Integer)
    behind = case(
        (slash == 0, entries.c.path.concat(_AFTER_MEMORY)),
        else_=func.substr(entries.c.path, 1, length + slash - 1, type_=Text).concat(_AFTER_PREFIX),
    )
    entries = entries.union_all(
        select(first_from(behind).correlate(entries).scalar_subquery(), entries.c.number + 1).where(
            entries.c.path.is_not(None), entries.c.number < size
        )
    )
    query = (
        select(*columns)
        .select_from(entries)
        .join(memories, and_(memories.c.store_id == store, memories.c.path == entries.c.path))
    )
    if full:
        # The content of a memory that only stands for its prefix is not read.
        direct = find(rest(memories.c.path), "/", type_=Integer) == 0
        query = query.join(versions, and_(direct, versions.c.id == memories.c.version_id), isouter=True)
    return Statement(query.order_by(entries.c.number))
