"""A database on a PostgreSQL server, shared by any number of processes and machines."""

from typing import cast

import anyio.to_thread
import psycopg
from sqlalchemy import URL, Text, bindparam, func, select

from memfs.model.errors import MemfsError
from memfs.stores.base import Capabilities
from memfs.stores.sql import postgresql
from memfs.stores.sql.database import THREADS, Result, SqlDatabase, Work, check_version, make_tables
from memfs.stores.sql.statement import Connection, Statement

_LOCK_SCHEMA = Statement(select(func.pg_advisory_xact_lock(postgresql.SCHEMA_LOCK)))
_FIND_TABLE = Statement(select(func.to_regclass(bindparam("name", type_=Text)).cast(Text)))


class PostgresqlDatabase(SqlDatabase):
    """Use `SqlDatabase.open`. Transactions run at READ COMMITTED, each under the lock of its store's row."""

    def __init__(self, url: URL, timeout: float, max_memories: int) -> None:
        super().__init__(postgresql.engine(url, THREADS, timeout), timeout, max_memories)
        self.capabilities = Capabilities(
            chooses_memory_id=True, strict_time_order=True, grouped_listing=True, max_memories=max_memories
        )
        self._url = url

    @classmethod
    async def open_url(cls, url: str, timeout: float, max_memories: int) -> "PostgresqlDatabase":
        """Raises `MemfsError` with what is wrong with the URL or the server."""
        database = cls(postgresql.parse(url), timeout, max_memories)
        try:
            await database.write(_make_tables_once)
        except BaseException:
            await database.aclose()
            raise
        return database

    async def sync(self) -> None:
        """Nothing to do: the server has synced a transaction when its commit returns, unless it was told otherwise."""

    async def purge(self) -> None:
        """Nothing to do here: the server removes old rows and its log by its own maintenance."""

    async def _attempt(self, work: Work[Result], lengthy: bool, writes: bool) -> Result:
        return await anyio.to_thread.run_sync(self._in_pool, work, limiter=self._limiter)

    def _repeats(self, error: Exception) -> bool:
        return postgresql.is_transient(error)

    def _is_disconnect(self, error: Exception) -> bool:
        return postgresql.is_disconnect(error)

    def _domain_error(self, error: Exception) -> MemfsError:
        return postgresql.domain_error(self._url, cast(psycopg.Error, error))


def _make_tables_once(connection: Connection) -> None:
    connection.rows(_LOCK_SCHEMA, {})
    found = connection.row(_FIND_TABLE, {"name": "memfs_schema"})
    if found is None or found[0] is None:
        make_tables(connection)
    check_version(connection)
