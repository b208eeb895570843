"""`SqlDatabase`: one open database, shared by the services of all actors; how work on it is run, repeated and ended.

Work is a function of a `Connection`. It may be run several times: an attempt that another process made fail leaves nothing.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

import anyio
import anyio.to_thread
from sqlalchemy import Engine, insert, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.schema import CreateIndex, CreateTable

from memfs.model.errors import InvalidRequest, MemfsError, NotSupported, Unavailable
from memfs.model.objects import Actor
from memfs.stores.base import Capabilities
from memfs.stores.sql import schema
from memfs.stores.sql.statement import Connection, DriverConnection, Statement

if TYPE_CHECKING:
    from memfs.stores.sql.service import SqlMemoryStore

Result = TypeVar("Result")
Work = Callable[[Connection], Result]

DEFAULT_MAX_MEMORIES = 10_000
THREADS = 8
"""How many calls on one database run at once in worker threads."""

# A local transaction takes some 100 us, so the first repeats come soon; the longest pause bounds what a waiter adds.
_FIRST_PAUSE = 0.0002
_LONGEST_PAUSE = 0.01

_VERSION = Statement(select(schema.schema.c.version))
_SET_VERSION = Statement(insert(schema.schema).inline())


class SqlDatabase(ABC):
    """Use `open`. Its methods raise the errors of `memfs.model.errors` only."""

    capabilities: Capabilities

    def __init__(self, engine: Engine, timeout: float, max_memories: int) -> None:
        self._engine = engine
        self._timeout = timeout
        self.max_memories = max_memories
        self._limiter = anyio.CapacityLimiter(THREADS)

    @staticmethod
    async def open(
        url: str, *, threads: bool = False, timeout: float = 8.0, max_memories: int = DEFAULT_MAX_MEMORIES
    ) -> "SqlDatabase":
        """Open the database at ``sqlite:///PATH`` or ``postgresql://...``; make its tables, and a SQLite file, if need be.

        With `threads` every call runs in a worker thread, which a server wants that answers many at once; without it calls
        on SQLite run where they are made, in microseconds. PostgreSQL always has threads. A call that waits longer than
        `timeout` seconds for another process raises `Unavailable`.
        """
        if url.startswith("sqlite:"):
            from memfs.stores.sql.sqlite_database import SqliteDatabase

            return await SqliteDatabase.open_url(url, threads, timeout, max_memories)
        try:
            from memfs.stores.sql.postgresql_database import PostgresqlDatabase
        except ImportError as error:
            raise NotSupported(f"PostgreSQL needs psycopg, which does not load ({error}): install memfs[postgresql]") from None
        return await PostgresqlDatabase.open_url(url, timeout, max_memories)

    def store_service(self, actor: Actor) -> "SqlMemoryStore":
        """The stores as `actor` may use them. The database stays open when the service is closed."""
        from memfs.stores.sql.service import SqlMemoryStore

        return SqlMemoryStore(self, actor)

    async def read(self, work: Work[Result]) -> Result:
        """The result of `work`, which runs one statement or is content with each seeing a later state."""
        return await self._run(work)

    async def write(self, work: Work[Result], *, lengthy: bool = False) -> Result:
        """The result of `work`, run in one transaction: all of it is stored when this returns, and none when it raises.

        `lengthy` work does not hold up the event loop.
        """
        return await self._run(partial(self._transaction, work), lengthy=lengthy, writes=True)

    async def change_token(self) -> object | None:
        """See `memfs.stores.base.MemoryStore.change_token`; it covers all stores of the database."""
        return None

    @abstractmethod
    async def sync(self) -> None:
        """Return when all that was stored would survive a loss of power."""

    @abstractmethod
    async def purge(self) -> None:
        """Remove what a redaction or deletion left in logs, as far as that is possible while others read."""

    async def aclose(self) -> None:
        """End all connections. Nothing may be called afterwards."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._engine.dispose)

    @abstractmethod
    async def _attempt(self, work: Work[Result], lengthy: bool, writes: bool) -> Result:
        """Run `work` once; raises the driver's errors."""

    @abstractmethod
    def _repeats(self, error: Exception) -> bool:
        """Whether the work failed for another's sake."""

    @abstractmethod
    def _domain_error(self, error: Exception) -> MemfsError: ...

    def _transaction(self, work: Work[Result], connection: Connection) -> Result:
        connection.begin()
        try:
            result = work(connection)
            connection.commit()
        except BaseException:
            # It fails only when the database has undone the transaction by itself, or the connection is lost.
            with suppress(self._engine.dialect.loaded_dbapi.Error):
                connection.rollback()
            raise
        return result

    async def _run(self, work: Work[Result], *, lengthy: bool = False, writes: bool = False) -> Result:
        return await self._repeat(partial(self._attempt, work, lengthy, writes))

    async def _repeat(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """The first result of `attempt` that is not spoilt by another process; raises `MemfsError`."""
        deadline = None
        pause = _FIRST_PAUSE
        while True:
            try:
                return await attempt()
            except PoolTimeoutError:
                raise Unavailable("all connections to the database are in use: try again") from None
            except (self._engine.dialect.loaded_dbapi.Error, DBAPIError) as caught:
                error = _drivers(caught)
                now = anyio.current_time()
                deadline = deadline or now + self._timeout
                if not self._repeats(error) or now >= deadline:
                    raise self._domain_error(error) from error
            await anyio.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _in_pool(self, work: Work[Result]) -> Result:
        """Run `work` with a connection of the pool; called in a worker thread."""
        lease = self._engine.raw_connection()
        try:
            driver = cast(DriverConnection, lease.driver_connection)
            return work(Connection(driver, self._engine.dialect))
        except Exception as error:
            if self._is_disconnect(error):
                lease.invalidate()
            raise
        finally:
            lease.close()

    def _is_disconnect(self, error: Exception) -> bool:
        return False


def _drivers(error: Exception) -> Exception:
    """The driver's own error, which SQLAlchemy wraps when it was making a connection."""
    return cast(Exception, error.orig) if isinstance(error, DBAPIError) else error


def make_tables(connection: Connection) -> None:
    """Run all of the schema's statements, in the caller's transaction."""
    for table in schema.metadata.sorted_tables:
        connection.run(Statement(CreateTable(table)), {})
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.run(Statement(CreateIndex(index)), {})
    connection.run(_SET_VERSION, {"version": schema.VERSION})


def check_version(connection: Connection) -> None:
    """Raise `InvalidRequest` when the tables are not those of this program."""
    row = connection.row(_VERSION, {})
    found = None if row is None else row[0]
    if found != schema.VERSION:
        raise InvalidRequest(
            f"the database has tables of version {found}, this memfs knows version {schema.VERSION}: use a newer memfs"
        )
