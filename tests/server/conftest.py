"""Servers and the databases behind them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.api import Api
from tests.harness.postgres import Cluster, postgres_cluster
from tests.harness.serving import ServerProcess, ServerThread, serving, serving_in_thread

__all__ = ["postgres_cluster"]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/data/memfs.db"
    cluster: Cluster = request.getfixturevalue("postgres_cluster")
    return cluster.new_database()


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server process of the test's own."""
    with serving(database, tmp_path) as process:
        yield process


@pytest.fixture
def quick_server(tmp_path: Path) -> Iterator[ServerThread]:
    """A server in a thread, on SQLite, with a key."""
    with serving_in_thread(f"sqlite:///{tmp_path}/data/memfs.db") as thread:
        yield thread


@pytest.fixture
def api(quick_server: ServerThread) -> Iterator[Api]:
    """`quick_server` by an API key."""
    _, minted = quick_server.keyring.create_key("tests")
    client = Api(quick_server.url, minted.secret)
    yield client
    client.close()
