"""Random saves, renames and removals, and after each the store: which ids, how many versions, which operations, whose.

`MODEL_STEPS` sets how many steps are made in all.
"""

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from memfs.model.ids import MemoryId
from memfs.model.objects import MemoryVersion, SessionActor
from memfs.stores.base import MemoryStore
from tests.harness.mounts import Mount

STEPS = int(os.environ.get("MODEL_STEPS", "300")) // 3
STEPS_EACH = 20

numbers = itertools.count()

NAMES = ("a", "b", "c.md", "d/a", "d/b", "d/e/a")

SAVES: dict[str, Callable[[Path, str], object]] = {
    "write": lambda path, text: path.write_text(text),
    "replace": lambda path, text: (path.with_name(f"{path.name}.tmp").write_text(text), os.replace(f"{path}.tmp", path)),
    "remove and write": lambda path, text: (path.unlink(missing_ok=True), path.write_text(text)),
}


@dataclass
class Expected:
    """One memory as it must be in the store."""

    text: str
    versions: list[tuple[str, str]]
    """Operation and name, oldest first."""
    memory_id: MemoryId | None = None


@dataclass
class Model:
    """What the store must hold below one directory. Names are relative to it."""

    live: dict[str, Expected] = field(default_factory=dict)
    dead: list[Expected] = field(default_factory=list)

    def save(self, name: str, text: str) -> None:
        memory = self.live.get(name)
        if memory is None:
            self.live[name] = Expected(text, [("created", name)])
        elif memory.text != text:
            memory.text = text
            memory.versions.append(("modified", name))

    def remove(self, name: str) -> None:
        memory = self.live.pop(name)
        memory.versions.append(("deleted", name))
        self.dead.append(memory)

    def rename(self, old: str, new: str) -> None:
        if old == new:
            return
        if new in self.live:
            self.save(new, self.live[old].text)
            self.remove(old)
            return
        memory = self.live[new] = self.live.pop(old)
        memory.versions.append(("modified", new))

    def rename_directory(self, old: str, new: str) -> None:
        for name in [name for name in self.live if name.startswith(f"{old}/")]:
            self.rename(name, new + name[len(old) :])


