"""Which mount a command means."""

import os

import click

from memfs.cli.mountpoints import canonical
from memfs.cli.registry import MountRecord, Registry
from memfs.model.errors import NotFound

DEFAULT_MOUNTPOINT = "/mnt/memory"


def the_mount(registry: Registry, mountpoint: str | None) -> MountRecord:
    """The mount at `mountpoint`; without one that of the current directory, else /mnt/memory, else the only one there is.

    Raises `NotFound` when it is not in this user's records, and `click.UsageError` when several are meant.
    """
    if mountpoint is not None:
        place = canonical(mountpoint)
        record = registry.find(place)
        if record is None or record.state == "gone":
            raise NotFound(f"{place} is not a mount of yours{_list(registry)}")
        return record
    try:
        here = registry.holding(os.getcwd())
    except FileNotFoundError:
        here = None
    records = registry.records()
    default = next((record for record in records if record.mountpoint == DEFAULT_MOUNTPOINT), None)
    if (found := here or default) is not None:
        return found
    if not records:
        raise NotFound("nothing is mounted: `memfs mount` mounts your stores")
    if len(records) > 1:
        raise click.UsageError(f"say which mount you mean: {', '.join(record.mountpoint for record in records)}")
    return records[0]


def the_mount_of_path(registry: Registry, path: str | None) -> tuple[MountRecord, str]:
    """The mount that holds `path`, and `path` in canonical form; without one, the root of `the_mount`.

    Raises `NotFound` when no mount of this user holds it.
    """
    if path is None:
        meant = the_mount(registry, None)
        return meant, meant.mountpoint
    place = canonical(path)
    record = registry.holding(place)
    if record is None:
        raise NotFound(f"{place} lies below no mount of yours{_list(registry)}")
    return record, place


def _list(registry: Registry) -> str:
    places = ", ".join(record.mountpoint for record in registry.records())
    return f": you have {places}" if places else ": nothing is mounted"
