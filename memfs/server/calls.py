"""One request on its way through: who asks, what it says, and what is answered."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from memfs.model.errors import MemfsError, PermissionDenied, Unauthenticated
from memfs.model.ids import MemoryId, SessionId, StoreId, VersionId
from memfs.server import betas
from memfs.server.answers import json_response
from memfs.server.authentication import authenticate, has_keys
from memfs.server.credentials import TOKEN_MARK, Keyring
from memfs.server.principal import Principal, local_principal
from memfs.server.wire import Body, Query, parse
from memfs.stores.base import MemoryStore
from memfs.stores.sql import SqlDatabase

B = TypeVar("B", bound=Body)
T = TypeVar("T")

MAX_BODY_BYTES = 1024 * 1024
"""A memory of the largest size, every character escaped, takes 600 KB."""
_DRAINED_BYTES = 16 * MAX_BODY_BYTES
"""Of a body that is too large so much is read before it is refused: a client that is still sending would not see the answer."""
_BODY_SECONDS = 30.0

_FROM_ELSEWHERE = ("origin", "forwarded", "x-forwarded-for", "x-real-ip", "via")
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


class BodyTooLarge(MemfsError):
    """413."""


class BodyTooSlow(MemfsError):
    """408."""


@dataclass(frozen=True)
class Backend:
    """What the endpoints work on."""

    database: SqlDatabase
    keyring: Keyring
    strict: bool
    """Refuse requests without the beta header (section 14, choice 1)."""
    local: bool
    """Only this machine can reach the server: while no API key was ever made, a credential is not asked for."""

    async def authenticate(self, request: Request) -> Principal:
        """Raises `Unauthenticated`, or `PermissionDenied` for a web page that tries its luck on a server without keys.

        A credential is recognised by its value, whichever header brings it (section 1.1).
        """
        offered = [request.headers.get("authorization", ""), request.headers.get("x-api-key", "")]
        if offered[0].lower().startswith("bearer "):
            offered[0] = offered[0][7:]
        offered = [secret.strip() for secret in offered if secret.strip()]
        refusal = Unauthenticated("no credential: send an API key as x-api-key, or a key or session token as a Bearer token")
        for secret in offered:
            try:
                return await authenticate(self.database, secret)
            except Unauthenticated as error:
                refusal = error
        if not self.local or any(secret.startswith(TOKEN_MARK) for secret in offered):
            raise refusal
        if await has_keys(self.database):
            raise refusal
        _check_local_caller(request)
        return local_principal()


@dataclass(frozen=True)
class Call:
    """A request whose sender is known."""

    request: Request
    backend: Backend
    principal: Principal
    query: Query

    @staticmethod
    async def of(request: Request, backend: Backend, *, sessions: bool = False) -> "Call":
        """Checks credential and beta header, in this order; raises what they raise."""
        principal = await backend.authenticate(request)
        betas.check(request.headers.getlist("anthropic-beta"), strict=backend.strict, sessions=sessions)
        return Call(request, backend, principal, Query(request.query_params))

    @property
    def service(self) -> MemoryStore:
        """The stores, in the name of the sender."""
        return self.backend.database.store_service(self.principal.actor)

    def store_id(self, *, write: bool = False) -> StoreId:
        """The store that the URL names; raises unless the sender may read, or with `write` edit memories in it."""
        store_id = StoreId(self.request.path_params["store_id"])
        self.principal.check_store(store_id, write=write)
        return store_id

    @property
    def memory_id(self) -> MemoryId:
        return MemoryId(self.request.path_params["memory_id"])

    @property
    def version_id(self) -> VersionId:
        return VersionId(self.request.path_params["version_id"])

    @property
    def session_id(self) -> SessionId:
        return SessionId(self.request.path_params["session_id"])

    async def body(self, kind: type[B]) -> B:
        """Raises `InvalidRequest`, `BodyTooLarge` or `BodyTooSlow`."""
        return parse(kind, await _read(self.request))

    @staticmethod
    def answer(result: BaseModel) -> Response:
        return json_response(result.model_dump_json().encode())


async def in_thread(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Run `work`, which blocks, beside the event loop."""
    return await anyio.to_thread.run_sync(partial(work, *arguments, **named))


async def _read(request: Request) -> bytes:
    body = bytearray()
    size = 0
    with anyio.move_on_after(_BODY_SECONDS):
        async for piece in request.stream():
            size += len(piece)
            if size <= MAX_BODY_BYTES:
                body += piece
            elif size > _DRAINED_BYTES:
                break
        if size > MAX_BODY_BYTES:
            raise BodyTooLarge(f"a request body has at most {MAX_BODY_BYTES:,} bytes")
        return bytes(body)
    raise BodyTooSlow(f"the request body did not arrive within {_BODY_SECONDS:g} s")


def _check_local_caller(request: Request) -> None:
    # A page in a browser on this machine can send requests here too, under its own origin or, with a name that it points
    # at us, under ours; and so can anybody through a proxy on this machine.
    host = request.headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name.lower() not in _LOOPBACK_HOSTS or any(header in request.headers for header in _FROM_ELSEWHERE):
        raise PermissionDenied("without API keys this server answers local programs only: make one with `memfs keys create`")
