"""One mount a module, one directory a test; nothing may hang."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.mounts import Mount, Place, launch, living, new_database

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


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    """A mount of one store with the default options."""
    root = tmp_path_factory.mktemp("mount")
    database = new_database(root)
    with launch(root, database.create_store("Notes"), database=database) as running:
        yield running


@pytest.fixture
def place(mount: Mount, request: pytest.FixtureRequest) -> Place:
    """A directory of the module's mount that no other test uses."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    place = Place(mount, name)
    place.path.mkdir()
    return place


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Mount]:
    """A mount of the test's own, for what changes a mount as a whole."""
    database = new_database(tmp_path)
    with launch(tmp_path, database.create_store("Notes"), database=database) as running:
        yield running
