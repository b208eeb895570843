"""Runs the server on a socket until it is told to stop."""

import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import uvicorn

from memfs.model.errors import InvalidRequest, MemfsError, Unavailable
from memfs.server.app import create_app
from memfs.server.calls import Backend, in_thread
from memfs.server.database import open_database

DEFAULT_LISTEN = "127.0.0.1:38080"
_DRAIN_SECONDS = 30
_KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep idle connections, so that it is they who close them and no request meets a closing one."""


@dataclass(frozen=True)
class Address:
    """Where to listen; port 0 takes a free one."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> "Address":
        """``HOST:PORT``, ``[IPV6]:PORT`` or ``:PORT`` (loopback). Raises `InvalidRequest`."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise InvalidRequest(f"--listen {text}: expected HOST:PORT, such as {DEFAULT_LISTEN}")
        return Address(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def bind(self) -> socket.socket:
        """Raises `Unavailable` when the address is taken or not ours."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listener = socket.create_server((self.host, self.port), family=family, backlog=2048)
            # The event loop sets this only on sockets that name their protocol, which accepted ones do not: answers would wait.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
            raise Unavailable(
                f"cannot listen on {self.host}:{self.port} ({reason}): choose another address with --listen"
            ) from None
        listener.setblocking(False)
        return listener


def serve(
    url: str, address: Address, *, strict: bool, access_log: bool, max_memories: int | None, ready: Callable[[str], None]
) -> None:
    """Serve the database at `url`; call `ready` with the server's URL once it answers; return after SIGTERM or SIGINT.

    Requests in flight are finished first, for at most 30 seconds. Raises `MemfsError` when it cannot start.
    """
    _set_up_logging(access_log)
    anyio.run(_serve, url, address, strict, max_memories, ready)


async def _serve(url: str, address: Address, strict: bool, max_memories: int | None, ready: Callable[[str], None]) -> None:
    async with open_database(url, max_memories=max_memories) as (database, keyring):
        if not address.loopback and not await in_thread(keyring.has_working_key):
            raise InvalidRequest(
                f"anybody could connect to {address.host}, and there is no API key yet: make one with `memfs keys create`"
            )
        with address.bind() as listener:
            backend = Backend(database, keyring, strict=strict, local=address.loopback)
            server = HttpServer(backend, lambda: ready(url_of(listener)))
            for number in (signal.SIGTERM, signal.SIGINT):
                # uvicorn raises what stopped it once more when it is done; stopping is no failure, and there is more to close.
                signal.signal(number, lambda *_: None)
            await server.serve(sockets=[listener])
            if not server.started:
                raise MemfsError("the server could not start")


class HttpServer(uvicorn.Server):
    """The application on uvicorn; calls `ready` once it answers. To be run by `serve(sockets=...)`."""

    def __init__(self, backend: Backend, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            create_app(backend),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _set_up_logging(access_log: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger("memfs").addHandler(handler)
    logging.getLogger("memfs").setLevel(logging.INFO)
    logging.getLogger("memfs.server.access").setLevel(logging.INFO if access_log else logging.WARNING)
    logging.getLogger("uvicorn").addHandler(handler)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
