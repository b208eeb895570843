"""`memfs status --watch`: the mounts as they are now, again and again, read from what their daemons write down each second."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memfs.cli.output import printable
from memfs.cli.registry import MountRecord

if TYPE_CHECKING:
    from rich.console import Group

INTERVAL_SECONDS = 1.0
SHOWN_UNSAVED = 10
HEADINGS = ("STORE", "STATE", "KNOWN AS OF", "MEMORIES", "PENDING", "REFUSED", "REQUESTS/S")


@dataclass(frozen=True)
class Seen:
    """How many requests a store had sent at a moment (`time.monotonic`)."""

    requests: int
    at: float


class Watch:
    """Makes rows of what the records say; remembers the last look, to tell how fast things go."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Seen] = {}

    def rows(self, records: list[MountRecord], now: float) -> Iterator[tuple[str, ...]]:
        for record in records:
            state = record.state
            said = record.status() or {}
            for store in said.get("stores") or [{"name": attached.name} for attached in record.stores]:
                yield self._row(record, state, store, now)

    def _row(self, record: MountRecord, state: str, store: dict[str, Any], now: float) -> tuple[str, ...]:
        name = f"{record.mountpoint}/{store['name']}"
        age = store.get("seconds_since_change_poll")
        reachable = store.get("reachable", True)
        return (
            printable(name),
            state if reachable else f"{state}, STALE",
            "" if age is None else f"{age:.0f} s ago",
            _count(store.get("memories")),
            _count(store.get("pending")),
            _count(store.get("refused")),
            self._rate((record.mountpoint, store["name"]), sum((store.get("requests") or {}).values()), now),
        )

    def _rate(self, key: tuple[str, str], requests: int, now: float) -> str:
        before = self._seen.get(key)
        self._seen[key] = Seen(requests, now)
        if before is None or now <= before.at or requests < before.requests:
            return ""
        return f"{(requests - before.requests) / (now - before.at):.1f}"


def unsaved(records: list[MountRecord]) -> list[str]:
    """A line for each file whose newest content is not stored, with the reason."""
    lines = []
    for record in records:
        for store in (record.status() or {}).get("stores", ()):
            for one in store.get("unsaved", ()):
                reason = f": {one['reason']}" if one.get("reason") else ""
                lines.append(printable(f"{one['state']}  {record.mountpoint}/{store['name']}{one['path']}{reason}"))
    return lines


def _count(value: Any) -> str:
    return "" if value is None else f"{value:,}"


def watch(records: Callable[[], list[MountRecord]]) -> None:
    """Show them on the terminal until interrupted."""
    from rich.live import Live

    looking = Watch()
    with Live(_screen(looking, records()), auto_refresh=False, screen=True) as live:
        while True:
            live.update(_screen(looking, records()), refresh=True)
            time.sleep(INTERVAL_SECONDS)


def _screen(looking: Watch, records: list[MountRecord]) -> "Group":
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(*HEADINGS, box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for row in looking.rows(records, time.monotonic()):
        table.add_row(*(Text(cell) for cell in row))
    lines = unsaved(records)
    more = [f"and {len(lines) - SHOWN_UNSAVED:,} more"] if len(lines) > SHOWN_UNSAVED else []
    shown = [Text(line) for line in (*lines[:SHOWN_UNSAVED], *more)]
    nothing = [] if records else [Text("nothing is mounted: `memfs mount` mounts your stores")]
    return Group(table, *shown, *nothing, Text("Ctrl-C ends this", style="dim"))
