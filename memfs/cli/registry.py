"""Which mounts this user has, who serves them, and how they ended.

One folder, mode 0700, in the state directory. A mount point has a key there, and by it

* ``KEY.json``: a `MountRecord`, written when the mount is ready, removed by whoever sees it ended;
* ``KEY.exit.json``: an `ExitRecord`, written by the daemon as the last thing it does, until the next mount of that place;
* ``KEY.lock``: locked by the daemon from before it mounts until it has ended;
* ``KEY.status.json``: what the mount's `.memfs/status.json` shows, kept by the daemon; ``KEY.log``: what it said.

Whether a daemon lives is read from the record and /proc, never asked of the mount point.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from memfs.cli.mountpoints import MountEntry, mounted_at
from memfs.model.errors import MemfsError

MountState = Literal["live", "starting", "draining", "dead", "gone"]
"""live: served. starting: the daemon has not mounted yet. draining: the daemon still stores what was written, the mount is away
already. dead: the mount stands without a daemon. gone: neither is there."""

LOCK_INTERVAL_SECONDS = 0.05


@dataclass(frozen=True)
class Process:
    """A process and no later one of the same number."""

    pid: int
    start_time: int
    """Clock ticks after boot, field 22 of /proc/PID/stat."""
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> "Process":
        """Raises `ProcessLookupError` when there is none, or only a zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            raise ProcessLookupError(pid) from None
        # The command's name, in parentheses, may hold anything.
        fields = stat[stat.rindex(b")") + 2 :].split()
        if fields[0] in (b"Z", b"X"):
            raise ProcessLookupError(pid)
        return cls(pid, int(fields[19]), Path("/proc/sys/kernel/random/boot_id").read_text().strip())

    @property
    def alive(self) -> bool:
        try:
            return Process.of(self.pid) == self
        except ProcessLookupError:
            return False


@dataclass(frozen=True)
class AttachedStore:
    """A store as a directory of a mount."""

    id: str
    name: str
    """The directory's name."""
    access: str
    title: str = ""
    """The store's own name; it, description and instructions are those of the moment of the mount."""
    description: str = ""
    instructions: str = ""


@dataclass(frozen=True)
class MountRecord:
    mountpoint: str
    device: str
    """As `MountEntry.device`: tells this mount from a later one at the same place. Empty until the mount is ready: then it is
    any FUSE mount there, for the daemon found none when it claimed the place."""
    process: Process
    url: str
    """Without credentials."""
    session_id: str
    stores: tuple[AttachedStore, ...]
    log: str
    status_file: str
    mounted_at: str
    """RFC 3339, UTC."""
    kind: Literal["mount", "shadow"] = "mount"
    """shadow: a plain directory that is kept alike (`memfs shadow`); nothing is mounted there."""

    @property
    def entry(self) -> MountEntry | None:
        """The mount in the kernel's table; None when it is away."""
        entry = mounted_at(self.mountpoint)
        if entry is None or not entry.is_fuse:
            return None
        return entry if self.device in ("", entry.device) else None

    def on(self, entry: MountEntry) -> "MountRecord":
        """The record of the mount that is ready now."""
        return replace(self, device=entry.device)

    @property
    def state(self) -> MountState:
        # The process first: a daemon that unmounts and ends in between must not look dead.
        alive = self.process.alive
        if self.kind == "shadow":
            return "live" if alive else "dead"
        if self.entry is not None:
            return "live" if alive else "dead"
        if not alive:
            return "gone"
        return "draining" if self.device else "starting"

    def status(self) -> dict[str, Any] | None:
        """What the daemon last said about itself, as of now while it lives; None when it has not said anything yet.

        An idle one says nothing new, and time goes on.
        """
        said = _read(Path(self.status_file))
        if said is None or not self.process.alive:
            return said
        from pydantic import TypeAdapter, ValidationError

        from memfs.views import state as views

        try:
            told: views.MountState = TypeAdapter(views.MountState).validate_python(said)
        except ValidationError:
            return said  # by a daemon of another version
        return views.status_object(replace(told, now=datetime.now(UTC)))


@dataclass(frozen=True)
class ExitRecord:
    """How a daemon ended: exit status 0, or 1 with the reason."""

    mountpoint: str
    process: Process
    status: int
    message: str


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _write(path: Path, value: object) -> None:
    """Whoever reads sees the old file or the new one. Raises `MemfsError` when there is no room for it."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=True)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise MemfsError(
            f"{path.parent} cannot be written ({error.strerror}): free some space there, or set XDG_STATE_HOME to another place"
        ) from None


def private_directory(path: Path) -> Path:
    """`path`, created with mode 0700 where it is missing. Raises `MemfsError` when that cannot be, or it is not ours."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_uid != os.geteuid():
            raise MemfsError(f"{path} belongs to another user: set XDG_STATE_HOME to a directory of yours")
        path.chmod(0o700)
    except OSError as error:
        raise MemfsError(f"{path} cannot be used ({error.strerror}): set XDG_STATE_HOME to a directory of yours") from None
    return path


