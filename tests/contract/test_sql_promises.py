"""What the SQL backends promise beyond the contract."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio

from memfs.model.errors import InvalidRequest
from memfs.model.ids import MemoryId, new_memory_id
from memfs.model.objects import Memory, ServiceAccountActor, Store, UnknownActor, UserActor
from memfs.stores.base import MAX_LIMIT, MemoryStore, Usage
from memfs.stores.sql import SqlDatabase
from memfs.stores.sql.rows import actor_columns
from tests.contract.backends import SQL_BACKENDS, ServiceFactory
from tests.contract.reading import listed, paths, versions

pytestmark = pytest.mark.parametrize("service_factory", list(SQL_BACKENDS), indirect=True)


async def test_the_caller_chooses_the_memory_id(service: MemoryStore, store: Store) -> None:
    assert service.capabilities.chooses_memory_id
    memory_id = new_memory_id()
    memory = await service.create_memory(store.id, "/a", "one", memory_id=memory_id)
    assert memory.id == memory_id
    for malformed in ("", "a", "mem_é", "mem_\0", "memver_01"):
        with pytest.raises(InvalidRequest):
            await service.create_memory(store.id, "/b", "", memory_id=MemoryId(malformed))


async def test_a_repeated_create_answers_like_the_first(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one", memory_id=new_memory_id())
    assert await service.create_memory(store.id, "/a", "one", memory_id=memory.id) == memory
    await service.update_memory(store.id, memory.id, content="two")
    assert await service.create_memory(store.id, "/a", "one", memory_id=memory.id) == memory
    assert len(await versions(service, store)) == 2
    assert await service.usage(store.id) == Usage(1, 3)


async def test_repeated_creates_at_once_answer_alike(service_factory: ServiceFactory, store: Store) -> None:
    services = [(await service_factory.key()).service for _ in range(4)]

    async def create(service: MemoryStore, path: str, memory_id: MemoryId, answers: list[Memory]) -> None:
        answers.append(await service.create_memory(store.id, path, "one", memory_id=memory_id))

    for number in range(5):
        memory_id = new_memory_id()
        answers: list[Memory] = []
        async with trio.open_nursery() as nursery:
            for one in services:
                nursery.start_soon(create, one, f"/{number}", memory_id, answers)
        assert answers == [answers[0]] * 4
    assert len(await versions(services[0], store)) == 5


async def test_one_memory_id_in_two_stores_at_once(service_factory: ServiceFactory, service: MemoryStore) -> None:
    services = [(await service_factory.key()).service for _ in range(4)]
    stores = [await service.create_store(str(number)) for number in range(4)]
    memory_id = new_memory_id()
    refused = 0

    async def create(service: MemoryStore, store: Store) -> None:
        nonlocal refused
        try:
            await service.create_memory(store.id, "/a", "one", memory_id=memory_id)
        except InvalidRequest:
            refused += 1

    async with trio.open_nursery() as nursery:
        for one, store in zip(services, stores, strict=True):
            nursery.start_soon(create, one, store)
    assert refused == 3
    assert sum([len(await paths(service, store)) for store in stores]) == 1


async def test_a_memory_id_is_used_once(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one", memory_id=new_memory_id())
    other = await service.create_store("Other")
    for store_id, path, content in ((store.id, "/a", "two"), (store.id, "/b", "one"), (other.id, "/a", "one")):
        with pytest.raises(InvalidRequest):
            await service.create_memory(store_id, path, content, memory_id=memory.id)
    await service.delete_memory(store.id, memory.id)
    with pytest.raises(InvalidRequest):
        await service.create_memory(store.id, "/a", "one", memory_id=memory.id)
    assert await paths(service, store) == []
    assert await service.usage(store.id) == Usage(0, 0)


async def test_usage_is_known(service: MemoryStore, store: Store) -> None:
    await service.create_memory(store.id, "/a", "é")
    assert await service.usage(store.id) == Usage(1, 2)


async def test_the_times_of_versions_rise_strictly(service: MemoryStore, store: Store) -> None:
    assert service.capabilities.strict_time_order
    memory = await service.create_memory(store.id, "/a", "")
    for number in range(30):
        memory = await service.update_memory(store.id, memory.id, content=str(number))
    times = [version.created_at for version in await versions(service, store)]
    assert len(set(times)) == 31
    assert times == sorted(times, reverse=True)
    assert memory.updated_at == times[0]


async def test_times_rise_when_the_clock_goes_back(service: MemoryStore, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = await service.create_memory(store.id, "/a", "")
    monkeypatch.setattr("memfs.stores.sql.store_rows.now_us", lambda: 1_000_000)
    changed = await service.update_memory(store.id, memory.id, content="1")
    assert changed.updated_at > memory.updated_at
    assert (await service.update_store(store.id, name="Renamed")).updated_at > store.updated_at


async def test_a_page_may_be_as_large_as_the_capabilities_say(service: MemoryStore, store: Store) -> None:
    largest = service.capabilities.max_limit
    assert largest == (10_000 if service.capabilities.local else MAX_LIMIT)
    for number in range(105):
        await service.create_memory(store.id, f"/{number:03}", "")
    page = await service.list_memories(store.id, limit=largest)
    assert len(page.data) == min(largest, 105)
    assert len((await service.list_versions(store.id, limit=largest)).data) == min(largest, 105)
    assert len(await listed(service, store, limit=largest)) == 105


async def test_the_change_token_changes_with_every_write(service_factory: ServiceFactory, service: MemoryStore) -> None:
    if not service.capabilities.change_token:
        assert await service.change_token((await service.create_store("Notes")).id) is None
        return
    store = await service.create_store("Notes")
    other = (await service_factory.key()).service
    before = await service.change_token(store.id), await other.change_token(store.id)
    await service.list_memories(store.id)
    await other.list_memories(store.id)
    assert (await service.change_token(store.id), await other.change_token(store.id)) == before
    memory = await service.create_memory(store.id, "/a", "")
    for write in (
        partial(other.update_memory, store.id, memory.id, content="1"),
        partial(service.update_memory, store.id, memory.id, path="/b"),
        partial(service.delete_memory, store.id, memory.id),
    ):
        before = await service.change_token(store.id), await other.change_token(store.id)
        await write()
        after = await service.change_token(store.id), await other.change_token(store.id)
        assert after[0] != before[0]
        assert after[1] != before[1]


async def test_sync_returns(service: MemoryStore, store: Store) -> None:
    await service.sync()
    await service.create_memory(store.id, "/a", "")
    await service.sync()
    assert await paths(service, store) == ["/a"]


@pytest.fixture
async def database(tmp_path: Path, service_factory: ServiceFactory) -> AsyncIterator[SqlDatabase]:
    database = await SqlDatabase.open(f"sqlite:///{tmp_path / 'actors.db'}")
    yield database
    await database.aclose()


async def test_every_kind_of_actor_is_recorded(database: SqlDatabase) -> None:
    robot = ServiceAccountActor(service_account_id="svac_1")
    person = UserActor(user_id="user_1")
    by_robot, by_person = database.store_service(robot), database.store_service(person)
    store = await by_robot.create_store("Notes")
    memory = await by_robot.create_memory(store.id, "/a", "")
    await by_person.update_memory(store.id, memory.id, content="1")
    assert [version.created_by for version in await versions(by_robot, store)] == [person, robot]
    (found,) = await versions(by_robot, store, service_account_id="svac_1")
    assert found.operation == "created"
    assert await versions(by_robot, store, service_account_id="user_1") == []
    redacted = await by_person.redact_version(store.id, memory.memory_version_id)
    assert (redacted.created_by, redacted.redacted_by) == (robot, person)


async def test_an_actor_of_an_unknown_type_is_refused(database: SqlDatabase) -> None:
    with pytest.raises(InvalidRequest):
        database.store_service(UnknownActor(type="martian_actor"))
    assert actor_columns(None) == (None, None)


async def test_a_grouped_listing_names_a_directory_as_a_whole(service: MemoryStore, store: Store) -> None:
    assert service.capabilities.grouped_listing
    wanted = ["/a-b/x", "/a.md", "/a/b-/c", "/a/b.d/e", "/a0/c", "/a/c/d", "/a/\u00e9/x", "/B/c", "/a b/c", "/\u00e9/y", "/A/z"]
    for path in wanted:
        await service.create_memory(store.id, path, "")
    directories = [item.rpartition("/")[0] for item in await paths(service, store, limit=3)]
    assert len(directories) == len(wanted)
    for path in set(directories):
        inside = [directory == path or directory.startswith(f"{path}/") for directory in directories]
        assert "".join("x" if one else "." for one in inside).strip(".").count(".") == 0, (path, directories)
