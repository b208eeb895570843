"""The store at any time, through a real mount, against a tree that the test keeps by itself."""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memfs.model.objects import format_time
from tests.harness import oma as service
from tests.history.sites import KINDS, Site, files_below, site

OPERATIONS = 300
INSTANTS = 50


class Script:
    """Random work in one directory by plain system calls, and what must be there after each piece of it."""

    def __init__(self, top: Path, seed: int) -> None:
        self.top = top
        self.random = random.Random(seed)
        self.files: dict[str, bytes] = {}

    def _free_name(self) -> str:
        while True:
            name = "/".join(self.random.choice("abcdé@ü") for _ in range(self.random.randint(1, 3)))
            if not any(f"{a}/".startswith(f"{b}/") for other in self.files for a, b in ((other, name), (name, other))):
                return name

    def _content(self) -> bytes:
        return f"{self.random.randrange(1_000)} é\n".encode() * self.random.randrange(40)

    def step(self) -> None:
        way = self.random.random()
        if len(self.files) < 4 or (way < 0.25 and len(self.files) < 16):
            name = self._free_name()
            self._write(name, self._content(), "xb")
        else:
            name = self.random.choice(sorted(self.files))
            if way < 0.45:
                self._write(name, self._content(), "wb")
            elif way < 0.55:
                self._write(name, b"more\n", "ab")
            elif way < 0.65:
                temporary = self.top / f"{name}.tmp"
                temporary.write_bytes(self.files[name] + b"replaced\n")
                os.replace(temporary, self.top / name)
                self.files[name] += b"replaced\n"
            elif way < 0.8:
                new = self._free_name()
                (self.top / new).parent.mkdir(parents=True, exist_ok=True)
                (self.top / name).rename(self.top / new)
                self.files[new] = self.files.pop(name)
                self._prune(name)
            elif way < 0.92 or "/" not in name:
                (self.top / name).unlink()
                del self.files[name]
                self._prune(name)
            else:
                directory = name.partition("/")[0]
                for below in [other for other in self.files if other.startswith(f"{directory}/")]:
                    (self.top / below).unlink()
                    del self.files[below]
                    self._prune(below)
        descriptor = os.open(self.top, os.O_RDONLY)
        os.fsync(descriptor)  # a delete waits for a moment otherwise
        os.close(descriptor)

    def _write(self, name: str, content: bytes, mode: str) -> None:
        (self.top / name).parent.mkdir(parents=True, exist_ok=True)
        with open(self.top / name, mode) as file:
            file.write(content)
        self.files[name] = content if mode != "ab" else self.files[name] + content

    def _prune(self, name: str) -> None:
        """Remove the directories above that hold nothing: a memory may want their name."""
        above = (self.top / name).parent
        while above != self.top and not any(other.startswith(f"{above.relative_to(self.top)}/") for other in self.files):
            above.rmdir()
            above = above.parent


@pytest.fixture(params=KINDS)
def alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A store of the test's own: its clock may be set back."""
    with site(request.param, tmp_path) as made:
        (place := replace(made, corner="random")).here.mkdir()
        yield place


def test_the_store_at_50_random_instants_of_300_random_operations(alone: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)  # noqa: E731
    if alone.kind == "oma":
        # OMA counts whole seconds. Its clock makes one for each operation, so that every state has a time of its own.
        began, seconds = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=OPERATIONS + 100), [0]
        clock = lambda: began + timedelta(seconds=seconds[0])  # noqa: E731
        monkeypatch.setattr(service, "_now", lambda: clock().strftime("%Y-%m-%dT%H:%M:%SZ"))
    script = Script(alone.here, seed=20260826)
    states: list[tuple[datetime, dict[str, bytes]]] = []
    for _ in range(OPERATIONS):
        script.step()
        states.append((clock(), dict(script.files)))
        if alone.kind == "oma":
            seconds[0] += 1
    assert files_below(alone.here) == states[-1][1]
    chosen = random.Random(7).sample(range(OPERATIONS), INSTANTS)
    for number in chosen:
        time, state = states[number]
        shown = alone.history.parent / f"@{format_time(time)}" / alone.corner
        assert files_below(shown) == state if state else not shown.exists(), f"after operation {number}"
    assert any(name.startswith("@") for _, state in states for name in state), "names that need care were among them"
