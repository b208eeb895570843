"""Makes a directory ready to be mounted on, or says why it cannot be."""

import errno
import os
import stat
from collections.abc import Callable

from memfs.cli.mountpoints import free, mounted_at
from memfs.cli.registry import MountRecord, Registry
from memfs.model.errors import MemfsError


def refuse_live(record: MountRecord | None) -> None:
    """Raise `MemfsError` when `record` is that of a mount that is served."""
    if record is not None and record.state == "live":
        raise MemfsError(
            f"{record.mountpoint} is mounted already (pid {record.process.pid}, session {record.session_id}): "
            f"use it, or `memfs umount {record.mountpoint}` first"
        )


def refuse_bytes(place: str) -> None:
    """Raise `MemfsError` when `place` is no text: the state on disk and what JSON shows of a mount are."""
    try:
        place.encode()
    except UnicodeEncodeError:
        raise MemfsError(f"the bytes of {place} are not UTF-8: choose another place, or rename it (convmv -t utf8)") from None


def prepare_mountpoint(registry: Registry, mountpoint: str, *, nonempty: bool, note: Callable[[str], None]) -> None:
    """Free a dead mount at `mountpoint`, a canonical path that the caller has claimed, and create the directory if missing.

    Calls `note` with what it did. Raises `MemfsError` when the place cannot be mounted on.
    """
    refuse_bytes(mountpoint)
    record = registry.find(mountpoint)
    refuse_live(record)
    entry = mounted_at(mountpoint)
    while entry is not None and entry.is_fuse:
        if record is None or record.entry != entry:
            raise MemfsError(
                f"{mountpoint} is in use by a {entry.fstype} mount that is not in this user's records: "
                f"unmount it first (umount {mountpoint})"
            )
        free(entry)
        note(f"freed {mountpoint}, a mount whose process {record.process.pid} is gone")
        entry = mounted_at(mountpoint)
    if record is not None:
        registry.remove(record)
    _check_directory(mountpoint, note)
    if not nonempty and any(os.scandir(mountpoint)):
        raise MemfsError(f"{mountpoint} is not empty and a mount would hide what is in it: choose another, or add -o nonempty")


def _check_directory(mountpoint: str, note: Callable[[str], None]) -> None:
    try:
        mode = os.lstat(mountpoint).st_mode
    except FileNotFoundError:
        _create(mountpoint)
        note(f"created {mountpoint}")
        return
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise MemfsError(f"{mountpoint} lies below a dead mount: unmount that first") from None
        raise MemfsError(f"{mountpoint} cannot be looked at ({error.strerror}): choose another place") from None
    if not stat.S_ISDIR(mode):
        raise MemfsError(f"{mountpoint} is not a directory: choose another place")
    if os.geteuid() != 0 and not os.access(mountpoint, os.R_OK | os.W_OK | os.X_OK):
        raise MemfsError(f"{mountpoint} is not yours to write to: chown it, or choose another place")


def _create(mountpoint: str) -> None:
    parent = os.path.dirname(mountpoint)
    if not os.path.isdir(parent):
        raise MemfsError(f"{mountpoint} does not exist, nor does {parent}: create it first (mkdir -p {mountpoint})")
    try:
        os.mkdir(mountpoint, 0o755)
    except OSError as error:
        raise MemfsError(f"{mountpoint} does not exist and cannot be created ({error.strerror}): create it as root") from None
