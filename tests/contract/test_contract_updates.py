"""Contract section 13, vectors 29 to 39: updating and deleting memories."""

import pytest

from memfs.model.content import EMPTY_SHA256, Sha256, sha256_of
from memfs.model.errors import InvalidRequest, NotFound, PathConflict, PreconditionFailed
from memfs.model.ids import MemoryId
from memfs.model.objects import Store
from memfs.stores.base import MemoryStore
from tests.contract.reading import listed, paths, versions

WRONG = sha256_of(b"something else")
MALFORMED = [Sha256(text) for text in ("", "x" * 64, "A" * 64, "a" * 63, "a" * 65)]


async def test_29_the_right_precondition(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a", "one")
    changed = await service.update_memory(store.id, created.id, content="two", precondition=created.content_sha256)
    assert changed.id == created.id
    assert changed.memory_version_id != created.memory_version_id
    assert changed.content_sha256 == sha256_of(b"two")
    assert changed.created_at == created.created_at
    assert changed.updated_at >= created.updated_at
    assert changed.content is None
    newest, oldest = await versions(service, store)
    assert (newest.operation, newest.created_at, oldest.operation) == ("modified", changed.updated_at, "created")
    if service.capabilities.head_versions:
        assert (newest.id, oldest.id) == (changed.memory_version_id, created.memory_version_id)


async def test_30_the_wrong_precondition(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a", "one")
    with pytest.raises(PreconditionFailed):
        await service.update_memory(store.id, created.id, content="two", precondition=WRONG)
    with pytest.raises(PreconditionFailed):
        await service.update_memory(store.id, created.id, path="/b", precondition=WRONG)
    assert await listed(service, store) == [created]
    assert len(await versions(service, store)) == 1


async def test_31_what_is_stored_already_needs_no_precondition(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a", "one")
    assert await service.update_memory(store.id, created.id, content="one", precondition=WRONG) == created
    assert await service.update_memory(store.id, created.id, content="one", path="/a", precondition=WRONG) == created
    assert await service.update_memory(store.id, created.id, path="/a", precondition=WRONG) == created
    assert len(await versions(service, store)) == 1


async def test_32_what_is_stored_already_makes_no_version(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a", "one")
    assert await service.update_memory(store.id, created.id, content="one") == created
    assert await service.update_memory(store.id, created.id, path="/a") == created
    assert len(await versions(service, store)) == 1


@pytest.mark.needs("rename")
async def test_33_a_rename_keeps_the_id(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a.md", "one")
    renamed = await service.update_memory(store.id, created.id, path="/b.md")
    assert (renamed.id, renamed.path, renamed.content_sha256) == (created.id, "/b.md", created.content_sha256)
    assert renamed.updated_at >= created.updated_at
    newest, oldest = await versions(service, store, view="full")
    assert (newest.operation, newest.path, newest.content) == ("modified", "/b.md", "one")
    assert (oldest.operation, oldest.path, oldest.content) == ("created", "/a.md", "one")
    assert (await service.retrieve_memory(store.id, created.id)).content == "one"
    assert await paths(service, store) == ["/b.md"]
    await service.create_memory(store.id, "/a.md", "another")


@pytest.mark.needs("above and below")
async def test_34_a_rename_never_overwrites(service: MemoryStore, store: Store) -> None:
    taken = await service.create_memory(store.id, "/taken", "x")
    deep = await service.create_memory(store.id, "/deep/er/x", "x")
    memory = await service.create_memory(store.id, "/a", "x")
    for path, blocker in (
        ("/taken", taken),
        ("/taken/below", taken),
        ("/deep", deep),
        ("/deep/er", deep),
        ("/deep/er/x/y", deep),
    ):
        with pytest.raises(PathConflict) as conflict:
            await service.update_memory(store.id, memory.id, path=path, content="new")
        assert (conflict.value.path, conflict.value.memory_id) == (blocker.path, blocker.id)
    assert await paths(service, store) == ["/a", "/deep/er/x", "/taken"]
    assert len(await versions(service, store)) == 3


@pytest.mark.needs("above and below")
async def test_34_a_memory_does_not_stand_in_its_own_way(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    for path in ("/a/b", "/a/b/c/d", "/a/b", "/a"):
        assert (await service.update_memory(store.id, memory.id, path=path)).path == path
        assert await paths(service, store) == [path]
    other = await service.create_memory(store.id, "/x/b", "x")
    await service.create_memory(store.id, "/x/c", "x")
    with pytest.raises(PathConflict) as conflict:
        await service.update_memory(store.id, other.id, path="/x")
    assert conflict.value.path == "/x/c"


@pytest.mark.needs("rename")
async def test_35_content_and_path_are_one_version(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a", "one")
    changed = await service.update_memory(
        store.id, created.id, content="n", path="/c", precondition=created.content_sha256, view="full"
    )
    assert (changed.path, changed.content) == ("/c", "n")
    newest, _ = await versions(service, store, view="full")
    assert (newest.operation, newest.path, newest.content) == ("modified", "/c", "n")


@pytest.mark.needs("rename")
async def test_35_views_of_updates(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a", "one")
    assert (await service.update_memory(store.id, created.id, path="/b", view="full")).content == "one"
    assert (await service.update_memory(store.id, created.id, path="/b", view="full")).content == "one"
    assert (await service.update_memory(store.id, created.id, content="one", view="full")).content == "one"
    assert (await service.update_memory(store.id, created.id, content="two", view="basic")).content is None


async def test_36_an_update_says_what_to_update(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a", "one")
    with pytest.raises(InvalidRequest):
        await service.update_memory(store.id, created.id)
    with pytest.raises(InvalidRequest):
        await service.update_memory(store.id, created.id, precondition=created.content_sha256)
    for malformed in MALFORMED:
        with pytest.raises(InvalidRequest):
            await service.update_memory(store.id, created.id, content="two", precondition=malformed)
    assert len(await versions(service, store)) == 1


@pytest.mark.parametrize("memory_id", ["mem_01nothing", "mem_\0", "mem_é", "mem_'"])
async def test_37_unknown_memories_are_not_found(service: MemoryStore, store: Store, memory_id: str) -> None:
    unknown = MemoryId(memory_id)
    with pytest.raises(NotFound):
        await service.update_memory(store.id, unknown, content="two")
    with pytest.raises(NotFound):
        await service.retrieve_memory(store.id, unknown)
    with pytest.raises(NotFound):
        await service.delete_memory(store.id, unknown)


async def test_37_a_deleted_memory_is_not_found(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    await service.delete_memory(store.id, memory.id)
    with pytest.raises(NotFound):
        await service.update_memory(store.id, memory.id, content="two")
    with pytest.raises(NotFound):
        await service.update_memory(store.id, memory.id, content="one")


async def test_38_a_guarded_delete(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    with pytest.raises(PreconditionFailed):
        await service.delete_memory(store.id, memory.id, expected_content_sha256=EMPTY_SHA256)
    for malformed in MALFORMED[1:]:
        with pytest.raises(InvalidRequest):
            await service.delete_memory(store.id, memory.id, expected_content_sha256=malformed)
    assert await paths(service, store) == ["/a"]
    assert len(await versions(service, store)) == 1
    deleted = await service.delete_memory(store.id, memory.id, expected_content_sha256=memory.content_sha256)
    assert (deleted.id, deleted.type) == (memory.id, "memory_deleted")
    with pytest.raises(NotFound):
        await service.delete_memory(store.id, memory.id)
    with pytest.raises(NotFound):
        await service.retrieve_memory(store.id, memory.id)
    assert await paths(service, store) == []


async def test_39_a_path_is_free_again_after_a_delete(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    await service.delete_memory(store.id, memory.id)
    again = await service.create_memory(store.id, "/a", "one")
    assert again.id != memory.id
    assert [version.operation for version in await versions(service, store)] == ["created", "deleted", "created"]
    await service.delete_memory(store.id, again.id)
    await service.create_memory(store.id, "/a/b", "x")
