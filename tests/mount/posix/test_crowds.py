"""Directories that are listed, emptied and removed while others create and delete in them."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.mounts import Mount

ENTRIES = 2_000


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Another process does `work` at the same time, and must end well."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        status = os.waitpid(child, 0)[1]
    assert status == 0, "the other process failed"


def churn(folder: Path, count: int) -> None:
    """Create and delete so many entries, files and directories."""
    for number in range(count):
        path = folder / f"churn{number:05}"
        if number % 4:
            path.write_text("x")
            path.unlink()
        else:
            path.mkdir()
            path.rmdir()


def names_by_pieces(folder: Path) -> list[str]:
    """A listing that takes its time between two calls of getdents."""
    found = []
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            found.append(entry.name)
            if number % 100 == 0:
                time.sleep(0.001)
    return found


def test_no_entry_is_missed_and_none_comes_twice(here: Path) -> None:
    stays = {f"stays{number:04}" for number in range(500)}
    for name in stays:
        (here / name).touch()
    with meanwhile(lambda: churn(here, ENTRIES)):
        for _ in range(15):
            counted = Counter(names_by_pieces(here))
            assert stays <= counted.keys()
            assert max(counted.values()) == 1
    assert set(os.listdir(here)) == stays


@pytest.mark.parametrize(
    "command", ["rm -rf full", "find full -delete", "rm -r full", "find full -type f -exec rm {} +; rm -r full"]
)
def test_trees_are_removed_while_others_work_beside_them(there: Path, open_mount: Mount, command: str) -> None:
    for number in range(ENTRIES // 4):
        folder = there / "full" / f"d{number % 20}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}").write_text("x")
    (there / "beside").mkdir()
    with meanwhile(lambda: churn(there / "beside", ENTRIES // 4)):
        open_mount.sh(command, cwd=there)
    assert os.listdir(there) == ["beside"]
    assert os.listdir(there / "beside") == []


def test_a_tree_is_removed_while_it_is_listed(there: Path, open_mount: Mount) -> None:
    for number in range(ENTRIES // 2):
        (there / "full").mkdir(exist_ok=True)
        (there / "full" / f"f{number}").write_text("x")

    def look() -> None:
        while (there / "full").exists():
            for _, _, names in os.walk(there / "full"):
                assert len(names) == len(set(names))

    with meanwhile(look):
        open_mount.sh("rm -rf full", cwd=there)
    assert os.listdir(there) == []


def test_two_remove_the_same_tree(there: Path, open_mount: Mount) -> None:
    for number in range(400):
        folder = there / "full" / f"d{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}").write_text("x")
    with meanwhile(lambda: open_mount.run("rm -rf full", cwd=there)):
        open_mount.run("rm -rf full", cwd=there)
    open_mount.sh("rm -rf full", cwd=there)
    assert os.listdir(there) == []
