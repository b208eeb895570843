"""Fifty clients on one database through two servers: no 5xx, no lost update, every edit in the history once.

`LOAD_SECONDS` says how long, 60 without it and 10 in CI. Latencies are printed (`pytest -s`).
"""

import os
import random
import statistics
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import trio

from memfs.model.content import sha256_of
from memfs.model.errors import ConcurrentModification, PathConflict, PreconditionFailed
from memfs.model.ids import MemoryId, StoreId
from memfs.model.objects import Memory
from memfs.stores.credentials import Credentials
from memfs.stores.managed import ManagedMemoryStore, open_managed
from tests.harness.serving import serving

CLIENTS = 50
SHARED = 10
"""Memories that all clients append to."""
SECONDS = float(os.environ.get("LOAD_SECONDS", "10" if "CI" in os.environ else "60"))


class Load:
    """What the clients did, by their own account."""

    def __init__(self, store: StoreId, shared: list[MemoryId]) -> None:
        self.store = store
        self.shared = shared
        self.appended: dict[MemoryId, list[str]] = defaultdict(list)
        self.private: dict[str, str] = {}
        """Path and content of the memories that only one client each works on."""
        self.written = 0
        """Changes that must be versions."""
        self.latencies: dict[str, list[float]] = defaultdict(list)
        self.refused: Counter[str] = Counter()

    async def client(self, number: int, service: ManagedMemoryStore, until: float) -> None:
        dice = random.Random(number)
        turn = 0
        while trio.current_time() < until:
            turn += 1
            action = dice.choices(["append", "own", "list", "read", "history"], [4, 3, 1, 3, 1])[0]
            began = trio.current_time()
            await getattr(self, action)(service, dice, number, turn)
            self.latencies[action].append(trio.current_time() - began)

    async def append(self, service: ManagedMemoryStore, dice: random.Random, number: int, turn: int) -> None:
        """Read, add a line, write with the precondition; again until it holds."""
        memory_id = dice.choice(self.shared)
        line = f"{number}.{turn}"
        while True:
            memory = await service.retrieve_memory(self.store, memory_id)
            assert memory.content is not None
            try:
                # The oldest lines make room: a lost update shows in the history all the same.
                kept = memory.content.splitlines()[-200:]
                await service.update_memory(
                    self.store, memory_id, content="\n".join([*kept, line]), precondition=memory.content_sha256
                )
            except (PreconditionFailed, ConcurrentModification) as error:
                self.refused[type(error).__name__] += 1
                continue
            self.appended[memory_id].append(line)
            self.written += 1
            return

    async def own(self, service: ManagedMemoryStore, dice: random.Random, number: int, turn: int) -> None:
        """Create, edit, rename and delete memories that are this client's alone."""
        path = f"/own/{number}/{dice.randrange(5)}.md"
        content = f"{number}.{turn} " + "x" * dice.randrange(4_000)
        if path not in self.private:
            await service.create_memory(self.store, path, content)
            self.private[path] = content
            self.written += 1
            return
        try:
            await service.create_memory(self.store, path, content)
        except PathConflict as conflict:
            memory_id = conflict.memory_id
        else:
            raise AssertionError("a create overwrote a memory")
        assert memory_id is not None
        before = sha256_of(self.private[path].encode())
        match dice.randrange(3):
            case 0:
                await service.update_memory(self.store, memory_id, content=content, precondition=before)
                self.private[path] = content
            case 1:
                renamed = f"/own/{number}/{dice.randrange(5)}.renamed.md"
                if renamed in self.private:
                    return
                await service.update_memory(self.store, memory_id, path=renamed)
                self.private[renamed] = self.private.pop(path)
            case _:
                await service.delete_memory(self.store, memory_id, expected_content_sha256=before)
                del self.private[path]
        self.written += 1

    async def list(self, service: ManagedMemoryStore, dice: random.Random, number: int, turn: int) -> None:
        await service.list_memories(self.store, path_prefix=f"/own/{dice.randrange(CLIENTS)}/", depth=1, limit=100)

    async def read(self, service: ManagedMemoryStore, dice: random.Random, number: int, turn: int) -> None:
        await service.retrieve_memory(self.store, dice.choice(self.shared))

    async def history(self, service: ManagedMemoryStore, dice: random.Random, number: int, turn: int) -> None:
        await service.list_versions(self.store, memory_id=dice.choice(self.shared), limit=20)


async def everything(list_page: Any, **parameters: Any) -> list[Any]:
    items: list[Any] = []
    page = None
    while True:
        answer = await list_page(page=page, limit=100, **parameters)
        items += answer.data
        page = answer.next_page
        if page is None:
            return items


async def test_fifty_clients(database: str, tmp_path: Path) -> None:
    with serving(database, tmp_path, "--no-access-log") as first, serving(database, tmp_path, "--no-access-log") as second:
        _, secret = first.create_key()
        credentials = Credentials(environment={"MEMFS_API_KEY": secret})
        # Each client has its own connections, and twice the usual patience: the two cores do all the work here.
        services = [
            await open_managed((first, second)[number % 2].url, credentials=credentials, timeout=16)
            for number in range(CLIENTS)
        ]
        store = (await services[0].create_store("Load")).id
        shared = [(await services[0].create_memory(store, f"/shared/{n}.md", "")).id for n in range(SHARED)]
        load = Load(store, shared)
        began = time.monotonic()
        async with trio.open_nursery() as nursery:
            until = trio.current_time() + SECONDS
            for number, service in enumerate(services):
                nursery.start_soon(load.client, number, service, until)
        seconds = time.monotonic() - began
        await _check(load, services[0])
        requests: Counter[str] = Counter()
        for service in services:
            requests.update(service.requests)
            await service.aclose()
        _report(load, requests, seconds)
        for server in (first, second):
            log = server.log.read_text()
            assert [line for line in log.splitlines() if "created the database" not in line] == []


async def _check(load: Load, service: ManagedMemoryStore) -> None:
    versions = await everything(lambda **q: service.list_versions(load.store, **q))
    assert len(versions) == load.written + SHARED
    assert len({version.created_at for version in versions}) == len(versions)
    heads: list[Memory] = await everything(lambda **q: service.list_memories(load.store, path_prefix="/own/", **q))
    expected = {path: sha256_of(content.encode()) for path, content in load.private.items()}
    assert {head.path: head.content_sha256 for head in heads} == expected
    for memory_id in load.shared:
        # Every version of a shared memory must add exactly the line of one client that was told it was stored.
        history = [v for v in reversed(versions) if v.memory_id == memory_id]
        assert len(history) == len(load.appended[memory_id]) + 1
        lines = (await service.retrieve_memory(load.store, memory_id)).content or ""
        tail = [line for line in lines.splitlines() if line]
        assert len(tail) == len(set(tail)) == min(201, len(load.appended[memory_id]))
        assert set(tail) <= set(load.appended[memory_id])


def _report(load: Load, requests: Counter[str], seconds: float) -> None:
    total = sum(requests.values())
    print(f"\n{CLIENTS} clients, {seconds:.0f} s: {total} requests, {total / seconds:.0f} a second, {load.written} changes")
    for action, times in sorted(load.latencies.items()):
        hundredths = statistics.quantiles(times, n=100)
        print(f"  {action:8} {len(times):6}  median {hundredths[49] * 1000:6.1f} ms  99% {hundredths[98] * 1000:6.1f} ms")
    print(f"  refused preconditions, tried again: {sum(load.refused.values())}")
