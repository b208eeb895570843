"""One emulated service a test, and a mount of one of its stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.dialects import DIALECTS, Dialect, dialect
from tests.harness.inspector import Database
from tests.harness.mounts import Mount, launch


@pytest.fixture(params=DIALECTS)
def running(request: pytest.FixtureRequest) -> Iterator[Dialect]:
    with dialect(request.param) as started:
        yield started


@pytest.fixture
def database(running: Dialect) -> Database:
    return Database(running.url, kind=running.name, environment=running.environment)


@pytest.fixture
def mount(database: Database, tmp_path: Path) -> Iterator[Mount]:
    with launch(tmp_path, database.create_store("Notes"), database=database, options=["--timeout", "2"]) as started:
        yield started
