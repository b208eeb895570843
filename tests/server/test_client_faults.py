"""The client on a bad wire: clear errors within the time-out, nothing done twice, nothing lost, no secret shown."""

import base64
import itertools
import json
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from memfs.model.content import sha256_of
from memfs.model.errors import (
    BadAnswer,
    InvalidRequest,
    MemfsError,
    NotFound,
    PathConflict,
    PermissionDenied,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from memfs.model.ids import MemoryId, SessionId, StoreId
from memfs.model.objects import Store
from memfs.stores.credentials import Credentials
from memfs.stores.managed import ManagedMemoryStore, open_managed
from tests.harness.serving import ServerThread
from tests.harness.wires import Hang, Request, Script, Wire, answer, forward, wire

TIMEOUT = 2.0
SECRET = "sk-memfs-api01-hush-hush-hush"
ERROR = b'{"type":"error","error":{"type":"api_error","message":"no"},"request_id":"req_1"}'
EMPTY = b'{"data":[],"next_page":null}'


def fixed(reply: bytes | Hang | None) -> Script:
    return lambda request: reply


@pytest.fixture
async def bad_wire() -> AsyncIterator[Wire]:
    async with wire(fixed(answer(200, EMPTY))) as state:
        yield state


async def connect(url: str, **environment: str) -> ManagedMemoryStore:
    return await open_managed(
        url, credentials=Credentials(environment=environment or {"MEMFS_API_KEY": SECRET}), timeout=TIMEOUT
    )


@pytest.fixture
async def client(bad_wire: Wire) -> AsyncIterator[ManagedMemoryStore]:
    opened = await connect(bad_wire.url)
    yield opened
    await opened.aclose()


HTML = b"<html><body>Welcome to the hotel's network</body></html>"

SENSELESS: dict[str, bytes] = {
    "HTML": answer(200, HTML, "text/html"),
    "HTML that says it is JSON": answer(200, HTML),
    "nothing": answer(200, b""),
    "no content": answer(204, b""),
    "a list": answer(200, b"[]"),
    "another object": answer(200, b'{"hello": "world"}'),
    "half an object": answer(200, b'{"data":['),
    "not UTF-8": answer(200, b'{"data":"\xff"}'),
    "wrong types": answer(200, b'{"data":[{"id":1,"type":"memory_store"}],"next_page":3}'),
    "a redirect": answer(302, b"", location="http://127.0.0.1:9/elsewhere"),
    "a download without end": b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n" + b" " * (33 * 1024 * 1024),
}


@pytest.mark.parametrize("reply", SENSELESS.values(), ids=SENSELESS.keys())
async def test_senseless_answers_are_told_at_once(bad_wire: Wire, client: ManagedMemoryStore, reply: bytes) -> None:
    bad_wire.script = fixed(reply)
    with trio.fail_after(TIMEOUT + 1), pytest.raises(BadAnswer) as failure:
        await client.list_stores()
    assert len(bad_wire.requests) == 1
    assert "\n" not in failure.value.message


BROKEN: dict[str, bytes | Hang | None] = {
    "never answers": Hang(),
    "closes at once": None,
    "closes in the headers": b"HTTP/1.1 200 OK\r\ncontent-",
    "closes in the body": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n" + EMPTY,
    "closes in a chunk": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "500": answer(500, ERROR),
    "502 of a proxy": answer(502, HTML, "text/html"),
    "529": answer(529, ERROR),
    "408": answer(408, ERROR),
}


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN.keys())
async def test_outages_end_within_the_time_out(bad_wire: Wire, client: ManagedMemoryStore, reply: bytes | Hang | None) -> None:
    bad_wire.script = fixed(reply)
    began = trio.current_time()
    with pytest.raises(Unavailable) as failure:
        await client.list_stores()
    assert trio.current_time() - began < TIMEOUT + 1
    assert not isinstance(failure.value, BadAnswer | RateLimited)
    assert client.requests["list_stores"] == len(bad_wire.requests) > 1


