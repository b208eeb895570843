"""`memfs pending`: what was written and is not in the store yet, of every mount of this user, also of those that are gone.

`list` reads the journals, which any process of the user may do while a daemon writes them. `retry` is an fsync of the store's
directory. `discard` asks the mount by removing an attribute of the file, so that the kernel checks who may; where no mount is,
it changes the journal itself, under the lock that a daemon would hold.
"""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from memfs.cli.mountpoints import canonical
from memfs.cli.output import print_json, print_table
from memfs.cli.registry import MountRecord, Registry, state_directory
from memfs.cli.sync import sync_path
from memfs.cli.targets import the_mount_of_path
from memfs.model.errors import InvalidRequest, MemfsError, NotFound
from memfs.model.ids import MemoryId

DISCARD = "user.memory.unstored"

_DRAFTS = "SELECT path, length(content), since_ns, refused, key FROM drafts ORDER BY path"
_PARKS = "SELECT path, new_path, memory_id FROM parks ORDER BY path"
_RENAMES = "SELECT old, new FROM directory_renames ORDER BY key"


@dataclass(frozen=True)
class Waiting:
    """One change that is not in the store. `path` is where it shows, or would show when the mount were there."""

    path: str
    state: str
    """pending, refused, or what is to happen to a memory: delete, rename."""
    size: int | None
    """In bytes; None where no content waits."""
    since: str | None
    """RFC 3339; None where it is a matter of seconds."""
    reason: str
    store_id: str
    mounted: bool


@click.group()
def pending() -> None:
    """What was written and is not in the store yet.

    It is tried again by itself, as long as its mount lives and at the next mount of the store; what the store refused waits for
    you.
    """


@pending.command("list")
@click.argument("path", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a change and line.")
def list_(path: str | None, as_json: bool) -> None:
    """List what waits at or below PATH, else everywhere, and why.

    \b
    Example: memfs pending list /mnt/memory
    """
    place = None if path is None else canonical(path)
    found = [
        waiting for waiting, _, _ in _all(Registry.of_user()) if place is None or f"{waiting.path}/".startswith(f"{place}/")
    ]
    if as_json:
        for waiting in found:
            print_json(asdict(waiting))
    elif found:
        print_table(
            ("path", "state", "bytes", "since", "reason"),
            ((one.path, one.state, "" if one.size is None else f"{one.size:,}", one.since or "", one.reason) for one in found),
        )


@pending.command()
@click.argument("path", required=False)
def retry(path: str | None) -> None:
    """Store what waits at or below PATH now.

    Also what the store refused; fails when it still cannot be stored. Without PATH: the whole mount of the current directory,
    else /mnt/memory, else the only mount.

    \b
    Example: memfs pending retry /mnt/memory/notes
    """
    record, place = the_mount_of_path(Registry.of_user(), path)
    if os.path.isfile(place):
        place = os.path.dirname(place)
    sync_path(record, place)


@pending.command()
@click.argument("path")
def discard(path: str) -> None:
    """Give up what was written to PATH and is not stored.

    The file is again what the store has. A deletion or rename that waits is given up likewise, where its mount is gone.

    \b
    Example: memfs pending discard /mnt/memory/notes/too-large.md
    """
    registry = Registry.of_user()
    place = canonical(path)
    record = registry.holding(place)
    if record is not None and record.kind == "shadow":
        raise InvalidRequest(
            f"{place} is a plain file beside the store: remove or mend it, then `memfs sync {record.mountpoint}`"
        )
    if record is not None and record.state == "live":
        _discard_mounted(place)
        return
    for waiting, directory, key in _all(registry):
        if waiting.path == place:
            _discard_journalled(directory, key)
            return
    raise NotFound(f"nothing waits for {place}: `memfs pending list` shows what does")


def _discard_mounted(place: str) -> None:
    try:
        os.removexattr(place, DISCARD, follow_symlinks=False)
    except FileNotFoundError:
        raise NotFound(f"{place} does not exist: `memfs pending list` shows what waits") from None
    except OSError as error:
        if error.errno == errno.EROFS:
            raise MemfsError(f"{place} lies in a mount that is read-only as a whole: `memfs umount` it, then discard") from None
        raise MemfsError(f"{place}: nothing of it waits to be stored: `memfs pending list` shows what does") from None


def _discard_journalled(directory: Path, key: int | MemoryId) -> None:
    from memfs.replica.journal import Journal

    journal = Journal(directory)
    try:
        if isinstance(key, int):
            journal.remove_draft(key)
        else:
            journal.remove_park(key)
    finally:
        journal.close()


def _all(registry: Registry) -> Iterator[tuple[Waiting, Path, int | MemoryId]]:
    """Everything that waits, with the state directory that holds it and its key there."""
    records = registry.records()
    for database in sorted(state_directory().glob("*/*/journal.db")):
        with contextlib.suppress(sqlite3.Error):  # no journal of ours, or one that its next mount sets aside
            yield from _of_journal(database, records)


def _of_journal(database: Path, records: list[MountRecord]) -> Iterator[tuple[Waiting, Path, int | MemoryId]]:
    from memfs.model.objects import format_time

    directory = database.parent
    with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
        place = connection.execute("SELECT mountpoint, name FROM place").fetchone()
        if place is None:
            return
        mountpoint, name = place
        record = next((record for record in records if record.mountpoint == mountpoint and record.state == "live"), None)
        reasons = _reasons(record, directory.parent.name)

        def waiting(path: str, state: str, size: int | None, since: str | None, reason: str) -> Waiting:
            shown = f"{os.path.join(mountpoint, name)}{path}"
            return Waiting(shown, state, size, since, reason, directory.parent.name, record is not None)

        for path, size, since_ns, refused, key in connection.execute(_DRAFTS).fetchall():
            state = "pending" if refused is None else "refused"
            since = format_time(datetime.fromtimestamp(since_ns / 1e9, UTC))
            yield waiting(path, state, size, since, refused or reasons.get(path, "")), directory, int(key)
        for path, new_path, memory_id in connection.execute(_PARKS).fetchall():
            state, reason = ("delete", "") if new_path is None else ("rename", f"to {new_path}")
            yield waiting(path, state, None, None, reason), directory, MemoryId(memory_id)
        for old, new in connection.execute(_RENAMES).fetchall():
            yield waiting(old, "rename", None, None, f"to {new}, with all below"), directory, MemoryId("")


def _reasons(record: MountRecord | None, store_id: str) -> dict[str, str]:
    """Why each path of a store waits, as the mount's daemon says."""
    said: dict[str, Any] = (record.status() or {}) if record is not None else {}
    return {
        one["path"]: one["reason"]
        for store in said.get("stores", ())
        if store["store_id"] == store_id
        for one in store["unsaved"]
    }


COMMANDS = (pending,)
