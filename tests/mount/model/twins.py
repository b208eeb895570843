"""A mount and a plain directory side by side: every call is made in both, and both must answer and look the same."""

import itertools
import os
from pathlib import Path
from typing import Any

from tests.mount.model.worker import Hands, Outcome, Worker

MOUNT = "mount"
PLAIN = "plain"
PROCESSES = 2


class Differs(AssertionError):
    """The two directories do not agree."""


class Twins:
    def __init__(self, on_mount: Path, on_disk: Path) -> None:
        self.roots = {MOUNT: on_mount, PLAIN: on_disk}
        for root in self.roots.values():
            root.mkdir()
        self.workers = [Worker(self.roots) for _ in range(PROCESSES)]
        self.slots = itertools.count()
        self.open_slots: list[tuple[int, int]] = []
        """Worker and slot of every open descriptor."""
        self.mapped: list[tuple[int, int, int]] = []
        """Worker, slot and size of every mapping."""
        self.story: list[str] = []

    def do(self, worker: int, name: str, *arguments: Any) -> Outcome:
        """Make a call in both; raises `Differs` when the outcomes do, or what there is afterwards."""
        self.story.append(f"{worker}: {name}{arguments!r}")
        outcomes = self.workers[worker].do(name, *arguments)
        if outcomes[MOUNT] != outcomes[PLAIN]:
            raise Differs(self.told(f"{name}{arguments!r}", outcomes[MOUNT], outcomes[PLAIN]))
        self.check()
        return outcomes[MOUNT]

    def open(self, worker: int, path: str, flags: int, mode: int = 0o644) -> None:
        slot = next(self.slots)
        if self.do(worker, "open", slot, path, flags, mode)[0] == "ok":
            self.open_slots.append((worker, slot))

    def dup(self, place: int) -> None:
        worker, slot = self.open_slots[place]
        new_slot = next(self.slots)
        if self.do(worker, "dup", slot, new_slot)[0] == "ok":
            self.open_slots.append((worker, new_slot))

    def close(self, place: int) -> None:
        worker, slot = self.open_slots.pop(place)
        self.do(worker, "close", slot)

    def with_descriptor(self, place: int, name: str, *arguments: Any) -> Outcome:
        worker, slot = self.open_slots[place]
        return self.do(worker, name, slot, *arguments)

    def map(self, place: int, size: int) -> None:
        worker, slot = self.open_slots[place]
        new_slot = next(self.slots)
        if self.do(worker, "map", slot, new_slot, size)[0] == "ok":
            self.mapped.append((worker, new_slot, size))

    def unmap(self, place: int) -> None:
        worker, slot, _ = self.mapped.pop(place)
        self.do(worker, "unmap", slot)

    def check(self) -> None:
        """Raise `Differs` unless both trees, and what every descriptor shows, are equal."""
        shapes = {world: shape(root) for world, root in self.roots.items()}
        if shapes[MOUNT] != shapes[PLAIN]:
            both = sorted(shapes[MOUNT].keys() | shapes[PLAIN].keys())
            odd = [path for path in both if shapes[MOUNT].get(path) != shapes[PLAIN].get(path)]
            found = {path: _short(shapes[MOUNT].get(path)) for path in odd}
            expected = {path: _short(shapes[PLAIN].get(path)) for path in odd}
            raise Differs(self.told("the trees", found, expected))
        for number, worker in enumerate(self.workers):
            held = worker.do("holds")
            if held[MOUNT] != held[PLAIN]:
                raise Differs(self.told(f"what process {number} holds open", held[MOUNT], held[PLAIN]))

    def told(self, what: str, found: object, expected: object) -> str:
        return f"{what}: {found!r} on the mount, {expected!r} on the disk, after\n" + "\n".join(self.story)

    def end(self) -> dict[str, str]:
        """Close everything, compare once more, and return what the store must hold now: names and contents."""
        self.story.append("the end")
        for worker in self.workers:
            worker.do("close_all")
        self.open_slots.clear()
        self.mapped.clear()
        self.check()
        return {path: entry[3].decode() for path, entry in shape(self.roots[PLAIN]).items() if entry[3] is not None}

    def stop(self) -> None:
        for worker in self.workers:
            worker.end()


Entry = tuple[int, int, int, bytes | None]


def shape(root: Path) -> dict[str, Entry]:
    """Mode, size, links and content of everything below `root`."""
    hands = Hands(root)
    found: dict[str, Entry] = {}
    for folder, folders, files in os.walk(root):
        inside = os.path.relpath(folder, root)
        for name in folders:
            path = os.path.normpath(f"{inside}/{name}")
            found[path] = (*hands.stat(path), None)
        for name in files:
            path = os.path.normpath(f"{inside}/{name}")
            found[path] = (*hands.stat(path), (root / path).read_bytes())
    return found


def _short(entry: Entry | None) -> object:
    if entry is None or entry[3] is None:
        return entry
    return (oct(entry[0]), *entry[1:3], entry[3] if len(entry[3]) < 60 else entry[3][:50] + b"...")
