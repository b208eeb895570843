"""memfs's own side of the bench: databases with trees in them, `memfs serve`, and mounts of both."""

import contextlib
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trio

from memfs.model.ids import new_session_id
from memfs.model.objects import SessionActor
from memfs.stores.sql import SqlDatabase, SqlMemoryStore
from scripts.bench import running
from scripts.bench.running import SERVER_CPU, Command, Failed, Mounted
from scripts.bench.tree import Tree

MEMFS = running.ROOT / ".venv" / "bin" / "memfs"
STORE = "Bench"
DIRECTORY = "bench"
"""The store's directory on a mount."""
MAX_MEMORIES = 1_000_000


def fill(url: str, tree: Tree) -> str:
    """The id of a new store, called `STORE`, that holds `tree`; straight into the database."""

    async def main() -> str:
        database = await SqlDatabase.open(url, max_memories=MAX_MEMORIES)
        service = SqlMemoryStore(database, SessionActor(session_id=new_session_id()), owns_database=True)
        try:
            store = await service.create_store(STORE)
            for number in range(tree.notes):
                await service.create_memory(store.id, f"/{tree.path(number)}", tree.text(number))
            return store.id
        finally:
            await service.aclose()

    return trio.run(main)


def memfs(*arguments: str | Path) -> str:
    """What one command of ours prints."""
    return running.run([MEMFS, *arguments])


@dataclass
class Served:
    """A `memfs serve` with one store that holds `tree`."""

    port: int
    database: str
    store: str
    key: str
    """The secret of an API key."""
    pid: int
    tree: Tree

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def serve(work: Path, tree: Tree, *, database: str | None = None, store: str | None = None) -> Iterator[Served]:
    """A server on a free port, of `database` with its `store`, else of a new database."""
    work.mkdir(parents=True, exist_ok=True)
    if database is None or store is None:
        database = f"sqlite:///{work / 'served.db'}"
        store = fill(database, tree)
    command: list[str | Path] = [MEMFS, "serve", "--listen", "127.0.0.1:0", "--url", database, "--no-access-log"]
    command += ["--max-memories", str(MAX_MEMORIES)]
    log = work / "serve.log"
    home = running.environment(work / "home")
    key = json.loads(memfs("keys", "create", "bench", "--json", "--url", database))["key"]
    with running.program(command, log, cpu=SERVER_CPU, variables=home, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        if not line.startswith("listening on http://"):
            raise Failed(f"memfs serve did not start: {log.read_text()[-500:]}")
        yield Served(int(line.rpartition(":")[2]), database, store, key, process.pid, tree)


@contextlib.contextmanager
def mount(
    work: Path, url: str, store: str, *options: str, key: str | None = None, home: Path | None = None
) -> Iterator[Mounted]:
    """A mount of one store; `home` is where caches and local state are, a new place when it is not given."""
    home = home or _unused(work, "home")
    mountpoint = _unused(work, "memfs")
    mountpoint.mkdir(parents=True)
    command: Command = [MEMFS, "mount", "--foreground", "--url", url, "--store", store, *options, mountpoint]
    log = work / "memfs.log"
    variables = running.environment(home) | ({"MEMFS_API_KEY": key} if key is not None else {})
    with running.mount(command, mountpoint, log, variables=variables, ready_line=True, ends_by_signal=True) as mounted:
        mounted.directory = mountpoint / DIRECTORY
        yield mounted


def _unused(work: Path, name: str) -> Path:
    number = 0
    while (work / f"{name}-{number}").exists():
        number += 1
    return work / f"{name}-{number}"


def requests(mounted: Mounted) -> Counter[str]:
    """What the mount has asked its service so far, by method."""
    status = json.loads((mounted.mountpoint / ".memfs" / "status.json").read_text())
    return Counter(status["stores"][0]["requests"])


@contextlib.contextmanager
def counted(mounted: Mounted, into: dict[str, int]) -> Iterator[None]:
    """Put the requests of the block into `into`, but for those of the change feed, which come by themselves: `polls`."""
    before = requests(mounted)
    yield
    made = requests(mounted) - before
    polls = made.pop("list_versions", 0)
    into.update(made)
    if polls:
        into["polls"] = polls
