"""`memfs log`: the history of a memory, a directory, a store or a whole mount."""

import heapq
import unicodedata
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memfs.cli.output import print_object, print_table
from memfs.cli.past import attribute, in_store
from memfs.cli.registry import Registry
from memfs.cli.service import call, every_version, opener, operator, service_of_mount
from memfs.cli.sync import try_sync
from memfs.cli.targets import the_mount_of_path
from memfs.model.errors import NotFound

if TYPE_CHECKING:
    from memfs.model.objects import Actor, MemoryVersion
    from memfs.stores.base import MemoryStore

_DELETIONS = 500
"""How many of the newest deletions are searched for memories that had the path of a present one, as `.versions` does."""


@dataclass(frozen=True)
class Wanted:
    """Which versions to show; None: any."""

    since: datetime | None = None
    session_id: str | None = None
    operation: str | None = None
    limit: int | None = None

    def filters(self, service: "MemoryStore") -> dict[str, Any]:
        """What the service can be asked to leave out."""
        filters: dict[str, Any] = {"operation": self.operation, "session_id": self.session_id}
        if service.capabilities.version_times:
            filters["created_at_gte"] = self.since
        return {name: value for name, value in filters.items() if value is not None}

    def holds(self, version: "MemoryVersion") -> bool:
        from memfs.model.objects import SessionActor

        actor = version.created_by
        return (
            (self.since is None or version.created_at >= self.since)
            and (self.operation is None or version.operation == self.operation)
            and (self.session_id is None or (isinstance(actor, SessionActor) and actor.session_id == self.session_id))
        )


def _time(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    from memfs.views.instants import parse_span

    if value is None:
        return None
    span = parse_span(value.removeprefix("@"), datetime.now(UTC))
    if span is None:
        raise click.BadParameter("write 2026-08-26, 2026-08-26T12:00:00Z, 15m, 2h, 3d or yesterday")
    return span[0]


@click.command()
@click.argument("path", required=False)
@click.option("--since", callback=_time, metavar="TIME", help="Only what happened from then on: 2026-08-26, 2h, yesterday.")
@click.option("--session", "session_id", metavar="ID", help="Only what this session did.")
@click.option("--operation", type=click.Choice(["created", "modified", "deleted"]), help="Only this kind of change.")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@click.option("--json", "as_json", is_flag=True, help="Print the contract's memory versions, one a line.")
@click.option(
    "--credentials-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with the token or API key of the service (else from the environment, such as $MEMFS_API_KEY).",
)
def log(
    path: str | None,
    since: datetime | None,
    session_id: str | None,
    operation: str | None,
    limit: int | None,
    as_json: bool,
    credentials_file: Path | None,
) -> None:
    """Show who changed what and when, newest first.

    PATH is a file or directory below a mount, also one that was deleted. For a file: every version of every memory that ever
    had this path (beside a present one, of those that were deleted lately). For a directory: what happened below it. Without
    PATH: everything in the mount of the current directory, else in /mnt/memory.

    \b
    Examples:
      memfs log /mnt/memory/user-preferences/coffee.md
      memfs log --since 2h --operation deleted
    """
    record, place = the_mount_of_path(Registry.of_user(), path)
    store, segments = in_store(record, place)
    stores = [store] if store is not None else list(record.stores)
    # A name that a file system gives in decomposed form is the memory of its composed form (contract section 4.1).
    memory_path = unicodedata.normalize("NFC", "/" + "/".join(segments)) if segments else None
    memory_id = None
    if record.state == "live":
        try_sync(record, place)
        memory_id = attribute(Path(place), "id") if memory_path is not None else None
    wanted = Wanted(since, session_id, operation, limit)

    async def work(service: "MemoryStore") -> "list[MemoryVersion]":
        if memory_path is None:
            histories = [await _newest(service, store.id, wanted) for store in stores]
        elif memory_id is not None:
            histories = await _of_memory(service, stores[0].id, memory_path, memory_id, wanted)
        else:
            histories = [await _newest(service, stores[0].id, wanted, path=memory_path)]
        # Within one history the service's order stays: times may be too coarse to tell.
        return list(heapq.merge(*histories, key=lambda version: version.created_at, reverse=True))[:limit]

    versions = call(opener(service_of_mount(record.url), actor=operator(), credentials_file=credentials_file), work)
    if not versions and memory_path is not None and wanted == Wanted(limit=limit):
        raise NotFound(f"{place} has no history: no memory ever had that path, or it is not stored yet (`memfs status`)")
    if as_json:
        for version in versions:
            print_object(version)
        return
    names = {store.id: store.name for store in stores}
    print_table(("TIME", "WHAT", "WHO", "BYTES", "PATH", "VERSION"), [_row(version, names) for version in versions])


async def _of_memory(
    service: "MemoryStore", store_id: str, path: str, memory_id: str, wanted: Wanted
) -> "list[list[MemoryVersion]]":
    """The versions of the memory at `path`, and of those that were deleted there; asks for the versions of these alone."""
    memories = {memory_id: None}
    searched = 0
    async for version in every_version(service, store_id, operation="deleted"):
        searched += 1
        if version.path == path:
            memories[version.memory_id] = None
        if searched == _DELETIONS:
            break
    return [await _newest(service, store_id, wanted, memory_id=memory) for memory in memories]


async def _newest(
    service: "MemoryStore", store_id: str, wanted: Wanted, *, memory_id: str | None = None, path: str | None = None
) -> "list[MemoryVersion]":
    """The newest versions that are wanted: of one memory, or of what had `path` or lay below it, or of the store."""
    if path is not None:
        return await _of_path(service, store_id, wanted, path)
    filters = wanted.filters(service) | ({} if memory_id is None else {"memory_id": memory_id})
    found: list[MemoryVersion] = []
    async for version in _until(every_version(service, store_id, **filters), wanted.since):
        if wanted.holds(version):
            found.append(version)
            if len(found) == wanted.limit:
                break
    return found


async def _of_path(service: "MemoryStore", store_id: str, wanted: Wanted, path: str) -> "list[MemoryVersion]":
    """Which memories had a path nobody can be asked; it takes the versions of the whole store, back to `wanted.since`."""
    since = {"created_at_gte": wanted.since} if wanted.since is not None and service.capabilities.version_times else {}
    history = [version async for version in _until(every_version(service, store_id, **since), wanted.since)]
    had = {version.memory_id for version in history if version.path == path}
    below = f"{path}/"
    return [
        version
        for version in history
        if wanted.holds(version) and (version.memory_id in had or (version.path is not None and version.path.startswith(below)))
    ]


async def _until(versions: "AsyncIterator[MemoryVersion]", since: datetime | None) -> "AsyncIterator[MemoryVersion]":
    """`versions`, newest first, to the last that is not older than `since`, also where a service cannot be asked for that."""
    async for version in versions:
        if since is not None and version.created_at < since:
            return
        yield version


def _row(version: "MemoryVersion", names: dict[str, str]) -> tuple[str, ...]:
    from memfs.model.objects import format_time

    size = version.content_size_bytes
    path = "(redacted)" if version.redacted_at else f"{names[version.memory_store_id]}{version.path or ''}"
    who = actor_id(version.created_by)
    return (format_time(version.created_at), version.operation, who, "" if size is None else str(size), path, version.id)


def actor_id(actor: "Actor | None") -> str:
    """The one id that an actor has, whatever its type calls it; empty for an author that was not recorded."""
    if actor is None:
        return ""
    ids = [str(value) for name, value in actor.model_dump().items() if name.endswith("_id") and value]
    return ids[0] if ids else actor.type


COMMANDS = (log,)
