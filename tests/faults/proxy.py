"""A bad network between a mount and its server: a proxy that a test tells, request by request, what shall go wrong.

Faults are chosen by a seeded script, so that a run can be repeated; what was passed on is what the server really got.
"""

import contextlib
import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Fault:
    """What happens to one request. Times are in seconds.

    `wait`: so long nothing happens. `passes`: the server gets it. `late`: so long its answer is held back. `status`: answer
    this instead of what the server says, with `body` as the message. `answer`: the share of the answer's bytes that arrive
    before the connection breaks; None: all of it.
    """

    wait: float = 0.0
    passes: bool = True
    late: float = 0.0
    status: int | None = None
    body: str = "bad weather"
    retry_after: str | None = None
    answer: float | None = None


FINE = Fault()
LOST_ANSWER = Fault(answer=0.0)
CUT_ANSWER = Fault(answer=0.6)
LOST_REQUEST = Fault(passes=False, answer=0.0)
APPLIED_500 = Fault(status=500)
REFUSED_500 = Fault(passes=False, status=500)
TOO_MANY = Fault(passes=False, status=429)
TOO_MANY_FOR_A_WHILE = Fault(passes=False, status=429, retry_after="1")

Script = Callable[[str, str], Fault]
"""Method and target of a request to its fault."""


def fine(method: str, target: str) -> Fault:
    return FINE


def slow(seconds: float) -> Script:
    return lambda method, target: Fault(wait=seconds)


def sometimes(seed: int, share: float, *faults: Fault) -> Script:
    """One of `faults` for a `share` of the requests."""
    chance = random.Random(seed)
    lock = threading.Lock()

    def script(method: str, target: str) -> Fault:
        with lock:
            return chance.choice(faults) if chance.random() < share else FINE

    return script


@dataclass
class Proxy:
    """A running proxy. `script` may be replaced at any time; `down` breaks every connection without an answer."""

    url: str
    upstream: str
    script: Script = fine
    down: bool = False
    requests: list[tuple[float, str, str]] = field(default_factory=list)
    """Time (monotonic), method and target of every request that came."""

    def count(self, method: str = "", part: str = "") -> int:
        return sum(1 for _, one, target in self.requests if one.startswith(method) and part in target)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: ClassVar[Proxy]
    timeout = 120

    def setup(self) -> None:
        super().setup()
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.upstream: http.client.HTTPConnection | None = None

    def finish(self) -> None:
        if self.upstream is not None:
            self.upstream.close()
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        proxy = self.proxy
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        proxy.requests.append((time.monotonic(), self.command, self.path))
        fault = LOST_REQUEST if proxy.down else proxy.script(self.command, self.path)
        if fault.wait:
            time.sleep(fault.wait)
            if proxy.down:
                fault = LOST_REQUEST
        status, headers, content = 500, [("content-type", "application/json")], b""
        if fault.passes:
            status, headers, content = self._forward(body)
        if fault.late:
            time.sleep(fault.late)
        if fault.status is not None:
            status, headers = fault.status, [("content-type", "application/json")]
            error = {"type": "api_error" if status >= 500 else "invalid_request_error", "message": fault.body}
            content = json.dumps({"type": "error", "error": error, "request_id": "req_proxy"}).encode()
            if fault.retry_after is not None:
                headers.append(("retry-after", fault.retry_after))
        if fault.answer is not None:
            content, length = content[: int(len(content) * fault.answer)], len(content)
            self.close_connection = True
            if fault.answer == 0.0:
                return
        else:
            length = len(content)
        try:
            self.send_response_only(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("content-length", str(length))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the client had enough

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        parts = urlsplit(self.proxy.upstream)
        if self.upstream is None:
            self.upstream = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "accept-encoding")}
        self.upstream.request(self.command, self.path, body=body or None, headers=headers)
        answer = self.upstream.getresponse()
        kept = [
            (n, v) for n, v in answer.getheaders() if n.lower() in ("content-type", "request-id", "server", "x-should-retry")
        ]
        return answer.status, kept, answer.read()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that breaks off is no event here


@contextlib.contextmanager
def proxying(upstream: str) -> Iterator[Proxy]:
    """A proxy to the server at `upstream`, on a free loopback port."""
    proxy = Proxy("", upstream)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    server = _Server(("127.0.0.1", 0), handler)
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="fault-proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
