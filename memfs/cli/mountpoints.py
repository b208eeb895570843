"""The kernel's table of mounts, and how to take a mount away.

Nothing here asks a FUSE file system anything: whoever does waits for its daemon, and waits without an end when that is stuck.
Mount points are compared as text, symbolic links are followed only as long as no FUSE mount has been reached.
"""

import ctypes
import os
import re
import subprocess
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from memfs.model.errors import MemfsError

FUSE_CONNECTIONS = Path("/sys/fs/fuse/connections")
MAX_LINKS = 40
"""Symbolic links in one path, as the kernel counts them."""
UNMOUNT_SECONDS = 10.0

_MNT_FORCE = 1
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8


EMPTY_PATH = "an empty path is no place: write . for the current directory"


class CannotUnmount(MemfsError):
    """The kernel, or fusermount3, refused to take a mount away."""


@dataclass(frozen=True)
class MountEntry:
    """One line of /proc/self/mountinfo."""

    device: str
    """Major and minor number, ``0:53``: of a FUSE mount the minor one is the number of its connection."""
    mountpoint: str
    fstype: str
    source: str

    @property
    def is_fuse(self) -> bool:
        return self.fstype in ("fuse", "fuseblk") or self.fstype.startswith("fuse.")

    @property
    def is_memfs(self) -> bool:
        return self.fstype == "fuse.memfs" or (self.fstype == "fuse" and self.source == "memfs")


def _unescape(field: bytes) -> str:
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), field))


def parse_mountinfo(table: bytes) -> list[MountEntry]:
    """The lines of a mountinfo table, in its order: a later mount at the same place covers an earlier one."""
    entries = []
    for line in table.splitlines():
        fields = line.split(b" ")
        rest = fields.index(b"-")
        fstype, source = fields[rest + 1 : rest + 3]
        entries.append(MountEntry(fields[2].decode(), _unescape(fields[4]), _unescape(fstype), _unescape(source)))
    return entries


def mounts() -> list[MountEntry]:
    return parse_mountinfo(Path("/proc/self/mountinfo").read_bytes())


def mounted_at(mountpoint: str) -> MountEntry | None:
    """The mount one sees at `mountpoint`, a canonical path; None when nothing is mounted there."""
    return next((entry for entry in reversed(mounts()) if entry.mountpoint == mountpoint), None)


def canonical(path: str) -> str:
    """`path` absolute and without symbolic links, except what lies below a FUSE mount: that is kept as it is written.

    It need not exist. Raises `MemfsError` when it is empty, its links go round in circles, or the
    current directory is gone.
    """
    if not path:
        raise MemfsError(EMPTY_PATH)
    fuse = {entry.mountpoint for entry in mounts() if entry.is_fuse}
    try:
        pending = deque(os.path.abspath(path).split("/"))
    except FileNotFoundError:
        raise MemfsError("the current directory does not exist any more: change to another, or give an absolute path") from None
    resolved = "/"
    links = 0
    while pending:
        part = pending.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            resolved = os.path.dirname(resolved)
            continue
        place = os.path.join(resolved, part)
        if place in fuse:
            return os.path.normpath(os.path.join(place, *pending))
        try:
            target = os.readlink(place)
        except OSError:  # no link, or not there
            resolved = place
            continue
        links += 1
        if links > MAX_LINKS:
            raise MemfsError(f"{path}: too many symbolic links: give the place that they lead to")
        if target.startswith("/"):
            resolved = "/"
        pending.extendleft(reversed(target.split("/")))
    return resolved


def users_of(mountpoint: str) -> list[str]:
    """Who has a file open or stands at or below `mountpoint`, as ``bash (pid 12)``, as far as we may look.

    The links in /proc tell the kernel's own names of what is open.
    """
    found = []
    for process in sorted((entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()), key=lambda p: int(p.name)):
        if int(process.name) == os.getpid():
            continue
        try:
            links = [process / "cwd", process / "root", *(process / "fd").iterdir()]
            used = any(_is_below(_read_link(link), mountpoint) for link in links)
            if used or _maps_below(process, mountpoint):
                found.append(f"{(process / 'comm').read_text(errors='replace').strip()} (pid {process.name})")
        except OSError:
            continue  # it ended, or is not ours to look at
    return found


def _read_link(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _maps_below(process: Path, mountpoint: str) -> bool:
    below = os.fsencode(mountpoint) + b"/"
    lines = (process / "maps").read_bytes().splitlines()
    return any(_unescape(line.split(None, 5)[-1]).startswith(os.fsdecode(below)) for line in lines)


def _is_below(path: str, mountpoint: str) -> bool:
    return path == mountpoint or path.startswith(mountpoint + "/")


def abort(entry: MountEntry) -> bool:
    """End the connection of a FUSE mount: whoever waits for its daemon gets an error at once. Whether that was possible.

    The owner of the mount may do it where fusectl is mounted; root mounts that first.
    """
    control = FUSE_CONNECTIONS / entry.device.partition(":")[2] / "abort"
    if not control.exists() and os.geteuid() == 0 and FUSE_CONNECTIONS.is_dir():
        subprocess.run(["mount", "-t", "fusectl", "fusectl", FUSE_CONNECTIONS], check=False, capture_output=True, timeout=10)
    try:
        control.write_text("1")
    except OSError:
        return False
    return True


def free(entry: MountEntry) -> None:
    """Abort a FUSE mount whose daemon is dead or stuck, and take it away; users that are still in it get errors.

    Raises `CannotUnmount`.
    """
    abort(entry)
    if os.geteuid() == 0:
        _umount2(entry.mountpoint)
    else:
        _fusermount(entry.mountpoint)
    left = mounted_at(entry.mountpoint)
    if left is not None and left.device == entry.device:
        raise CannotUnmount(f"{entry.mountpoint} is still mounted: unmount it as root (umount -l {entry.mountpoint})")


def _umount2(mountpoint: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(mountpoint), _MNT_FORCE | _MNT_DETACH | _UMOUNT_NOFOLLOW) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise CannotUnmount(f"{mountpoint} could not be unmounted ({reason}): try umount -l {mountpoint}")


def _fusermount(mountpoint: str) -> None:
    try:
        done = subprocess.run(
            ["fusermount3", "-u", "-z", mountpoint],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=UNMOUNT_SECONDS,
        )
    except FileNotFoundError:
        raise CannotUnmount(f"fusermount3 is missing: install fuse3, or unmount {mountpoint} as root") from None
    except subprocess.TimeoutExpired:
        raise CannotUnmount(f"fusermount3 did not answer: unmount {mountpoint} as root (umount -l {mountpoint})") from None
    if done.returncode != 0:
        raise CannotUnmount(
            f"{mountpoint} could not be unmounted ({done.stderr.strip()}): try it as root (umount -l {mountpoint})"
        )
