"""API keys, sessions and session tokens, kept in tables of their own beside the stores.

A secret is shown once, when it is made; the tables hold its SHA-256. That is enough because a secret is 256 random bits, not
a password somebody chose. Everything here blocks: the server calls it in worker threads.
"""

import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import Field
from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    MetaData,
    Row,
    Table,
    Text,
    create_engine,
    event,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from memfs.model.errors import InvalidRequest, NotFound, Unavailable
from memfs.model.ids import ApiKeyId, SessionId, new_api_key_id, new_session_id
from memfs.model.objects import Model, Time
from memfs.model.sessions import MemoryStoreResource, Session
from memfs.stores.sql import sqlite

KEY_MARK = "sk-memfs-api01-"
TOKEN_MARK = "sk-memfs-sesn01-"

_metadata = MetaData()

# Times are integers, microseconds since 1970 in UTC.
keys = Table(
    "memfs_api_keys",
    _metadata,
    Column("id", Text, primary_key=True),
    # What a person calls the key; need not be unique.
    Column("name", Text, nullable=False),
    # Lowercase hex SHA-256 of the secret.
    Column("secret_sha256", Text, nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
    # Null: never.
    Column("expires_at", BigInteger),
    # Null while the key works. Rows of revoked keys stay: their ids are in the history.
    Column("revoked_at", BigInteger),
)
sessions = Table(
    "memfs_sessions",
    _metadata,
    Column("id", Text, primary_key=True),
    # The session as the wire shows it, JSON; its resources are what its tokens reach.
    Column("body", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Null while the session's tokens work.
    Column("ended_at", BigInteger),
)
tokens = Table(
    "memfs_session_tokens",
    _metadata,
    Column("secret_sha256", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("memfs_sessions.id"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Null: as long as the session.
    Column("expires_at", BigInteger),
)
_indexes = [Index("memfs_session_tokens_by_session", tokens.c.session_id)]

_SCHEMA_LOCK = 0x6D656D6673  # PostgreSQL's advisory lock that tells us from other users of the database
_BUSY_SECONDS = 8


class ApiKey(Model):
    """An API key without its secret."""

    id: ApiKeyId
    type: str = "api_key"
    name: str
    created_at: Time
    expires_at: Time | None = None
    revoked_at: Time | None = None

    def works_now(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > _now())


class ServedSession(Session):
    """A session as this server answers it: the fields of the contract that it has no use for are empty."""

    agent: dict[str, Any] = Field(default_factory=dict)
    environment_id: str = ""
    metadata: dict[str, str] = Field(default_factory=dict)
    vault_ids: list[str] = Field(default_factory=list)
    outcome_evaluations: list[Any] = Field(default_factory=list)
    stats: dict[str, float] = Field(default_factory=dict)
    usage: dict[str, int] = Field(default_factory=dict)
    budget: None = None


@dataclass(frozen=True)
class Minted:
    """A new secret; the only moment it can be shown."""

    secret: str

    def __repr__(self) -> str:
        return "Minted(...)"


class Keyring:
    """The credentials of one database. Safe for threads, and for other processes on the same database.

    Every method raises `Unavailable` when the database cannot answer.
    """

    def __init__(self, url: str) -> None:
        """`url` as for the stores: ``sqlite:///PATH`` or ``postgresql://...``, which `SqlDatabase.open` has made already."""
        self._engine = _engine(url)
        with self._transaction(writes=True) as connection:
            _create_tables(connection)

    def close(self) -> None:
        self._engine.dispose()

    # API keys

    def create_key(self, name: str, *, lifetime: timedelta | None = None) -> tuple[ApiKey, Minted]:
        if not name.strip() or not name.isprintable() or len(name) > 255:
            raise InvalidRequest("a key needs a name of 1 to 255 printable characters")
        secret = KEY_MARK + secrets.token_urlsafe(32)
        now = _now()
        expires = None if lifetime is None else now + lifetime
        key = ApiKey(id=new_api_key_id(), name=name, created_at=now, expires_at=expires)
        values = {
            "id": key.id,
            "name": name,
            "secret_sha256": hash_of(secret),
            "created_at": _us(now),
            "expires_at": None if expires is None else _us(expires),
        }
        with self._transaction(writes=True) as connection:
            connection.execute(insert(keys).values(values))
        return key, Minted(secret)

    def list_keys(self) -> list[ApiKey]:
        """All keys, revoked ones too, newest first."""
        with self._transaction() as connection:
            return [_key(row) for row in connection.execute(select(keys).order_by(keys.c.created_at.desc(), keys.c.id))]

    def revoke_key(self, key_id: ApiKeyId) -> ApiKey:
        """From now on the key is refused; revoking again changes nothing. Raises `NotFound`."""
        with self._transaction(writes=True) as connection:
            mine = keys.c.id == key_id
            connection.execute(update(keys).where(mine, keys.c.revoked_at.is_(None)).values(revoked_at=_us(_now())))
            row = connection.execute(select(keys).where(mine)).one_or_none()
        if row is None:
            raise NotFound(f"no API key {key_id}: see `memfs keys list`")
        return _key(row)

    def has_working_key(self) -> bool:
        return any(key.works_now() for key in self.list_keys())

    # Sessions

    def create_session(
        self,
        resources: list[MemoryStoreResource],
        *,
        title: str | None = None,
        metadata: dict[str, str] | None = None,
        agent: dict[str, Any] | None = None,
        environment_id: str = "",
        vault_ids: list[str] | None = None,
    ) -> ServedSession:
        now = _now()
        session = ServedSession(
            id=new_session_id(),
            title=title,
            resources=list(resources),
            created_at=now,
            updated_at=now,
            agent=agent or {},
            environment_id=environment_id,
            metadata=metadata or {},
            vault_ids=vault_ids or [],
        )
        values = {"id": session.id, "body": session.model_dump_json(), "created_at": _us(now)}
        with self._transaction(writes=True) as connection:
            connection.execute(insert(sessions).values(values))
        return session

    def retrieve_session(self, session_id: SessionId) -> ServedSession:
        """Raises `NotFound`."""
        if "\0" in session_id:
            raise NotFound("no such session")  # PostgreSQL cannot even be asked
        with self._transaction() as connection:
            row = connection.execute(select(sessions).where(sessions.c.id == session_id)).one_or_none()
        if row is None:
            raise NotFound(f"no session {session_id[:100]}: `memfs sessions create` makes one and tells its id")
        return _session(row)

    def end_session(self, session_id: SessionId) -> ServedSession:
        """From now on its tokens are refused; ending again changes nothing. Raises `NotFound`."""
        with self._transaction(writes=True) as connection:
            mine = sessions.c.id == session_id
            connection.execute(update(sessions).where(mine, sessions.c.ended_at.is_(None)).values(ended_at=_us(_now())))
        return self.retrieve_session(session_id)

    def create_token(self, session_id: SessionId, *, lifetime: timedelta | None = None) -> Minted:
        """A token that acts in the session's name. Raises `NotFound`, or `InvalidRequest` when the session has ended."""
        if self.retrieve_session(session_id).status == "terminated":
            raise InvalidRequest(f"session {session_id} has ended")
        secret = TOKEN_MARK + secrets.token_urlsafe(32)
        now = _now()
        values = {
            "secret_sha256": hash_of(secret),
            "session_id": session_id,
            "created_at": _us(now),
            "expires_at": None if lifetime is None else _us(now + lifetime),
        }
        with self._transaction(writes=True) as connection:
            connection.execute(insert(tokens).values(values))
        return Minted(secret)

    @contextmanager
    def _transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        try:
            with self._engine.execution_options(writes=writes).begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            # Not its text: it may hold the values of the statement.
            raise Unavailable(f"the database cannot answer ({type(error).__name__})") from None


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite:"):
        from memfs.stores.sql import postgresql  # its driver is installed where it is wanted

        return create_engine(postgresql.parse(url), hide_parameters=True, pool_pre_ping=True, pool_timeout=_BUSY_SECONDS)
    engine = create_engine(
        URL.create("sqlite", database=str(sqlite.path_of(url))),
        hide_parameters=True,
        pool_timeout=_BUSY_SECONDS,
        connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def leave_transactions_to_us(driver: Any, _record: Any) -> None:
        driver.isolation_level = None  # the driver would otherwise begin one of its own before a write, and too late

    @event.listens_for(engine, "begin")
    def lock_before_reading(connection: Connection) -> None:
        # A transaction that reads first and writes later would be refused when another writer came between.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")

    return engine


def _create_tables(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _SCHEMA_LOCK})
    for table in _metadata.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
    for index in _indexes:
        connection.execute(CreateIndex(index, if_not_exists=True))


def _key(row: Row[Any]) -> ApiKey:
    return ApiKey(
        id=ApiKeyId(row.id),
        name=row.name,
        created_at=_time(row.created_at),
        expires_at=None if row.expires_at is None else _time(row.expires_at),
        revoked_at=None if row.revoked_at is None else _time(row.revoked_at),
    )


def _session(row: Row[Any]) -> ServedSession:
    session = ServedSession.model_validate_json(row.body)
    if row.ended_at is None:
        return session
    ended = _time(row.ended_at)
    return session.model_copy(update={"status": "terminated", "archived_at": ended, "updated_at": ended})


def hash_of(secret: str) -> str:
    """What the tables hold of `secret`."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> datetime:
    return _time(time.time_ns() // 1000)


def _us(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _time(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
