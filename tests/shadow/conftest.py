"""`memfs shadow` in a process of its own, with a store that is looked at behind its back."""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Program, program
from tests.harness.forks import Running, commands
from tests.harness.inspector import Database, Inspector
from tests.harness.shell import checked, run_bash

__all__ = ["Program", "program"]

START_SECONDS = 20


class Shadow:
    """One shadow of one user; `start` and `stop` it as often as wanted."""

    def __init__(self, program: Program, inspector: Inspector, name: str = "shadow") -> None:
        self.program = program
        self.inspector = inspector
        self.root = program.root / name
        self.options: list[str] = []
        self._process: Running | None = None
        self._log = program.root / f"{name}.log"

    @property
    def store(self) -> Path:
        return self.root / "notes"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = commands.start(
                ["shadow", "--foreground", str(self.root), *self.options],
                cwd=self.program.root,
                environment={"MEMFS_URL": self.inspector.database.url, **self.program.environment},
                stderr=log,
            )
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], START_SECONDS)
        line = self._process.stdout.readline() if readable else ""
        assert line == f"{self.root}\n", self.log()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def end(self, number: int) -> int:
        """Send a signal, wait for the end, return the exit status."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(number)
        try:
            return self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait(10)
            self._process.stdout.close()
            self._process = None

    def stop(self) -> None:
        status = self.end(signal.SIGTERM)
        assert status == 0, self.log()

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def close(self) -> None:
        if self._process is not None:
            self.kill()

    def sync(self) -> None:
        self.program.ok("sync", self.store)

    def sh(self, command: str) -> str:
        environment = {**self.program.environment, "PATH": os.environ["PATH"]}
        done = run_bash(command, cwd=self.store, environment=environment, timeout=30, stdin="", unblock=lambda: None)
        return checked(done)

    def files(self) -> dict[str, str]:
        """What lies on the disk, by memory path."""
        found = {}
        for folder, _, names in os.walk(self.store):
            for name in names:
                path = Path(folder, name)
                found[f"/{path.relative_to(self.store)}"] = path.read_text()
        return found


@pytest.fixture
def inspector(program: Program) -> Inspector:
    return Database(f"sqlite:///{program.root / 'stores.db'}").create_store("Notes")


@contextlib.contextmanager
def shadowing(program: Program, inspector: Inspector, name: str = "shadow", *options: str) -> Iterator[Shadow]:
    made = Shadow(program, inspector, name)
    made.options = list(options)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def shadow(program: Program, inspector: Inspector) -> Iterator[Shadow]:
    with shadowing(program, inspector) as made:
        yield made
