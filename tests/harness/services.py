"""The services that a mount can stand on, each fresh and by its name."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from memfs.model.sessions import MemoryStoreResource
from memfs.server.credentials import Keyring
from memfs.server.sessions import attach
from memfs.server.wire import AttachStore
from memfs.stores.base import MemoryStore
from tests.harness.dialects import DIALECTS, dialect
from tests.harness.inspector import Admission, Database, Inspector
from tests.harness.mounts import new_database
from tests.harness.serving import serving

SERVICES = ("sqlite", *DIALECTS)
KINDS_OF_MOUNT = ("sqlite", "http")
"""The embedded store, and the same behind `memfs serve`."""


class ServedDatabase(Database):
    """A database that mounts reach over HTTP only; this object looks into it past the server."""

    def __init__(self, database: str, url: str) -> None:
        super().__init__(database, kind="http")
        self.served_at = url
        """Where a mount finds the server; a test may put something in between."""

    def admit(self, stores: Sequence[Inspector]) -> Admission:
        async def resources(service: MemoryStore) -> list[MemoryStoreResource]:
            return await attach(service, [AttachStore(type="memory_store", memory_store_id=store.id) for store in stores])

        keyring = Keyring(self.url)
        try:
            session = keyring.create_session(self.call(resources))
            token = keyring.create_token(session.id)
        finally:
            keyring.close()
        return Admission(self.served_at, session.id, {"MEMFS_AUTH_TOKEN": token.secret})


@contextlib.contextmanager
def service(kind: str, root: Path) -> Iterator[Database]:
    """A service of that kind, one of `SERVICES` or `KINDS_OF_MOUNT`; what it needs on the disk is below `root`."""
    if kind == "sqlite":
        yield new_database(root)
    elif kind == "http":
        database = new_database(root).url
        with serving(database, root) as server:
            yield ServedDatabase(database, server.url)
    else:
        with dialect(kind) as running:
            yield Database(running.url, kind=kind, environment=running.environment)
