"""A database in a SQLite file, which several processes may have open."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
from sqlalchemy import PoolProxiedConnection

from memfs.model.errors import InvalidRequest, MemfsError
from memfs.stores.base import MAX_LIMIT, Capabilities
from memfs.stores.sql import sqlite
from memfs.stores.sql.database import THREADS, Result, SqlDatabase, Work, check_version, make_tables
from memfs.stores.sql.statement import Connection, DriverConnection

_LOCAL_MAX_LIMIT = 10_000

# Our own reads end within milliseconds; another program's that goes on for longer keeps the log until a later checkpoint.
_PURGE_ATTEMPTS = 20
_PURGE_PAUSE = 0.05


class SqliteDatabase(SqlDatabase):
    """Use `SqlDatabase.open`."""

    def __init__(self, path: Path, threads: bool, timeout: float, max_memories: int) -> None:
        super().__init__(sqlite.engine(path, THREADS + 1), timeout, max_memories)
        self.capabilities = Capabilities(
            local=not threads,
            chooses_memory_id=True,
            max_limit=MAX_LIMIT if threads else _LOCAL_MAX_LIMIT,
            change_token=True,
            strict_time_order=True,
            grouped_listing=True,
            max_memories=max_memories,
        )
        self._path = path
        self._threads = threads
        # SQLite has one writer at a time: those of this process queue here, in order; only other processes' are polled.
        self._writer = anyio.Lock()
        self._writes = 0
        # Used by the event loop's thread alone; there from `_set_up` on.
        self._lease: PoolProxiedConnection | None = None
        self._connection: Connection

    @classmethod
    async def open_url(cls, url: str, threads: bool, timeout: float, max_memories: int) -> "SqliteDatabase":
        """Raises `MemfsError` with what is wrong with the file."""
        sqlite.check_library()
        path = sqlite.path_of(url)
        await anyio.to_thread.run_sync(sqlite.prepare_file, path)
        database = cls(path, threads, timeout, max_memories)
        try:
            # With no other process at the same moment the first attempt succeeds.
            await database._repeat(database._connect)
            await database._repeat(database._set_up)
        except BaseException:
            await database.aclose()
            raise
        return database

    async def _connect(self) -> None:
        self._lease = self._engine.raw_connection()
        self._connection = Connection(cast(DriverConnection, self._lease.driver_connection), self._engine.dialect)

    async def _set_up(self) -> None:
        connection = self._connection
        if not sqlite.is_empty(connection.driver) and not sqlite.has_table(connection.driver, "memfs_schema"):
            raise InvalidRequest(f"{self._path} is another program's database: give the path of a new file")
        sqlite.use_log(connection.driver)
        self._transaction(self._make_tables_once, connection)

    def _make_tables_once(self, connection: Connection) -> None:
        if sqlite.is_empty(connection.driver):
            make_tables(connection)
        check_version(connection)

    async def _attempt(self, work: Work[Result], lengthy: bool, writes: bool) -> Result:
        if not self._threads and not lengthy:
            result = work(self._connection)
            self._writes += writes
            return result
        in_thread = partial(anyio.to_thread.run_sync, self._in_pool, work, limiter=self._limiter)
        if not writes:
            return await in_thread()
        async with self._writer:
            return await in_thread()

    def _repeats(self, error: Exception) -> bool:
        return sqlite.is_busy(error)

    def _domain_error(self, error: Exception) -> MemfsError:
        return sqlite.domain_error(self._path, cast(sqlite3.Error, error))

    async def change_token(self) -> object | None:
        try:
            return sqlite.data_version(self._connection.driver), self._writes
        except sqlite3.Error:
            return object()  # Not known now, so anything may have changed.

    async def sync(self) -> None:
        await anyio.to_thread.run_sync(sqlite.sync, self._path)

    async def purge(self) -> None:
        for _ in range(_PURGE_ATTEMPTS):
            if await self._run(sqlite.empty_log, lengthy=True):
                return
            await anyio.sleep(_PURGE_PAUSE)

    async def aclose(self) -> None:
        # Back to the pool, whose connections end in a thread: the last one may have to write the log back.
        if self._lease is not None:
            self._lease.close()
        await super().aclose()
