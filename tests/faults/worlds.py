"""A server, a bad network before it, and mounts of it; and the questions that every test here asks in the end."""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memfs.model.ids import SessionId
from memfs.model.objects import MemoryVersion
from tests.faults.proxy import Proxy, proxying
from tests.harness.inspector import Database, Inspector
from tests.harness.mounts import Mount, launch, new_database
from tests.harness.serving import ServerProcess, serving
from tests.harness.waiting import eventually


def rounds(name: str, quick: int) -> int:
    """How often a test repeats: `quick` times, or what the environment says under ``TEST_SOAK_<name>``."""
    return int(os.environ.get(f"TEST_SOAK_{name}", str(quick)))


@dataclass
class World:
    """One store behind `memfs serve` behind a proxy."""

    root: Path
    server: ServerProcess
    proxy: Proxy
    store: Inspector
    """The store in the server's database, past server and proxy."""

    @contextlib.contextmanager
    def mount(
        self, name: str = "m", *options: str, direct: bool = False, session: dict[str, Any] | None = None
    ) -> Iterator[Mount]:
        """A mount by a session of its own unless one is given, through the proxy unless `direct`."""
        session = session or self.server.create_session(self.store.id)
        url = self.server.url if direct else self.proxy.url
        with launch(
            self.root,
            self.store,
            database=Database(url),
            name=name,
            options=options,
            environment={"MEMFS_AUTH_TOKEN": session["token"]},
            session_id=SessionId(session["id"]),
        ) as mount:
            yield mount


@contextlib.contextmanager
def world(root: Path) -> Iterator[World]:
    database = new_database(root)
    store = database.create_store("Notes")
    with serving(database.url, root) as server, proxying(server.url) as proxy:
        yield World(root, server, proxy, store)


def status(mount: Mount) -> dict[str, Any]:
    """What the mount says of its first store."""
    found: dict[str, Any] = json.loads((mount.path / ".memfs" / "status.json").read_bytes())["stores"][0]
    return found


def drained(mount: Mount, *, within: float) -> float:
    """Wait until nothing waits to be stored; return how long that took."""
    return eventually(lambda: status(mount)["pending"], 0, within=within)


def lines_of(mount: Mount, name: str) -> list[dict[str, Any]]:
    """The lines of `.memfs/errors` or `.memfs/conflicts`."""
    return [json.loads(line) for line in (mount.path / ".memfs" / name).read_text().splitlines()]


def no_version_twice(history: Sequence[MemoryVersion]) -> None:
    """No version repeats the one before it, as a retry of something that was applied would make it."""
    last: dict[str, tuple[str | None, str | None, str]] = {}
    for version in history:
        now = (version.path, version.content_sha256, version.operation)
        before = last.get(version.memory_id)
        assert before is None or now[:2] != before[:2], f"{version.id} repeats the version before it: {now}"
        last[version.memory_id] = now


def each_content_once(history: Sequence[MemoryVersion]) -> None:
    """For tests that never write the same bytes twice: each was stored once."""
    content = Counter((version.memory_id, version.content_sha256) for version in history if version.operation != "deleted")
    assert not [one for one, times in content.items() if times > 1]
