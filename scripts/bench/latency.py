"""A wire with a round trip: passes TCP connections on, each byte half a round trip late, and counts what goes over it.

The handshake takes a round trip too; bandwidth is that of the machine. It lives in a thread of the caller's process.
"""

import asyncio
import contextlib
import selectors
import socket
import statistics
import threading
import time
from collections import deque
from collections.abc import Iterator

Address = tuple[str, int]


class _Half(asyncio.Protocol):
    """One end of a connection: what arrives here leaves at `other` a while later, in order."""

    def __init__(self, link: "Link") -> None:
        self.link = link
        self.other: _Half | None = None
        self.transport: asyncio.Transport | None = None
        self.open_at = 0.0
        """Nothing may leave here before."""
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._schedule()

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.link.note(self, data)
            self.other.send_later(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.other is not None:
            self.other.send_later(b"")  # the end of the stream is late too

    def send_later(self, data: bytes) -> None:
        now = time.monotonic()
        self._waiting.append((max(now + self.link.round_trip / 2, self.open_at), data))
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._waiting and self.transport is not None:
            self._timer = self.link.loop.call_at(self._waiting[0][0], self._send)

    def _send(self) -> None:
        self._timer = None
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now + 1e-5:
            data = self._waiting.popleft()[1]
            if self.transport is None:
                continue
            if data:
                self.transport.write(data)
            else:
                self.transport.close()
        self._schedule()


class _Client(_Half):
    """The end that the client of the wire connected to."""

    def __init__(self, link: "Link") -> None:
        super().__init__(link)
        self.asked = False
        """Whether the last bytes on this connection went to the server."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        server = _Half(self.link)
        # The client may send at once; it would have waited a round trip for the handshake.
        server.open_at = time.monotonic() + 1.5 * self.link.round_trip
        self.other, server.other = server, self
        super().connection_made(transport)
        self.link.connections += 1
        self.link.connect(server)


class Link:
    """A running wire. `exchanges` counts how often a client spoke after the server had: requests, where none are pipelined."""

    def __init__(self, target: Address, round_trip: float) -> None:
        self.target = target
        self.round_trip = round_trip
        """In seconds."""
        self.port = 0
        self.connections = 0
        self.exchanges = 0
        self.bytes_up = 0
        self.bytes_down = 0
        # select(2) takes microseconds where epoll rounds up to milliseconds.
        self.loop: asyncio.AbstractEventLoop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        self._connecting: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def note(self, half: _Half, data: bytes) -> None:
        if isinstance(half, _Client):
            self.bytes_up += len(data)
            if not half.asked:
                self.exchanges += 1
            half.asked = True
        else:
            self.bytes_down += len(data)
            if isinstance(half.other, _Client):
                half.other.asked = False

    def connect(self, server: _Half) -> None:
        task = self.loop.create_task(self._connect(server))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, server: _Half) -> None:
        try:
            await self.loop.create_connection(lambda: server, *self.target)
        except OSError:
            if server.other is not None and server.other.transport is not None:
                server.other.transport.abort()

    def run(self, listener: socket.socket, ready: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.loop.create_server(lambda: _Client(self), sock=listener))
        self.loop.call_soon(ready.set)
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


@contextlib.contextmanager
def link(target: Address, round_trip: float) -> Iterator[Link]:
    """A wire to `target` on a free loopback port, with so many seconds from a byte sent to its answer."""
    wire = Link(target, round_trip)
    listener = socket.create_server(("127.0.0.1", 0))
    wire.port = listener.getsockname()[1]
    ready = threading.Event()
    thread = threading.Thread(target=wire.run, args=(listener, ready), name="latency", daemon=True)
    thread.start()
    ready.wait()
    try:
        yield wire
    finally:
        wire.loop.call_soon_threadsafe(wire.loop.stop)
        thread.join()


def measured(round_trip: float, samples: int = 40) -> float:
    """The round trip of such a wire as a client sees it, in seconds: the delay asked for and what the wire itself adds."""

    def echo(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := peer.recv(65536):
                peer.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=echo, args=(listener,), daemon=True)
        thread.start()
        with link(listener.getsockname()[:2], round_trip) as wire:
            with socket.create_connection(("127.0.0.1", wire.port)) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                times = []
                for _ in range(samples):
                    began = time.monotonic()
                    client.sendall(b"x" * 200)
                    client.recv(65536)
                    times.append(time.monotonic() - began)
            thread.join(5)
    return statistics.median(times[1:])
