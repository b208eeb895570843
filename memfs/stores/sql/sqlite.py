"""What is SQLite's own: the file, its modes, its errors, its write-ahead log."""

import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, event

from memfs.model.errors import InvalidRequest, MemfsError, NotSupported, OutOfSpace, PermissionDenied, Unavailable
from memfs.stores.sql.statement import Connection, DriverConnection

_PREFIX = "sqlite:///"
# The first with RETURNING.
_OLDEST = (3, 35, 0)
# The log is cut back to this when it is reset after a burst of writes.
_LOG_BYTES_KEPT = 16 * 1024 * 1024


def check_library() -> None:
    """Raise `NotSupported` when Python's SQLite is too old."""
    if sqlite3.sqlite_version_info < _OLDEST:
        needed = ".".join(str(number) for number in _OLDEST)
        raise NotSupported(f"this Python has SQLite {sqlite3.sqlite_version}, memfs needs {needed} or newer")


def path_of(url: str) -> Path:
    """The absolute path in ``sqlite:///PATH``, taken literally but for a leading ``~``; raises `InvalidRequest`."""
    text = url.removeprefix(_PREFIX)
    if not url.startswith(_PREFIX) or text in ("", ":memory:") or "\0" in text:
        raise InvalidRequest(f"{url!a} names no database file: write sqlite:///PATH")
    return Path(os.path.abspath(os.path.expanduser(text)))


def prepare_file(path: Path) -> None:
    """Create the file with mode 0600, its directory with 0700, where they are missing; raises `MemfsError`."""
    try:
        if not path.parent.is_dir():
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
        # mknod and not open: closing any descriptor of the file would drop this process's locks on it.
        with suppress(FileExistsError):
            os.mknod(path, 0o600 | stat.S_IFREG)
            _fsync(path.parent)
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidRequest(f"{path} is not a file: give the path of a database file")
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionDenied(f"{path} may not be read and written by this user: give the path of a file of yours")
    except OSError as error:
        raise _refused(path, error) from None


def _refused(path: Path, error: OSError) -> MemfsError:
    kind = PermissionDenied if isinstance(error, PermissionError) else Unavailable
    return kind(f"the database {path} cannot be created ({error.strerror}): give the path of a file in a directory of yours")


def engine(path: Path, pool_size: int) -> Engine:
    """Connections in autocommit mode that never wait for a lock."""
    result = create_engine(
        URL.create("sqlite", database=str(path)),
        paramstyle="named",
        pool_size=pool_size,
        max_overflow=0,
        connect_args={"isolation_level": None, "check_same_thread": False, "timeout": 0, "cached_statements": 256},
    )

    @event.listens_for(result, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        # NORMAL: commits survive the death of the process, and a loss of power once the log is synced.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")
        # What is deleted or redacted is overwritten with zeros.
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES_KEPT}")

    return result


def use_log(connection: DriverConnection) -> None:
    """Switch the database to a write-ahead log, once for all connections to come; raises `sqlite3.Error`."""
    connection.execute("PRAGMA journal_mode=WAL").fetchall()


def is_empty(connection: DriverConnection) -> bool:
    return not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()


def has_table(connection: DriverConnection, name: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,)).fetchall())


def data_version(connection: DriverConnection) -> object:
    """A number that differs from this connection's earlier ones after another connection has committed."""
    return connection.execute("PRAGMA data_version").fetchall()[0][0]


def is_busy(error: BaseException) -> bool:
    """Whether another process holds the lock, so that a repeat will succeed."""
    if not isinstance(error, sqlite3.OperationalError):
        return False
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def domain_error(path: Path, error: sqlite3.Error) -> MemfsError:
    """What `error` means to a person."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_NOTADB:
            return InvalidRequest(f"{path} is not a database: give the path of one that memfs made, or of a new file")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return PermissionDenied(f"the database {path} may not be written by this user: give the path of a file of yours")
        case sqlite3.SQLITE_CANTOPEN:
            return Unavailable(f"the database {path} cannot be opened: give the path of a file in a directory of yours")
        case sqlite3.SQLITE_FULL:
            return OutOfSpace(f"the disk that holds the database {path} is full: make room, then try again")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable(f"another process kept the database {path} locked: try again")
    return Unavailable(f"the database {path} failed: {error}")


def sync(path: Path) -> None:
    """Make all commits survive a loss of power.

    They are in the log, or were synced to the database file before they left it. The database file itself must not be
    opened here: closing it would drop this process's locks.
    """
    try:
        _fsync(Path(f"{path}-wal"))
        _fsync(path.parent)
    except FileNotFoundError:
        pass  # No log: the last checkpoint has synced everything.
    except OSError as error:
        raise Unavailable(f"the database {path} cannot be synced: {error.strerror}") from None


def empty_log(connection: Connection) -> bool:
    """Write the log into the database and cut it to nothing; return whether others' reading allowed it at this moment."""
    (busy, _, _) = connection.driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    return not busy


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
