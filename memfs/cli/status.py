"""`memfs status`: what the mounts do. Read from the files that their daemons keep: a mount that is stuck is not asked."""

import sys
import time
from typing import Any

import click

from memfs.cli.mountpoints import canonical
from memfs.cli.output import print_json, say
from memfs.cli.registry import MountRecord, Registry
from memfs.cli.targets import the_mount
from memfs.model.errors import NotFound

STATES = {
    "live": "served by process {pid}",
    "starting": "process {pid} is about to mount it",
    "draining": "unmounted; process {pid} still stores what was written",
    "dead": "DEAD: process {pid} is gone; `memfs mount {mountpoint}` mounts it again and stores what it had not stored",
}
SHADOW_STATES = {
    "live": "kept alike by process {pid} (memfs shadow)",
    "dead": "DEAD: process {pid} is gone; `memfs shadow {mountpoint}` goes on and stores what was changed since",
}


@click.command()
@click.argument("mountpoint", required=False)
@click.option("-w", "--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a mount and line.")
def status(mountpoint: str | None, watch: bool, as_json: bool) -> int:
    """Show what the mounts hold, what is not stored yet and why.

    Without MOUNTPOINT: every mount of yours. Fails when the mount does not exist or one is dead. Inside a mount,
    .memfs/status shows the same.

    \b
    Examples:
      memfs status --watch
      memfs status --json | jq '.stores[].pending'
    """
    registry = Registry.of_user()
    records = _records(registry, mountpoint)
    if watch:
        return _watch(registry, mountpoint, as_json=as_json)
    if not records:
        say("nothing is mounted: `memfs mount` mounts your stores")
    states = [record.state for record in records]
    for number, (record, state) in enumerate(zip(records, states, strict=True)):
        if as_json:
            print_json(_object(record, state))
        else:
            if number:
                print()
            _print_text(record, state)
    return 1 if "dead" in states else 0


def _records(registry: Registry, mountpoint: str | None) -> list[MountRecord]:
    """Those that are meant. Raises `NotFound` for a place that is none, after saying how its last mount ended."""
    if mountpoint is None:
        return registry.records()
    try:
        return [the_mount(registry, mountpoint)]
    except NotFound:
        _tell_last_end(registry, canonical(mountpoint))
        raise


def _watch(registry: Registry, mountpoint: str | None, *, as_json: bool) -> int:
    from memfs.cli.watch import INTERVAL_SECONDS, watch

    if not as_json:
        if not sys.stdout.isatty():
            raise click.UsageError("--watch draws on a terminal: for a program add --json")
        watch(lambda: _records(registry, mountpoint))
    while True:
        for record in _records(registry, mountpoint):
            print_json(_object(record, record.state))
        sys.stdout.flush()
        time.sleep(INTERVAL_SECONDS)


def _object(record: MountRecord, state: str) -> dict[str, Any]:
    stores = [{"name": store.name, "store_id": store.id, "access": store.access} for store in record.stores]
    return {
        "stores": stores,
        **(record.status() or {}),
        "mountpoint": record.mountpoint,
        "state": state,
        "pid": record.process.pid,
        "url": record.url,
        "session_id": record.session_id,
        "mounted_at": record.mounted_at,
        "log": record.log,
    }


def _print_text(record: MountRecord, state: str) -> None:
    words = STATES[state] if record.kind == "mount" else SHADOW_STATES[state]
    print(f"{record.mountpoint}: {words.format(pid=record.process.pid, mountpoint=record.mountpoint)}")
    said = record.status()
    if said is None:
        print(f"service {record.url}\nsession {record.session_id}, since {record.mounted_at}")
        for store in record.stores:
            print(f"\n{store.name}  {store.id}  {store.access}")
        return
    from pydantic import TypeAdapter

    from memfs.views.state import MountState, status_text

    print(status_text(TypeAdapter(MountState).validate_python(said)).decode("utf-8", "replace"), end="")


def _tell_last_end(registry: Registry, mountpoint: str) -> None:
    """Say how the last mount of `mountpoint` ended, when it did not end well."""
    ended = registry.last_exit(mountpoint)
    if ended is not None and ended.status != 0:
        say(f"the last mount of {mountpoint} ended with: {ended.message}")


COMMANDS = (status,)
