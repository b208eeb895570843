"""HTTP/2, where a server offers it, and certificates: our application behind another ASGI server, over TLS."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hypercorn.asyncio
import hypercorn.config
import pytest
import trio
import trustme
from starlette.types import ASGIApp, Receive, Scope, Send

from memfs.model.errors import Unavailable
from memfs.server.app import create_app
from memfs.server.calls import Backend
from memfs.server.database import open_database
from memfs.stores.credentials import Credentials
from memfs.stores.managed import open_managed


@dataclass
class TlsServer:
    url: str = ""
    versions: set[str] = field(default_factory=set)
    """The HTTP versions that requests came in."""
    connections: set[tuple[str, int]] = field(default_factory=set)


def _watched(application: ASGIApp, state: TlsServer) -> ASGIApp:
    async def watch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            state.versions.add(scope["http_version"])
            state.connections.add(tuple(scope["client"]))
        await application(scope, receive, send)

    return watch


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_server(authority: trustme.CA, tmp_path: Path) -> Iterator[TlsServer]:
    certificate = authority.issue_cert("localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    state = TlsServer(f"https://localhost:{port}")
    config = hypercorn.config.Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.certfile = config.keyfile = str(tmp_path / "server.pem")
    stop = threading.Event()

    async def main() -> None:
        async with open_database(f"sqlite:///{tmp_path}/memfs.db") as (database, keyring):
            application = _watched(create_app(Backend(database, keyring, strict=False, local=True)), state)
            await hypercorn.asyncio.serve(application, config, shutdown_trigger=lambda: asyncio.to_thread(stop.wait))

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        yield state
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


async def test_http_2_over_tls(
    tls_server: TlsServer, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    client = await open_managed(tls_server.url, credentials=Credentials(environment={}))
    await client.list_stores()  # the server may still be starting: the client's own retries wait for it
    store = await client.create_store("Notes")

    async def create(number: int) -> None:
        await client.create_memory(store.id, f"/{number}", "x" * 10_000)

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(create, number)
    assert len((await client.list_memories(store.id, limit=100)).data) == 40

    async def give_up(seconds: float) -> None:
        with trio.move_on_after(seconds):
            await client.list_memories(store.id, view="full")

    for _ in range(5):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(give_up, number * 0.002)
        assert len((await client.list_memories(store.id, limit=100)).data) == 40
    await client.aclose()
    assert tls_server.versions == {"2"}
    assert len(tls_server.connections) < 40


async def test_a_certificate_of_nobody(tls_server: TlsServer) -> None:
    client = await open_managed(tls_server.url, credentials=Credentials(environment={}), timeout=2)
    with pytest.raises(Unavailable) as failure:
        await client.list_stores()
    assert "certificate" in failure.value.message
    assert tls_server.versions == set()
    await client.aclose()
