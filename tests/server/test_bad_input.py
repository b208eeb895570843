"""Bad input at the server's door: every one gets a clear refusal, none a traceback, and nothing that is stored is harmed."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.harness.api import Api
from tests.harness.serving import ServerProcess, memfs, serving


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for the module, with a key."""
    directory = tmp_path_factory.mktemp("bad-input")
    with serving(f"sqlite:///{directory}/data/memfs.db", directory) as server:
        yield server
        log = server.log.read_text()
        assert "Traceback" not in log
        assert "internal error" not in log


@pytest.fixture(scope="module")
def api(running: ServerProcess) -> Iterator[Api]:
    client = Api(running.url, running.create_key()[1])
    yield client
    client.close()


@pytest.fixture(scope="module")
def memory(api: Api) -> dict[str, Any]:
    """A memory that has to survive everything here."""
    return api.create_memory(api.create_store(), "/kept.md", "kept")


@pytest.fixture(autouse=True)
def nothing_is_harmed(api: Api, memory: dict[str, Any]) -> Iterator[None]:
    yield
    listed = api.ok(api.get(f"memory_stores/{memory['memory_store_id']}/memories"))["data"]
    assert listed == [memory]


GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "half": b'{"path": "/x", "content',
    "list": b"[]",
    "text": b'"text"',
    "null": b"null",
    "number": b"1e999",
    "not UTF-8": b'{"path": "/x", "content": "\xff\xfe"}',
    "lone surrogate": b'{"path": "/x", "content": "\\ud800"}',
    "surrogate in path": b'{"path": "/\\ud800", "content": ""}',
    "deep": b"[" * 200_000,
    "deep object": b'{"path":' * 100_000,
    "long number": b'{"path": "/x", "content": ' + b"9" * 100_000 + b"}",
    "NaN": b'{"path": "/x", "content": NaN}',
    "wrong types": b'{"path": ["/x"], "content": {"a": 1}}',
    "boolean": b'{"path": true, "content": false}',
    "form": b"path=/x&content=y",
    "NUL": b"\0" * 1000,
    "BOM": b'\xef\xbb\xbf{"path": "/x"}',
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_bodies(api: Api, memory: dict[str, Any], body: bytes) -> None:
    store = memory["memory_store_id"]
    paths = ("memory_stores", f"memory_stores/{store}/memories", f"memory_stores/{store}/memories/{memory['id']}", "sessions")
    for path in paths:
        error = api.bad(api.client.post("/v1/" + path, content=body, headers={"content-type": "application/json"}))
        assert len(error["message"]) < 1000


def test_a_body_of_two_megabytes(api: Api, memory: dict[str, Any]) -> None:
    path = f"memory_stores/{memory['memory_store_id']}/memories"
    answer = api.post(path, {"path": "/x", "content": "x" * 2_000_000})
    api.refused(answer, 413, "request_too_large")
    pieces = (b"x" * 65536 for _ in range(40))  # no content-length: the limit counts what arrives
    api.refused(api.client.post("/v1/" + path, content=pieces), 413, "request_too_large")


def test_a_refusal_repeats_no_content(api: Api, memory: dict[str, Any]) -> None:
    path = f"memory_stores/{memory['memory_store_id']}/memories"
    answer = api.post(path, {"path": 12, "content": ["hush-hush"], "more": "hush-hush"})
    assert "hush" not in json.dumps(api.bad(answer))


@pytest.mark.parametrize("page", ["page_", "page_%00", "x" * 10_000, "page_" + "A" * 5_000, "../..", "page_\u00e9"])
def test_garbage_cursors(api: Api, memory: dict[str, Any], page: str) -> None:
    store = memory["memory_store_id"]
    for path in ("memory_stores", f"memory_stores/{store}/memories", f"memory_stores/{store}/memory_versions"):
        api.bad(api.get(path, page=page))


@pytest.mark.parametrize("limit", ["1000000", "101", "0", "-5", "1e3", "٣", "1 ", "None"])
def test_huge_and_senseless_pages(api: Api, memory: dict[str, Any], limit: str) -> None:
    store = memory["memory_store_id"]
    for path in ("memory_stores", f"memory_stores/{store}/memories", f"memory_stores/{store}/memory_versions"):
        api.bad(api.get(path, limit=limit))


@pytest.mark.parametrize("identifier", ["memstore_\x00", "é", "a" * 5_000, "' OR 1=1 --", "%2e%2e", "memstore_01"])
def test_senseless_ids_are_unknown(api: Api, identifier: str) -> None:
    path = "/v1/memory_stores/" + "".join(f"%{byte:02x}" for byte in identifier.encode())
    for more in ("", "/memories", "/memory_versions", "/memories/mem_x", "/memory_versions/memver_x"):
        api.refused(api.client.get(path + more), 404, "not_found_error")


def test_unknown_places_and_methods(api: Api, memory: dict[str, Any]) -> None:
    api.refused(api.client.get("/"), 404, "not_found_error")
    api.refused(api.client.get("/v1/messages"), 404, "not_found_error")
    api.refused(api.client.get("/v1/memory_stores/"), 404, "not_found_error")
    store = f"/v1/memory_stores/{memory['memory_store_id']}"
    for method in ("PATCH", "PUT"):
        api.refused(api.client.request(method, store, json={"name": "x"}), 405, "invalid_request_error")


