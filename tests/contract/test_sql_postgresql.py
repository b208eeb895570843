"""PostgreSQL's own cases: lost connections, held locks, what errors say, and several that make the tables at once."""

import psycopg
import pytest
import trio
from sqlalchemy import make_url

from memfs.model.errors import InvalidRequest, MemfsError, Unavailable
from memfs.model.objects import UserActor
from memfs.stores.open import open_service
from memfs.stores.sql import SqlDatabase
from tests.contract.reading import paths
from tests.harness.postgres import Cluster

ACTOR = UserActor(user_id="user_1")


@pytest.fixture
def url(postgres_cluster: Cluster) -> str:
    return postgres_cluster.new_database()


async def test_a_connection_that_the_server_ended_is_replaced(url: str) -> None:
    database = await SqlDatabase.open(url)
    service = database.store_service(ACTOR)
    store = await service.create_store("Notes")
    for number in range(3):
        with psycopg.connect(url, autocommit=True) as administrator:
            ended = administrator.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchall()
        assert ended == [(True,)]
        await service.create_memory(store.id, f"/{number}", "")
    assert await paths(service, store) == ["/0", "/1", "/2"]
    await database.aclose()


async def test_a_lock_that_is_never_released_ends_in_an_error(url: str) -> None:
    database = await SqlDatabase.open(url, timeout=0.3)
    service = database.store_service(ACTOR)
    store, other = await service.create_store("Notes"), await service.create_store("Other")
    with psycopg.connect(url) as holder:
        holder.execute("SELECT 1 FROM memory_stores WHERE id = %s FOR UPDATE", (store.id,))
        with pytest.raises(Unavailable, match="locked"):
            await service.create_memory(store.id, "/a", "")
        # Only that store waits, and only for writing.
        await service.create_memory(other.id, "/a", "")
        assert await paths(service, store) == []
    await service.create_memory(store.id, "/a", "")
    await database.aclose()


async def test_more_calls_than_connections_wait_for_their_turn(url: str) -> None:
    service = await open_service(url, actor=ACTOR)
    store = await service.create_store("Notes")

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(service.create_memory, store.id, f"/{number:02}", "")
    assert len(await paths(service, store)) == 40
    await service.aclose()


async def test_the_tables_are_made_once(url: str) -> None:
    opened: list[SqlDatabase] = []

    async def open_one() -> None:
        opened.append(await SqlDatabase.open(url))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(open_one)
    await opened[0].store_service(ACTOR).create_store("Notes")
    assert len((await opened[3].store_service(ACTOR).list_stores()).data) == 1
    for database in opened:
        await database.aclose()


async def test_tables_of_a_newer_version(url: str) -> None:
    await (await SqlDatabase.open(url)).aclose()
    with psycopg.connect(url) as newer:
        newer.execute("UPDATE memfs_schema SET version = 99")
    with pytest.raises(InvalidRequest, match="version 99"):
        await SqlDatabase.open(url)


async def test_an_error_does_not_show_the_password(url: str) -> None:
    parsed = make_url(url)
    nowhere = parsed.set(password="secret", database="missing").render_as_string(hide_password=False)
    closed = parsed.set(password="secret", port=1).render_as_string(hide_password=False)
    for wrong in (nowhere, closed, "postgresql://u:secret@[broken/x", "postgresql://u:secret@host:port/x"):
        with pytest.raises(MemfsError) as refusal:
            await SqlDatabase.open(wrong, timeout=2)
        assert "secret" not in refusal.value.message
        assert "\n" not in refusal.value.message
