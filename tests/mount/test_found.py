"""Faults that users met, each as the shortest way to it."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memfs.replica.parking import RETRY_SECONDS
from tests.harness.disks import fill, small_disk
from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, Place, launch, new_database, settle

REPLACE = "import os, sys; open('new.tmp', 'w').write(sys.argv[1]); os.replace('new.tmp', 'note.md')"


def replace_note(place: Place, text: str) -> None:
    """An atomic save of note.md by a process that has not read it."""
    subprocess.run([sys.executable, "-c", REPLACE, text], cwd=place.path, check=True, timeout=30)


def test_a_reader_that_comes_late_to_a_replaced_file_makes_no_conflict(place: Place) -> None:
    """It looked the name up before and opened it after: what the next save is based on is still the newest version."""
    (place / "note.md").write_text("one\n")
    looked_up = os.open(place / "note.md", os.O_PATH)
    try:
        replace_note(place, "two\n")
        with open(f"/proc/self/fd/{looked_up}") as late:
            assert late.read() == "one\n"
        replace_note(place, "three\n")
    finally:
        os.close(looked_up)
    assert place.memories() == {"note.md": "three\n"}
    assert place.operations("note.md") == ["created", "modified", "modified"]


def test_what_was_refused_stays_refused_after_a_remount(fresh: Mount) -> None:
    """The part that had been accepted before the refusal is not the file, and is never stored as if it were."""
    (fresh.store / "old.md").write_text("before\n")
    fresh.run("yes | head -c 102401 > old.md; yes | head -c 102401 > new.md")
    assert fresh.inspector.memories() == {"/old.md": "before\n"}
    assert fresh.stop() != 0, "unmounting must tell that something could not be stored"
    fresh.start()
    names = ("old.md", "new.md")
    assert {name: fresh.sh(f"getfattr --only-values -n user.memory.state {name}") for name in names} == dict.fromkeys(
        names, "refused"
    )
    time.sleep(RETRY_SECONDS + 1.0)
    assert fresh.inspector.memories() == {"/old.md": "before\n"}
    descriptor = os.open(fresh.store, os.O_RDONLY | os.O_DIRECTORY)
    with refuses(errno.EFBIG):
        os.fsync(descriptor)  # `memfs log` and `memfs sync` do that
    os.close(descriptor)
    with refuses(errno.EFBIG), (fresh.store / "old.md").open("a") as file:
        file.write("more\n")
    assert fresh.inspector.memories() == {"/old.md": "before\n"}
    (fresh.store / "old.md").write_text("after\n")
    (fresh.store / "new.md").unlink()
    assert fresh.inspector.memories() == {"/old.md": "after\n"}
    fresh.remount()
    assert fresh.sh("ls") == "old.md\n"


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """What cannot be done is refused before a file is cut, a name given, or a directory made."""
    database = new_database(tmp_path)
    state = tmp_path / "home" / "xdg_state_home"
    with small_disk(state), launch(tmp_path, database.create_store("Notes"), database=database) as mount:
        (mount.store / "note.md").write_text("before\n")
        filler = fill(state)
        for command in (
            "echo after > note.md",
            "seq 9999 > new.md",
            "touch new.md",
            "sed -i s/before/after/ note.md",
            "mv note.md other.md",
            "mkdir directory",
            "git init .",
            "echo scratch > note.md~",
            "truncate -s 1 note.md",
        ):
            completed = mount.run(command)
            assert completed.returncode != 0, command
            assert mount.sh("ls -A; cat note.md") == "note.md\nbefore\n", command
        filler.unlink()
        mount.sh("echo after > note.md; mkdir directory")
    assert [version.operation for version in mount.inspector.history()] == ["created", "modified"]
    assert mount.inspector.memories() == {"/note.md": "after\n"}


def test_a_disk_that_fills_while_a_file_is_rewritten_leaves_the_memory(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    state = tmp_path / "home" / "xdg_state_home"
    with small_disk(state), launch(tmp_path, database.create_store("Notes"), database=database) as mount:
        (mount.store / "note.md").write_text("before\n")
        with refuses(errno.ENOSPC), (mount.store / "note.md").open("w") as file:
            filler = fill(state)
            file.write("after\n")
        assert mount.inspector.memories() == {"/note.md": "before\n"}
        assert mount.sh("getfattr --only-values -n user.memory.state note.md") == "refused"
        filler.unlink()
        (mount.store / "note.md").write_text("later\n")
    assert [version.operation for version in mount.inspector.history()] == ["created", "modified"]
    assert mount.inspector.memories() == {"/note.md": "later\n"}


@pytest.mark.parametrize("copying", ["yes", "no"])
def test_a_backup_that_an_editor_makes_anew_with_each_save_is_one_memory(place: Place, copying: str) -> None:
    """vim removes the last backup, then copies or renames the file to its name."""
    (place / "note.md").write_text("one\n")
    options = f"set backup backupskip= backupext=.bak backupcopy={copying}"
    for old, new in (("one", "two"), ("two", "three"), ("three", "four")):
        place.sh(f"vim -u NONE -N -es -c '{options}' -c 'edit note.md' -c '%s/{old}/{new}/' -c 'wq'")
    settle()
    assert place.memories() == {"note.md": "four\n", "note.md.bak": "three\n"}
    assert place.operations("note.md") == ["created", "modified", "modified", "modified"]
    assert place.operations("note.md.bak") == ["created", "modified", "modified"]
    place.sh("rm note.md.bak")
    settle()
    assert place.memories() == {"note.md": "four\n"}
