"""kill -9 at random moments: what is there is whole, the next run ends equal, and no change makes two versions.

Every round changes the notes, kills an import half way and finishes it; then the same with an export. MOVE_KILLS says how many
rounds: a few by default, 50 before a release.
"""

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from memfs.model.objects import Store
from tests.cli.conftest import Program
from tests.harness.inspector import Database, Inspector
from tests.harness.serving import serving_in_thread
from tests.move.conftest import tree_of

ROUNDS = int(os.environ.get("MOVE_KILLS", "4"))
FILES = 150


@pytest.fixture
def served(program: Program) -> Iterator[Inspector]:
    """A store that the program reaches over HTTP, so that answers are lost on the way."""
    database = Database(f"sqlite:///{program.root / 'stores.db'}")
    store = database.create_store("Notes")
    with serving_in_thread(database.url) as server:
        _, minted = server.keyring.create_key("tests")
        program.environment |= {"MEMFS_URL": server.url, "MEMFS_API_KEY": minted.secret}
        yield Inspector(database, Store.model_validate(store.store.model_dump()))


def kill_half_way(program: Program, changes: int, done: Callable[[], int], *arguments: str | Path) -> bool:
    """Start the program and kill it when it has done so many changes more; whether it was still at work."""
    process = subprocess.Popen(
        [sys.executable, "-m", "memfs", *map(str, arguments)],
        cwd=program.root,
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        enough = done() + changes
        while process.poll() is None and done() < enough:
            time.sleep(0.005)
        return process.poll() is None
    finally:
        process.kill()
        process.wait(10)


def change(notes: Path, chance: random.Random, number: int) -> int:
    """Change, add and remove some notes; return how many versions that is worth."""
    changes = 0
    for name in range(FILES):
        path = notes / f"d{name % 5}" / f"{name}.md"
        what = chance.random()
        if what < 0.5 or (what < 0.6 and not path.exists()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name} in round {number}\n" * chance.randrange(1, 400))
            changes += 1
        elif what < 0.6:
            path.unlink()
            changes += 1
    return changes


def alike(directory: Path, expected: dict[str, bytes]) -> int:
    """How many files are as they will be in the end."""
    count = 0
    for name, content in expected.items():
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            count += (directory / name).read_bytes() == content
    return count


def test_a_killed_import_and_a_killed_export_end_equal(program: Program, served: Inspector) -> None:
    chance = random.Random(20260825)
    notes, out = program.root / "notes", program.root / "out"
    notes.mkdir()
    versions = killed = 0
    contents: dict[str, set[bytes]] = {}
    for number in range(ROUNDS):
        versions += change(notes, chance, number)
        moment = chance.randrange(50)
        killed += kill_half_way(program, moment, lambda: len(served.history()), "import", notes, "Notes", "--delete")
        program.ok("import", notes, "Notes", "--delete")
        expected = tree_of(notes)
        assert {path[1:]: text.encode() for path, text in served.memories().items()} == expected, f"round {number}"
        assert len(served.history()) == versions, f"round {number}"

        for name, content in expected.items():
            contents.setdefault(name, set()).add(content)
        moment = chance.randrange(50)
        killed += kill_half_way(program, moment, partial(alike, out, expected), "export", "Notes", out, "--delete")
        for name, content in tree_of(out).items():
            assert content in contents[name], f"round {number}: {name} is not whole"
        program.ok("export", "Notes", out, "--delete")
        assert tree_of(out) == expected, f"round {number}"
        assert not (out / ".memfs-export/new").exists()
    assert killed > ROUNDS
