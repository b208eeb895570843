"""Runs `memfs mount` for a test and takes it down again in every outcome.

A mount lives below one directory of the test's own: database, state, home and mount point. Nothing here waits without an end:
where a daemon does not answer, its connection is aborted, so that every process stuck in the kernel comes free with an error.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import memfs
from memfs.model.ids import SessionId
from memfs.model.objects import MemoryVersion
from memfs.model.slugs import slug
from tests.harness.forks import Running, commands
from tests.harness.inspector import Database, Inspector
from tests.harness.shell import Completed, checked, run_bash

PACKAGE_ROOT = Path(memfs.__file__).parents[1]
START_SECONDS = 15.0
DRAIN_SECONDS = 30.0
COMMAND_SECONDS = 30.0
SETTLE_SECONDS = 2.6
"""Past the two seconds that a settling file or a parked backup may take, with room for a busy machine."""

_MNT_FORCE = 1
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)

living: set["Mount"] = set()
"""Every mount whose daemon was started and not yet stopped; for the watchdog."""


def settle() -> None:
    """Wait until every settling file and every parked backup that a tool has left behind has found its place."""
    time.sleep(SETTLE_SECONDS)


def mounted(mountpoint: Path) -> bool:
    """Whether a FUSE file system is at `mountpoint`, by the kernel's table: nothing is asked of the file system."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        if place == str(mountpoint) and fields[fields.index("-") + 1].startswith("fuse"):
            return True
    return False


def force_unmount(mountpoint: Path) -> None:
    """Abort the connection and take the mount away at once; whoever waits for it gets an error."""
    while mounted(mountpoint):
        if _libc.umount2(os.fsencode(mountpoint), _MNT_FORCE | _MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), f"cannot unmount {mountpoint}")


