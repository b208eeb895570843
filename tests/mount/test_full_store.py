"""A store that holds as many memories as the contract allows (section 4.3): 10,000."""

import errno
import os
import time
from collections.abc import Iterator

import pytest

from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, launch, new_database, settle
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


def test_every_edit_goes_on(full: Mount) -> None:
    full.sh("cd d1 && echo more >> 00001.md && sed -i 1d 00051.md && mv 00101.md moved.md && mkdir e && mv 00151.md e/")
    full.sh("cd d1 && echo text > 00201.md.tmp && mv 00201.md.tmp 00201.md && echo x > .scratch.swp && mv 00251.md 00301.md")
    settle()
    memories = full.inspector.memories("/d1/")
    assert memories["/d1/00001.md"] == TEXT + "more\n"
    assert memories["/d1/00051.md"] == TEXT.split("\n", 1)[1]
    assert memories["/d1/00201.md"] == "text\n"
    assert {"/d1/moved.md", "/d1/e/00151.md"} <= set(memories)
    assert len(full.inspector.heads()) == CAP - 1


def test_a_removal_makes_room(full: Mount) -> None:
    before = len(full.inspector.heads())
    full.sh("rm d2/00002.md d2/00052.md")
    eventually(lambda: len(full.inspector.heads()), before - 2, within=2)
    full.sh("echo new > d2/new.md")
    assert full.inspector.content("/d2/new.md") == "new\n"
