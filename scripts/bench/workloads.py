"""What an agent does to a directory, and how long it takes: for any directory, on any file system.

    python -m scripts.bench.workloads DIRECTORY --fill              write the tree first
    python -m scripts.bench.workloads DIRECTORY --walks find,grep   pass over the whole tree, times in milliseconds
    python -m scripts.bench.workloads DIRECTORY --calls stat,save   single calls, times in microseconds

With --pid, the process of the file system, also the processor time of each, its own and the client's: what a busy machine
changes least.

Prints one JSON object. A pass that does not see every note, and a call that fails, end the program with an error: what is fast
because it did nothing is not counted. Standard library only.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.bench.tree import NEEDLE, NOTE_BYTES, Tree, text

APPENDED = b"- one more line that an agent adds to a note at the end of its turn\n"


class Wrong(Exception):
    """A workload did not see, or did not do, what it should."""


# Passes over the whole tree


def _run(directory: Path, *command: str) -> bytes:
    result = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, check=False)
    if result.returncode not in (0, 1):  # grep answers 1 where it finds nothing
        raise Wrong(f"{command[0]} ended with {result.returncode}")
    return result.stdout


def _expect(what: str, seen: int, expected: int) -> None:
    if seen != expected:
        raise Wrong(f"{what}: {seen} seen, {expected} expected")


def find(directory: Path, tree: Tree) -> None:
    found = _run(directory, "find", ".", "-name", "note-*", "-type", "f")
    _expect("find", found.count(b"\n"), tree.notes)


def ls(directory: Path, tree: Tree) -> None:
    listed = _run(directory, "ls", "-lR", ".")
    _expect("ls -lR", listed.count(b" note-"), tree.notes)


def grep(directory: Path, tree: Tree) -> None:
    found = _run(directory, "grep", "-r", NEEDLE, ".")
    _expect("grep -r", found.count(b"\n"), tree.needles)


def cat(directory: Path, tree: Tree) -> None:
    command = "find . -name 'note-*' -type f -print0 | xargs -0 cat | wc -c"
    _expect("cat", int(_run(directory, "sh", "-c", command)), tree.notes * NOTE_BYTES)


WALKS: dict[str, Callable[[Path, Tree], None]] = {"find": find, "ls -lR": ls, "grep -r": grep, "cat all": cat}


def processor_us(pid: int | None) -> float:
    """Microseconds of processor time that this process, what it ran, and the process `pid` have used so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time_ns() / 1e3 + (children.ru_utime + children.ru_stime) * 1e6
    if pid is not None:
        for task in Path(f"/proc/{pid}/task").iterdir():
            used += int((task / "schedstat").read_text().split()[0]) / 1e3
    return used


def walk(name: str, directory: Path, tree: Tree) -> float:
    """Milliseconds of one pass. Raises `Wrong`."""
    began = time.perf_counter_ns()
    WALKS[name](directory, tree)
    return (time.perf_counter_ns() - began) / 1e6


# Single calls