class Mount:
    """One mount point, its daemon, its stores. Use `launch` to have one that ends."""

    def __init__(
        self,
        root: Path,
        stores: Sequence[Inspector],
        *,
        database: Database,
        name: str = "m",
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        session_id: SessionId | None = None,
    ) -> None:
        admission = database.admit(stores)
        self.root = root
        self.database = database
        self.stores = list(stores)
        self.url = admission.url
        self.path = root / name
        self.options = list(options)
        self.session_id = session_id or admission.session_id
        self.plain = root / "plain"
        """A directory of an ordinary file system, for whatever a tool needs beside the mount."""
        self.environment = _environment(root, {**admission.environment, **(environment or {})})
        self.start_seconds = 0.0
        """How long the last start took, in seconds."""
        self.start_cpu_seconds = 0.0
        """How much processor time the daemon had used by then, in seconds."""
        self.module: str | None = None
        """Set: the program is executed as this module, with its own arguments and environment in /proc."""
        self._process: Running | subprocess.Popen[str] | None = None
        self._log = root / f"{name}.log"

    @property
    def inspector(self) -> Inspector:
        """The first store, from outside."""
        return self.stores[0]

    @property
    def store(self) -> Path:
        """The directory of the first store."""
        return self.directory(self.inspector)

    def directory(self, inspector: Inspector) -> Path:
        return self.path / slug(inspector.store.name, inspector.store.id)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def arguments(self) -> list[str]:
        return [
            *("mount", "--foreground", str(self.path)),
            *("--url", self.url, "--session", self.session_id),
            *self.options,
        ]

    def spawn(self, log: IO[str]) -> Running | subprocess.Popen[str]:
        if self.module is not None:
            return subprocess.Popen(
                [sys.executable, "-m", self.module, *self.arguments()],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        return commands.start(self.arguments(), cwd=self.root, environment=self.environment, stderr=log)

    def start(self) -> None:
        """Start the daemon and return when it serves. Raises `AssertionError` with what it said when it does not."""
        assert self._process is None
        if not mounted(self.path):  # a dead mount still covers the directory, and answers nothing
            self.path.mkdir(exist_ok=True)
        self.plain.mkdir(exist_ok=True)
        began = time.monotonic()
        with self._log.open("a") as log:
            self._process = self.spawn(log)
        living.add(self)
        try:
            self._await_ready(began + START_SECONDS)
        except BaseException:
            self.abort()
            raise
        self.start_seconds = time.monotonic() - began
        self.start_cpu_seconds = _cpu_seconds(self._process.pid)

    def _await_ready(self, deadline: float) -> None:
        """Ready means both: the daemon has printed its mount point, and the kernel has a mount there."""
        assert self._process is not None
        assert self._process.stdout is not None
        stdout = self._process.stdout
        os.set_blocking(stdout.fileno(), False)
        printed = ""
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                printed += os.read(stdout.fileno(), 4096).decode()
            if printed == f"{self.path}\n" and mounted(self.path):
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        state = f"exit status {self._process.returncode}" if self._process.poll() is not None else "still running"
        raise AssertionError(f"the mount is not ready ({state}); it printed {printed!r} and said:\n{self.log()}")

    def log(self) -> str:
        """The last of what the daemon wrote to standard error."""
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""

    def stop(self) -> int:
        """End the daemon as an operator does, wait until it has drained, and return its exit status.

        Raises `AssertionError` when it does not end in time or leaves its mount behind; both are gone afterwards.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            log = self.log()
            self.abort()
            raise AssertionError(f"the daemon did not end within {DRAIN_SECONDS:g} s of SIGTERM:\n{log}") from None
        left = mounted(self.path)
        self.abort()
        assert not left, f"the daemon ended and left its mount:\n{self.log()}"
        return status

    def ended(self, *, within: float) -> int:
        """Wait until the daemon ends by itself, at most so many seconds, and return its exit status."""
        assert self._process is not None
        status = self._process.wait(within)
        self._forget()
        return status

    def kill9(self) -> None:
        """End the daemon without warning; its mount stays behind, dead."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(5)
        self._forget()

    def abort(self) -> None:
        """Take everything away at once, in any state."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        force_unmount(self.path)
        if self._process is not None:
            self._process.wait(10)
            self._forget()

    def _forget(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        living.discard(self)

    def remount(self) -> None:
        """Unmount cleanly and mount again with the same options."""
        status = self.stop()
        assert status == 0, f"the daemon ended with {status}:\n{self.log()}"
        self.start()

    def run(
        self, command: str, *, cwd: Path | None = None, timeout: float = COMMAND_SECONDS, stdin: str = "", **variables: str
    ) -> Completed:
        """Run `command` with bash in the first store's directory; `variables` are added to its environment."""
        return run_bash(
            command,
            cwd=cwd or self.store,
            environment={**self.environment, **variables},
            timeout=timeout,
            stdin=stdin,
            unblock=self.abort,
        )

    def sh(
        self, command: str, *, cwd: Path | None = None, timeout: float = COMMAND_SECONDS, stdin: str = "", **variables: str
    ) -> str:
        """As `run`, for a command that must end with 0: returns what it printed."""
        return checked(self.run(command, cwd=cwd, timeout=timeout, stdin=stdin, **variables))


class Place:
    """A directory of a store that belongs to one test, and what the store holds below it.

    Names are relative to the directory, on both sides.
    """

    def __init__(self, mount: Mount, name: str, inspector: Inspector | None = None) -> None:
        self.mount = mount
        self.inspector = inspector or mount.inspector
        self.path = mount.directory(self.inspector) / name
        self.prefix = f"/{name}/"

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def at(self, name: str) -> str:
        """The memory path of `name`."""
        return self.prefix + name

    def run(self, command: str, *, timeout: float = COMMAND_SECONDS, stdin: str = "", **variables: str) -> Completed:
        return self.mount.run(command, cwd=self.path, timeout=timeout, stdin=stdin, **variables)

    def sh(self, command: str, *, timeout: float = COMMAND_SECONDS, stdin: str = "", **variables: str) -> str:
        return self.mount.sh(command, cwd=self.path, timeout=timeout, stdin=stdin, **variables)

    def memories(self) -> dict[str, str]:
        return {path.removeprefix(self.prefix): text for path, text in self.inspector.memories(self.prefix).items()}

    def ids(self) -> dict[str, str]:
        return {path.removeprefix(self.prefix): memory.id for path, memory in self.inspector.heads(self.prefix).items()}

    def history(self) -> list[tuple[str, str]]:
        """Every version below the directory, oldest first: operation and name."""
        return [(version.operation, name) for name, version in self.named_versions()]

    def moved(self, old: str, new: str) -> list[tuple[str, str]]:
        """What a rename of a memory leaves in the history, oldest first."""
        return [("modified", new)] if self.mount.database.renames else [("created", new), ("deleted", old)]

    def same_ids(self, found: dict[str, str], expected: dict[str, str]) -> bool:
        """Whether `found` has the names of `expected`, and the ids too where the service can rename."""
        return found == expected if self.mount.database.renames else found.keys() == expected.keys()

    def named_versions(self) -> list[tuple[str, MemoryVersion]]:
        return [
            (version.path.removeprefix(self.prefix), version)
            for version in self.inspector.history(self.prefix)
            if version.path is not None
        ]

    def operations(self, name: str) -> list[str]:
        return self.inspector.operations(self.at(name))


def _environment(root: Path, extra: Mapping[str, str]) -> dict[str, str]:
    home = root / "home"
    names = ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "TMPDIR")
    folders = {name: home / name.lower() for name in names}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Whose processes these are, and whom they trust.
    run = {name: value for name, value in os.environ.items() if name in ("MEMFS_TEST_RUN", "SSL_CERT_FILE")}
    return {
        **run,
        **{name: str(folder) for name, folder in folders.items()},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(PACKAGE_ROOT),
        "NODE_PATH": str(PACKAGE_ROOT / "build" / "node" / "node_modules"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "xterm",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_NAME": "Tester" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "tester@example.com" for role in ("AUTHOR", "COMMITTER")},
        **extra,
    }


def _cpu_seconds(pid: int) -> float:
    """Processor time that a process has used so far: fields 14 and 15 of proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def new_database(root: Path) -> Database:
    """A database file below `root`, made when it is first used."""
    folder = root / "database"
    folder.mkdir(exist_ok=True, mode=0o700)
    return Database(f"sqlite:///{folder / 'stores.db'}")


@contextlib.contextmanager
def launch(
    root: Path,
    *stores: Inspector,
    database: Database,
    name: str = "m",
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    session_id: SessionId | None = None,
    module: str | None = None,
) -> Iterator[Mount]:
    """A running mount of `stores`, which are all of the database's; down again at the end, whatever happened.

    A daemon that is still there at the end must drain and end with 0, else this raises `AssertionError`.
    """
    mount = Mount(root, stores, database=database, name=name, options=options, environment=environment, session_id=session_id)
    mount.module = module
    try:
        mount.start()
        yield mount
        if mount in living:
            status = mount.stop()
            assert status == 0, f"the daemon ended with {status}:\n{mount.log()}"
    finally:
        mount.abort()
