"""A replica without a mount."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from memfs.model.ids import new_session_id
from memfs.model.objects import Store, UserActor
from memfs.replica.blobs import BlobCache
from memfs.replica.notices import Notices
from memfs.replica.replica import Replica, open_replica
from memfs.stores.base import MemoryStore
from memfs.stores.sql import SqlDatabase


@asynccontextmanager
async def world(directory: Path) -> AsyncIterator[tuple[MemoryStore, Store, Replica]]:
    """A store on SQLite, and a replica of it that runs."""
    session_id = new_session_id()
    database = await SqlDatabase.open(f"sqlite:///{directory}/memories.db")
    service = database.store_service(UserActor(user_id="user_admin"))  # who may redact
    store = await service.create_store("Notes")
    async with (
        open_replica(
            service,
            store,
            name="notes",
            session_id=session_id,
            state_directory=directory / "state",
            mountpoint=directory / "m",
            bound=0.1,
            read_only=False,
            umask=0o022,
            scratch_patterns=(),
            notices=Notices(),
            blobs=BlobCache(),
            timeout=8.0,
            patience=8.0,
        ) as replica,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(replica.run)
        yield service, store, replica
        nursery.cancel_scope.cancel()
    await database.aclose()
