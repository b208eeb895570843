"""The ASGI application: routes, errors, and what every answer bears."""

import logging
import time
import traceback
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memfs import __version__
from memfs.model.errors import MemfsError
from memfs.model.ids import new_request_id
from memfs.server import endpoints
from memfs.server.answers import envelope, error_response, json_response
from memfs.server.authentication import has_keys
from memfs.server.calls import Backend, BodyTooLarge, BodyTooSlow, Call

log = logging.getLogger("memfs.server")
access_log = logging.getLogger("memfs.server.access")

Endpoint = Callable[[Call], Awaitable[Response]]

_STORES = "/v1/memory_stores"
_STORE = _STORES + "/{store_id}"
_MEMORIES = _STORE + "/memories"
_MEMORY = _MEMORIES + "/{memory_id}"
_VERSIONS = _STORE + "/memory_versions"
_VERSION = _VERSIONS + "/{version_id}"
_SESSIONS = "/v1/sessions"
_SESSION = _SESSIONS + "/{session_id}"

_ENDPOINTS: tuple[tuple[str, str, Endpoint], ...] = (
    ("POST", _STORES, endpoints.create_store),
    ("GET", _STORES, endpoints.list_stores),
    ("GET", _STORE, endpoints.retrieve_store),
    ("POST", _STORE, endpoints.update_store),
    ("DELETE", _STORE, endpoints.delete_store),
    ("POST", _STORE + "/archive", endpoints.archive_store),
    ("POST", _MEMORIES, endpoints.create_memory),
    ("GET", _MEMORIES, endpoints.list_memories),
    ("GET", _MEMORY, endpoints.retrieve_memory),
    ("POST", _MEMORY, endpoints.update_memory),
    ("DELETE", _MEMORY, endpoints.delete_memory),
    ("GET", _VERSIONS, endpoints.list_versions),
    ("GET", _VERSION, endpoints.retrieve_version),
    ("POST", _VERSION + "/redact", endpoints.redact_version),
    ("POST", _SESSIONS, endpoints.create_session),
    ("GET", _SESSION, endpoints.retrieve_session),
)


def create_app(backend: Backend) -> ASGIApp:
    """The application over an open `backend`, which stays the caller's to close."""
    routes: list[BaseRoute] = [
        Route(path, _handler(endpoint, backend, sessions=path.startswith(_SESSIONS)), methods=[method])
        for method, path, endpoint in _ENDPOINTS
    ]
    routes.append(Route("/healthz", _health(backend), methods=["GET"]))
    application = Starlette(
        routes=routes,
        exception_handlers={
            MemfsError: _on_memfs_error,
            HTTPException: _on_http_exception,
            ClientDisconnect: _on_disconnect,
            Exception: _on_surprise,
        },
    )
    application.router.redirect_slashes = False
    return _Answering(application)


def _handler(endpoint: Endpoint, backend: Backend, *, sessions: bool) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        call = await Call.of(request, backend, sessions=sessions)
        request.scope["memfs.actor"] = call.principal.actor
        request.scope["memfs.endpoint"] = endpoint.__name__
        return await endpoint(call)

    return handle


def _health(backend: Backend) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        """200 while the database answers."""
        await has_keys(backend.database)
        return json_response(b'{"status":"ok"}')

    return handle


def _on_memfs_error(request: Request, error: Exception) -> Response:
    request_id = request.scope["memfs.request_id"]
    if isinstance(error, BodyTooLarge):
        return envelope(413, "request_too_large", error.message, request_id)
    if isinstance(error, BodyTooSlow):
        return envelope(408, "timeout_error", error.message, request_id)
    assert isinstance(error, MemfsError)
    return error_response(error, request_id)


def _on_http_exception(request: Request, error: Exception) -> Response:
    request_id = request.scope["memfs.request_id"]
    if isinstance(error, HTTPException) and error.status_code == 405:
        response = envelope(405, "invalid_request_error", "this endpoint has no such method", request_id)
        response.headers.update(error.headers or {})
        return response
    return envelope(404, "not_found_error", "no such endpoint", request_id)


def _on_disconnect(request: Request, error: Exception) -> Response:
    # Nobody reads it; the status is for the log.
    return envelope(499, "api_error", "the client went away", request.scope["memfs.request_id"])


def _on_surprise(request: Request, error: Exception) -> Response:
    return envelope(500, "api_error", "internal error", request.scope["memfs.request_id"])


class _Answering:
    """Gives every request its id and every answer its headers; reports surprises, and writes the access log."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        request_id = scope["memfs.request_id"] = new_request_id()
        status = 0
        began = time.monotonic()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"request-id", request_id.encode()),
                    (b"server", f"memfs/{__version__}".encode()),
                ]
            await send(message)

        try:
            await self._application(scope, receive, send_with_headers)
        except Exception as error:  # noqa: BLE001  the last line of defence, and it reports
            # The message of an unforeseen exception may quote content, so the log names the place and the kind only.
            frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
            log.error("%s: %s\n%s", request_id, type(error).__qualname__, frames)
        finally:
            # Method and endpoint instead of the URL, which holds ids, paths and cursors.
            access_log.info(
                "%s %s %s %d %.1fms %s",
                request_id,
                scope["method"],
                scope.get("memfs.endpoint", "-"),
                status,
                (time.monotonic() - began) * 1000,
                _who(scope),
            )


def _who(scope: Scope) -> str:
    actor = scope.get("memfs.actor")
    return "-" if actor is None else next((str(value) for name, value in actor if name != "type"), "-")
