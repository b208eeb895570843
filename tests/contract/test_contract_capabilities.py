"""A service does what its capabilities say, of those that nothing else here asks for."""

import pytest

from memfs.model.errors import PathConflict
from memfs.model.objects import Store
from memfs.stores.base import MemoryStore


async def test_a_rename_keeps_the_id_or_makes_another_memory(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    renamed = await service.update_memory(store.id, memory.id, path="/b")
    assert (renamed.id == memory.id) == service.capabilities.native_rename


async def test_a_memory_may_stand_beside_a_prefix_of_its_name_or_not(service: MemoryStore, store: Store) -> None:
    await service.create_memory(store.id, "/a", "one")
    if service.capabilities.prefix_excludes_memory:
        with pytest.raises(PathConflict):
            await service.create_memory(store.id, "/a/b", "two")
    else:
        await service.create_memory(store.id, "/a/b", "two")


async def test_a_service_checks_the_hash_of_a_deletion_or_it_is_compared_first(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    requests = getattr(service, "requests", None)
    before = 0 if requests is None else requests["retrieve_memory"]
    await service.delete_memory(store.id, memory.id, expected_content_sha256=memory.content_sha256)
    if requests is not None:
        assert (requests["retrieve_memory"] == before) == service.capabilities.guarded_delete
