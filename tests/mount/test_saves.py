"""One save is one version on the same memory id, and no other name ever reaches the store, whatever tool saves."""

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from memfs.model.objects import SessionActor
from tests.harness.inspector import Database
from tests.harness.mounts import Mount, Place, launch, new_database, settle
from tests.harness.shell import Completed
from tests.harness.terminal import type_into
from tests.harness.waiting import eventually
from tests.mount.tool_table import holds
from tests.mount.tools import BEFORE, HELLO, NEW, SAME, SAVES, UPPER, Save

pytestmark = pytest.mark.every_service


@dataclass
class Saved:
    """What a tool did and what could be seen at once, before anything had time to settle."""

    place: Place
    completed: Completed
    at_once: str
    names: set[str]
    first_id: str = ""


Kind = Literal["save", "same", "new"]


class Saves:
    """Every tool has saved in a directory of its own, and everything has settled."""

    def __init__(self, mount: Mount) -> None:
        self.mount = mount
        self.results: dict[tuple[Kind, str], Saved] = {}

    def place(self, kind: Kind, tool: str) -> Place:
        folders = {"save": [save.tool for save in SAVES], "same": list(SAME), "new": list(NEW)}
        return Place(self.mount, f"{kind}-{folders[kind].index(tool):02}")

    def record(self, kind: Kind, tool: str, command: str, keys: tuple[bytes, ...] = ()) -> None:
        place = self.place(kind, tool)
        out = self.mount.plain / place.path.name
        out.mkdir()
        (out / "hello.md").write_text(HELLO)
        if keys:
            status = type_into(command.split(), keys, cwd=place.path, environment=self.mount.environment)
            completed = Completed(command, status, "", "")
        else:
            completed = place.run(command, OUT=str(out))
        name = "note.md" if kind != "new" else next(iter(NEW[tool][1]))
        file = place / name
        at_once = file.read_text() if file.exists() else "(no such file)"
        self.results[kind, tool] = Saved(place, completed, at_once, {entry.name for entry in place.path.iterdir()})

    def of(self, kind: Kind, tool: str) -> Saved:
        saved = self.results[kind, tool]
        assert saved.completed.returncode == 0, f"{saved.completed}"
        return saved


@pytest.fixture(scope="module")
def saves(shared: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Saves]:
    """All tools run one after the other, with one wait for what settles: else the waiting alone would take minutes."""
    with (
        shared.own_store("Saves") as store,
        launch(tmp_path_factory.mktemp("saves"), store, database=shared) as mount,
    ):
        saves = Saves(mount)
        before = {saves.place("save", save.tool).at("note.md"): BEFORE for save in SAVES}
        before |= {saves.place("same", tool).at("note.md"): BEFORE for tool in SAME}
        first = {memory.path: memory.id for memory in store.put_all(before.items())}
        for tool in NEW:
            saves.place("new", tool).path.mkdir()
        folders = {os.path.dirname(path) for path in before}  # what another session wrote shows within the freshness bound
        eventually(lambda: folders <= {f"/{name}" for name in os.listdir(mount.store)}, True, within=5)
        for save in SAVES:
            saves.record("save", save.tool, save.command, save.keys)
            saves.results["save", save.tool].first_id = first[saves.place("save", save.tool).at("note.md")]
        for tool, command in SAME.items():
            saves.record("same", tool, command)
        for tool, (command, _) in NEW.items():
            saves.record("new", tool, command)
        settle()
        yield saves


@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.tool)
@holds("shells", "editors", "python")
def test_one_save_is_one_version(saves: Saves, save: Save) -> None:
    saved = saves.of("save", save.tool)
    assert saved.at_once == save.expected
    assert saved.names == {"note.md", *save.beside, *save.local}
    place = saved.place
    assert {entry.name for entry in place.path.iterdir()} == saved.names
    if not save.expected and not saves.mount.database.keeps_blank:
        assert place.history() == [("created", "note.md")]
        assert os.getxattr(place / "note.md", "user.memory.state") == b"pending"
        return
    assert place.memories() == {"note.md": save.expected, **save.beside}
    versions = [version for name, version in place.named_versions() if name == "note.md"]
    assert {version.memory_id for version in versions} == {saved.first_id}
    assert [version.operation for version in versions[:2]] == ["created", "modified"]
    assert 2 <= len(versions) <= 1 + save.most
    assert {name for _, name in place.history()} == {"note.md", *save.beside}
    for name in save.beside:
        assert place.operations(name) == ["created"]


@pytest.mark.parametrize("tool", SAME)
def test_the_same_bytes_make_no_version(saves: Saves, tool: str) -> None:
    saved = saves.of("same", tool)
    assert saved.at_once == BEFORE
    history = saved.place.history()
    if tool == "write and write back":
        assert history == [("created", "note.md"), ("modified", "note.md"), ("modified", "note.md")]
    else:
        assert history == [("created", "note.md")]