@pytest.mark.parametrize("secret", ["x", "sk-memfs-api01-", "sk-memfs-sesn01-" + "A" * 43, "x" * 6_000])
@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_wrong_credentials(running: ServerProcess, secret: str, header: str) -> None:
    stranger = Api(running.url, secret, header=header)
    stranger.refused(stranger.get("memory_stores"), 401, "authentication_error")
    stranger.close()


@pytest.mark.parametrize(
    "value", [b"", b"Basic dXNlcjpwYXNz", b"Bearer", b"bearer  ", b"\xff\xfe", b"Bearer \xe9", b"Bearer \x7f"]
)
@pytest.mark.parametrize("header", [b"authorization", b"x-api-key"])
def test_odd_credential_headers(running: ServerProcess, header: bytes, value: bytes) -> None:
    parts = urlsplit(running.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        lines = [
            b"GET /v1/memory_stores HTTP/1.1",
            b"host: " + parts.netloc.encode(),
            header + b": " + value,
            b"connection: close",
        ]
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n")
        answer = connection.recv(65536)
    assert answer.split(b" ")[1] in (b"400", b"401"), answer


def test_expired_and_revoked_keys(running: ServerProcess) -> None:
    _, short = running.create_key("short", lifetime=timedelta(seconds=0.5))
    key_id, revoked = running.create_key("revoked")
    client = Api(running.url, revoked)
    client.ok(client.get("memory_stores"))
    memfs("keys", "revoke", key_id, "--url", running.database)
    client.refused(client.get("memory_stores"), 401, "authentication_error")
    client.close()
    time.sleep(0.5)
    client = Api(running.url, short)
    client.refused(client.get("memory_stores"), 401, "authentication_error")
    client.close()


def test_an_ended_session(running: ServerProcess, memory: dict[str, Any]) -> None:
    session = running.create_session(memory["memory_store_id"] + ":ro")
    client = Api(running.url, session["token"], header="authorization")
    client.ok(client.get("memory_stores"))
    memfs("sessions", "end", session["id"], "--url", running.database)
    client.refused(client.get("memory_stores"), 401, "authentication_error")
    client.close()


def test_raw_nonsense_on_the_socket(running: ServerProcess, api: Api) -> None:
    parts = urlsplit(running.url)
    for data in (b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 4096, b"POST / HTTP/1.1\r\n"):
        with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
    assert api.get("memory_stores").status_code == 200


def test_a_body_that_stops_half_way_holds_up_nobody(running: ServerProcess, api: Api, memory: dict[str, Any]) -> None:
    parts = urlsplit(running.url)
    store = memory["memory_store_id"]
    lines = [
        f"POST /v1/memory_stores/{store}/memories HTTP/1.1",
        f"host: {parts.netloc}",
        f"x-api-key: {api.client.headers['x-api-key']}",
        "content-length: 1000",
        "",
        '{"path": "/half", "content": "',
    ]
    connections = [socket.create_connection((parts.hostname, parts.port), timeout=10) for _ in range(20)]
    for connection in connections:
        connection.sendall("\r\n".join(lines).encode())
    began = time.monotonic()
    for _ in range(20):
        api.ok(api.get("memory_stores"))
    assert time.monotonic() - began < 5
    for connection in connections:
        connection.close()


def test_a_request_in_flight_is_finished_when_the_server_is_stopped(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/memfs.db", tmp_path) as server:
        api = Api(server.url)
        store = api.create_store()
        parts = urlsplit(server.url)
        body = b'{"path": "/late.md", "content": "late"}'
        head = (
            f"POST /v1/memory_stores/{store}/memories HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
            connection.sendall(head.encode() + body[:10])
            time.sleep(0.3)  # it waits for the rest now
            status: list[int] = []
            stopping = threading.Thread(target=lambda: status.append(server.stop()))
            stopping.start()
            time.sleep(0.5)
            connection.sendall(body[10:])
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
            stopping.join()
        assert answer.startswith(b"HTTP/1.1 200")
        assert status == [0]
        api.close()
    with serving(f"sqlite:///{tmp_path}/memfs.db", tmp_path) as server:
        again = Api(server.url)
        assert [m["path"] for m in again.ok(again.get(f"memory_stores/{store}/memories"))["data"]] == ["/late.md"]
        again.close()


def test_the_access_log_tells_no_content_and_no_secret(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/memfs.db", tmp_path) as server:
        key_id, secret = server.create_key()
        api = Api(server.url, secret)
        store = api.create_store("hush-store")
        api.create_memory(store, "/hush-path.md", "hush-content")
        api.get(f"memory_stores/{store}/memories", path_prefix="/hush-prefix/")
        api.post(f"memory_stores/{store}/memories", {"path": "hush-wrong", "content": "hush"})
        api.close()
        assert server.stop() == 0
        log = server.log.read_text()
    assert key_id in log
    assert "create_memory 200" in log
    assert "list_memories 200" in log
    assert "hush" not in log
    assert secret not in log