def state_directory() -> Path:
    """Where memfs keeps the state of its mounts: ``$XDG_STATE_HOME/memfs``, mode 0700. Raises `MemfsError`."""
    from platformdirs import user_state_path

    return private_directory(user_state_path("memfs"))


def cache_directory() -> Path:
    """Where memfs keeps what it can fetch again: ``$XDG_CACHE_HOME/memfs``, mode 0700. Raises `MemfsError`."""
    from platformdirs import user_cache_path

    return private_directory(user_cache_path("memfs"))


class Registry:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def of_user(cls) -> "Registry":
        """Raises `MemfsError` when the state directory cannot be used."""
        return cls(private_directory(state_directory() / "mounts"))

    def file(self, mountpoint: str, suffix: str) -> Path:
        """The file of `mountpoint`, a canonical path, that ends in `suffix`."""
        return self.directory / f"{hashlib.sha256(os.fsencode(mountpoint)).hexdigest()[:16]}{suffix}"

    def records(self) -> list[MountRecord]:
        """Every mount, dead ones too, by mount point; records of mounts of which nothing is left are removed."""
        found = []
        for path in self.directory.glob("*.json"):
            if path.name.count(".") == 1 and (record := self._load(path)) is not None:
                found.append(record)
        for record in found:
            if record.state == "gone":
                self.remove(record)
        return sorted((record for record in found if record.state != "gone"), key=lambda record: record.mountpoint)

    def find(self, mountpoint: str) -> MountRecord | None:
        """The record of `mountpoint`, a canonical path, whatever its state."""
        return self._load(self.file(mountpoint, ".json"))

    def holding(self, path: str) -> MountRecord | None:
        """The record of the mount at or above `path`, a canonical path."""
        above = [record for record in self.records() if f"{path}/".startswith(f"{record.mountpoint.rstrip('/')}/")]
        return max(above, key=lambda record: len(record.mountpoint), default=None)

    @staticmethod
    def _load(path: Path) -> MountRecord | None:
        value = _read(path)
        if value is None:
            return None
        try:
            process = Process(**value.pop("process"))
            stores = tuple(AttachedStore(**store) for store in value.pop("stores"))
            return MountRecord(process=process, stores=stores, **value)
        except (KeyError, TypeError):
            return None  # of another version of memfs

    def write(self, record: MountRecord) -> None:
        _write(self.file(record.mountpoint, ".json"), asdict(record))

    def remove(self, record: MountRecord) -> None:
        """Forget the mount, unless another one took its place meanwhile."""
        current = self.find(record.mountpoint)
        if current is not None and current.process == record.process:
            self.file(record.mountpoint, ".json").unlink(missing_ok=True)
            Path(record.status_file).unlink(missing_ok=True)

    def write_exit(self, ended: ExitRecord) -> None:
        _write(self.file(ended.mountpoint, ".exit.json"), asdict(ended))

    @contextlib.contextmanager
    def serving(self, record: MountRecord) -> Iterator[None]:
        """The registry knows of the mount from before it is there until it ended, and then how it ended."""
        from memfs.replica.process import first_known

        self.write(record)
        status, message = 1, "ended by an error that memfs did not foresee: its log says more"
        try:
            yield
            status, message = 0, ""
        except (MemfsError, BaseExceptionGroup) as error:
            known = first_known(error)
            message = known.message if known is not None else message
            raise
        finally:
            self.write_exit(ExitRecord(record.mountpoint, record.process, status, message))
            entry = mounted_at(record.mountpoint)
            if entry is None or not entry.is_fuse:
                self.remove(record)

    def last_exit(self, mountpoint: str) -> ExitRecord | None:
        """How the last daemon of `mountpoint` that could say so ended."""
        value = _read(self.file(mountpoint, ".exit.json"))
        if value is None:
            return None
        try:
            return ExitRecord(process=Process(**value.pop("process")), **value)
        except (KeyError, TypeError):
            return None

    def exit_of(self, record: MountRecord) -> ExitRecord | None:
        """How the daemon of `record` ended; None when it lives, or was killed before it could say."""
        ended = self.last_exit(record.mountpoint)
        return ended if ended is not None and ended.process == record.process else None

    @contextlib.contextmanager
    def claim(self, mountpoint: str, *, seconds: float, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold `mountpoint` for this process: of two daemons that want it at once, one waits.

        Calls `waiting` again and again while another process holds it: what that raises ends the wait. Raises `MemfsError` when
        the other still holds it after `seconds`.
        """
        with self.file(mountpoint, ".lock").open("a") as lock:
            deadline = time.monotonic() + seconds
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    waiting()
                    if time.monotonic() > deadline:
                        raise MemfsError(
                            f"another memfs still works on {mountpoint} after {seconds:g} s: `memfs status` says which"
                        ) from None
                    time.sleep(LOCK_INTERVAL_SECONDS)
            yield