async def test_nobody_listens() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    client = await connect(f"http://127.0.0.1:{port}")
    began = trio.current_time()
    with pytest.raises(Unavailable):
        await client.list_stores()
    assert trio.current_time() - began < TIMEOUT + 1
    await client.aclose()


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN.keys())
async def test_one_broken_answer_is_made_good(bad_wire: Wire, client: ManagedMemoryStore, reply: bytes | Hang | None) -> None:
    replies = itertools.chain([reply], itertools.repeat(answer(200, EMPTY)))
    bad_wire.script = lambda request: next(replies)
    assert (await client.list_stores()).data == []
    assert len(bad_wire.requests) == 2


async def test_a_slow_service_is_waited_for(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    def slow(request: Request) -> bytes:
        time.sleep(TIMEOUT / 2)
        return answer(200, EMPTY)

    bad_wire.script = slow
    assert (await client.list_stores()).data == []


@pytest.mark.parametrize(("status", "error"), [(401, Unauthenticated), (403, PermissionDenied), (404, NotFound)])
@pytest.mark.parametrize("body", [ERROR, HTML, b""])
async def test_refusals_are_not_repeated(
    bad_wire: Wire, client: ManagedMemoryStore, status: int, error: type[MemfsError], body: bytes
) -> None:
    bad_wire.script = fixed(answer(status, body))
    with pytest.raises(error):
        await client.list_stores()
    assert len(bad_wire.requests) == 1


async def test_conflicts_are_not_repeated_even_when_asked_to(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    conflict = {"type": "memory_path_conflict_error", "message": "taken", "conflicting_path": "/a", "conflicting_memory_id": ""}
    body = json.dumps({"type": "error", "error": conflict, "request_id": "req_1"}).encode()
    bad_wire.script = fixed(answer(409, body, x_should_retry="true"))
    with pytest.raises(PathConflict) as failure:
        await client.create_memory(StoreId("memstore_1"), "/a", "")
    assert failure.value.memory_id is None
    assert len(bad_wire.requests) == 1


async def test_a_service_that_forbids_the_repeat(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    bad_wire.script = fixed(answer(503, ERROR, x_should_retry="false"))
    with pytest.raises(Unavailable):
        await client.list_stores()
    assert len(bad_wire.requests) == 1


async def test_retry_after_is_waited_for(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    replies = iter([answer(429, ERROR, retry_after="0.7"), answer(200, EMPTY)])
    bad_wire.script = lambda request: next(replies)
    began = trio.current_time()
    await client.list_stores()
    assert 0.7 <= trio.current_time() - began < TIMEOUT


@pytest.mark.parametrize("retry_after", ["60", "Fri, 31 Dec 2099 23:59:59 GMT"])
async def test_a_wait_beyond_the_time_out_is_not_begun(bad_wire: Wire, client: ManagedMemoryStore, retry_after: str) -> None:
    bad_wire.script = fixed(answer(429, ERROR, retry_after=retry_after))
    with trio.fail_after(TIMEOUT), pytest.raises(RateLimited):
        await client.list_stores()
    assert len(bad_wire.requests) == 1


async def test_a_store_is_not_created_twice(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    for reply in (None, answer(500, ERROR)):
        bad_wire.script = fixed(reply)
        bad_wire.requests.clear()
        with pytest.raises(Unavailable):
            await client.create_store("Notes")
        assert len(bad_wire.requests) == 1


async def test_a_content_that_is_not_its_hash_is_not_believed(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    memory = {
        "id": "mem_1",
        "type": "memory",
        "memory_store_id": "memstore_1",
        "memory_version_id": "memver_1",
        "path": "/a",
        "content": "cut sho",
        "content_sha256": sha256_of(b"cut short"),
        "content_size_bytes": 9,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }
    bad_wire.script = fixed(answer(200, json.dumps(memory).encode()))
    with pytest.raises(BadAnswer):
        await client.retrieve_memory(StoreId("memstore_1"), MemoryId("mem_1"))


async def test_a_listing_that_goes_round_in_circles_ends(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    bad_wire.script = fixed(answer(200, b'{"data":[],"next_page":"page_same"}'))
    page = (await client.list_stores()).next_page
    with pytest.raises(BadAnswer):
        await client.list_stores(page=page)


# Lost answers: the real server carries the request out, and the wire loses what it says


class Loser:
    """Forwards to a server and loses the first answer to each method that it is told to."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.losing: set[str] = set()

    def __call__(self, request: Request) -> bytes | None:
        reply = forward(self.url, request)
        if request.method in self.losing:
            self.losing.remove(request.method)
            return reply[: len(reply) // 2]
        return reply


@pytest.fixture
async def patient(bad_wire: Wire) -> AsyncIterator[ManagedMemoryStore]:
    """A client whose time-out is of no concern here, however busy the machine is."""
    opened = await open_managed(bad_wire.url, credentials=Credentials(environment={}), timeout=60)
    yield opened
    await opened.aclose()


@pytest.fixture
async def losing(quick_server: ServerThread, bad_wire: Wire) -> Loser:
    loser = Loser(quick_server.url)
    bad_wire.script = loser
    return loser


@pytest.fixture
async def store(patient: ManagedMemoryStore, losing: Loser) -> Store:
    return await patient.create_store("Notes")


async def versions(patient: ManagedMemoryStore, store: Store) -> list[str]:
    return [version.operation for version in (await patient.list_versions(store.id)).data]


async def test_a_lost_answer_to_create(patient: ManagedMemoryStore, losing: Loser, store: Store) -> None:
    losing.losing = {"POST"}
    memory = await patient.create_memory(store.id, "/a", "ours", view="full")
    assert (memory.path, memory.content) == ("/a", "ours")
    assert await versions(patient, store) == ["created"]


async def test_a_create_that_met_another(patient: ManagedMemoryStore, losing: Loser, store: Store) -> None:
    theirs = await patient.create_memory(store.id, "/a", "theirs")
    losing.losing = {"POST"}
    with pytest.raises(PathConflict) as conflict:
        await patient.create_memory(store.id, "/a", "ours")
    assert conflict.value.memory_id == theirs.id
    below = await patient.create_memory(store.id, "/d/e", "ours")
    losing.losing = {"POST"}
    with pytest.raises(PathConflict) as conflict:
        await patient.create_memory(store.id, "/d", "ours")  # equal content, but another path
    assert conflict.value.memory_id == below.id


async def test_a_lost_answer_to_update(patient: ManagedMemoryStore, losing: Loser, store: Store) -> None:
    memory = await patient.create_memory(store.id, "/a", "one")
    losing.losing = {"POST"}
    changed = await patient.update_memory(
        store.id, memory.id, content="two", path="/b", precondition=memory.content_sha256, view="full"
    )
    assert (changed.path, changed.content) == ("/b", "two")
    assert await versions(patient, store) == ["modified", "created"]


async def test_a_lost_answer_to_delete(patient: ManagedMemoryStore, losing: Loser, store: Store) -> None:
    memory = await patient.create_memory(store.id, "/a", "one")
    losing.losing = {"DELETE"}
    deleted = await patient.delete_memory(store.id, memory.id, expected_content_sha256=memory.content_sha256)
    assert deleted.id == memory.id
    assert await versions(patient, store) == ["deleted", "created"]
    with pytest.raises(NotFound):
        await patient.delete_memory(store.id, memory.id)
    losing.losing = {"DELETE"}
    assert (await patient.delete_store(store.id)).id == store.id


async def test_many_calls_at_once_share_few_connections(patient: ManagedMemoryStore, losing: Loser, store: Store) -> None:
    async def create(number: int) -> None:
        await patient.create_memory(store.id, f"/{number}", str(number))

    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(create, number)
    assert len((await patient.list_memories(store.id, limit=100)).data) == 60
    assert patient.requests["create_memory"] == 60


async def test_a_cancelled_call_leaves_the_client_in_order(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    bad_wire.script = fixed(Hang())
    with trio.move_on_after(0.2) as scope:
        await client.list_stores()
    assert scope.cancelled_caught
    bad_wire.script = fixed(answer(200, EMPTY))
    assert (await client.list_stores()).data == []


# Credentials


async def test_a_rotated_token_does_not_end_a_mount(quick_server: ServerThread, bad_wire: Wire, tmp_path: Path) -> None:
    old_key, old = quick_server.keyring.create_key("old")
    _, new = quick_server.keyring.create_key("new")
    file = tmp_path / "credentials"
    file.write_text(f"MEMFS_API_KEY={old.secret}\n")
    client = await open_managed(quick_server.url, credentials=Credentials(file=file), timeout=TIMEOUT)
    await client.list_stores()
    file.write_text(f"MEMFS_API_KEY={new.secret}\n")
    quick_server.keyring.revoke_key(old_key.id)
    await client.list_stores()
    assert client.requests["list_stores"] == 3
    file.write_text("wrong")
    await client.list_stores()  # nothing is read while the credential works
    file.unlink()
    await client.aclose()


async def test_a_credential_that_stays_wrong_is_asked_for_once(bad_wire: Wire, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("wrong\n")
    bad_wire.script = fixed(answer(401, ERROR))
    client = await open_managed(bad_wire.url, credentials=Credentials(file=file), timeout=TIMEOUT)
    with pytest.raises(Unauthenticated):
        await client.list_stores()
    assert len(bad_wire.requests) == 1
    await client.aclose()


WORK_ITEM = base64.urlsafe_b64encode(json.dumps({"sessions_token": "wtk-1", "ingress_token": "no"}).encode()).decode()

SOURCES: dict[str, tuple[dict[str, str], tuple[str, str]]] = {
    "key": ({"ANTHROPIC_API_KEY": "k1"}, ("x-api-key", "k1")),
    "our key first": ({"ANTHROPIC_API_KEY": "k1", "MEMFS_API_KEY": "k2"}, ("x-api-key", "k2")),
    "token before key": ({"MEMFS_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t"}, ("authorization", "Bearer t")),
    "work item": ({"MEMFS_AUTH_TOKEN": WORK_ITEM}, ("authorization", "Bearer wtk-1")),
    "work item without padding": ({"MEMFS_AUTH_TOKEN": WORK_ITEM.rstrip("=")}, ("authorization", "Bearer wtk-1")),
}


@pytest.mark.parametrize(("environment", "header"), SOURCES.values(), ids=SOURCES.keys())
async def test_credentials_of_the_environment(bad_wire: Wire, environment: dict[str, str], header: tuple[str, str]) -> None:
    client = await connect(bad_wire.url, **environment)
    await client.list_stores()
    sent = bad_wire.requests[0].headers
    assert sent[header[0]] == header[1]
    assert len({"x-api-key", "authorization"} & sent.keys()) == 1
    assert sent["anthropic-beta"] == "agent-memory-2026-07-22"
    assert "beta=true" in bad_wire.requests[0].target
    await client.aclose()


FILES: dict[str, tuple[str, tuple[str, str]]] = {
    "bare token": ("t\n", ("authorization", "Bearer t")),
    "bare key": ("sk-memfs-api01-x", ("x-api-key", "sk-memfs-api01-x")),
    "bare key of Claude": ("sk-ant-api03-x\n\n", ("x-api-key", "sk-ant-api03-x")),
    "lines": ("# mine\nexport OTHER=1\nexport MEMFS_AUTH_TOKEN='t'\nMEMFS_API_KEY=k", ("authorization", "Bearer t")),
    "JSON key": ('{"api_key": "k"}', ("x-api-key", "k")),
    "JSON token": ('{"sessions_token": "t", "api_key": "k"}', ("authorization", "Bearer t")),
    "work item": (WORK_ITEM, ("authorization", "Bearer wtk-1")),
}


@pytest.mark.parametrize(("text", "header"), FILES.values(), ids=FILES.keys())
def test_credentials_of_a_file(tmp_path: Path, text: str, header: tuple[str, str]) -> None:
    file = tmp_path / "credentials"
    file.write_text(text)
    credential = Credentials(file=file, environment={"MEMFS_API_KEY": "other"}).current()
    assert credential is not None
    assert credential.header() == header


@pytest.mark.parametrize("data", [b"", b"two words", b"a\nb\n", b"{}", b"{", b"\xff\xfe", b"caf\xc3\xa9", b'{"api_key": 1}'])
def test_useless_credential_files(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "credentials"
    with pytest.raises(InvalidRequest):
        Credentials(file=file).current()
    file.write_bytes(data)
    with pytest.raises(InvalidRequest) as failure:
        Credentials(file=file).current()
    assert str(file) in failure.value.message
    assert not data or data.decode("latin-1") not in failure.value.message


def test_no_credential_is_fine_for_a_server_that_wants_none() -> None:
    assert Credentials(environment={}).current() is None


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "localhost:38080", "http://user:pw@host", "http://h/?a=b", "https://h#f"]
)
async def test_wrong_urls(url: str) -> None:
    with pytest.raises(InvalidRequest) as failure:
        await open_managed(url, credentials=Credentials(environment={}))
    assert "pw" not in failure.value.message


async def test_the_secret_is_nowhere_to_be_seen(
    bad_wire: Wire, client: ManagedMemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = []
    for reply in (answer(200, EMPTY), answer(401, ERROR), answer(200, HTML, "text/html"), None):
        bad_wire.script = fixed(reply)
        try:
            shown.append(repr(await client.list_stores()))
        except MemfsError as error:
            while error is not None:
                shown += [str(error), repr(error)]
                error = error.__cause__  # type: ignore[assignment]
    credentials = Credentials(environment={"MEMFS_API_KEY": SECRET})
    shown += [repr(client), str(client), repr(credentials), repr(credentials.current()), repr(vars(client))]
    shown += [record.getMessage() for record in caplog.records]
    assert bad_wire.requests[0].headers["x-api-key"] == SECRET
    assert "hush" not in "\n".join(shown)


@pytest.mark.parametrize("identifier", ["", ".", ".."])
async def test_an_id_is_no_other_endpoint(bad_wire: Wire, client: ManagedMemoryStore, identifier: str) -> None:
    with pytest.raises(NotFound):
        await client.delete_memory(StoreId("memstore_1"), MemoryId(identifier))
    assert bad_wire.requests == []


# Sessions

SESSION = {
    "id": "sesn_1",
    "type": "session",
    "status": "running",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00.5Z",
    "agent": {"id": "agent_1"},
    "resources": [
        {"type": "github_repository", "url": "https://example.com/r", "mount_path": "/workspace/r"},
        {"type": "memory_store", "memory_store_id": "memstore_1"},
        {
            "type": "memory_store",
            "memory_store_id": "memstore_2",
            "access": None,
            "instructions": None,
            "name": None,
            "description": None,
            "mount_path": "/mnt/memory/notes/",
        },
        {"type": "memory_store", "memory_store_id": "memstore_3", "access": "read_only", "name": "n", "more": 1},
        {"type": "memory_store", "memory_store_id": "memstore_4", "access": "of_a_kind_to_come"},
    ],
}


async def test_what_a_session_attaches(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    bad_wire.script = fixed(answer(200, json.dumps(SESSION).encode()))
    session = await client.retrieve_session(SessionId("sesn_1"))
    assert bad_wire.requests[0].headers["anthropic-beta"] == "managed-agents-2026-04-01"
    attached = [(r.memory_store_id, r.access, r.name, r.directory_name) for r in session.memory_stores]
    assert attached == [
        ("memstore_1", "read_write", "", None),
        ("memstore_2", "read_write", "", "notes"),
        ("memstore_3", "read_only", "n", None),
        ("memstore_4", "read_only", "", None),
    ]


async def test_a_service_in_trouble_is_not_stormed(bad_wire: Wire, client: ManagedMemoryStore) -> None:
    bad_wire.script = fixed(answer(503, ERROR, retry_after="0"))
    with pytest.raises(Unavailable):
        await client.list_stores()
    assert len(bad_wire.requests) <= TIMEOUT / 0.1 + 1
