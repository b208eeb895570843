"""Opens the database that a server works on; needs no web framework, so that `memfs keys` does not load one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread

from memfs.model.errors import InvalidRequest
from memfs.server.credentials import Keyring
from memfs.stores.sql import SqlDatabase


@asynccontextmanager
async def open_database(url: str, *, max_memories: int | None = None) -> AsyncIterator[tuple[SqlDatabase, Keyring]]:
    """The stores and the credentials of the database at `url`, made where they are missing."""
    if not url.startswith(("sqlite:", "postgresql:", "postgres:", "postgresql+psycopg:")):
        raise InvalidRequest("this works on a database itself: give its URL, sqlite:///PATH or postgresql://..., with --url")
    if max_memories is None:
        database = await SqlDatabase.open(url, threads=True)
    else:
        database = await SqlDatabase.open(url, threads=True, max_memories=max_memories)
    try:
        keyring = await anyio.to_thread.run_sync(Keyring, url)
        try:
            yield database, keyring
        finally:
            keyring.close()
    finally:
        await database.aclose()
