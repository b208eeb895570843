"""A store that holds as many memories as the contract allows (section 4.3): 10,000."""

import errno
import os
import time
from collections.abc import Iterator

import pytest

from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, launch, new_database, settle
from tests.harness.names import run_number
from tests.harness.waiting import eventually

CAP = 10_000
TEXT = "a line of a memory\n" * 20


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    root = tmp_path_factory.mktemp("full")
    database = new_database(root)
    store = database.create_store("Notes")
    store.put_all((f"/d{number % 50}/{number:05}.md", TEXT) for number in range(CAP))
    with launch(root, store, database=database) as mount:
        yield mount


def test_it_is_mounted_and_listed_quickly(full: Mount) -> None:
    began = time.monotonic()
    assert len(os.listdir(full.store / "d7")) == CAP / 50
    listed = time.monotonic() - began
    began = time.monotonic()
    assert full.sh("find . -type f | wc -l").strip() == f"{CAP}"
    walked = time.monotonic() - began
    began = time.monotonic()
    assert full.sh("grep -rl nowhere . | wc -l").strip() == "0"
    searched = time.monotonic() - began
    print(f"ready in {full.start_seconds:.2f} s, of which {full.start_cpu_seconds:.2f} s at work")
    print(f"ls {listed * 1000:.0f} ms, find {walked:.2f} s, grep -r {searched:.2f} s")
    # Work and not time: the machine may be busy with other things.
    assert full.start_cpu_seconds < 3
    assert listed < 2


def test_a_new_file_is_refused_when_it_is_opened(full: Mount) -> None:
    with refuses(errno.ENOSPC):
        os.open(full.store / "new.md", os.O_CREAT | os.O_WRONLY)
    result = full.run("echo new > d0/new.md")
    assert result.returncode != 0
    assert "No space left on device" in result.stderr
    assert not (full.store / "d0" / "new.md").exists()
    assert os.statvfs(full.store).f_ffree == 0
    assert len(full.inspector.history()) == CAP


def test_every_edit_goes_on(full: Mount, request: pytest.FixtureRequest) -> None:
    before = len(full.inspector.heads())
    number = 2 * run_number(request) - 1
    folder = f"d{number}"
    a, b, c, d, e, f, g = (f"{number + 50 * turn:05}.md" for turn in range(7))
    full.sh(f"cd {folder} && echo more >> {a} && sed -i 1d {b} && mv {c} moved.md && mkdir e && mv {d} e/")
    full.sh(f"cd {folder} && echo text > {e}.tmp && mv {e}.tmp {e} && echo x > .scratch.swp && mv {f} {g}")
    settle()
    memories = full.inspector.memories(f"/{folder}/")
    assert memories[f"/{folder}/{a}"] == TEXT + "more\n"
    assert memories[f"/{folder}/{b}"] == TEXT.split("\n", 1)[1]
    assert memories[f"/{folder}/{e}"] == "text\n"
    assert {f"/{folder}/moved.md", f"/{folder}/e/{d}"} <= set(memories)
    assert len(full.inspector.heads()) == before - 1


def test_a_removal_makes_room(full: Mount, request: pytest.FixtureRequest) -> None:
    before = len(full.inspector.heads())
    number = 2 * run_number(request)
    full.sh(f"rm d{number}/{number:05}.md d{number}/{number + 50:05}.md")
    eventually(lambda: len(full.inspector.heads()), before - 2, within=2)
    full.sh(f"echo new > d{number}/new.md")
    assert full.inspector.content(f"/d{number}/new.md") == "new\n"
