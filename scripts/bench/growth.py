"""What a store's size costs: the same looks and saves with 1,000, 10,000 and 100,000 memories, embedded and over `serve`."""

import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.bench import remote, running, stores
from scripts.bench.running import CLIENT_CPU, Failed, Mounted
from scripts.bench.stores import Served
from scripts.bench.tree import AGENTS, Tree
from scripts.bench.workloads import walk

LOOKS = 40
EMBEDDED, OVER_SERVE = "embedded", "serve"


def tree_of(notes: int) -> Tree:
    """Twenty notes to a directory, a hundred directories to a project, and at least two projects: all are of one depth."""
    return Tree(notes, notes // 20, max(2, notes // 2000))


def compare(
    work: Path, sizes: tuple[int, ...], round_trip: float, *, seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Figures by size and kind of store; of the largest also those of the server under load.

    All sizes are mounted at once and looked at in turn, so that whatever else the machine does meets each of them.
    """
    figures: dict[int, dict[str, Any]] = {}
    with contextlib.ExitStack() as stack:
        servers: dict[int, Served] = {}
        places: list[Place] = []
        for notes in sizes:
            say(f"growth: filling a store with {notes:,} memories")
            tree, place = tree_of(notes), work / f"growth-{notes}"
            place.mkdir()
            url = f"sqlite:///{place / 'stores.db'}"
            began = time.monotonic()
            store = stores.fill(url, tree)
            figures[notes] = {"fill_s": time.monotonic() - began}
            servers[notes] = served = stack.enter_context(stores.serve(place, tree, database=url, store=store))
            embedded = stack.enter_context(stores.mount(place, url, store))
            over = stack.enter_context(stores.mount(place, served.url, store, key=served.key))
            places += [Place(EMBEDDED, embedded, tree), Place(OVER_SERVE, over, tree)]
        say("growth: looks and saves")
        for turn in range(LOOKS):
            for one in places:
                one.look(turn)
        for one in places:
            say(f"growth: a walk through {one.tree.notes:,}, {one.kind}")
            figures[one.tree.notes][one.kind] = one.figures()
        for notes, served in servers.items():
            say(f"growth: `memfs mount` of {notes:,}")
            figures[notes]["usable"] = remote.usable(work / f"growth-{notes}", served, round_trip, 3)
            figures[notes]["server_mb"] = running.resident_mb(served.pid)
    notes = max(sizes)
    say(f"growth: 200 requests a second on {notes:,} memories")
    largest = servers[notes]
    with stores.serve(work / "loaded", largest.tree, database=largest.database, store=largest.store) as served:
        loaded = {"notes": notes, **load(served, seconds), "server_mb": running.resident_mb(served.pid)}
    by_size = {str(notes): of_size for notes, of_size in figures.items()}
    return {"sizes": by_size, "round_trip_ms": round_trip * 1000, "load": loaded}


@dataclass
class Place:
    """A mount of one size and kind, and milliseconds of what was done there."""

    kind: str
    mount: Mounted
    tree: Tree
    listed: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    saved: list[float] = field(default_factory=list)

    def look(self, turn: int) -> None:
        """List a directory and read a note of another one, both not looked at before; save that note, and put it back."""
        tree = self.tree
        # All in the first project, so that the names above are known after the first look, whatever the size.
        of_project = range(0, tree.directories, tree.projects)
        if 2 * turn + 1 >= len(of_project):
            return
        first, second = of_project[2 * turn], of_project[2 * turn + 1]
        with timed(self.listed):
            names = os.listdir((self.mount.directory / tree.path(first)).parent)
        if len(names) != tree.notes // tree.directories:
            raise Failed(f"{len(names)} names in a directory of {tree.notes // tree.directories}")
        note = self.mount.directory / tree.path(second)
        with timed(self.read):
            content = note.read_text()
        if content != tree.text(second):
            raise Failed(f"{note} has another content")
        with timed(self.saved):
            note.write_text("saved\n")
        note.write_text(content)

    def figures(self) -> dict[str, float]:
        """Medians of the looks; seconds of a walk and of reading as much as the agents' tree has, MB after that."""
        looks = {"ls_ms": self.listed, "cat_ms": self.read, "save_ms": self.saved}
        figures = {name: statistics.median(times) for name, times in looks.items()}
        figures["ready_ms"] = self.mount.ready_ms
        figures["find_s"] = walk("find", self.mount.directory, self.tree) / 1000
        began = time.monotonic()
        for number in range(min(AGENTS.notes, self.tree.notes)):
            (self.mount.directory / self.tree.path(number)).read_bytes()
        figures["read_s"] = time.monotonic() - began
        return {**figures, "resident_mb": running.resident_mb(self.mount.pid)}


def load(served: Served, seconds: float) -> dict[str, Any]:
    arguments = (served.url, served.store, "--rate", "200", "--seconds", f"{seconds:g}")
    printed = running.run(running.module("load", *arguments), cpu=CLIENT_CPU, variables={"PEER_KEY": served.key})
    answer: dict[str, Any] = json.loads(printed)
    return answer


@contextlib.contextmanager
def timed(into: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    into.append((time.perf_counter() - began) * 1000)
