"""kill -9 of the daemon at a random moment, over HTTP and on the embedded store: the next mount has all that was acknowledged.

At most one step is in doubt at each kill: it may have happened or not, but nothing in between.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.worlds import drained, no_version_twice, rounds, status, world
from tests.harness.mounts import Mount, launch, new_database

ROUNDS = rounds("KILLS", 8)
WORKER = Path(__file__).with_name("worker.py")

Files = dict[str, str]


def play(before: Files, ledger: str) -> tuple[list[Files], int]:
    """The states that `ledger` allows after `before`, and how many steps it finished.

    Several tries before one end are parts of one step, each of which may be where it was cut off.
    """
    state = dict(before)
    doubt: list[Files] = []
    finished = 0
    for line in ledger.splitlines():
        word, changes, why = json.loads(line)
        after = {path: text for path, text in {**state, **changes}.items() if text is not None}
        if word == "try":
            doubt.append(after)
        elif word == "done":
            state, doubt = after, []
            finished += 1
        else:
            assert why in ("Transport endpoint is not connected", "Software caused connection abort"), line
    return [state, *doubt], finished


def memories(mount: Mount) -> Files:
    return {path[1:]: text for path, text in mount.inspector.memories().items()}


def shown(mount: Mount) -> Files:
    found = {}
    for folder, _, names in os.walk(mount.store):
        for name in names:
            path = Path(folder, name)
            if not name.endswith(".tmp"):  # kept here, where the tool left it
                found[str(path.relative_to(mount.store))] = path.read_text()
    return found


@contextmanager
def over_http(root: Path) -> Iterator[Mount]:
    with world(root) as made, made.mount(direct=True) as mount:
        yield mount


@contextmanager
def embedded(root: Path) -> Iterator[Mount]:
    database = new_database(root)
    with launch(root, database.create_store("Notes"), database=database) as mount:
        yield mount


@pytest.mark.parametrize("mounted", [embedded, over_http], ids=lambda case: case.__name__)
def test_what_was_acknowledged_outlives_the_daemon(tmp_path: Path, mounted: object) -> None:
    chance = random.Random(20260902)
    state: Files = {}
    finished = doubtful = 0
    with mounted(tmp_path) as mount:  # type: ignore[operator]
        for turn in range(ROUNDS):
            ledger = tmp_path / "ledger"
            ledger.write_text("")
            worker = subprocess.Popen(
                [sys.executable, str(WORKER), str(mount.store), str(ledger), str(turn), str(turn * 100_000), "30"],
                cwd=tmp_path,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            try:
                time.sleep(chance.uniform(0.15, 0.9))
                mount.kill9()
                _, said = worker.communicate(timeout=20)  # a system call that hangs on the dead mount would keep it
                assert worker.returncode == 0 or "Transport endpoint" in said or "connection abort" in said, said
            finally:
                worker.kill()
                worker.wait()
            allowed, done = play(state, ledger.read_text())
            finished += done
            mount.start()
            drained(mount, within=10)
            stored = memories(mount)
            assert stored in allowed, f"round {turn}: {difference(stored, allowed)}"
            assert shown(mount) == stored, f"round {turn}: the mount shows something else than the store has"
            assert status(mount)["refused"] == 0
            doubtful += len(allowed) > 1
            state = stored
        no_version_twice(mount.inspector.history())
    assert finished > ROUNDS
    print(f"{finished} steps acknowledged over {ROUNDS} kills, {doubtful} steps cut off")


def difference(found: Files, allowed: list[Files]) -> str:
    """Where `found` differs from the nearest of the allowed states."""

    def parts(wanted: Files) -> list[str]:
        return [
            f"{path}: found {found.get(path, '(gone)')[:30]!r}, wanted {wanted.get(path, '(gone)')[:30]!r}"
            for path in sorted({*found, *wanted})
            if found.get(path) != wanted.get(path)
        ]

    return "; ".join(min((parts(wanted) for wanted in allowed), key=len))
