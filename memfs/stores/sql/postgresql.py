"""What is PostgreSQL's own: the driver's options and its errors."""

from typing import Any

import psycopg
from psycopg import errors
from psycopg.sql import SQL
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from memfs.model.errors import InvalidRequest, MemfsError, PermissionDenied, Unauthenticated, Unavailable, Unreachable

# Serialises the creation of the tables by several processes; any number that nobody else uses.
SCHEMA_LOCK = 0x6D656D6673

_LONGEST_IDLE = 60_000
"""Milliseconds; our transactions take a few."""


def parse(url: str) -> URL:
    """Raises `InvalidRequest`."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise InvalidRequest("the database URL cannot be read: write postgresql://USER@HOST/DATABASE") from None
    return parsed.set(drivername="postgresql+psycopg")


def engine(url: URL, pool_size: int, timeout: float) -> Engine:
    """Connections in autocommit mode that wait `timeout` seconds, for a lock as for the network."""
    milliseconds = max(1, int(timeout * 1000))
    options: dict[str, Any] = {
        "connect_timeout": max(2, int(timeout)),
        "tcp_user_timeout": milliseconds,
        "keepalives_idle": 30,
        "application_name": "memfs",
    }
    options = {name: value for name, value in options.items() if name not in url.query}
    result = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=timeout,
        # A connection that the server has ended meanwhile is found before work is given to it.
        pool_pre_ping=True,
        use_native_hstore=False,
        connect_args={**options, "autocommit": True},
    )

    @event.listens_for(result, "connect")
    def configure(connection: psycopg.Connection[Any], _record: object) -> None:
        connection.execute(SQL("SET lock_timeout = {}").format(milliseconds))
        # A process that was stopped in the middle of a transaction does not keep a store locked for good.
        connection.execute(SQL("SET idle_in_transaction_session_timeout = {}").format(_LONGEST_IDLE))

    return result


def is_transient(error: BaseException) -> bool:
    """Whether the transaction was undone for another's sake, so that a repeat will give the true answer."""
    return isinstance(error, (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation))


def is_disconnect(error: BaseException) -> bool:
    return isinstance(error, (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)) or (
        isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    )


def domain_error(url: URL, error: psycopg.Error) -> MemfsError:
    """What `error` means to a person; the URL is shown without its password."""
    where = url.render_as_string(hide_password=True).replace("postgresql+psycopg", "postgresql", 1)
    reason = str(error).strip().split("\n")[0]
    match error:
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification():
            return Unauthenticated(f"the database {where} refused the credential: mend user and password in the URL")
        case errors.InsufficientPrivilege() | errors.ReadOnlySqlTransaction():
            return PermissionDenied(f"the database {where} does not allow this: {reason}")
        case errors.LockNotAvailable():
            return Unavailable(f"another writer kept the store locked in {where}: try again")
    kind = Unreachable if is_disconnect(error) else Unavailable
    return kind(f"the database {where} failed: {reason}")
