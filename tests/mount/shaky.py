"""A service that slows down or goes away when a test says so: a bad network, a database that another process keeps locked."""

import contextlib
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from tests.faults.proxy import Proxy, fine, proxying, slow
from tests.harness.inspector import Database
from tests.harness.services import ServedDatabase


class Shaky(ABC):
    """What a mount stands on."""

    @abstractmethod
    def away(self) -> contextlib.AbstractContextManager[None]:
        """Nothing can be stored."""

    @abstractmethod
    def slow(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        """What is to be stored is stored after so long."""

    @abstractmethod
    def unusable(self) -> contextlib.AbstractContextManager[None]:
        """Nobody can begin to use it."""


class BadNetwork(Shaky):
    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self.proxy.down = True
        yield
        self.proxy.down = False

    @contextlib.contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        self.proxy.script = slow(seconds)
        yield
        self.proxy.script = fine

    unusable = away


class BusyDatabase(Shaky):
    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        with self._locked():
            yield

    @contextlib.contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")
        end = threading.Timer(seconds, connection.rollback)
        end.start()
        yield
        end.join()
        connection.close()

    @contextlib.contextmanager
    def unusable(self) -> Iterator[None]:
        kept = self.path.with_name("kept")
        self.path.rename(kept)
        self.path.write_text("this is no database\n" * 100)
        yield
        kept.rename(self.path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield


@contextlib.contextmanager
def shaken(database: Database) -> Iterator[Shaky]:
    """Mounts of `database` that begin within the block feel what happens."""
    if isinstance(database, ServedDatabase):
        with proxying(database.served_at) as proxy:
            database.served_at = proxy.url
            yield BadNetwork(proxy)
    else:
        yield BusyDatabase(Path(database.url.removeprefix("sqlite:///")))