class Calls:
    """Each method is one thing that an agent's tool does, in a directory beside the tree. The turn numbers the calls."""

    def __init__(self, directory: Path, tree: Tree, count: int) -> None:
        self.own = tempfile.mkdtemp(prefix="bench-calls-", dir=directory)
        chosen = random.Random(7).sample(range(tree.notes), min(count, tree.notes))
        self.notes = [str(directory / tree.path(number)) for number in chosen]
        self.content = text(1).encode()
        self.other = text(2).encode()

    def note(self, turn: int) -> str:
        return self.notes[turn % len(self.notes)]

    def stat(self, turn: int) -> None:
        os.stat(self.note(turn))

    def read(self, turn: int) -> None:
        descriptor = os.open(self.note(turn), os.O_RDONLY)
        content = os.read(descriptor, 65536)
        os.close(descriptor)
        if len(content) != NOTE_BYTES:
            raise Wrong(f"{self.note(turn)} has {len(content)} bytes")

    def missing(self, turn: int) -> None:
        try:
            os.stat(f"{self.own}/missing-{turn}.md")
        except FileNotFoundError:
            return
        raise Wrong("a missing name was found")

    def create(self, turn: int) -> None:
        self._write(f"{self.own}/n{turn}.md", os.O_CREAT | os.O_EXCL, self.content)

    def save(self, turn: int) -> None:
        self._write(f"{self.own}/n{turn}.md", os.O_TRUNC, self.other)

    def append(self, turn: int) -> None:
        self._write(f"{self.own}/n{turn}.md", os.O_APPEND, APPENDED)

    def atomic(self, turn: int) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self.own)
        os.write(descriptor, self.content)
        os.close(descriptor)
        os.replace(temporary, f"{self.own}/n{turn}.md")

    def rename(self, turn: int) -> None:
        os.rename(f"{self.own}/n{turn}.md", f"{self.own}/r{turn}.md")

    def unlink(self, turn: int) -> None:
        os.unlink(f"{self.own}/r{turn}.md")

    def mkdir(self, turn: int) -> None:
        os.mkdir(f"{self.own}/d{turn}")

    def rmdir(self, turn: int) -> None:
        os.rmdir(f"{self.own}/d{turn}")

    @staticmethod
    def _write(path: str, flags: int, content: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | flags, 0o644)
        os.write(descriptor, content)
        os.close(descriptor)


CALLS = ("stat", "read", "missing", "create", "save", "append", "atomic", "rename", "unlink", "mkdir", "rmdir")
"""In this order: `save` to `rename` need what `create` made, `unlink` what `rename` made, `rmdir` what `mkdir` made."""


def call(name: str, calls: Calls, count: int) -> list[float]:
    """Microseconds of each of `count` calls."""
    method: Callable[[int], None] = getattr(calls, name)
    times = []
    for turn in range(count):
        began = time.perf_counter_ns()
        method(turn)
        times.append((time.perf_counter_ns() - began) / 1e3)
    return times


def chosen(text: str | None, known: Sequence[str]) -> list[str]:
    if text is None:
        return []
    names = list(known) if text == "all" else text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"{unknown[0]}: not one of {', '.join(known)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a directory with an agent's workload; prints JSON.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--notes", type=int, default=2000)
    parser.add_argument("--directories", type=int, default=100)
    parser.add_argument("--projects", type=int, default=1)
    parser.add_argument("--fill", action="store_true", help="write the tree first")
    parser.add_argument("--walks", metavar="NAMES", help=f"all, or some of {', '.join(WALKS)}")
    parser.add_argument("--passes", type=int, default=1, help="how often each walk is made (default 1)")
    parser.add_argument("--calls", metavar="NAMES", help=f"all, or some of {', '.join(CALLS)}")
    parser.add_argument("--pid", type=int, help="the process of the file system")
    parser.add_argument("--count", type=int, default=400, help="how many calls of each (default 400)")
    arguments = parser.parse_args()
    tree = Tree(arguments.notes, arguments.directories, arguments.projects)
    directory = arguments.directory
    try:
        if arguments.fill:
            tree.write(directory)
        result: dict[str, dict[str, list[float]]] = {"walks": {}, "walks_cpu": {}, "calls": {}, "calls_cpu": {}}
        for name in chosen(arguments.walks, list(WALKS)):
            for _ in range(arguments.passes):
                before = processor_us(arguments.pid)
                result["walks"].setdefault(name, []).append(walk(name, directory, tree))
                result["walks_cpu"].setdefault(name, []).append((processor_us(arguments.pid) - before) / 1e3)
        names = chosen(arguments.calls, CALLS)
        if names:
            calls = Calls(directory, tree, arguments.count)
            for name in names:
                before = processor_us(arguments.pid)
                result["calls"][name] = call(name, calls, arguments.count)
                result["calls_cpu"][name] = [(processor_us(arguments.pid) - before) / arguments.count]
    except (Wrong, OSError) as error:
        sys.exit(f"{directory}: {error}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
