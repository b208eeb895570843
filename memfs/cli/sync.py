"""`memfs sync`, and the sync that comes before every look at the history."""

import os
import time
from pathlib import Path

import click

from memfs.cli.output import say
from memfs.cli.registry import MountRecord, Registry
from memfs.cli.targets import the_mount_of_path
from memfs.model.errors import MemfsError

SYNC_INTERVAL_SECONDS = 0.02


class NotSynced(MemfsError):
    """What was written could not be stored."""


@click.command()
@click.argument("path", required=False)
def sync(path: str | None) -> None:
    """Store everything that was written at or below PATH.

    Returns when it is stored. Without PATH: the whole mount of the current directory, else /mnt/memory, else the only mount.
    Fails when something could not be stored; `memfs status` says what.

    \b
    Example: memfs sync /mnt/memory/user-preferences
    """
    record, place = the_mount_of_path(Registry.of_user(), path)
    sync_path(record, place)


def sync_path(record: MountRecord, place: str) -> None:
    """fsync `place`, a canonical path in the mount of `record`; of what does not exist, the directory that held it.

    Raises `NotSynced` when something could not be stored, also because the mount is dead.
    """
    if record.state != "live":
        again = f"memfs {record.kind} {record.mountpoint}"
        raise NotSynced(f"{record.mountpoint} is not served any more: `{again}` brings it back")
    if record.kind == "shadow":
        _sync_shadow(record)
        return
    places = [place]
    if place == record.mountpoint:
        places = [os.path.join(place, store.name) for store in record.stores if store.access == "read_write"]
    for one in places:
        _fsync(one, record)


def _fsync(place: str, record: MountRecord) -> None:
    while True:
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            break
        except (FileNotFoundError, NotADirectoryError):
            if place == record.mountpoint:
                raise NotSynced(f"{place} does not exist: `memfs status` says what is mounted") from None
            place = os.path.dirname(place)
        except OSError as error:
            raise NotSynced(f"{place} cannot be opened ({error.strerror}): `memfs status` says how its mount is") from None
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise NotSynced(
            f"{place}: not everything is stored ({error.strerror}): `memfs status {record.mountpoint}` says what and why"
        ) from None
    finally:
        os.close(descriptor)


def _sync_shadow(record: MountRecord) -> None:
    """Ask a shadow's process with a file, as `memfs.shadow.daemon` says."""
    folder = Path(record.mountpoint) / ".memfs/sync"
    request = folder / f"{os.getpid()}"
    failed = request.with_suffix(".failed")
    failed.unlink(missing_ok=True)
    request.touch()
    while request.exists():
        if not record.process.alive:
            request.unlink(missing_ok=True)
            raise NotSynced(f"process {record.process.pid} ended meanwhile: `memfs shadow {record.mountpoint}` goes on with it")
        time.sleep(SYNC_INTERVAL_SECONDS)
    if failed.exists():
        reason = failed.read_text("utf-8", "replace")
        failed.unlink(missing_ok=True)
        raise NotSynced(reason)


def try_sync(record: MountRecord, place: str) -> None:
    """As `sync_path`, for a command that can go on without: says what could not be stored."""
    try:
        sync_path(record, place)
    except NotSynced as error:
        say(error.message)


COMMANDS = (sync,)
