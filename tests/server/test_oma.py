"""The client on OMA's differences; the tests are named for the eleven traps that were seen there."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from memfs.model.content import sha256_of
from memfs.model.errors import (
    BadAnswer,
    ConcurrentModification,
    ContentTooLarge,
    InvalidPath,
    InvalidRequest,
    PathConflict,
    PreconditionFailed,
    StoreArchived,
    Unauthenticated,
    Unavailable,
)
from memfs.model.objects import ApiActor, Memory, MemoryPrefix, Store
from memfs.stores.base import Listed
from memfs.stores.credentials import Credentials
from memfs.stores.managed import ManagedMemoryStore, open_managed
from tests.harness.oma import KEY, KEY_ID, Oma, oma


@pytest.fixture
def service() -> Iterator[Oma]:
    with oma() as running:
        yield running


@pytest.fixture
async def client(service: Oma) -> AsyncIterator[ManagedMemoryStore]:
    opened = await open_managed(service.url, credentials=Credentials(environment={"MEMFS_API_KEY": KEY}))
    yield opened
    await opened.aclose()


@pytest.fixture
async def store(client: ManagedMemoryStore) -> Store:
    return await client.create_store("Notes", metadata={"a": "b"})


async def everything(client: ManagedMemoryStore, store: Store, **parameters: Any) -> list[Listed]:
    items: list[Listed] = []
    page = None
    while True:
        answer = await client.list_memories(store.id, page=page, **parameters)
        items += answer.data
        page = answer.next_page
        if page is None:
            return items


@pytest.mark.parametrize("bearer", [True, False])
async def test_trap_1_credentials_and_beta_parameter(service: Oma, bearer: bool) -> None:
    service.quirks.bearer = bearer
    client = await open_managed(service.url, credentials=Credentials(environment={"ANTHROPIC_API_KEY": KEY}))
    assert (await client.list_stores()).data == []
    await client.aclose()
    token = await open_managed(service.url + "/v1/", credentials=Credentials(environment={"ANTHROPIC_AUTH_TOKEN": KEY}))
    if bearer:
        assert (await token.list_stores()).data == []
    else:
        with pytest.raises(Unauthenticated):
            await token.list_stores()
    await token.aclose()


async def test_trap_2_every_name_is_shown_once(client: ManagedMemoryStore, store: Store) -> None:
    wanted = {"/a", "/a/b", "/back\\slash", "/with space", "/" + "x" * 1023, "/%2e", "/a?b", "/a#b", "/é"}
    for path in wanted:
        await client.create_memory(store.id, path, path)
    assert client.capabilities.prefix_excludes_memory is False
    flat = await everything(client, store, limit=2)
    assert sorted(item.path for item in flat) == sorted(wanted)
    top = await everything(client, store, depth=1, limit=2)
    assert sorted(item.path for item in top) == sorted((wanted - {"/a/b"}) | {"/a/"})
    assert [item.path for item in await everything(client, store, path_prefix="/a/", depth=1)] == ["/a/b"]
    for item in flat:
        assert isinstance(item, Memory)
        assert (await client.retrieve_memory(store.id, item.id)).content == item.path


async def test_trap_3_two_orders_list_the_same(client: ManagedMemoryStore, store: Store) -> None:
    paths = ["/B", "/a", "/_c", "/C", "/b", "/.d"]
    for path in paths:
        await client.create_memory(store.id, path, "")
    flat = [item.path for item in await everything(client, store, limit=1)]
    deep = [item.path for item in await everything(client, store, limit=1, depth=1)]
    assert flat != deep
    assert sorted(flat) == sorted(deep) == sorted(paths)


async def test_trap_4_cursors_are_passed_back_as_they_are(client: ManagedMemoryStore, store: Store) -> None:
    for number in range(5):
        await client.create_memory(store.id, f"/{number}", "")
    page = await client.list_memories(store.id, limit=2)
    assert page.next_page is not None
    assert not page.next_page.startswith("page_")
    deep = await client.list_memories(store.id, limit=2, depth=1)
    assert deep.next_page != page.next_page
    for cursor in (deep.next_page, "garbage"):
        with pytest.raises(InvalidRequest):
            await client.list_memories(store.id, limit=2, page=cursor)


@pytest.mark.parametrize("depth", [None, 0])
async def test_trap_5_depth_0_is_not_sent(client: ManagedMemoryStore, store: Store, depth: int | None) -> None:
    await client.create_memory(store.id, "/d/e/f", "")
    assert [item.path for item in await everything(client, store, depth=depth)] == ["/d/e/f"]


async def test_trap_5_extra_fields_are_ignored(client: ManagedMemoryStore, store: Store) -> None:
    await client.create_memory(store.id, "/d/e", "")
    assert await everything(client, store, depth=1) == [MemoryPrefix(path="/d/")]


async def test_trap_6_edits_within_a_second(client: ManagedMemoryStore, store: Store) -> None:
    memory = await client.create_memory(store.id, "/a", "1")
    edited = await client.update_memory(store.id, memory.id, content="2")
    assert client.capabilities.time_resolution_ns == 1_000_000_000
    assert client.capabilities.strict_time_order is False
    assert edited.updated_at.microsecond == 0
    assert edited.memory_version_id != memory.memory_version_id


async def test_trap_7_a_lost_race_is_no_outage(service: Oma, client: ManagedMemoryStore, store: Store) -> None:
    memory = await client.create_memory(store.id, "/a", "1")
    service.quirks.lost_races = 1
    before = client.requests["update_memory"]
    with pytest.raises(ConcurrentModification):
        await client.update_memory(store.id, memory.id, content="2")
    assert client.requests["update_memory"] == before + 1
    assert (await client.update_memory(store.id, memory.id, content="2")).content_size_bytes == 1


async def test_trap_7_a_failed_create_that_created(service: Oma, client: ManagedMemoryStore, store: Store) -> None:
    service.quirks.failing_creates = 1
    memory = await client.create_memory(store.id, "/a", "ours", view="full")
    assert memory.content == "ours"
    assert [item.path for item in await everything(client, store)] == ["/a"]
    assert len(service.versions) == 1
    service.quirks.failing_creates = 1
    with pytest.raises(Unavailable):
        await client.create_store("Once")
    assert [s.name for s in (await client.list_stores()).data] == ["Once", "Notes"]


async def test_trap_8_refusals_by_other_codes(service: Oma, client: ManagedMemoryStore, store: Store) -> None:
    memory = await client.create_memory(store.id, "/a", "1")
    for status in (400, 409):
        service.quirks.redaction_status = status
        with pytest.raises(InvalidRequest):
            await client.redact_version(store.id, memory.memory_version_id)
    with pytest.raises(ContentTooLarge):
        await client.create_memory(store.id, "/b", "x" * 102_401)
    with pytest.raises(InvalidPath):
        await client.create_memory(store.id, "/b/", "")
    await client.archive_store(store.id)
    with pytest.raises(StoreArchived):
        await client.create_memory(store.id, "/b", "")
    with pytest.raises(StoreArchived):
        await client.update_memory(store.id, memory.id, content="2")


async def test_trap_9_an_occupied_path(client: ManagedMemoryStore, store: Store) -> None:
    memory = await client.create_memory(store.id, "/a", "1")
    with pytest.raises(PathConflict) as conflict:
        await client.create_memory(store.id, "/a", "1")
    assert (conflict.value.path, conflict.value.memory_id) == ("/a", memory.id)
    assert (await client.retrieve_memory(store.id, memory.id)).memory_version_id == memory.memory_version_id


async def test_trap_9_a_service_whose_create_overwrites_is_refused_before_any_write(
    service: Oma, client: ManagedMemoryStore, store: Store
) -> None:
    service.quirks.untyped = True
    writes = service.write("POST")
    for ask in (client.list_stores, lambda: client.retrieve_store(store.id)):
        with pytest.raises(BadAnswer):
            await ask()
    assert service.write("POST") == writes


async def test_trap_10_equal_content_makes_no_version(service: Oma, client: ManagedMemoryStore, store: Store) -> None:
    memory = await client.create_memory(store.id, "/a", "1")
    again = await client.update_memory(store.id, memory.id, content="1", precondition=sha256_of(b"something else"))
    assert again.memory_version_id == memory.memory_version_id
    assert len(service.versions) == 1
    with pytest.raises(PreconditionFailed):
        await client.update_memory(store.id, memory.id, content="2", precondition=sha256_of(b"something else"))


async def test_trap_11_actors(service: Oma, client: ManagedMemoryStore, store: Store) -> None:
    await client.create_memory(store.id, "/a", "")
    service.quirks.console_user = True
    memory = await client.create_memory(store.id, "/b", "")
    await client.delete_memory(store.id, memory.id, expected_content_sha256=memory.content_sha256)
    versions = (await client.list_versions(store.id)).data
    assert [version.created_by for version in versions] == [ApiActor(), ApiActor(), ApiActor(api_key_id=KEY_ID)]
    assert [version.operation for version in versions] == ["deleted", "created", "created"]
    assert versions[0].content_sha256 is None
    redacted = await client.redact_version(store.id, versions[1].id)
    assert (redacted.path, redacted.redacted_by) == (None, ApiActor())
