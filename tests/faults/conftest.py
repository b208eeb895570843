"""Nothing may hang: a mount whose test does not end is aborted, so that the test fails instead."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.worlds import World, world
from tests.harness.mounts import living

WATCHDOG_SECONDS = float(os.environ.get("TEST_SOAK_WATCHDOG", "240"))


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    def abort_all() -> None:
        for mount in list(living):
            mount.abort()

    timer = threading.Timer(WATCHDOG_SECONDS, abort_all)
    timer.daemon = True
    timer.start()
    yield
    timer.cancel()


@pytest.fixture
def bad(tmp_path: Path) -> Iterator[World]:
    """A store behind a server behind a network that a test may spoil."""
    with world(tmp_path) as made:
        yield made
