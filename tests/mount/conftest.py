"""One mount a module, one directory a test; nothing may hang."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.inspector import Database
from tests.harness.mounts import Mount, Place, launch, living
from tests.harness.names import own_name
from tests.harness.services import KINDS_OF_MOUNT, SERVICES, service

WATCHDOG_SECONDS = 150.0
"""No test takes so long. One that does has most likely asked a daemon that does not answer, and waits inside the kernel."""


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """Abort every mount of a test that does not end: its system calls return with an error, and the test fails."""
    yield from abort_after(WATCHDOG_SECONDS)


def abort_after(seconds: float) -> Iterator[None]:
    """What `watchdog` does, for a test that takes up to so many seconds."""

    def abort_all() -> None:
        for mount in list(living):
            mount.abort()

    timer = threading.Timer(seconds, abort_all)
    timer.daemon = True
    timer.start()
    yield
    timer.cancel()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "service_kind" in metafunc.fixturenames:
        metafunc.parametrize("service_kind", _services_of(metafunc.definition), scope="module")


def _services_of(test: pytest.Item) -> tuple[str, ...]:
    """The marker nearest to the test decides."""
    chosen = {"every_service": SERVICES, "over_http_too": KINDS_OF_MOUNT, "over_http": KINDS_OF_MOUNT[1:]}
    return next((chosen[marker.name] for marker in test.iter_markers() if marker.name in chosen), SERVICES[:1])


@pytest.fixture(scope="module")
def shared(service_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The service that the tests of a module share."""
    with service(service_kind, tmp_path_factory.mktemp("service")) as database:
        yield database


@pytest.fixture
def database(service_kind: str, tmp_path: Path) -> Iterator[Database]:
    """A service of the test's own."""
    with service(service_kind, tmp_path) as database:
        yield database


@pytest.fixture(scope="module")
def mount(shared: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    """A mount of one store with the default options."""
    with shared.own_store("Notes") as store, launch(tmp_path_factory.mktemp("mount"), store, database=shared) as running:
        yield running


@pytest.fixture
def place(mount: Mount, request: pytest.FixtureRequest) -> Place:
    """A directory of the module's mount that no other test uses."""
    place = Place(mount, own_name(request))
    place.path.mkdir()
    return place


@pytest.fixture
def fresh(database: Database, tmp_path: Path) -> Iterator[Mount]:
    """A mount of the test's own, for what changes a mount as a whole."""
    with launch(tmp_path, database.create_store("Notes"), database=database) as running:
        yield running
