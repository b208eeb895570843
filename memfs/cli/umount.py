"""`memfs umount`: end a mount so that nothing is lost, or take away one that is dead or stuck."""

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from memfs.cli.mount_options import Seconds
from memfs.cli.mountpoints import free, users_of
from memfs.cli.output import printable, say
from memfs.cli.registry import MountRecord, Process, Registry
from memfs.cli.targets import the_mount
from memfs.model.errors import MemfsError

PATIENCE_SECONDS = 2.0
"""After so long the command says what it waits for, and again after every ten times as long."""
KILL_SECONDS = 10.0
NAMED_USERS = 3


@click.command()
@click.argument("mountpoint", required=False)
@click.option(
    "--timeout",
    type=Seconds(zero=False),
    default=60.0,
    show_default=True,
    help="How long to wait until everything that was written is stored.",
)
@click.option(
    "--force", is_flag=True, help="Take the mount away at once; what is not stored yet stays in the journal for the next mount."
)
def umount(mountpoint: str | None, timeout: float, force: bool) -> None:
    """Store what is pending, then unmount.

    Without MOUNTPOINT: the mount of the current directory, else /mnt/memory, else the only one. A mount in use is refused and
    its users are named. Fails when something could not be stored, and says what and where it is kept.

    \b
    Example: memfs umount /mnt/memory
    """
    registry = Registry.of_user()
    record = the_mount(registry, mountpoint)
    if record.state == "dead":
        _free_dead(registry, record)
    elif force:
        _force(registry, record)
    else:
        _end(registry, record, timeout)


def _free_dead(registry: Registry, record: MountRecord) -> None:
    if (entry := record.entry) is not None:
        free(entry)
    registry.remove(record)
    say(
        f"{record.mountpoint} was a mount whose process is gone: freed; what it had not stored yet goes out with the next mount"
    )


def _force(registry: Registry, record: MountRecord) -> None:
    if (entry := record.entry) is not None:
        free(entry)
    with _handle(record.process) as process:
        if process is not None:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            if not _ended(process, KILL_SECONDS):
                raise MemfsError(
                    f"process {record.process.pid} does not end, it is stuck in the kernel: restart the machine to be rid of it"
                )
    registry.remove(record)


def _end(registry: Registry, record: MountRecord, timeout: float) -> None:
    """Ask the daemon to end and wait for it. Raises `MemfsError` when it is in use, takes too long or could not store all."""
    if record.entry is not None and (users := users_of(record.mountpoint)):
        more = f" and {len(users) - NAMED_USERS} more" if len(users) > NAMED_USERS else ""
        raise MemfsError(
            f"{record.mountpoint} is in use by {', '.join(users[:NAMED_USERS])}{more}: "
            f"end that, or leave the directory (--force cuts it off)"
        )
    with _handle(record.process) as process:
        if process is not None:
            signal.pidfd_send_signal(process, signal.SIGTERM)
            _wait(record, process, timeout)
    ended = registry.exit_of(record)
    if (entry := record.entry) is not None:
        free(entry)
    registry.remove(record)
    if ended is None:
        raise MemfsError(
            f"process {record.process.pid} ended without a word, killed or out of disk space: "
            f"what is not stored yet goes out when {record.mountpoint} is mounted again"
        )
    if ended.status != 0:
        raise MemfsError(ended.message)


@contextmanager
def _handle(process: Process) -> Iterator[int | None]:
    """A descriptor that stands for `process` and no later one of its number; None when it has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        # Looked at after it was opened: from here on the number cannot be taken by another.
        yield descriptor if process.alive else None
    finally:
        os.close(descriptor)


def _ended(process: int, seconds: float) -> bool:
    """Whether the process of that descriptor ends within `seconds`."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _wait(record: MountRecord, process: int, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    patience = PATIENCE_SECONDS
    while not _ended(process, min(patience, deadline - time.monotonic())):
        status = record.status()
        waiting = waiting_for(status)
        if time.monotonic() >= deadline:
            raise MemfsError(
                f"{record.mountpoint} still has {waiting} after {timeout:g} s{_named(status)}, "
                f"and goes on storing in the background: wait with another `memfs umount`, or end it with --force, "
                f"which keeps that for the next mount"
            )
        say(f"waiting for {waiting}")
        patience *= 10


def waiting_for(status: dict[str, Any] | None) -> str:
    """What a daemon with that status has still to store, and what stops it, in words."""
    stores = [store for store in (status or {}).get("stores", ()) if store.get("pending")]
    if not stores:
        return "what was written to be stored"
    changes = sum(store["pending"] for store in stores)
    names = ", ".join(store["name"] for store in stores)
    reason = next(
        (one["reason"] for store in stores for one in store["unsaved"] if one["state"] == "pending" and one["reason"]), None
    )
    return f"{changes:,} change{'s' if changes != 1 else ''} of {names} to be stored" + (f" ({reason})" if reason else "")


def _named(status: dict[str, Any] | None) -> str:
    """The files that wait, as far as the status names them, to be said in brackets."""
    stores = (status or {}).get("stores", ())
    paths = [printable(f"{store['name']}{one['path']}") for store in stores for one in store.get("unsaved", ())]
    return f" ({', '.join(paths)})" if paths else ""


COMMANDS = (umount,)
