"""An emulator on a real socket: one thread, one request after the other, and faults on demand."""

import asyncio
import contextlib
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import anyio
import trustme
import uvicorn

START_SECONDS = 10.0


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    """Below the emulator's base, without a slash at either end."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    """The JSON of the body; None when there is none."""


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any = None
    """None: no body at all."""
    headers: Mapping[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """Ends the handling of a request with an error; nothing was changed."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


@dataclass
class Faults:
    """What goes wrong; a test changes it while the emulator runs."""

    outage: bool = False
    """Every request is answered 503 and does nothing."""
    lose: int = 0
    """So many of the next writes are carried out and their answers cut off."""
    throttle: int = 0
    """So many of the next requests are answered 429 and do nothing."""
    slow_seconds: float = 0.0
    """Every answer comes so late."""
    expired: bool = False
    """The credential is not accepted any more."""


class Emulator:
    """One service. A subclass answers `handle`; `error` shapes an error as its service does."""

    base = ""
    """The path below which the service lives, without a slash at either end."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.requests: list[str] = []
        """Method and path of each request that came, in order."""

    def handle(self, request: Request) -> Reply:
        raise NotImplementedError

    def error(self, refusal: Refusal) -> Reply:
        raise NotImplementedError

    def is_write(self, request: Request) -> bool:
        return request.method != "GET"

    def count(self, method: str, ending: str = "") -> int:
        """How many requests of this method, to a path with that ending, came so far."""
        return sum(1 for line in self.requests if line.startswith(f"{method} ") and line.endswith(ending))

    def answer(self, request: Request) -> tuple[Reply, bool]:
        """The reply, and whether it is cut off."""
        self.requests.append(f"{request.method} {request.path}")
        faults = self.faults
        try:
            if faults.outage:
                raise Refusal(503, "unavailable", "the service is down")
            if faults.throttle > 0:
                faults.throttle -= 1
                raise Refusal(429, "rate_limit_error", "slow down")
            reply = self.handle(request)
        except Refusal as refusal:
            return self.error(refusal), False
        if faults.lose > 0 and self.is_write(request):
            faults.lose -= 1
            return reply, True
        return reply, False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The emulator as an ASGI application."""
        if scope["type"] != "http":
            return
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        path = unquote(scope["path"]).strip("/")
        request = Request(
            method=scope["method"],
            path=path.removeprefix(self.base).strip("/") if path.startswith(self.base) else f"?{path}",
            query=dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True)),
            headers={name.decode().lower(): value.decode() for name, value in scope["headers"]},
            body=_json(raw),
        )
        reply, cut = self.answer(request)
        if self.faults.slow_seconds:
            await anyio.sleep(self.faults.slow_seconds)
        content = b"" if reply.body is None else json.dumps(reply.body, ensure_ascii=False).encode()
        headers = {"content-length": str(len(content) + (1000 if cut else 0)), **reply.headers}
        if content:
            headers["content-type"] = "application/json"
        start = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": start})
        await send({"type": "http.response.body", "body": content})


def _json(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        return "this is no JSON"


class _Server(uvicorn.Server):
    """Ends as soon as it is told to: a test that starts one each time must not wait a tenth of a second for that, twice."""

    async def main_loop(self) -> None:
        while not self.should_exit:  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # the other thread sets it

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()


@contextlib.contextmanager
def served(emulator: Emulator, *, tls: bool = False) -> Iterator[str]:
    """The emulator's address (``http://127.0.0.1:PORT``, without its base) while it runs.

    With `tls` the certificate's authority is in ``$SSL_CERT_FILE``, for this process and those it starts.
    """
    with contextlib.ExitStack() as stack:
        files: dict[str, Any] = {}
        if tls:
            files = stack.enter_context(_certificate())
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        # asyncio does this only where a socket names its protocol; without it every answer waits for 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(emulator, log_config=None, lifespan="off", timeout_graceful_shutdown=1, **files)
        server = _Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="emulator")
        thread.start()
        try:
            deadline = time.monotonic() + START_SECONDS
            while not server.started:
                assert thread.is_alive(), "the emulator did not start"
                assert time.monotonic() < deadline, "the emulator did not start in time"
                time.sleep(0.005)
            yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
            assert not thread.is_alive()


@contextlib.contextmanager
def _certificate() -> Iterator[dict[str, str]]:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    with tempfile.TemporaryDirectory(prefix="emulator-") as folder:
        root, chain, key = (Path(folder) / name for name in ("authority.pem", "certificate.pem", "key.pem"))
        authority.cert_pem.write_to_path(str(root))
        for blob in certificate.cert_chain_pems:
            blob.write_to_path(str(chain), append=True)
        certificate.private_key_pem.write_to_path(str(key))
        before = os.environ.get("SSL_CERT_FILE")
        os.environ["SSL_CERT_FILE"] = str(root)
        try:
            yield {"ssl_certfile": str(chain), "ssl_keyfile": str(key)}
        finally:
            if before is None:
                del os.environ["SSL_CERT_FILE"]
            else:
                os.environ["SSL_CERT_FILE"] = before
