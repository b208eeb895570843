"""The daemon's memory stays flat, whatever was looked up, opened, saved and removed meanwhile."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.mounts import Mount, launch, new_database

FILES = 2_000
GROWTH_BYTES = 20 << 20


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    """A mount of a store with many memories, all of them read once."""
    root = tmp_path_factory.mktemp("stocked")
    database = new_database(root)
    store = database.create_store("Notes")
    store.put_all((f"/d{number % 40}/f{number}.md", f"text {number}\n") for number in range(FILES))
    with launch(root, store, database=database) as mount:
        for path in mount.store.rglob("*.md"):
            path.read_text()
        yield mount


def resident(mount: Mount) -> int:
    """Resident memory of the daemon, in bytes."""
    line = next(line for line in Path(f"/proc/{mount.pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) << 10


def forget() -> None:
    """Have the kernel give back every inode and directory entry that it can do without."""
    Path("/proc/sys/vm/drop_caches").write_text("2")


def _look_up_and_forget(mount: Mount) -> None:
    """100,000 of each."""
    for _ in range(100_000 // FILES):
        found = sum(len([os.stat(f"{folder}/{name}") for name in names]) for folder, _, names in os.walk(mount.store))
        assert found == FILES
        forget()


def _open_and_close(mount: Mount) -> None:
    """More than an agent does in an hour."""
    paths = list(mount.store.rglob("*.md"))
    for _ in range(3):
        for path in paths:
            path.read_bytes()


def _save(mount: Mount) -> None:
    paths = list(mount.store.rglob("*.md"))[:50]
    for number in range(20):
        for path in paths:
            path.write_text(f"save {number}\n")
            temporary = path.with_suffix(".tmp")
            temporary.write_text(f"atomic save {number}\n")
            os.rename(temporary, path)


def _come_and_go(mount: Mount) -> None:
    for number in range(1000):
        path = mount.store / f"new{number}"
        path.write_text("x")
        with contextlib.suppress(FileNotFoundError):
            os.stat(mount.store / f"absent{number}")
        path.rename(mount.store / "other")
        (mount.store / "other").unlink()
        path.mkdir()
        path.rmdir()


def _use_scratch(mount: Mount) -> None:
    folder = mount.store / "node_modules"
    for _ in range(2):
        folder.mkdir()
        for number in range(1000):
            (folder / f"{number}.js").write_text("x")
        mount.sh("rm -r node_modules")


def _look_at_history(mount: Mount) -> None:
    mount.sh(
        "for i in 1 2 3; do cat .versions/d1/*/* > $TMPDIR/all; ls -lR .versions/d2 > $TMPDIR/all; cat ../.memfs/status; done"
    )


WORK: list[Callable[[Mount], None]] = [_look_up_and_forget, _open_and_close, _save, _come_and_go, _use_scratch]


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__.strip("_"))
def test_memory_stays_flat(stocked: Mount, work: Callable[[Mount], None]) -> None:
    before = resident(stocked)
    work(stocked)
    forget()
    assert resident(stocked) - before < GROWTH_BYTES


def test_looking_at_history_twice_costs_no_more_than_once(stocked: Mount) -> None:
    """The first look reads the history into memory; what is looked at afterwards is given back."""
    _look_at_history(stocked)
    before = resident(stocked)
    _look_at_history(stocked)
    forget()
    assert resident(stocked) - before < GROWTH_BYTES
