"""`memfs restore`: bring back what a file or directory was, by writing it as anybody writes a file.

So a restore goes through the mount: it is a new version in the name of the mount's session, and nobody's work is lost to it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import click

from memfs.cli.output import print_object, printable, say
from memfs.cli.past import Place, attribute, files_at, find_place, find_version, parse_time, read_past, refusal
from memfs.cli.sync import sync_path
from memfs.model.errors import InvalidRequest, MemfsError, NotFound, ReadOnly


@dataclass(frozen=True)
class Restoration:
    """One file to bring back."""

    source: Path
    """In `.versions`."""
    target: Path


@click.command()
@click.argument("path")
@click.argument("version", metavar="VERSION|@TIME")
@click.option("--missing", "only_missing", is_flag=True, help="Only files that do not exist now.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be written.")
@click.option("--json", "as_json", is_flag=True, help="Print the contract's memories that were written, one a line.")
def restore(path: str, version: str, only_missing: bool, dry_run: bool, as_json: bool) -> int:
    """Write PATH as it was in a version, or at a time.

    `memfs log PATH` lists the versions; a time is @2026-08-26T12:00:00Z, @15m or @yesterday. PATH may have been deleted; a
    directory comes back with everything that was below it, and what it holds besides stays. Each file that differs gets a new
    version in the name of the mount's session; a deleted one becomes a new memory.

    \b
    Examples:
      memfs restore /mnt/memory/user-preferences/coffee.md memver_01ab
      memfs restore /mnt/memory/user-preferences @10m --missing
    """
    place = find_place(path)
    if place.store.access == "read_only":
        raise ReadOnly(
            f"{place.store.name} is attached read-only: mount it without --read-only and :ro to restore; "
            "where the store is archived, `memfs export --versions` brings what it held elsewhere"
        )
    written: list[Restoration] = []
    failures = 0
    for restoration in _restorations(place, version):
        try:
            if _restore(restoration, only_missing=only_missing, dry_run=dry_run):
                written.append(restoration)
                if not as_json:
                    print(printable(str(restoration.target)), flush=True)
        except MemfsError as error:
            failures += 1
            say(error.message)
    if written and not dry_run:
        sync_path(place.record, str(place.path))
    if as_json and not dry_run:
        for restoration in written:
            _print_memory(place, restoration.target)
    if not written and not failures:
        say(f"{place.path} has all of it already")
    return 1 if failures else 0


def _restorations(place: Place, version: str) -> list[Restoration]:
    instant = parse_time(version)
    if instant is not None:
        found = files_at(place, instant)
        if not found:
            raise NotFound(f"there was nothing at {place.path} then: `memfs log {place.path}` shows what was when")
        return [Restoration(source, place.path / name) for name, source in found.items()]
    found_version = find_version(place, version)
    if found_version.operation == "deleted":
        raise InvalidRequest(f"{version} is the deletion of {place.path}: choose the version before it")
    return [Restoration(found_version.file, place.path)]


def _restore(restoration: Restoration, *, only_missing: bool, dry_run: bool) -> bool:
    """Whether there was something to write. Raises `MemfsError`."""
    target = restoration.target
    try:
        # Whoever replaces a file has read it: the mount then stores the new content on the version that was read here.
        present: bytes | None = target.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        present = None
    except OSError as error:
        raise refusal(error, target) from None
    if present is not None and only_missing:
        return False
    content = read_past(restoration.source)
    if present == content:
        return False
    if not dry_run:
        try:
            _write(target, content)
        except OSError as error:
            raise refusal(error, target) from None
    return True


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        os.write(descriptor, content)
        if not content:
            os.fsync(descriptor)  # closing alone stores no empty file before it returns
    finally:
        os.close(descriptor)


def _print_memory(place: Place, target: Path) -> None:
    """The memory at `target`, as its attributes tell."""
    from memfs.model.objects import Memory

    names = ("id", "version_id", "sha256", "created_at", "updated_at")
    told = {name: attribute(target, name) for name in names}
    if None in told.values():
        say(f"{target} is written, but its attributes cannot be read")
        return
    print_object(
        Memory.model_validate(
            {
                "id": told["id"],
                "memory_store_id": place.store.id,
                "memory_version_id": told["version_id"],
                "path": "/" + str(target.relative_to(place.root)),
                "content_sha256": told["sha256"],
                "content_size_bytes": target.stat().st_size,
                "created_at": told["created_at"],
                "updated_at": told["updated_at"],
            }
        )
    )


COMMANDS = (restore,)
