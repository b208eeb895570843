"""On this machine: memfs over its own database beside the floor, libfuse's C example and tmpfs.

All are mounted at once and measured in turn, round after round, so that whatever else the machine does meets each of them; the
median of the rounds counts, and only as a ratio.
"""

import contextlib
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench import running, stores, subjects
from scripts.bench.running import Mounted
from scripts.bench.tree import Tree
from scripts.bench.workloads import CALLS, WALKS

FLOOR, BARE_FLOOR = "floor", "floor --no-xattr"
MEMFS, BARE_MEMFS = "memfs", "memfs --no-xattr"
PASSTHROUGH, TMPFS = "passthrough_ll", "tmpfs"
SUBJECTS = (TMPFS, PASSTHROUGH, BARE_FLOOR, BARE_MEMFS, FLOOR, MEMFS)


def compare(work: Path, tree: Tree, *, rounds: int, count: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Milliseconds of each walk, cold and warm, and microseconds of each call, for each subject and round.

    `processor` has the same of the warm ones in processor time of client and file system together.
    """
    warm: dict[str, dict[str, list[float]]] = {name: {walk: [] for walk in WALKS} for name in SUBJECTS}
    cold: dict[str, dict[str, list[float]]] = {name: {walk: [] for walk in WALKS} for name in (PASSTHROUGH, FLOOR, MEMFS)}
    calls: dict[str, dict[str, list[list[float]]]] = {name: {} for name in SUBJECTS}
    processor: dict[str, dict[str, list[float]]] = {name: {} for name in SUBJECTS}
    with contextlib.ExitStack() as stack:
        mounted = {name: stack.enter_context(subject(name, work, tree)) for name in SUBJECTS}
        for number in range(rounds):
            say(f"local, round {number + 1} of {rounds}")
            for name, mount in mounted.items():
                measured = run(mount, tree, "--walks", "all", "--passes", "2")
                for walk in WALKS:
                    warm[name][walk].append(measured["walks"][walk][1])
                    processor[name].setdefault(walk, []).append(measured["walks_cpu"][walk][1])
            for name, mount in mounted.items():
                measured = run(mount, tree, "--calls", "all", "--count", str(count))
                for call in CALLS:
                    times = sorted(measured["calls"][call])
                    calls[name].setdefault(call, []).append([times[len(times) // 2], times[int(len(times) * 0.99)]])
                    processor[name].setdefault(call, []).append(measured["calls_cpu"][call][0])
    for name, walks in cold.items():
        say(f"local, {name} cold")
        for walk in walks:
            for _ in range(max(1, rounds // 2)):
                with subject(name, work, tree) as fresh:
                    walks[walk].append(run(fresh, tree, "--walks", walk)["walks"][walk][0])
    shape = {"notes": tree.notes, "directories": tree.directories}
    return {**shape, "warm_ms": warm, "cold_ms": cold, "calls_us": calls, "processor": processor}


def run(mount: Mounted, tree: Tree, *arguments: str) -> dict[str, Any]:
    """What the workloads print that run on a mount, in a process of their own on the processor of the file system."""
    shape = ["--notes", str(tree.notes), "--directories", str(tree.directories), "--projects", str(tree.projects)]
    process = ["--pid", str(mount.pid)] if mount.pid else []
    printed = running.run(running.module("workloads", mount.directory, *shape, *process, *arguments))
    answer: dict[str, Any] = json.loads(printed)
    return answer


_filled: dict[str, str] = {}


@contextlib.contextmanager
def subject(name: str, work: Path, tree: Tree) -> Iterator[Mounted]:
    """One of `SUBJECTS` with the tree in it, freshly mounted."""
    with contextlib.ExitStack() as stack:
        if name == TMPFS:
            directory = stack.enter_context(subjects.memory_directory())
            tree.write(directory)
            yield Mounted(directory, directory, 0, 0)
        elif name == PASSTHROUGH:
            directory = stack.enter_context(subjects.memory_directory())
            tree.write(directory)
            yield stack.enter_context(subjects.passthrough(work, directory))
        elif name in (FLOOR, BARE_FLOOR):
            yield stack.enter_context(subjects.floor(work, tree, xattr=name == FLOOR))
        else:
            url = f"sqlite:///{work / name.replace(' ', '')}.db"
            if url not in _filled:
                _filled[url] = stores.fill(url, tree)
            options = ["--no-xattr"] if name == BARE_MEMFS else []
            yield stack.enter_context(stores.mount(work, url, _filled[url], *options))


def median_of_ratios(values: list[float], base: list[float]) -> float:
    return statistics.median(value / other for value, other in zip(values, base, strict=True))
