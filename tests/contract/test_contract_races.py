"""Contract section 13, vector 50: of several that race for one thing, exactly one gets it."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from memfs.model.content import Sha256
from memfs.model.errors import MemfsError, NotFound, PathConflict, PreconditionFailed
from memfs.model.ids import MemoryId
from memfs.model.objects import Store
from memfs.stores.base import MemoryStore
from tests.contract.backends import ServiceFactory
from tests.contract.reading import paths, versions

RACERS = 4


async def _race(contestants: list[Callable[[], Awaitable[object]]]) -> list[type[MemfsError]]:
    """Run all at once; return the errors of those that lost."""
    lost: list[type[MemfsError]] = []

    async def run(contestant: Callable[[], Awaitable[object]]) -> None:
        try:
            await contestant()
        except MemfsError as error:
            lost.append(type(error))

    async with trio.open_nursery() as nursery:
        for contestant in contestants:
            nursery.start_soon(run, contestant)
    return lost


@pytest.fixture
async def racers(service_factory: ServiceFactory) -> list[MemoryStore]:
    return [(await service_factory.key()).service for _ in range(RACERS)]


async def test_50_creators_of_one_path(racers: list[MemoryStore], store: Store) -> None:
    for number in range(10):

        def creator(racer: MemoryStore, path: str = f"/{number}") -> Callable[[], Awaitable[object]]:
            return lambda: racer.create_memory(store.id, path, "x")

        assert await _race([creator(racer) for racer in racers]) == [PathConflict] * (RACERS - 1)
    assert len(await versions(racers[0], store)) == 10


@pytest.mark.needs("above and below")
async def test_50_creators_above_and_below(racers: list[MemoryStore], store: Store) -> None:
    for number in range(10):

        def creator(place: int, path: str = f"/{number}") -> Callable[[], Awaitable[object]]:
            return lambda: racers[place].create_memory(store.id, path + "/x" * place, "x")

        assert await _race([creator(place) for place in range(RACERS)]) == [PathConflict] * (RACERS - 1)
    assert len(await paths(racers[0], store)) == 10


async def test_50_updaters_with_one_precondition(racers: list[MemoryStore], store: Store) -> None:
    memory = await racers[0].create_memory(store.id, "/a", "start")

    def updater(place: int, number: int, base: Sha256) -> Callable[[], Awaitable[object]]:
        content = f"{number} {place}"
        return lambda: racers[place].update_memory(store.id, memory.id, content=content, precondition=base)

    for number in range(10):
        base = (await racers[0].retrieve_memory(store.id, memory.id)).content_sha256
        assert await _race([updater(place, number, base) for place in range(RACERS)]) == [PreconditionFailed] * (RACERS - 1)
    assert len(await versions(racers[0], store)) == 11


async def test_50_deleters_of_one_memory(racers: list[MemoryStore], store: Store) -> None:
    for _ in range(5):
        memory = await racers[0].create_memory(store.id, "/a", "x")

        def deleter(racer: MemoryStore, memory_id: MemoryId = memory.id) -> Callable[[], Awaitable[object]]:
            return lambda: racer.delete_memory(store.id, memory_id)

        assert await _race([deleter(racer) for racer in racers]) == [NotFound] * (RACERS - 1)
    operations = [version.operation for version in await versions(racers[0], store)]
    assert operations == ["deleted", "created"] * 5


async def test_50_renames_onto_one_path(racers: list[MemoryStore], store: Store) -> None:
    memories = [await racers[0].create_memory(store.id, f"/{place}", "x") for place in range(RACERS)]

    def renamer(place: int) -> Callable[[], Awaitable[object]]:
        return lambda: racers[place].update_memory(store.id, memories[place].id, path="/target")

    assert await _race([renamer(place) for place in range(RACERS)]) == [PathConflict] * (RACERS - 1)
    assert len(await paths(racers[0], store)) == RACERS


@pytest.mark.max_memories(5)
@pytest.mark.needs("cap")
async def test_50_creators_at_the_cap(racers: list[MemoryStore], store: Store) -> None:
    def creator(place: int, number: int) -> Callable[[], Awaitable[object]]:
        return lambda: racers[place].create_memory(store.id, f"/{place}-{number}", "x")

    lost = await _race([creator(place, number) for place in range(RACERS) for number in range(3)])
    assert len(lost) == RACERS * 3 - 5
    assert len(await paths(racers[0], store)) == 5


@pytest.mark.needs("precise times")
async def test_50_times_rise_strictly(racers: list[MemoryStore], store: Store) -> None:
    def creator(place: int, number: int) -> Callable[[], Awaitable[object]]:
        return lambda: racers[place].create_memory(store.id, f"/{place}-{number}", "x")

    assert await _race([creator(place, number) for place in range(RACERS) for number in range(20)]) == []
    times = [version.created_at for version in await versions(racers[0], store)]
    assert len(set(times)) == RACERS * 20
