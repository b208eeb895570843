"""Contract section 13, vectors 7 to 14 and 44: memory stores."""

from datetime import timedelta

import pytest

from memfs.model.errors import InvalidRequest, NotFound, StoreArchived
from memfs.model.ids import StoreId
from memfs.model.objects import Store
from memfs.stores.base import MemoryStore
from tests.contract.reading import pages, versions


async def test_07_a_new_store_has_defaults(service: MemoryStore) -> None:
    store = await service.create_store("UserPreferences")
    assert store.id.startswith("memstore_")
    assert (store.name, store.description, store.metadata, store.archived_at) == ("UserPreferences", "", {}, None)
    assert store.created_at == store.updated_at
    assert await service.retrieve_store(store.id) == store


@pytest.mark.parametrize(
    ("name", "description", "metadata"),
    [
        ("", "", {}),
        ("n" * 256, "", {}),
        ("two\nlines", "", {}),
        ("n", "d" * 1025, {}),
        ("n", "", {str(number): "" for number in range(17)}),
        ("n", "", {"k" * 65: ""}),
        ("n", "", {"": ""}),
        ("n", "", {"k": "v" * 513}),
    ],
)
@pytest.mark.needs("store limits")
async def test_08_a_store_is_validated(service: MemoryStore, name: str, description: str, metadata: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        await service.create_store(name, description=description, metadata=metadata)
    assert (await service.list_stores()).data == []


@pytest.mark.needs("long names")
async def test_08_the_largest_store_is_accepted(service: MemoryStore) -> None:
    metadata = {f"{number:064}": "v" * 512 for number in range(16)}
    store = await service.create_store("é" * 255, description="d" * 1024, metadata=metadata)
    assert (await service.retrieve_store(store.id)).metadata == metadata


@pytest.mark.needs("equal names")
async def test_09_names_need_not_be_unique(service: MemoryStore) -> None:
    first, second = await service.create_store("Notes"), await service.create_store("Notes")
    assert first.id != second.id


@pytest.mark.needs("store changes", "precise times")
async def test_10_metadata_is_patched(service: MemoryStore) -> None:
    store = await service.create_store("Notes", description="old", metadata={"a": "1", "b": "2"})
    patched = await service.update_store(store.id, metadata={"a": None, "c": "3"})
    assert patched.metadata == {"b": "2", "c": "3"}
    assert patched.description == "old"
    assert patched.updated_at > store.updated_at
    cleared = await service.update_store(store.id, description="")
    assert cleared.description == ""
    assert cleared.updated_at > patched.updated_at
    renamed = await service.update_store(store.id, name="Other")
    assert (renamed.name, renamed.metadata, renamed.created_at) == ("Other", {"b": "2", "c": "3"}, store.created_at)
    assert await service.retrieve_store(store.id) == renamed


@pytest.mark.needs("store changes")
async def test_10_metadata_is_limited_after_the_merge(service: MemoryStore) -> None:
    store = await service.create_store("Notes", metadata={str(number): "" for number in range(16)})
    with pytest.raises(InvalidRequest):
        await service.update_store(store.id, metadata={"new": ""})
    swapped = await service.update_store(store.id, metadata={"0": None, "new": ""})
    assert len(swapped.metadata) == 16
    with pytest.raises(InvalidRequest):
        await service.update_store(store.id, name="")
    assert await service.retrieve_store(store.id) == swapped


async def test_10_memories_do_not_move_a_stores_time(service: MemoryStore, store: Store) -> None:
    await service.create_memory(store.id, "/a", "x")
    assert await service.retrieve_store(store.id) == store


@pytest.mark.needs("archives")
async def test_11_archiving_is_idempotent_and_hides(service: MemoryStore, store: Store) -> None:
    archived = await service.archive_store(store.id)
    assert archived.archived_at is not None
    assert archived.updated_at > store.updated_at
    assert await service.archive_store(store.id) == archived
    assert await service.retrieve_store(store.id) == archived
    assert (await service.list_stores()).data == []
    assert (await service.list_stores(include_archived=True)).data == [archived]


@pytest.mark.needs("archives", "deletes in archives")
async def test_12_what_an_archived_store_takes(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    changed = await service.update_memory(store.id, memory.id, content="two")
    await service.archive_store(store.id)
    with pytest.raises(StoreArchived):
        await service.update_store(store.id, name="Other")
    with pytest.raises(StoreArchived):
        await service.create_memory(store.id, "/b", "x")
    with pytest.raises(StoreArchived):
        await service.update_memory(store.id, memory.id, content="three")
    assert (await service.retrieve_memory(store.id, memory.id)).content == "two"
    assert (await service.redact_version(store.id, memory.memory_version_id)).redacted_at is not None
    # Section 14, choice 11: the head stays protected here too.
    with pytest.raises(InvalidRequest):
        await service.redact_version(store.id, changed.memory_version_id)
    await service.delete_memory(store.id, memory.id)
    assert (await service.redact_version(store.id, changed.memory_version_id)).redacted_at is not None
    await service.delete_store(store.id)


async def test_13_44_a_deleted_store_is_gone_with_all_that_was_in_it(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    other = await service.create_store("Other")
    kept = await service.create_memory(other.id, "/a", "one")
    deleted = await service.delete_store(store.id)
    assert (deleted.id, deleted.type) == (store.id, "memory_store_deleted")
    with pytest.raises(NotFound):
        await service.retrieve_store(store.id)
    with pytest.raises(NotFound):
        await service.list_memories(store.id)
    with pytest.raises(NotFound):
        await service.retrieve_memory(store.id, memory.id)
    with pytest.raises(NotFound):
        await service.list_versions(store.id)
    with pytest.raises(NotFound):
        await service.retrieve_version(store.id, memory.memory_version_id)
    with pytest.raises(NotFound):
        await service.delete_store(store.id)
    assert (await service.retrieve_memory(other.id, kept.id)).content == "one"
    assert [version.memory_id for version in await versions(service, other)] == [kept.id]


@pytest.mark.needs("store order")
async def test_14_stores_are_listed_newest_first(service: MemoryStore) -> None:
    stores = [await service.create_store(str(number)) for number in range(5)]
    newest_first = stores[::-1]
    assert (await service.list_stores()).data == newest_first
    for limit in range(1, 7):
        found = await pages(service.list_stores, limit=limit)
        assert [store for page in found for store in page] == newest_first
        assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)


@pytest.mark.parametrize("limit", [0, -1, 101])
async def test_14_limits_are_checked(service: MemoryStore, limit: int) -> None:
    with pytest.raises(InvalidRequest):
        await service.list_stores(limit=limit)


@pytest.mark.needs("precise times")
async def test_14_stores_are_filtered_by_inclusive_times(service: MemoryStore) -> None:
    first, second, third = [await service.create_store(str(number)) for number in range(3)]
    assert first.created_at < second.created_at < third.created_at
    at_least = await service.list_stores(created_at_gte=second.created_at)
    assert at_least.data == [third, second]
    at_most = await service.list_stores(created_at_lte=second.created_at)
    assert at_most.data == [second, first]
    between = await service.list_stores(created_at_gte=second.created_at, created_at_lte=second.created_at)
    assert between.data == [second]
    later = await service.list_stores(created_at_gte=third.created_at + timedelta(microseconds=1))
    assert later.data == []


@pytest.mark.needs("bound cursors")
async def test_28_a_cursor_of_stores_fits_its_own_list_only(service: MemoryStore, store: Store) -> None:
    await service.create_store("Other")
    page = (await service.list_stores(limit=1)).next_page
    assert page is not None
    assert page.startswith("page_")
    assert (await service.list_stores(limit=1, page=page)).data == [store]
    with pytest.raises(InvalidRequest):
        await service.list_stores(limit=1, page=page, include_archived=True)
    with pytest.raises(InvalidRequest):
        await service.list_memories(store.id, page=page)
    for garbage in ("garbage", "page_", "page_!", "page_AAAA", page + "A", page[:-1], page.removeprefix("page_")):
        with pytest.raises(InvalidRequest):
            await service.list_stores(limit=1, page=garbage)


@pytest.mark.parametrize("store_id", ["memstore_01nothing", "memstore_\0", "memstore_é", "memstore_'--"])
async def test_unknown_stores_are_not_found(service: MemoryStore, store_id: str) -> None:
    unknown = StoreId(store_id)
    with pytest.raises(NotFound):
        await service.retrieve_store(unknown)
    with pytest.raises(NotFound):
        await service.update_store(unknown, name="n")
    with pytest.raises(NotFound):
        await service.archive_store(unknown)
    with pytest.raises(NotFound):
        await service.delete_store(unknown)
    with pytest.raises(NotFound):
        await service.create_memory(unknown, "/a", "x")
    with pytest.raises(NotFound):
        await service.list_memories(unknown, depth=1)
