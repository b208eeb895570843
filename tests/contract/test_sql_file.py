"""The SQLite file: who may read it, what is wrong with it, several processes on it, and what stays in it."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest
import trio

from memfs.model.errors import InvalidRequest, MemfsError, NotSupported, PermissionDenied, Unavailable
from memfs.model.objects import ApiActor, SessionActor, UserActor
from memfs.stores.open import default_url, open_service
from memfs.stores.sql import SqlDatabase, SqlMemoryStore
from tests.contract.reading import listed, versions

ACTOR = UserActor(user_id="user_1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "directory" / "memories.db"


@pytest.fixture
async def service(path: Path) -> AsyncIterator[SqlMemoryStore]:
    database = await SqlDatabase.open(f"sqlite:///{path}")
    yield database.store_service(ACTOR)
    await database.aclose()


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_only_the_user_can_read_the_file(path: Path) -> None:
    previous = os.umask(0)
    try:
        database = await SqlDatabase.open(f"sqlite:///{path}")
        await database.store_service(ACTOR).create_store("Notes")
    finally:
        os.umask(previous)
    assert _mode(path.parent) == 0o700
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["memories.db", "memories.db-shm", "memories.db-wal"]
    assert {_mode(file) for file in files} == {0o600}
    await database.aclose()


async def test_everything_is_there_after_a_reopen(path: Path) -> None:
    database = await SqlDatabase.open(f"sqlite:///{path}")
    service = database.store_service(ACTOR)
    store = await service.create_store("Notes")
    memory = await service.create_memory(store.id, "/a", "one")
    await database.aclose()
    again = await open_service(f"sqlite:///{path}", actor=ACTOR)
    assert (await again.retrieve_memory(store.id, memory.id)).content == "one"
    await again.aclose()


async def test_the_default_database_is_in_the_data_directory() -> None:
    url = default_url()
    assert url.startswith(f"sqlite:///{os.environ['XDG_DATA_HOME']}/memfs/")


async def test_the_path_is_taken_literally(tmp_path: Path) -> None:
    for name in ("a b.db", "q?mode=ro.db", "%41.db", "#.db", "é.db"):
        database = await SqlDatabase.open(f"sqlite:///{tmp_path}/{name}")
        await database.aclose()
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:relative.db"])
async def test_a_url_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="sqlite:///PATH"):
        await open_service(url, actor=ACTOR)


@pytest.mark.parametrize("url", ["mysql://user:secret@host/db", "/just/a/path", "", "ftp://x"])
async def test_an_unknown_kind_of_url_names_the_known_ones(url: str) -> None:
    with pytest.raises(InvalidRequest, match="sqlite:, postgresql:, https:, http:") as refusal:
        await open_service(url, actor=ACTOR)
    assert "secret" not in refusal.value.message


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("These are my notes, and they are no database at all.\n" * 100)
    before = file.read_bytes()
    with pytest.raises(InvalidRequest, match="is not a database"):
        await SqlDatabase.open(f"sqlite:///{file}")
    assert file.read_bytes() == before


async def test_another_programs_database(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE albums (title TEXT)")
    other.close()
    before = file.read_bytes()
    with pytest.raises(InvalidRequest, match="another program's database"):
        await SqlDatabase.open(f"sqlite:///{file}")
    assert file.read_bytes() == before


async def test_a_database_of_a_newer_version(path: Path) -> None:
    await (await SqlDatabase.open(f"sqlite:///{path}")).aclose()
    newer = sqlite3.connect(path)
    with newer:
        newer.execute("UPDATE memfs_schema SET version = 99")
    newer.close()
    with pytest.raises(InvalidRequest, match="version 99"):
        await SqlDatabase.open(f"sqlite:///{path}")


async def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="is not a file"):
        await SqlDatabase.open(f"sqlite:///{tmp_path}")


async def test_a_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MemfsError, match=r"cannot be created \((File exists|Not a directory)\)"):
        await SqlDatabase.open(f"sqlite:///{tmp_path / 'file' / 'memories.db'}")


async def test_a_library_that_is_too_old(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    with pytest.raises(NotSupported, match=r"needs 3\.35\.0"):
        await SqlDatabase.open(f"sqlite:///{path}")


async def test_a_driver_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith(("psycopg", "memfs.stores.sql.postgresql"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(NotSupported, match=r"install memfs\[postgresql\]"):
        await open_service("postgresql://memfs@127.0.0.1/memfs", actor=ACTOR)


def _open_as_nobody(file: Path, own: Path) -> str:
    """The error that an unprivileged user gets; `own` is a file that may be made."""
    program = """
import os, sys, trio
from memfs.model.errors import MemfsError
from memfs.stores.sql import SqlDatabase

