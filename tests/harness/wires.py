"""A wire that goes wrong on demand: an HTTP server on a real socket whose answers, byte for byte, are the test's."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx
import trio


class Hang:
    """Never answer; keep the connection open."""


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Script = Callable[[Request], "bytes | Hang | None"]
"""What to send for a request: bytes, then the connection is closed unless they have a content-length; None: close at once."""


@dataclass
class Wire:
    """A server that follows `script`, which a test may replace at any time."""

    url: str
    script: Script
    requests: list[Request] = field(default_factory=list)


def answer(status: int, body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def forward(url: str, request: Request) -> bytes:
    """What the real server at `url` answers to `request`, after having carried it out."""
    headers = {name: value for name, value in request.headers.items() if name not in ("host", "accept-encoding")}
    # Without certificates to load a client costs nothing.
    with httpx.Client(trust_env=False, verify=False, timeout=30) as client:
        reply = client.request(request.method, url + request.target, headers=headers, content=request.body)
    return answer(reply.status_code, reply.content, request_id=reply.headers["request-id"], server=reply.headers["server"])


@asynccontextmanager
async def wire(script: Script) -> AsyncIterator[Wire]:
    """A running wire on a free loopback port."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        state = Wire(f"http://127.0.0.1:{port}", script)
        nursery.start_soon(partial(trio.serve_listeners, partial(_serve, state), listeners))
        yield state
        nursery.cancel_scope.cancel()


async def _serve(state: Wire, stream: trio.SocketStream) -> None:
    async with stream:
        while (request := await _read(stream)) is not None:
            state.requests.append(request)
            reply = await trio.to_thread.run_sync(state.script, request)
            if isinstance(reply, Hang):
                await trio.sleep_forever()
            elif reply is None:
                return
            else:
                try:
                    await stream.send_all(reply)
                except trio.BrokenResourceError:
                    return  # the client had enough
                if not _complete(reply):
                    return


def _complete(reply: bytes) -> bool:
    head, _, body = reply.partition(b"\r\n\r\n")
    return f"content-length: {len(body)}\r\n".encode() in head + b"\r\n"


async def _read(stream: trio.SocketStream) -> Request | None:
    received = b""
    while b"\r\n\r\n" not in received:
        try:
            piece = await stream.receive_some()
        except trio.BrokenResourceError:
            return None
        if not piece:
            return None
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive_some()
    return Request(method, target, headers, body)
