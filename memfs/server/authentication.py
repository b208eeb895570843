"""Who bears a credential: asked with every request, so it costs one look-up by index and no more."""

import time
from typing import Any

from sqlalchemy import bindparam, select

from memfs.model.errors import Unauthenticated
from memfs.model.ids import ApiKeyId, SessionId
from memfs.model.objects import ApiActor, SessionActor
from memfs.server.credentials import TOKEN_MARK, ServedSession, hash_of, keys, sessions, tokens
from memfs.server.principal import Principal
from memfs.stores.sql import SqlDatabase
from memfs.stores.sql.statement import Statement

_KEY = Statement(
    select(keys.c.id, keys.c.expires_at, keys.c.revoked_at).where(keys.c.secret_sha256 == bindparam("secret_sha256"))
)
_TOKEN = Statement(
    select(sessions.c.id, tokens.c.expires_at, sessions.c.ended_at, sessions.c.body)
    .join(tokens, tokens.c.session_id == sessions.c.id)
    .where(tokens.c.secret_sha256 == bindparam("secret_sha256"))
)
_ANY_KEY = Statement(select(keys.c.id).limit(1))


async def authenticate(database: SqlDatabase, secret: str) -> Principal:
    """Raises `Unauthenticated` when `secret` is unknown, revoked, expired or of an ended session, and `Unavailable`."""
    parameters = {"secret_sha256": hash_of(secret)}
    if secret.startswith(TOKEN_MARK):
        row = await database.read(lambda connection: connection.row(_TOKEN, parameters))
        session_id, expires_at, ended_at, body = _known(row)
        _check_still_works(expires_at, ended_at, "the session has ended")
        attached = {r.memory_store_id: r.access for r in ServedSession.model_validate_json(body).memory_stores}
        return Principal(SessionActor(session_id=SessionId(session_id)), attached)
    row = await database.read(lambda connection: connection.row(_KEY, parameters))
    key_id, expires_at, revoked_at = _known(row)
    _check_still_works(expires_at, revoked_at, "the API key is revoked")
    return Principal(ApiActor(api_key_id=ApiKeyId(key_id)), None)


async def has_keys(database: SqlDatabase) -> bool:
    """Whether an API key was ever made, even if it is revoked by now."""
    return await database.read(lambda connection: connection.row(_ANY_KEY, {})) is not None


def _known(row: Any) -> Any:
    if row is None:
        raise Unauthenticated("the credential is not known here")
    return row


def _check_still_works(expires_at: int | None, ended_at: int | None, ended: str) -> None:
    if ended_at is not None:
        raise Unauthenticated(ended)
    if expires_at is not None and expires_at <= time.time_ns() // 1000:
        raise Unauthenticated("the credential has expired")