class Saves(RuleBasedStateMachine):
    """Bound to a mount by `machine`."""

    mount: Mount

    def __init__(self) -> None:
        super().__init__()
        name = f"store{next(numbers)}"
        self.root = self.mount.store / name
        (self.root / "d/e").mkdir(parents=True)
        self.prefix = f"/{name}/"
        self.model = Model()
        self.folder = "d"
        self.story: list[str] = []

    def place(self, name: str) -> str:
        """`name` where its directory is now."""
        return self.folder + name[1:] if name.startswith("d/") else name

    def live(self, choice: int) -> str:
        names = sorted(self.model.live)
        return names[choice % len(names)]

    def told(self, text: str) -> None:
        self.story.append(text)

    def settle(self) -> None:
        """Wait for nothing: an fsync of the directory stores what waits below it."""
        descriptor = os.open(self.root, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    names = st.sampled_from(NAMES)
    texts = st.sampled_from(["", "one\n", "two\n", "three\n" * 50])
    choices = st.integers(0, 10**6)

    @rule(name=names, text=texts, way=st.sampled_from(sorted(SAVES)))
    def save(self, name: str, text: str, way: str) -> None:
        name = self.place(name)
        self.told(f"{way} {name} {text[:10]!r}")
        SAVES[way](self.root / name, text)
        self.model.save(name, text)
        self.check()

    @rule(name=names, text=st.sampled_from(["more\n", "less\n"]))
    def append(self, name: str, text: str) -> None:
        name = self.place(name)
        self.told(f"append {name} {text!r}")
        with (self.root / name).open("a") as file:
            file.write(text)
        before = self.model.live[name].text if name in self.model.live else ""
        self.model.save(name, before + text)
        self.check()

    @rule(name=names, texts=st.lists(st.sampled_from(["x\n", "y\n"]), min_size=1, max_size=3))
    def write_and_sync(self, name: str, texts: list[str]) -> None:
        """Each fsync is a version."""
        name = self.place(name)
        self.told(f"sync {name} {texts}")
        with (self.root / name).open("w") as file:
            whole = ""
            for text in texts:
                whole += text
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                self.model.save(name, whole)
        self.check()

    @rule(name=names)
    def touch(self, name: str) -> None:
        name = self.place(name)
        self.told(f"touch {name}")
        (self.root / name).touch()
        if name not in self.model.live:
            self.model.save(name, "")
        self.check()

    @precondition(lambda self: self.model.live)
    @rule(choice=choices, size=st.integers(0, 60))
    def truncate(self, choice: int, size: int) -> None:
        name = self.live(choice)
        self.told(f"truncate {name} {size}")
        os.truncate(self.root / name, size)
        self.model.save(name, self.model.live[name].text[:size].ljust(size, "\0"))
        self.check()

    @precondition(lambda self: self.model.live)
    @rule(choice=choices, new=names)
    def rename(self, choice: int, new: str) -> None:
        old, new = self.live(choice), self.place(new)
        self.told(f"rename {old} {new}")
        os.rename(self.root / old, self.root / new)
        self.model.rename(old, new)
        self.check()

    @precondition(lambda self: self.model.live)
    @rule(choice=choices)
    def remove(self, choice: int) -> None:
        name = self.live(choice)
        self.told(f"remove {name}")
        (self.root / name).unlink()
        self.model.remove(name)
        self.check()

    @precondition(lambda self: self.model.live)
    @rule(choice=choices, mode=st.sampled_from([0o600, 0o644]))
    def change_attributes(self, choice: int, mode: int) -> None:
        name = self.live(choice)
        self.told(f"attributes of {name}")
        os.chmod(self.root / name, mode)
        os.utime(self.root / name, (1, 2))
        self.check()

    @rule()
    def rename_directory(self) -> None:
        old, self.folder = self.folder, "f" if self.folder == "d" else "d"
        self.told(f"rename {old} {self.folder}")
        os.rename(self.root / old, self.root / self.folder)
        self.model.rename_directory(old, self.folder)
        self.check()

    def check(self) -> None:
        """The store is what the model says."""
        self.settle()
        story = "\n".join(self.story)
        heads = {path.removeprefix(self.prefix): memory for path, memory in self.mount.inspector.heads(self.prefix).items()}
        assert heads.keys() == self.model.live.keys(), story
        used = {memory.memory_id for memory in [*self.model.live.values(), *self.model.dead]}
        for name, expected in self.model.live.items():
            if expected.memory_id is None:
                assert heads[name].id not in used, f"{name} has the id of another memory\n{story}"
                expected.memory_id = heads[name].id
            assert heads[name].id == expected.memory_id, f"{name} is another memory\n{story}"
        for expected, versions in self.versions():
            found = [(version.operation, (version.path or "").removeprefix(self.prefix)) for version in versions]
            assert found == expected.versions, story
            assert {version.created_by for version in versions} == {SessionActor(session_id=self.mount.session_id)}, story
        contents = self.mount.inspector.memories(self.prefix)
        assert contents == {self.prefix + name: expected.text for name, expected in self.model.live.items()}, story
        assert {name: (self.root / name).read_text() for name in self.model.live} == {
            name: expected.text for name, expected in self.model.live.items()
        }, story

    def versions(self) -> list[tuple[Expected, list[MemoryVersion]]]:
        """Every memory that there is or was, with its versions, oldest first."""
        inspector = self.mount.inspector

        async def work(service: MemoryStore) -> list[tuple[Expected, list[MemoryVersion]]]:
            found = []
            for expected in [*self.model.live.values(), *self.model.dead]:
                if expected.memory_id is not None:
                    page = await service.list_versions(inspector.id, memory_id=expected.memory_id, limit=100)
                    found.append((expected, list(reversed(page.data))))
            return found

        return inspector.database.call(work)


def machine(running: Mount) -> type[Saves]:
    class Bound(Saves):
        mount = running

    return Bound


def test_every_step_is_what_it_should_be_in_the_store(mount: Mount) -> None:
    run_state_machine_as_test(
        machine(mount),
        settings=settings(
            max_examples=max(1, STEPS // STEPS_EACH),
            stateful_step_count=STEPS_EACH,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