async def try_to_open(path):
    await (await SqlDatabase.open("sqlite:///" + path)).aclose()

trio.run(try_to_open, sys.argv[2])  # Imports all that it needs while it may read it.
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    trio.run(try_to_open, sys.argv[1])
except MemfsError as error:
    print(type(error).__name__, error.message)
"""
    command = [sys.executable, "-c", program, str(file), str(own)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_a_file_that_may_not_be_written(path: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "memories.db"
    file.touch()
    file.chmod(0o444)
    assert _open_as_nobody(file, path).startswith(f"{PermissionDenied.__name__} {file} may not be read and written")


def test_a_directory_that_may_not_be_written(path: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    tmp_path.chmod(0o755)
    expected = f"{PermissionDenied.__name__} the database {closed / 'memories.db'} cannot be created"
    assert _open_as_nobody(closed / "memories.db", path).startswith(expected)


async def test_another_process_that_holds_the_lock_does_not_block_the_loop(path: Path, service: SqlMemoryStore) -> None:
    store = await service.create_store("Notes")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.01)
            ticks += 1

    created = trio.Event()

    async def create() -> None:
        await service.create_memory(store.id, "/a", "")
        created.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        nursery.start_soon(create)
        await trio.sleep(0.3)
        # Reading goes on beside a writer.
        assert await listed(service, store) == []
        waited = ticks
        holder.execute("ROLLBACK")
        with trio.fail_after(5):
            await created.wait()
        nursery.cancel_scope.cancel()
    assert [item.path for item in await listed(service, store)] == ["/a"]
    holder.close()
    assert waited > 10


@pytest.mark.parametrize("threads", [False, True])
async def test_a_lock_that_is_never_released_ends_in_an_error(path: Path, threads: bool) -> None:
    database = await SqlDatabase.open(f"sqlite:///{path}", threads=threads, timeout=0.3)
    service = database.store_service(ACTOR)
    store = await service.create_store("Notes")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        await service.create_memory(store.id, "/a", "")
    holder.close()
    await service.create_memory(store.id, "/a", "")
    assert len(await versions(service, store)) == 1
    await database.aclose()


async def test_a_failed_write_leaves_nothing(path: Path, service: SqlMemoryStore) -> None:
    store = await service.create_store("Notes")
    await service.create_memory(store.id, "/a", "one")
    usage = await service.usage(store.id)
    saboteur = sqlite3.connect(path)
    # The last statement of a create fails, as on a full disk.
    with saboteur:
        saboteur.execute("CREATE TRIGGER full BEFORE INSERT ON memory_versions BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(Unavailable):
        await service.create_memory(store.id, "/b", "two")
    with saboteur:
        saboteur.execute("DROP TRIGGER full")
    saboteur.close()
    assert await service.usage(store.id) == usage
    assert [item.path for item in await listed(service, store)] == ["/a"]
    await service.create_memory(store.id, "/b", "two")


async def test_redacted_bytes_are_nowhere_in_the_files(path: Path, service: SqlMemoryStore) -> None:
    store = await service.create_store("Notes")
    secret = "correct horse battery staple " * 1000
    small = "tr0ub4dor and 3"
    for number, content in enumerate((secret, small)):
        memory = await service.create_memory(store.id, f"/{number}", content)
        await service.update_memory(store.id, memory.id, content="public")
        await service.redact_version(store.id, memory.memory_version_id)
    await service.create_memory(store.id, "/kept", "kept in the file")
    found = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"battery staple" not in found
    assert b"tr0ub4dor" not in found
    assert b"kept in the file" in found


async def test_redaction_waits_for_a_reader(path: Path, service: SqlMemoryStore) -> None:
    store = await service.create_store("Notes")
    memory = await service.create_memory(store.id, "/a", "correct horse battery staple")
    await service.update_memory(store.id, memory.id, content="public")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM memories").fetchall()

    async def stop_reading() -> None:
        await trio.sleep(0.2)
        reader.execute("COMMIT")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_reading)
        await service.redact_version(store.id, memory.memory_version_id)
    reader.close()
    assert b"battery staple" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


async def test_bytes_of_a_deleted_store_are_nowhere_in_the_files(path: Path, service: SqlMemoryStore) -> None:
    store = await service.create_store("Notes")
    for number in range(30):
        await service.create_memory(store.id, f"/{number}", "correct horse battery staple " * 200)
    await service.delete_store(store.id)
    found = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"battery staple" not in found


_WORKER = """
import sys, trio
from memfs.model.errors import PreconditionFailed
from memfs.model.objects import SessionActor
from memfs.stores.sql import SqlDatabase

