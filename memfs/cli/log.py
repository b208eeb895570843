"""`memfs log`: the history of a memory, a directory, a store or a whole mount."""

import heapq
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.output import print_object, print_table
from memfs.cli.registry import AttachedStore, MountRecord, Registry
from memfs.cli.service import call, every_version, opener, operator, service_of_mount
from memfs.cli.sync import try_sync
from memfs.cli.targets import the_mount_of_path
from memfs.model.errors import NotFound

if TYPE_CHECKING:
    from memfs.model.objects import Actor, MemoryVersion
    from memfs.stores.base import MemoryStore


@click.command()
@click.argument("path", required=False)
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@click.option("--json", "as_json", is_flag=True, help="Print the contract's memory versions, one a line.")
@click.option(
    "--credentials-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with the token or API key of the service (else from the environment, such as $MEMFS_API_KEY).",
)
def log(path: str | None, limit: int | None, as_json: bool, credentials_file: Path | None) -> None:
    """Show who changed what and when, newest first.

    PATH is a file or directory below a mount, also one that was deleted. For a file: every version of every memory that ever
    had this path. For a directory: what happened below it. Without PATH: everything in the mount of the current directory,
    else in /mnt/memory.

    \b
    Example: memfs log /mnt/memory/user-preferences/coffee.md
    """
    record, place = the_mount_of_path(Registry.of_user(), path)
    stores, memory_path = _in_stores(record, place)
    if record.state == "live":
        try_sync(record, place)
    url = service_of_mount(record.url)

    async def work(service: "MemoryStore") -> "list[MemoryVersion]":
        histories = [[version async for version in every_version(service, store.id)] for store in stores]
        chosen = [_of_path(history, memory_path) for history in histories]
        merged = heapq.merge(*chosen, key=lambda version: (version.created_at, version.id), reverse=True)
        return list(merged)[:limit]

    versions = call(opener(url, actor=operator(), credentials_file=credentials_file), work)
    if not versions and memory_path is not None:
        raise NotFound(f"{place} has no history: no memory ever had that path, or it is not stored yet (`memfs status`)")
    if as_json:
        for version in versions:
            print_object(version)
        return
    names = {store.id: store.name for store in stores}
    print_table(("TIME", "WHAT", "WHO", "BYTES", "PATH", "VERSION"), [_row(version, names) for version in versions])


def _in_stores(record: MountRecord, place: str) -> tuple[list[AttachedStore], str | None]:
    """The stores that `place` lies in, and its memory path there: all of them and None for the root of the mount."""
    relative = place[len(record.mountpoint) :].strip("/")
    if not relative:
        return list(record.stores), None
    name, _, rest = relative.partition("/")
    store = next((store for store in record.stores if store.name == name), None)
    if store is None:
        names = ", ".join(store.name for store in record.stores)
        raise NotFound(f"{name} is no store of {record.mountpoint}: it has {names}")
    # A name that a file system gives in decomposed form is the memory of its composed form (contract section 4.1).
    return [store], f"/{unicodedata.normalize('NFC', rest)}" if rest else None


def _of_path(history: "Iterable[MemoryVersion]", path: str | None) -> "list[MemoryVersion]":
    """The versions of the memories that ever had `path`, and those of what is or was below it; None: all."""
    history = list(history)
    if path is None:
        return history
    had = {version.memory_id for version in history if version.path == path}
    below = f"{path}/"
    return [v for v in history if v.memory_id in had or (v.path is not None and v.path.startswith(below))]


def _row(version: "MemoryVersion", names: dict[str, str]) -> tuple[str, ...]:
    from memfs.model.objects import format_time

    size = version.content_size_bytes
    path = "(redacted)" if version.redacted_at else f"{names[version.memory_store_id]}{version.path or ''}"
    who = _actor(version.created_by)
    return (format_time(version.created_at), version.operation, who, "" if size is None else str(size), path, version.id)


def _actor(actor: "Actor | None") -> str:
    """The one id that an actor has, whatever its type calls it."""
    if actor is None:
        return ""
    ids = [str(value) for name, value in actor.model_dump().items() if name.endswith("_id") and value]
    return ids[0] if ids else actor.type


COMMANDS = (log,)
