"""Runs the real program in processes of its own, each test with a home of its own."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memfs.cli.mountpoints import free, mounts
from memfs.cli.registry import Registry
from tests.harness.forks import commands

SECONDS = 60


class Program:
    """`memfs` as one user of one machine runs it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.environment = {
            **os.environ,
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "120",
        }
        self.home.mkdir(mode=0o700)
        self.mountpoint = root / "m"

    @property
    def database(self) -> Path:
        return self.home / "data/memfs/memfs.db"

    @property
    def registry(self) -> Registry:
        return Registry(self.home / "state/memfs/mounts")

    def run(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **variables}
        return commands.run([*map(str, arguments)], cwd=self.root, environment=environment, timeout=SECONDS)

    def ok(self, *arguments: str | Path, **variables: str) -> str:
        """What it prints; it must end with 0."""
        done = self.run(*arguments, **variables)
        assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def objects(self, *arguments: str | Path) -> list[dict[str, Any]]:
        """The objects that it prints with `--json`, one a line."""
        return [json.loads(line) for line in self.ok(*arguments, "--json").splitlines()]

    def refused(self, *arguments: str | Path, code: int = 1, **variables: str) -> str:
        """The one line that it says; it must end with `code` and print nothing."""
        done = self.run(*arguments, **variables)
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith("memfs: ")
        return line.removeprefix("memfs: ")

    def end(self) -> None:
        """Unmount whatever this user has mounted, by force where it must be."""
        if self.registry.directory.is_dir():
            for record in self.registry.records():
                self.run("umount", "--force", record.mountpoint)
        for entry in reversed(mounts()):
            if entry.mountpoint.startswith(f"{self.root}/"):
                free(entry)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    user = Program(tmp_path)
    try:
        yield user
    finally:
        user.end()