async def main(url, name, number, counter_id):
    database = await SqlDatabase.open(url)
    service = database.store_service(SessionActor(session_id="sesn_" + name))
    store = (await service.list_stores()).data[0]
    for one in range(int(number)):
        await service.create_memory(store.id, f"/{name}/{one}", name)
        while True:
            head = await service.retrieve_memory(store.id, counter_id)
            # Named, since an update to what is stored already succeeds whatever was expected.
            content = f"{int(head.content.split()[0]) + 1} {name}"
            try:
                await service.update_memory(store.id, counter_id, content=content, precondition=head.content_sha256)
                break
            except PreconditionFailed:
                continue
    await database.aclose()

trio.run(main, *sys.argv[1:])
"""


async def test_processes_at_full_speed_lose_nothing(path: Path, service: SqlMemoryStore) -> None:
    number, names = 150, ("a", "b", "c")
    store = await service.create_store("Notes")
    counter = await service.create_memory(store.id, "/counter", "0")
    command = [sys.executable, "-c", _WORKER, f"sqlite:///{path}"]
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(partial(trio.run_process, [*command, name, str(number), counter.id]))
    content = (await service.retrieve_memory(store.id, counter.id)).content
    assert content is not None
    assert content.split()[0] == str(number * len(names))
    for name in names:
        assert len(await versions(service, store, session_id=f"sesn_{name}")) == 2 * number
    everything = await versions(service, store, limit=1000)
    assert len(everything) == 1 + 2 * number * len(names)
    times = [version.created_at for version in everything]
    assert len(set(times)) == len(times)
    assert times == sorted(times, reverse=True)
    usage = await service.usage(store.id)
    assert usage.memories == 1 + number * len(names)


def test_processes_that_open_a_new_database_at_once(path: Path) -> None:
    program = """
import sys, trio
from memfs.model.objects import UserActor
from memfs.stores.sql import SqlDatabase

async def main(url, name):
    database = await SqlDatabase.open(url)
    await database.store_service(UserActor(user_id="user_1")).create_store(name)
    await database.aclose()

sys.stdin.read(1)
trio.run(main, *sys.argv[1:])
"""
    command = [sys.executable, "-c", program, f"sqlite:///{path}"]
    processes = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stderr=subprocess.PIPE) for number in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()  # go
        process.stdin = None
    for process in processes:
        _, errors = process.communicate()
        assert (process.returncode, errors) == (0, b"")

    async def names() -> set[str]:
        service = await open_service(f"sqlite:///{path}", actor=ACTOR)
        try:
            return {store.name for store in (await service.list_stores()).data}
        finally:
            await service.aclose()

    assert trio.run(names) == {"0", "1", "2", "3"}


def test_commits_survive_kill(path: Path) -> None:
    program = """
import os, signal, sys, trio
from memfs.model.objects import UserActor
from memfs.stores.sql import SqlDatabase

async def main(url):
    database = await SqlDatabase.open(url)
    service = database.store_service(UserActor(user_id="user_1"))
    store = await service.create_store("Notes")
    for number in range(50):
        await service.create_memory(store.id, f"/{number}", "kept")
    os.kill(os.getpid(), signal.SIGKILL)

trio.run(main, *sys.argv[1:])
"""
    killed = subprocess.run([sys.executable, "-c", program, f"sqlite:///{path}"], check=False)
    assert killed.returncode == -9

    async def count() -> int:
        service = await open_service(f"sqlite:///{path}", actor=ACTOR)
        try:
            (store,) = (await service.list_stores()).data
            return len(await listed(service, store))
        finally:
            await service.aclose()

    assert trio.run(count) == 50


@pytest.mark.parametrize("threads", [False, True])
def test_it_runs_under_asyncio(path: Path, threads: bool) -> None:
    async def main() -> list[str]:
        database = await SqlDatabase.open(f"sqlite:///{path}", threads=threads)
        service = database.store_service(SessionActor(session_id="sesn_1"))
        store = await service.create_store("Notes")

        async def create(path: str) -> None:
            await service.create_memory(store.id, path, "")

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(create, f"/{number}")
        await service.sync()
        found = [item.path for item in await listed(service, store)]
        await database.aclose()
        return found

    assert anyio.run(main, backend="asyncio") == [f"/{number}" for number in range(10)]


async def test_actors_share_one_open_database(path: Path) -> None:
    database = await SqlDatabase.open(f"sqlite:///{path}")
    first = database.store_service(ApiActor(api_key_id="apikey_1"))
    second = database.store_service(SessionActor(session_id="sesn_1"))
    store = await first.create_store("Notes")
    await first.aclose()
    memory = await second.create_memory(store.id, "/a", "")
    (version,) = await versions(second, store)
    assert version.created_by == SessionActor(session_id="sesn_1")
    assert version.id == memory.memory_version_id
    await database.aclose()
