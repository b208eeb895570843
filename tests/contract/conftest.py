"""The fixtures of the contract's cases (contract section 13); a case is named for the number of its vector."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memfs.model.objects import Store
from memfs.stores.base import MemoryStore
from tests.contract.backends import BACKENDS, LACKS, Participant, ServiceFactory
from tests.harness.postgres import postgres_cluster

__all__ = ["postgres_cluster"]

MAX_MEMORIES = 10_000


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "max_memories(number): how many memories a store of this case may hold")
    config.addinivalue_line("markers", "needs(*what): a case for backends that lack none of this (see backends.LACKS)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each case runs on every backend that has what it needs, unless its module names the backends itself."""
    named = any("service_factory" in marker.args[0] for marker in metafunc.definition.iter_markers("parametrize"))
    if "service_factory" in metafunc.fixturenames and not named:
        needed = {what for marker in metafunc.definition.iter_markers("needs") for what in marker.args}
        able = [name for name in BACKENDS if not needed & LACKS.get(name, set())]
        metafunc.parametrize("service_factory", able, indirect=True)


@pytest.fixture
async def service_factory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ServiceFactory]:
    if "postgresql" in request.param:
        request.getfixturevalue("postgres_cluster")
    marker = request.node.get_closest_marker("max_memories")
    async with BACKENDS[request.param](tmp_path, marker.args[0] if marker else MAX_MEMORIES) as factory:
        yield factory


@pytest.fixture
async def owner(service_factory: ServiceFactory) -> Participant:
    return await service_factory.key()


@pytest.fixture
async def service(owner: Participant) -> MemoryStore:
    return owner.service


@pytest.fixture
async def store(service: MemoryStore) -> Store:
    return await service.create_store("Notes")
