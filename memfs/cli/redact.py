"""`memfs redact`: remove the content of one old version for good (contract section 5)."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.log import actor_id
from memfs.cli.output import print_object, printable, say
from memfs.cli.past import in_store
from memfs.cli.registry import Registry
from memfs.cli.service import call, every_version, opener, operator, service_of_mount
from memfs.cli.sync import try_sync
from memfs.cli.targets import the_mount_of_path
from memfs.model.errors import InvalidRequest, MemfsError, NotFound, PermissionDenied, Unauthenticated

if TYPE_CHECKING:
    from memfs.model.content import Sha256
    from memfs.model.ids import StoreId, VersionId
    from memfs.model.objects import MemoryVersion
    from memfs.stores.base import MemoryStore

_CREDENTIAL = (
    "redacting is for administrators: give an API key that may do it ($MEMFS_API_KEY or --credentials-file), "
    "not a session's token"
)


@click.command()
@click.argument("path")
@click.argument("version")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print the contract's redacted memory version.")
@click.option(
    "--credentials-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with the API key of an administrator (else from the environment, such as $MEMFS_API_KEY).",
)
def redact(path: str, version: str, yes: bool, as_json: bool, credentials_file: Path | None) -> None:
    """Remove what PATH held in VERSION, for good.

    Content, hash, size and path of the version go from the store and from every mount. That it was made, when and by whom stays
    in the history. What PATH holds now cannot be redacted: write something else to it, or delete it, then redact the version
    that held the secret. `memfs log PATH` lists the versions.

    \b
    Example: memfs redact /mnt/memory/user-preferences/keys.md memver_01ab
    """
    record, place = the_mount_of_path(Registry.of_user(), path)
    store, segments = in_store(record, place)
    if store is None or not segments:
        raise click.UsageError(f"{path} is no memory: give the path that the version had")
    if record.state == "live":
        try_sync(record, place)
    open_it = opener(service_of_mount(record.url), actor=operator(), credentials_file=credentials_file)
    store_id, version_id = _ids(store.id, version)
    memory_path = "/" + "/".join(segments)

    async def look(service: "MemoryStore") -> "MemoryVersion":
        try:
            found = await service.retrieve_version(store_id, version_id, view="basic")
        except NotFound as error:
            raise NotFound(f"{error.message}: `memfs log {place}` lists what there is") from None
        await _check(service, store_id, found, memory_path, place)
        return found

    async def work(service: "MemoryStore") -> "tuple[MemoryVersion, list[MemoryVersion]]":
        try:
            redacted = await service.redact_version(store_id, version_id)
        except (PermissionDenied, Unauthenticated):
            raise PermissionDenied(_CREDENTIAL) from None
        alike = [] if found.content_sha256 is None else await _alike(service, store_id, found.memory_id, found.content_sha256)
        return redacted, alike

    found = call(open_it, look)
    if found.redacted_at is None and not yes:
        _ask(found, place)
    redacted, alike = call(open_it, work)
    if as_json:
        print_object(redacted)
    else:
        print(f"{redacted.id} is redacted")
    if alike:
        say(f"the same content is still in {', '.join(one.id for one in alike)}: redact these too, but for the head")


def _ids(store: str, version: str) -> "tuple[StoreId, VersionId]":
    from memfs.model.ids import StoreId, VersionId

    return StoreId(store), VersionId(version)


async def _check(service: "MemoryStore", store_id: "StoreId", found: "MemoryVersion", path: str, place: str) -> None:
    """Raises `NotFound` for a version that `path` never had, and `InvalidRequest` for what its memory holds now."""
    if found.redacted_at is not None:
        return
    if found.path != path:
        had = [version async for version in every_version(service, store_id, memory_id=found.memory_id) if version.path == path]
        if not had:
            raise NotFound(f"{found.id} is no version of {place}, it had the path {found.path}: `memfs log {place}` lists them")
    try:
        head = await service.retrieve_memory(store_id, found.memory_id, view="basic")
    except NotFound:
        return
    if head.memory_version_id == found.id:
        raise InvalidRequest(
            f"{found.id} is what {place} holds now, and that cannot be redacted: write other content to the file or delete it, "
            f"then `memfs redact {place} {found.id}` again"
        )


async def _alike(service: "MemoryStore", store_id: "StoreId", memory_id: str, sha256: "Sha256") -> "list[MemoryVersion]":
    """The versions of the memory that hold the same content, such as a rename."""
    try:
        versions = every_version(service, store_id, memory_id=memory_id)
        return [version async for version in versions if version.content_sha256 == sha256]
    except MemfsError as error:
        say(f"whether other versions hold the same content is not known: {error.message}")
        return []


def _ask(found: "MemoryVersion", place: str) -> None:
    """Raises `click.Abort` unless the answer is yes, and `click.UsageError` where nobody can be asked."""
    from memfs.model.objects import format_time

    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: --yes redacts without asking")
    who = actor_id(found.created_by) or "an unknown actor"
    size = "no content" if found.content_size_bytes is None else f"{found.content_size_bytes:,} bytes"
    click.echo(
        f"{found.id} of {printable(place)}: {found.operation} {format_time(found.created_at)} by {printable(who)}, {size}.",
        err=True,
    )
    click.confirm("Remove its content for good? Nobody can bring it back", abort=True, err=True)


COMMANDS = (redact,)
