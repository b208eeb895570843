"""One store with a mount, on each kind of service: what `.versions` and the commands on history must do alike."""

import contextlib
import io
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from memfs.cli.main import run
from tests.cli.conftest import Program
from tests.harness.oma import KEY, Oma, oma
from tests.harness.serving import serving
from tests.harness.shell import Completed, checked, run_bash

KINDS = ("sql", "serve", "oma")


class Said(NamedTuple):
    """What a command printed, and what it said on standard error."""

    out: str
    err: str


@dataclass
class Site:
    """A mount of the store Notes, made and ended with the commands that users type."""

    kind: str
    program: Program
    url: str | None
    """None: the default database."""
    prune: Callable[[str], None]
    """Let a version vanish as retention does, which no endpoint offers."""
    user: Mapping[str, str] = field(default_factory=dict)
    """The environment of who uses the mount: the credential of its session."""
    administrator: Mapping[str, str] = field(default_factory=dict)
    session_id: str | None = None
    """Who is recorded; None where the service does not know sessions."""
    oma: Oma | None = None
    corner: str = ""
    """The directory of the store that belongs to one test; the whole store when empty."""

    @property
    def mountpoint(self) -> Path:
        return self.program.mountpoint

    @property
    def here(self) -> Path:
        """The directory that the test works in."""
        return self.mountpoint / "notes" / self.corner

    @property
    def history(self) -> Path:
        """The directory with the history of `here`."""
        return self.mountpoint / "notes" / ".versions" / self.corner

    @property
    def prefix(self) -> str:
        """The path of `here` within the store, with a slash at its end."""
        return f"/{self.corner}/" if self.corner else "/"

    @property
    def environment(self) -> dict[str, str]:
        """That of a shell which finds `memfs`."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**self.program.environment, "PATH": path, "TZ": "UTC", "TERM": "xterm"}

    def mount(self, *options: str) -> None:
        where = ["--url", self.url] if self.url is not None else []
        session = ["--session", self.session_id] if self.session_id is not None else []
        printed = self.program.ok("mount", self.mountpoint, *where, *session, *options, **self.user)
        assert printed == f"{self.mountpoint}\n"

    def another(self, name: str, **variables: str) -> Path:
        """The store's directory on a second mount by the same user; it ends with this one."""
        mountpoint = self.program.root / name
        where = ["--url", self.url] if self.url is not None else []
        session = ["--session", self.session_id] if self.session_id is not None else []
        self.program.ok("mount", mountpoint, *where, *session, **{**self.user, **variables})
        return mountpoint / "notes"

    def run(self, command: str) -> Completed:
        """Run `command` with bash in `here`."""
        return run_bash(
            command,
            cwd=self.here,
            environment={**self.environment, **self.user},
            timeout=60,
            unblock=self.program.end,
        )

    def sh(self, command: str) -> str:
        """As `run`, for what must end with 0."""
        return checked(self.run(command))

    def memfs(self, *arguments: str | Path, code: int = 0, **variables: str) -> Said:
        """What `memfs` says as the mount's user, or with the credential in `variables`; it must end with `code`.

        Runs in this process, for there are many of them: an interpreter takes half a second to start.
        """
        out, err = io.StringIO(), io.StringIO()
        environment = {**self.environment, **(variables or self.user)}
        with patch.dict(os.environ, environment), redirect_stdout(out), redirect_stderr(err):
            ended = run([str(argument) for argument in arguments])
        said = Said(out.getvalue(), err.getvalue())
        assert ended == code, f"{arguments}: exit {ended}\n{said.out}{said.err}"
        return said

    def refused(self, *arguments: str | Path, code: int = 1, **variables: str) -> str:
        """The one line that `memfs` says; it must end with `code` and print nothing."""
        said = self.memfs(*arguments, code=code, **variables)
        assert said.out == ""
        (line,) = said.err.splitlines()
        return line.removeprefix("memfs: ")

    def versions(self, path: str = "") -> list[dict[str, Any]]:
        """What `memfs log --json` prints of a path below `here`, newest first."""
        return [json.loads(line) for line in self.memfs("log", self.here / path, "--json").out.splitlines()]

    def errors(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.mountpoint / ".memfs" / "errors").read_text().splitlines()]


def _delete_row(database: Path) -> Callable[[str], None]:
    def prune(version_id: str) -> None:
        connection = sqlite3.connect(database, timeout=10)
        with connection:
            tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
            (table,) = [name for name in tables if "version" in name and name != "sqlite_sequence"]
            assert connection.execute(f"delete from {table} where id = ?", (version_id,)).rowcount == 1
        connection.close()

    return prune


@contextlib.contextmanager
def site(kind: str, root: Path, *options: str) -> Iterator[Site]:
    """A site of that kind with a mount; taken down in every outcome."""
    program = Program(root)
    program.environment["XDG_CACHE_HOME"] = str(program.home / "cache")
    try:
        with contextlib.ExitStack() as stack:
            made = _prepare(kind, program, stack)
            made.mount(*options)
            try:
                yield made
                for record in program.registry.records():
                    program.ok("umount", record.mountpoint)
            finally:
                program.end()  # before its service ends
    finally:
        program.end()


def _prepare(kind: str, program: Program, stack: contextlib.ExitStack) -> Site:
    if kind == "sql":
        program.ok("stores", "create", "Notes")
        session_id = "sesn_01history"
        return Site(kind, program, None, _delete_row(program.database), session_id=session_id)
    if kind == "serve":
        folder = program.root / "served"
        folder.mkdir()
        server = stack.enter_context(serving(f"sqlite:///{folder}/stores.db", folder))
        _, secret = server.create_key()
        administrator = {"MEMFS_API_KEY": secret}
        store = json.loads(program.ok("stores", "create", "Notes", "--url", server.url, "--json", **administrator))
        session = server.create_session(store["id"])
        user = {"MEMFS_AUTH_TOKEN": session["token"]}
        prune = _delete_row(folder / "stores.db")
        return Site(kind, program, server.url, prune, user, administrator, session["id"])
    service = stack.enter_context(oma())
    key = {"MEMFS_API_KEY": KEY}
    program.ok("stores", "create", "Notes", "--url", service.url, **key)

    def prune(version_id: str) -> None:
        service.versions[:] = [version for version in service.versions if version["id"] != version_id]

    return Site(kind, program, service.url, prune, key, key, oma=service)


def files_below(directory: Path) -> dict[str, bytes]:
    """Every file below `directory` with its content, by relative path."""
    found = {}
    for above, _, names in os.walk(directory, onerror=_raise):
        for name in names:
            file = Path(above, name)
            found[str(file.relative_to(directory))] = file.read_bytes()
    return found


def _raise(error: OSError) -> None:
    raise error
