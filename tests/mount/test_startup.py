"""How a mount begins: quickly, whatever the size of the store, and on what it finds."""

import os
from pathlib import Path

from tests.harness.mounts import launch, mounted, new_database
from tests.harness.waiting import eventually


def test_a_first_store_is_made_when_there_is_none(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    with launch(tmp_path, database=database) as mount:
        (name,) = (entry.name for entry in mount.path.iterdir() if entry.is_dir())
        (mount.path / name / "a.md").write_text("first\n")
        mount.remount()
        assert (mount.path / name / "a.md").read_text() == "first\n"


def test_every_active_store_is_a_directory_and_archived_ones_are_not(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    stores = [database.create_store(name, description=f"about {name}") for name in ("User Preferences", "Team: Notes", "Old")]
    stores[2].archive()
    with launch(tmp_path, *stores, database=database) as mount:
        assert sorted(os.listdir(mount.path)) == ["MEMORY.md", "team-notes", "user-preferences"]
        index = (mount.path / "MEMORY.md").read_text()
        assert "about User Preferences" in index
        assert "team-notes" in index
        for store in stores[:2]:
            (mount.directory(store) / "a").write_text(store.store.name)
            assert store.memories() == {"/a": store.store.name}


def test_chosen_stores_only(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    one, two = database.create_store("One"), database.create_store("Two")
    two.put("/a.md", "a\n")
    with launch(tmp_path, two, database=database, options=["--store", "Two", "--no-index"]) as mount:
        assert os.listdir(mount.path) == ["two"]
        assert (mount.path / "two" / "a.md").read_text() == "a\n"
    with launch(tmp_path, one, database=database, options=["--store", one.id]) as mount:
        assert sorted(os.listdir(mount.path)) == ["MEMORY.md", "one"]


def test_an_archived_store_is_mounted_read_only_when_asked_for(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Old")
    store.put("/a.md", "a\n")
    store.archive()
    with launch(tmp_path, store, database=database, options=["--store", store.id]) as mount:
        assert mount.sh("cat a.md") == "a\n"
        result = mount.run("echo x > b.md; echo y >> a.md; rm a.md")
        assert result.stderr.count("Read-only file system") == 3


def test_an_unmount_from_outside_ends_the_daemon_and_stores_everything(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        mount.sh("t=$(mktemp -p . keepXXXXXX) && echo text > $t")
        mount.sh(f"fusermount3 -u {mount.path}", cwd=tmp_path)
        assert not mounted(mount.path)
        assert mount.ended(within=10) == 0
        assert list(store.memories().values()) == ["text\n"]
        mount.start()
        assert len(os.listdir(mount.store)) == 1


def test_scratch_patterns_can_be_chosen(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    with launch(tmp_path, database.create_store("Notes"), database=database, options=["--scratch", "*.part,!*.tmp"]) as mount:
        mount.sh("echo 1 > a.part; echo 2 > b.tmp; echo 3 > c.md; echo 4 > .c.md.swp")
        assert mount.inspector.memories() == {"/b.tmp": "2\n", "/c.md": "3\n"}


def test_two_hundred_changes_of_another_session_before_the_first_look(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        store.put_all((f"/n/{number}", f"{number}\n") for number in range(200))
        eventually(lambda: len(os.listdir(mount.store / "n")) if (mount.store / "n").exists() else 0, 200, within=4)
        assert mount.sh("cat n/* | sort -n | tail -1") == "199\n"
