"""Contract section 13, vectors 15 to 22: creating memories, paths and content."""

import pytest

from memfs.model.content import MAX_CONTENT_BYTES
from memfs.model.errors import (
    ContentNotText,
    ContentTooLarge,
    InvalidPath,
    PathConflict,
    PathTooLong,
    StoreFull,
)
from memfs.model.objects import Store
from memfs.stores.base import MemoryStore, Usage
from tests.contract.reading import paths, versions

SHA_OF_HELLO = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
SHA_OF_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
SHA_OF_LARGEST = "8b77ec70310a4f694fff9ad0bf5f1e9da39b97ec5ccb3ced6a6261ac4effee4c"


async def test_15_a_created_memory(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a.md", "hello\n")
    assert memory.memory_store_id == store.id
    assert (memory.path, memory.content, memory.content_size_bytes) == ("/a.md", None, 6)
    assert memory.content_sha256 == SHA_OF_HELLO
    assert memory.created_at == memory.updated_at
    full = await service.create_memory(store.id, "/b.md", "hello\n", view="full")
    assert full.content == "hello\n"
    (first,) = await versions(service, store, memory_id=memory.id)
    assert (first.operation, first.path) == ("created", "/a.md")
    if service.capabilities.head_versions:
        assert first.id == memory.memory_version_id
    assert first.created_at == memory.created_at


@pytest.mark.needs("our ids")
async def test_15_ids_have_the_contracts_form(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a.md", "hello\n")
    assert store.id.startswith("memstore_01")
    assert memory.id.startswith("mem_01")
    assert memory.memory_version_id.startswith("memver_01")


@pytest.mark.needs("empty")
async def test_16_an_empty_memory(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/e", "")
    assert (memory.content_size_bytes, memory.content_sha256) == (0, SHA_OF_NOTHING)
    assert (await service.retrieve_memory(store.id, memory.id)).content == ""
    assert [version.content for version in await versions(service, store, view="full")] == [""]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a.md",
        "/",
        "/a/",
        "//a",
        "/a//b",
        "/./a",
        "/a/..",
        "/a\0b",
        "/a\tb",
        "/a\u200db",
        "/a\u2028b",
        "/a\u2029b",
        "/a\ud800b",
        "/e\u0301",
    ],
)
async def test_17_a_path_is_refused(service: MemoryStore, store: Store, path: str) -> None:
    with pytest.raises(InvalidPath):
        await service.create_memory(store.id, path, "x")
    memory = await service.create_memory(store.id, "/ok", "x")
    with pytest.raises(InvalidPath):
        await service.update_memory(store.id, memory.id, path=path)
    assert await paths(service, store) == ["/ok"]


@pytest.mark.parametrize("path", ["/1" * 21, "/" + "a" * 1024, "/" + "é" * 512])
async def test_17_a_path_is_too_long(service: MemoryStore, store: Store, path: str) -> None:
    with pytest.raises(PathTooLong):
        await service.create_memory(store.id, path, "x")


@pytest.mark.needs("order")
async def test_18_paths_are_accepted(service: MemoryStore, store: Store) -> None:
    wanted = ["/1" * 20, "/" + "a" * 1023, "/.hidden", "/a b", "/a\\b", "/é", "/A", "/a", "/%", "/_", "/*", "/\ue000", "/日本"]
    for path in wanted:
        assert (await service.create_memory(store.id, path, "x")).path == path
    assert await paths(service, store) == sorted(wanted, key=lambda path: path.encode())


async def test_19_content_is_limited_by_its_bytes(service: MemoryStore, store: Store) -> None:
    largest = await service.create_memory(store.id, "/largest", "x" * MAX_CONTENT_BYTES)
    assert largest.content_sha256 == SHA_OF_LARGEST
    assert (await service.retrieve_memory(store.id, largest.id)).content == "x" * MAX_CONTENT_BYTES
    for content in ("x" * (MAX_CONTENT_BYTES + 1), "é" * 51_201):
        with pytest.raises(ContentTooLarge):
            await service.create_memory(store.id, "/larger", content)
        with pytest.raises(ContentTooLarge):
            await service.update_memory(store.id, largest.id, content=content)
    with pytest.raises(ContentNotText):
        await service.create_memory(store.id, "/broken", "\ud800")
    assert await paths(service, store) == ["/largest"]


@pytest.mark.parametrize(
    "content", ["a\r\nb\r", "\ufeffbom", "e\u0301", "no newline", "\0\x01\x7f", "a\u2028b", "😀\U0010ffff"]
)
async def test_19_content_is_kept_to_the_bit(service: MemoryStore, store: Store, content: str) -> None:
    memory = await service.create_memory(store.id, "/a", content)
    assert memory.content_size_bytes == len(content.encode())
    assert (await service.retrieve_memory(store.id, memory.id)).content == content
    assert (await service.retrieve_version(store.id, memory.memory_version_id)).content == content


async def test_20_create_never_overwrites(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    with pytest.raises(PathConflict) as conflict:
        await service.create_memory(store.id, "/a", "two")
    assert (conflict.value.path, conflict.value.memory_id) == ("/a", memory.id)
    assert (await service.retrieve_memory(store.id, memory.id)).content == "one"
    assert len(await versions(service, store)) == 1


@pytest.mark.needs("above and below")
async def test_21_a_memory_is_not_above_or_below_another(service: MemoryStore, store: Store) -> None:
    below = await service.create_memory(store.id, "/a/b", "x")
    with pytest.raises(PathConflict) as conflict:
        await service.create_memory(store.id, "/a", "x")
    assert (conflict.value.path, conflict.value.memory_id) == ("/a/b", below.id)
    above = await service.create_memory(store.id, "/c", "x")
    with pytest.raises(PathConflict) as conflict:
        await service.create_memory(store.id, "/c/d/e", "x")
    assert (conflict.value.path, conflict.value.memory_id) == ("/c", above.id)
    await service.create_memory(store.id, "/cd", "x")
    await service.create_memory(store.id, "/c-/x", "x")
    assert await paths(service, store) == ["/a/b", "/c", "/c-/x", "/cd"]


async def test_21_a_path_is_no_pattern(service: MemoryStore, store: Store) -> None:
    wanted = ["/a%", "/a_b", "/acb/x", "/a*", "/axx/y"]
    for path in wanted:
        await service.create_memory(store.id, path, "x")
    assert sorted(await paths(service, store)) == sorted(wanted)


async def test_21_stores_do_not_conflict(service: MemoryStore, store: Store) -> None:
    other = await service.create_store("Other")
    await service.create_memory(store.id, "/a", "x")
    await service.create_memory(other.id, "/a/b", "x")
    assert await paths(service, other) == ["/a/b"]


@pytest.mark.max_memories(3)
@pytest.mark.needs("cap")
async def test_22_a_full_store_takes_no_new_memory(service: MemoryStore, store: Store) -> None:
    memories = [await service.create_memory(store.id, f"/{number}", "x") for number in range(3)]
    with pytest.raises(StoreFull, match="3 memories"):
        await service.create_memory(store.id, "/more", "x")
    # The lost answer of a create is told from a full store (section 3.3).
    with pytest.raises(PathConflict):
        await service.create_memory(store.id, "/0", "x")
    edited = await service.update_memory(store.id, memories[0].id, content="still editable", path="/renamed")
    assert (await service.retrieve_memory(store.id, edited.id)).content == "still editable"
    await service.delete_memory(store.id, memories[1].id)
    await service.create_memory(store.id, "/more", "x")
    assert await paths(service, store) == ["/2", "/more", "/renamed"]


@pytest.mark.needs("empty")
async def test_usage_counts_memories_and_bytes(service: MemoryStore, store: Store) -> None:
    async def check(memories: int, content_bytes: int) -> None:
        # A service may be unable to say, but not say something else.
        assert await service.usage(store.id) in (None, Usage(memories, content_bytes))

    await check(0, 0)
    first = await service.create_memory(store.id, "/a", "éé")
    await service.create_memory(store.id, "/b", "x")
    await check(2, 5)
    await service.update_memory(store.id, first.id, content="")
    await service.update_memory(store.id, first.id, path="/c")
    await check(2, 1)
    await service.delete_memory(store.id, first.id)
    await check(1, 1)
