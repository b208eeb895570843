"""Contract section 13, vectors 23 to 28: retrieving and listing memories."""

from functools import partial

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memfs.model.errors import InvalidPath, InvalidRequest, NotFound, PathConflict
from memfs.model.objects import Memory, MemoryPrefix, Store, View
from memfs.stores.base import MAX_FULL_LIMIT, Listed, MemoryStore
from tests.contract.backends import SQL_BACKENDS
from tests.contract.reading import listed, pages, paths


async def _create(service: MemoryStore, store: Store, *wanted: str) -> None:
    for path in wanted:
        await service.create_memory(store.id, path, f"content of {path}")


async def test_23_views(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a", "one")
    full = await service.retrieve_memory(store.id, created.id)
    assert full.content == "one"
    assert full.model_copy(update={"content": None}) == created
    assert await service.retrieve_memory(store.id, created.id, view="basic") == created


async def test_23_a_memory_is_found_in_its_store_only(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    other = await service.create_store("Other")
    with pytest.raises(NotFound):
        await service.retrieve_memory(other.id, memory.id)
    with pytest.raises(NotFound):
        await service.update_memory(other.id, memory.id, content="two")
    with pytest.raises(NotFound):
        await service.delete_memory(other.id, memory.id)
    with pytest.raises(NotFound):
        await service.retrieve_version(other.id, memory.memory_version_id)
    assert (await service.retrieve_memory(store.id, memory.id)).content == "one"


@pytest.mark.needs("order")
async def test_24_prefixes_and_depth(service: MemoryStore, store: Store) -> None:
    await _create(service, store, "/n/t.md", "/n/d/x", "/n-a/z")
    assert await paths(service, store) == ["/n-a/z", "/n/d/x", "/n/t.md"]
    assert await paths(service, store, depth=0) == ["/n-a/z", "/n/d/x", "/n/t.md"]
    assert await paths(service, store, path_prefix="/n/") == ["/n/d/x", "/n/t.md"]
    children = await listed(service, store, path_prefix="/n/", depth=1)
    assert [(type(item), item.path) for item in children] == [(MemoryPrefix, "/n/d/"), (Memory, "/n/t.md")]
    top = await listed(service, store, depth=1)
    assert [(type(item), item.path) for item in top] == [(MemoryPrefix, "/n-a/"), (MemoryPrefix, "/n/")]
    assert await paths(service, store, path_prefix="/n/d/", depth=1) == ["/n/d/x"]


@pytest.mark.parametrize("prefix", ["", "/"])
async def test_24_the_prefix_of_the_whole_store(service: MemoryStore, store: Store, prefix: str) -> None:
    await _create(service, store, "/a", "/b/c")
    assert await paths(service, store, path_prefix=prefix) == ["/a", "/b/c"]
    assert await paths(service, store, path_prefix=prefix, depth=1) == ["/a", "/b/"]


@pytest.mark.parametrize("prefix", ["/none/", "/a/", "//", "/n//", "/\0/", "/\ud800/", "/%/", "/_/", "/" + "x" * 2000 + "/"])
async def test_24_a_prefix_without_memories_is_empty(service: MemoryStore, store: Store, prefix: str) -> None:
    await _create(service, store, "/a", "/n/t.md")
    for depth in (None, 0, 1):
        page = await service.list_memories(store.id, path_prefix=prefix, depth=depth)
        assert (page.data, page.next_page) == ([], None)


@pytest.mark.parametrize("prefix", ["/n", "n/", "n"])
async def test_24_a_prefix_is_aligned_to_segments(service: MemoryStore, store: Store, prefix: str) -> None:
    with pytest.raises(InvalidPath):
        await service.list_memories(store.id, path_prefix=prefix)


@pytest.mark.parametrize("depth", [-1, 2])
async def test_24_other_depths_are_refused(service: MemoryStore, store: Store, depth: int) -> None:
    with pytest.raises(InvalidRequest):
        await service.list_memories(store.id, depth=depth)


async def test_25_a_prefix_counts_once_and_never_again(service: MemoryStore, store: Store) -> None:
    await _create(service, store, *(f"/p/{number}" for number in range(25)), "/z")
    first = await service.list_memories(store.id, depth=1, limit=1)
    assert [item.path for item in first.data] == ["/p/"]
    assert first.next_page is not None
    # Neither does one that grew meanwhile.
    await _create(service, store, "/p/zzz")
    second = await service.list_memories(store.id, depth=1, limit=1, page=first.next_page)
    assert [item.path for item in second.data] == ["/z"]
    assert second.next_page is None


@pytest.mark.needs("order")
async def test_25_pages_continue_where_memories_came_and_went(service: MemoryStore, store: Store) -> None:
    await _create(service, store, "/a", "/b", "/c", "/d")
    first = await service.list_memories(store.id, limit=2)
    gone = first.data[1]
    assert isinstance(gone, Memory)
    await service.delete_memory(store.id, gone.id)
    await _create(service, store, "/aa", "/bb")
    rest = await service.list_memories(store.id, limit=10, page=first.next_page)
    assert [item.path for item in rest.data] == ["/bb", "/c", "/d"]


async def test_26_full_pages_are_capped_silently(service: MemoryStore, store: Store) -> None:
    await _create(service, store, *(f"/{number:02}" for number in range(30)))
    full = await service.list_memories(store.id, view="full", limit=100)
    assert len(full.data) == MAX_FULL_LIMIT
    assert full.next_page is not None
    assert all(isinstance(item, Memory) and item.content == f"content of {item.path}" for item in full.data)
    basic = await service.list_memories(store.id, limit=100)
    assert len(basic.data) == 30
    assert basic.next_page is None
    assert all(isinstance(item, Memory) and item.content is None for item in basic.data)
    assert len((await service.list_memories(store.id)).data) == 20


async def test_26_a_full_listing_with_depth(service: MemoryStore, store: Store) -> None:
    await _create(service, store, "/d/x", "/t")
    prefix, memory = await listed(service, store, depth=1, view="full")
    assert prefix == MemoryPrefix(path="/d/")
    assert isinstance(memory, Memory)
    assert memory.content == "content of /t"


@pytest.mark.needs("rename")
async def test_26_a_listed_memory_is_the_retrieved_one(service: MemoryStore, store: Store) -> None:
    created = await service.create_memory(store.id, "/a", "one")
    changed = await service.update_memory(store.id, created.id, content="two", path="/b")
    assert await listed(service, store) == [changed]
    assert await listed(service, store, view="full") == [await service.retrieve_memory(store.id, created.id)]


async def test_26_limits_are_checked(service: MemoryStore, store: Store) -> None:
    for limit in (0, -1, service.capabilities.max_limit + 1):
        with pytest.raises(InvalidRequest):
            await service.list_memories(store.id, limit=limit)
        with pytest.raises(InvalidRequest):
            await service.list_memories(store.id, limit=limit, view="full")
        with pytest.raises(InvalidRequest):
            await service.list_versions(store.id, limit=limit)


@pytest.mark.needs("bound cursors")
async def test_28_a_cursor_fits_its_own_list_only(service: MemoryStore, store: Store) -> None:
    await _create(service, store, "/n/a", "/n/b", "/n/c", "/z")
    other = await service.create_store("Other")
    page = (await service.list_memories(store.id, path_prefix="/n/", limit=1)).next_page
    assert page is not None
    assert page.startswith("page_")
    rest = await service.list_memories(store.id, path_prefix="/n/", limit=5, page=page)
    assert [item.path for item in rest.data] == ["/n/b", "/n/c"]
    with pytest.raises(InvalidRequest):
        await service.list_memories(store.id, limit=1, page=page)
    with pytest.raises(InvalidRequest):
        await service.list_memories(store.id, path_prefix="/n/", depth=1, limit=1, page=page)
    with pytest.raises(InvalidRequest):
        await service.list_memories(other.id, path_prefix="/n/", limit=1, page=page)
    with pytest.raises(InvalidRequest):
        await service.list_memories(store.id, path_prefix="/n/", view="full", limit=1, page=page)
    with pytest.raises(InvalidRequest):
        await service.list_versions(store.id, page=page)
    for garbage in ("garbage", "page_", "page_é", page[:-2], f"{page}AA", page.replace("page_", "page-")):
        with pytest.raises(InvalidRequest):
            await service.list_memories(store.id, path_prefix="/n/", limit=1, page=garbage)


# Characters around the slash and the space, whose order decides where a range ends, and one of each length in UTF-8.
_segments = st.text(alphabet="ab -!.01~é日😀", min_size=1, max_size=3).filter(lambda segment: segment not in (".", ".."))
_paths = st.lists(_segments, min_size=1, max_size=4).map(lambda segments: "/" + "/".join(segments))


def _expected(stored: list[str], prefix: str, depth: int) -> list[tuple[type[Listed], str]]:
    """What a listing holds, computed from all paths."""
    below = [path for path in stored if path.startswith(prefix)]
    if depth == 0:
        return sorted(((Memory, path) for path in below), key=lambda entry: entry[1].encode())
    entries: set[tuple[type[Listed], str]] = set()
    for path in below:
        head, slash, _ = path[len(prefix) :].partition("/")
        entries.add((MemoryPrefix if slash else Memory, prefix + head + slash))
    return sorted(entries, key=lambda entry: entry[1].encode())


@pytest.mark.parametrize("backend", list(SQL_BACKENDS))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.lists(_paths, max_size=25), limit=st.integers(min_value=1, max_value=8), full=st.booleans())
def test_24_25_listings_are_what_the_paths_say(
    backend: str, tmp_path_factory: pytest.TempPathFactory, wanted: list[str], limit: int, full: bool
) -> None:
    # Not the fixtures: those of an asynchronous test are gone after its first example.
    async def main() -> None:
        async with SQL_BACKENDS[backend](tmp_path_factory.mktemp("generated"), 10_000) as factory:
            await _check_listings((await factory.key()).service, wanted, limit, "full" if full else "basic")

    trio.run(main)


async def _check_listings(service: MemoryStore, wanted: list[str], limit: int, view: View) -> None:
    store = await service.create_store("Generated")
    stored: list[str] = []
    for path in wanted:
        blocked = any(path == one or path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in stored)
        try:
            await service.create_memory(store.id, path, path)
        except PathConflict:
            assert blocked
        else:
            assert not blocked
            stored.append(path)
    prefixes = {"/", "/a/", "/none/"} | {path[: path.rindex("/") + 1] for path in stored}
    for prefix in sorted(prefixes):
        for depth in (0, 1):
            list_page = partial(service.list_memories, store.id, path_prefix=prefix, depth=depth, view=view)
            found: list[list[Listed]] = await pages(list_page, limit=limit)
            assert [(type(item), item.path) for page in found for item in page] == _expected(stored, prefix, depth)
            assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
            for page in found:
                for item in page:
                    assert isinstance(item, MemoryPrefix) or item.content == (item.path if view == "full" else None)