@pytest.mark.parametrize("tool", NEW)
def test_a_new_file_is_one_version(saves: Saves, tool: str) -> None:
    saved = saves.of("new", tool)
    expected = NEW[tool][1]
    assert saved.at_once == next(iter(expected.values()))
    stored = {name: text for name, text in expected.items() if text or saves.mount.database.keeps_blank}
    assert saved.place.memories() == stored
    assert saved.place.history() == [("created", name) for name in stored]


def test_every_version_names_the_session_of_the_mount(saves: Saves) -> None:
    if not saves.mount.database.names_actors:
        assert {version.created_by for version in saves.mount.inspector.history()} == {None}
        return
    versions = saves.mount.inspector.history()
    by_mount = [version for version in versions if not (version.operation == "created" and version.path in _seeded(saves))]
    assert len(by_mount) >= len(SAVES) + len(NEW)
    assert [v for v in by_mount if v.created_by != SessionActor(session_id=saves.mount.session_id)] == []


def _seeded(saves: Saves) -> set[str]:
    places = [saves.place("save", save.tool) for save in SAVES] + [saves.place("same", tool) for tool in SAME]
    return {place.at("note.md") for place in places}


def test_a_backup_made_twice_is_one_memory_with_two_versions(place: Place) -> None:
    (place / "note.md").write_text(BEFORE)
    first = place.ids()["note.md"]
    place.sh("sed -i.bak 's/beta/BETA/' note.md")
    settle()
    backup = place.ids()["note.md.bak"]
    place.sh("sed -i.bak 's/alpha/ALPHA/' note.md")
    settle()
    assert place.memories() == {"note.md": "ALPHA\nBETA\ngamma\n", "note.md.bak": UPPER}
    assert place.ids() == {"note.md": first, "note.md.bak": backup}
    assert place.operations("note.md") == ["created", "modified", "modified"]
    assert place.operations("note.md.bak") == ["created", "modified"]


def test_every_save_of_a_series_is_a_version_of_its_own(place: Place) -> None:
    for number in range(10):
        place.sh(f"echo {number} > plain.md; echo {number} > rename.md.tmp; mv rename.md.tmp rename.md")
    assert place.operations("plain.md") == ["created", *["modified"] * 9]
    assert place.operations("rename.md") == ["created", *["modified"] * 9]
    assert len({version.memory_id for _, version in place.named_versions()}) == 2


def test_a_log_that_is_written_for_long_reaches_the_store_within_a_second(place: Place) -> None:
    writer = subprocess.Popen(
        # each child closes its copy of the log, which is a flush of what was written so far
        ["bash", "-c", "exec 5>>log; for i in 0 1 2 3 4 5 6 7 8 9 10 11; do echo $i >&5; sleep 0.3; done"],
        cwd=place.path,
        env=place.mount.environment,
    )
    try:
        time.sleep(2.5)
        stored = place.memories().get("log", "")
        assert stored.startswith("0\n1\n")
        assert writer.wait(20) == 0
    finally:
        writer.kill()
        writer.wait()
    assert place.memories()["log"] == "".join(f"{i}\n" for i in range(12))
    assert 2 <= len(place.operations("log")) <= 7


def test_a_loop_of_children_does_not_make_a_version_each(place: Place) -> None:
    place.sh("for i in $(seq 40); do /bin/echo $i; done > loop.md")
    assert place.memories()["loop.md"] == "".join(f"{i}\n" for i in range(1, 41))
    assert len(place.operations("loop.md")) <= 3


def test_plain_directory_agrees_with_the_table(tmp_path: Path) -> None:
    """The table itself is right: on an ordinary file system every tool leaves what the table says, and nothing else."""
    database = new_database(tmp_path)
    environment = Mount(tmp_path, [], database=database).environment
    for number, save in enumerate(SAVES):
        folder, out = tmp_path / f"tool-{number}", tmp_path / f"out-{number}"
        folder.mkdir()
        out.mkdir()
        (folder / "note.md").write_text(BEFORE)
        (out / "hello.md").write_text(HELLO)
        if save.keys:
            status = type_into(save.command.split(), save.keys, cwd=folder, environment=environment)
        else:
            status = subprocess.run(
                ["bash", "-c", save.command], cwd=folder, env={**environment, "OUT": str(out)}, timeout=30, check=False
            ).returncode
        assert (save.tool, status, (folder / "note.md").read_text()) == (save.tool, 0, save.expected)
        assert (save.tool, {entry.name for entry in folder.iterdir()}) == (save.tool, {"note.md", *save.beside, *save.local})
