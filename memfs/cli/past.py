"""What a path below a mount was, read through the mount's own `.versions`.

So it needs no credential, works alike on every service, and costs what the mount has not at hand already.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from memfs.cli.registry import AttachedStore, MountRecord, Registry
from memfs.cli.sync import NotSynced, try_sync
from memfs.cli.targets import the_mount_of_path
from memfs.model.errors import MemfsError, NotFound, NotSupported, Redacted, Unavailable

Answer = TypeVar("Answer")

_ATTEMPTS = 5
"""A long history is read in pieces of the mount's time-out; each attempt goes on where the last one stopped."""


@dataclass(frozen=True)
class Version:
    """One file in `.versions`."""

    file: Path
    id: str
    operation: str

    @property
    def time(self) -> str:
        """As in the file's name: texts that sort by time."""
        return self.file.name.partition("-")[0]

    @property
    def label(self) -> str:
        """When, and which version."""
        return f"{self.time} {self.id}"

    @property
    def order(self) -> tuple[str, int, str]:
        """Oldest first: where a service's times are too coarse, creation first and deletion last."""
        return self.time, ("created", "modified", "deleted").index(self.operation), self.id


@dataclass(frozen=True)
class Place:
    """A path inside a store of a live mount; there need not be anything now."""

    record: MountRecord
    store: AttachedStore
    segments: tuple[str, ...]
    """Of the path within the store; none for the store itself."""

    @property
    def root(self) -> Path:
        return Path(self.record.mountpoint, self.store.name)

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.segments)

    @property
    def history(self) -> Path:
        """The directory in `.versions` with the versions of this path."""
        from memfs.views.names import shown_name

        shown = (shown_name(segment, in_root=not number) for number, segment in enumerate(self.segments))
        return self.root.joinpath(".versions", *shown)

    def at(self, instant: datetime) -> Path:
        """This path in the store as it was at `instant`."""
        from memfs.model.objects import format_time

        return self.root.joinpath(".versions", f"@{format_time(instant)}", *self.segments)


def find_place(path: str) -> Place:
    """Where `path` lies; what was written there is stored first, as far as that is possible.

    Raises `NotFound` when that is in no store of a mount, `NotSynced` when the mount is not served, and `NotSupported` when its
    service keeps no versions.
    """
    record, canonical = the_mount_of_path(Registry.of_user(), path)
    store, segments = in_store(record, canonical)
    if store is None:
        raise click.UsageError(f"{path} is a whole mount: say which store")
    if record.kind == "shadow":
        raise NotSupported(
            f"{record.mountpoint} is no mount and shows no versions: use `memfs log`, or `memfs export STORE DIR --versions`"
        )
    if record.state != "live":
        raise NotSynced(f"{record.mountpoint} is not served any more: `memfs mount {record.mountpoint}` brings it back")
    try_sync(record, canonical)
    place = Place(record, store, segments)
    if not (place.root / ".versions").is_dir():
        raise NotSupported(f"the service behind {record.mountpoint} keeps no versions")
    return place


def in_store(record: MountRecord, place: str) -> tuple[AttachedStore | None, tuple[str, ...]]:
    """The store that `place`, a canonical path, lies in, and the segments of its path there; None for the mount's root."""
    segments = tuple(segment for segment in place[len(record.mountpoint) :].split("/") if segment)
    if not segments:
        return None, ()
    store = next((store for store in record.stores if store.name == segments[0]), None)
    if store is None:
        names = ", ".join(store.name for store in record.stores)
        raise NotFound(f"{segments[0]} is no store of {record.mountpoint}: it has {names}")
    return store, segments[1:]


def parse_time(text: str) -> datetime | None:
    """The time in ``@TIME``, as it stands at this moment; None for what has no ``@``. Raises `click.UsageError`."""
    from memfs.views.instants import parse_instant

    if not text.startswith("@"):
        return None
    instant = parse_instant(text[1:], datetime.now(UTC))
    if instant is None:
        raise click.UsageError(f"{text} is no time: write @2026-08-26, @2026-08-26T12:00:00Z, @15m, @2h, @3d or @yesterday")
    return instant


def versions_of(place: Place) -> list[Version]:
    """Every version of every memory that ever had this path, oldest first. Raises `NotFound` when there is none."""
    from memfs.views.names import id_in_version_name, operation_in_version_name

    directory = place.history
    try:
        names = patiently(lambda: list(directory.iterdir()))
    except (FileNotFoundError, NotADirectoryError):
        names = []
    found = []
    for file in names:
        version_id, operation = id_in_version_name(file.name, directory.name), operation_in_version_name(file.name)
        if version_id is not None and operation is not None:
            found.append(Version(file, version_id, operation))
    found.sort(key=lambda version: version.order)
    if not found:
        raise NotFound(f"{place.path} has no history: no memory ever had that path, or it is not stored yet (`memfs status`)")
    return found


def find_version(place: Place, version: str) -> Version:
    """The version of this path with that id, or whose file in `.versions` has that name. Raises `NotFound`."""
    for found in versions_of(place):
        if version in (found.id, found.file.name):
            return found
    raise NotFound(f"{version} is no version of {place.path}: `memfs log {place.path}` lists them")


def files_at(place: Place, instant: datetime) -> dict[str, Path]:
    """The files that were at or below this path at `instant`, by their path below it: ``""`` alone for what was a file."""
    return patiently(lambda: _files_below(place.at(instant)))


def _files_below(top: Path) -> dict[str, Path]:
    if top.is_dir():
        found: dict[str, Path] = {}
        for directory, _, names in os.walk(top, onerror=_raise):
            for name in names:
                file = Path(directory, name)
                found[str(file.relative_to(top))] = file
        return dict(sorted(found.items()))
    return {"": top} if top.exists() else {}


def _raise(error: OSError) -> None:
    raise error


def read_past(file: Path) -> bytes:
    """The content of a file in `.versions`. Raises `Redacted`, `NotFound` when it is not kept any more, and `Unavailable`."""
    try:
        return file.read_bytes()
    except PermissionError:
        raise Redacted(f"{file.name}: an administrator removed this content, take another version") from None
    except FileNotFoundError:
        raise NotFound(f"{file.name}: the service does not keep this version any more") from None
    except OSError as error:
        raise Unavailable(f"{file.name} cannot be read ({error.strerror}): `.memfs/errors` says why, then try again") from None


def patiently(look: Callable[[], Answer]) -> Answer:
    """What `look` at `.versions` returns; raises `OSError`, and `Unavailable` when the service does not answer."""
    for _ in range(_ATTEMPTS):
        try:
            return look()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
    raise Unavailable("the history cannot be read: `.memfs/errors` of the mount says why, then try again")


def attribute(file: Path, name: str) -> str | None:
    """An extended attribute ``user.memory.NAME``; None where the file, or the mount, has none."""
    with contextlib.suppress(OSError):
        return os.getxattr(file, f"user.memory.{name}", follow_symlinks=False).decode("utf-8", "replace")
    return None


def refusal(error: OSError, path: Path) -> MemfsError:
    """Why the mount refused to write to `path`, in words."""
    reasons = {
        errno.EROFS: "the store can only be read",
        errno.ESTALE: "somebody else saved it at the same time; both are kept, `.memfs/conflicts` says where",
        errno.EIO: "it is not stored yet: `memfs status` says why, it is kept and tried again",
        errno.ENOSPC: "the store is full",
        errno.ENOTDIR: "something above it is a file now",
        errno.EEXIST: "something above it is a file now",
        errno.EISDIR: "it is a directory now",
    }
    return MemfsError(f"{path}: {reasons.get(error.errno or 0, error.strerror)}")
