"""Emulated services: a mount that the tests of a module share, one directory a test; or a service of the test's own."""

from collections.abc import Iterator

import pytest

from tests.emulators.serving import Faults
from tests.harness.dialects import DIALECTS, Dialect, dialect
from tests.harness.inspector import Database
from tests.harness.mounts import Mount, Place, launch
from tests.harness.names import own_name

BOUND_SECONDS = 0.5
"""How old what the shared mount shows may be: little, for the tests that wait for news."""


def _database(service: Dialect) -> Database:
    return Database(service.url, kind=service.name, environment=service.environment)


@pytest.fixture(scope="module", params=DIALECTS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which service; a test for some of them only says which."""
    name: str = request.param
    return name


@pytest.fixture
def running(kind: str) -> Iterator[Dialect]:
    """A service of the test's own."""
    with dialect(kind) as started:
        yield started


@pytest.fixture
def database(running: Dialect) -> Database:
    """The stores of `running`."""
    return _database(running)


@pytest.fixture(scope="module")
def shared(kind: str) -> Iterator[Dialect]:
    """The service of `mount`."""
    with dialect(kind) as started:
        yield started


@pytest.fixture(scope="module")
def mount(shared: Dialect, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    stores = _database(shared)
    options = ["--timeout", "2", "--max-staleness", str(BOUND_SECONDS)]
    root = tmp_path_factory.mktemp("mount")
    with stores.own_store("Notes") as store, launch(root, store, database=stores, options=options) as started:
        yield started


@pytest.fixture
def place(mount: Mount, shared: Dialect, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A directory of `mount` that no other test uses; the faults that a test gives to `shared` end with it."""
    made = Place(mount, own_name(request))
    made.path.mkdir()
    yield made
    shared.emulator.faults = Faults()
