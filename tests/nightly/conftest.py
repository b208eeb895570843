"""What takes too long for every run: `make nightly`. The modules are named so that `make test` does not collect them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.mounts import Mount, launch, new_database
from tests.mount.conftest import abort_after

WATCHDOG_SECONDS = 1800.0


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """Abort every mount of a test that does not end."""
    yield from abort_after(WATCHDOG_SECONDS)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A mount of the test's own."""
    database = new_database(tmp_path)
    with launch(tmp_path, database.create_store("Notes"), database=database, options=["--allow-other"]) as running:
        yield running
