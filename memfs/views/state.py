"""`.memfs`: what the mount does, for people, programs and monitors.

``status`` and ``status.json`` show one `MountState`, ``errors`` and ``conflicts`` the notices as JSON lines, newest last, and
``metrics`` the counters in Prometheus' text format. All is rendered from what the mount knows at that moment: reading it sends
nothing. The command line prints the same from `status_object`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from memfs.model.objects import Access, format_time
from memfs.replica.notices import ConflictNotice, Notice, Notices
from memfs.replica.tree import time_ns
from memfs.views.tree import RenderedFile, ViewDirectory, ViewFile

SHOWN_UNSAVED = 100
"""How many of a store's unsaved files the status names; it counts all of them."""


@dataclass(frozen=True)
class Unsaved:
    """A file whose newest content the store does not hold."""

    path: str
    state: Literal["pending", "refused"]
    """Pending content is sent again by itself; refused content waits for a person."""
    size: int
    """In bytes."""
    since: datetime
    reason: str
    """Why it is not stored, as a sentence; empty while it is on its way."""


@dataclass(frozen=True)
class StoreState:
    """One attached store. Sizes are in bytes; counters start at the mount."""

    name: str
    """The name of its directory."""
    store_id: str
    access: Access
    reachable: bool
    """False: the service did not answer the last time, and reads come from the cache."""
    last_change_poll: datetime | None
    """When the mount last knew all that the store held; None: not yet."""
    pending: int
    refused: int
    scratch_files: int
    scratch_bytes: int
    memories: int | None
    """None: not known without asking."""
    content_bytes: int | None
    cached_bytes: int
    cache_limit: int
    cache_hits: int
    cache_misses: int
    requests: Mapping[str, int] = field(default_factory=dict)
    """How many requests were sent, by the name of the `MemoryStore` method."""
    unsaved: tuple[Unsaved, ...] = ()
    scratch_directories: int = 0
    """Directories of tools, such as ``.git``, that are kept on this machine with all that is in them."""
    trouble: str = ""
    """Why the service cannot be asked, as a sentence; empty while it can."""


@dataclass(frozen=True)
class MountState:
    """A mount at one moment."""

    version: str
    """Of memfs."""
    pid: int
    mountpoint: str
    url: str
    """Without credentials."""
    session_id: str
    started_at: datetime
    now: datetime
    max_staleness: float
    """In seconds."""
    stores: tuple[StoreState, ...]
    errors: Mapping[str, int] = field(default_factory=dict)
    """How many errors callers were given since the mount, by the errno's name."""


def freshness(store: StoreState, now: datetime) -> float | None:
    """For how many seconds nobody looked what else happened in the store; None: not looked yet."""
    return None if store.last_change_poll is None else max(0.0, (now - store.last_change_poll).total_seconds())


def status_object(state: MountState) -> dict[str, Any]:
    """What ``status.json`` shows. The same numbers under the same names as the fields of `MountState`, times in RFC 3339."""
    stores = []
    for store in state.stores:
        shown = asdict(replace(store, unsaved=store.unsaved[:SHOWN_UNSAVED]))
        stores.append({**shown, "seconds_since_change_poll": freshness(store, state.now)})
    whole: dict[str, Any] = _with_times({**asdict(replace(state, stores=())), "stores": stores})
    return whole


def status_json(state: MountState) -> bytes:
    return _encoded(status_object(state), indent=2)


def status_text(state: MountState) -> bytes:
    """The status for people: what needs attention comes with each store, in full sentences where it asks for action."""
    lines = [
        f"memfs {state.version}, process {state.pid}, mounted at {state.mountpoint}",
        f"service {state.url}",
        f"session {state.session_id}, since {format_time(state.started_at)}",
    ]
    for store in state.stores:
        lines += ["", *_store_lines(store, state)]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _store_lines(store: StoreState, state: MountState) -> Iterator[str]:
    yield f"{store.name}  {store.store_id}  {store.access}"
    age = freshness(store, state.now)
    known = "not read yet" if age is None else f"known as of {age:.1f} s ago (bound {state.max_staleness:g} s)"
    yield f"  {known}" if store.reachable else f"  STALE: {_one_line(store.trouble or 'the service does not answer')}; {known}"
    if store.memories is not None:
        size = "" if store.content_bytes is None else f", {store.content_bytes:,} bytes"
        yield f"  memories  {store.memories:,}{size}"
    yield f"  pending   {store.pending:,} to be stored"
    yield f"  refused   {store.refused:,}" + (" not stored: see below, then `memfs pending`" if store.refused else "")
    directories = f"; {store.scratch_directories:,} local directories" if store.scratch_directories else ""
    yield f"  scratch   {store.scratch_files:,} local files, {store.scratch_bytes:,} bytes{directories}"
    share = store.cache_hits / max(1, store.cache_hits + store.cache_misses)
    yield f"  cache     {store.cached_bytes:,} of {store.cache_limit:,} bytes, {share:.0%} of reads answered from it"
    by_name = ", ".join(f"{name} {count:,}" for name, count in sorted(store.requests.items()))
    yield f"  requests  {sum(store.requests.values()):,}" + (f" ({by_name})" if by_name else "")
    for unsaved in store.unsaved[:SHOWN_UNSAVED]:
        reason = f": {unsaved.reason}" if unsaved.reason else ""
        yield f"  {unsaved.state}  {_one_line(unsaved.path)}  {unsaved.size:,} bytes since {format_time(unsaved.since)}{reason}"
    if len(store.unsaved) > SHOWN_UNSAVED:
        yield f"  and {len(store.unsaved) - SHOWN_UNSAVED:,} more"


def _one_line(path: str) -> str:
    """`path` without anything that could look like another line of the status."""
    return path if path.isprintable() else json.dumps(path)


def json_lines(notices: Iterable[Notice | ConflictNotice]) -> bytes:
    """One object a line."""
    return b"".join(_encoded(_with_times(asdict(notice))) for notice in notices)


def _encoded(value: object, indent: int | None = None) -> bytes:
    # A local file's name may be no UTF-8: the surrogate that stands for such a byte goes out as JSON's own escape.
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "backslashreplace") + b"\n"


def _with_times(value: Any) -> Any:
    """`value` with every time in it in RFC 3339."""
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Mapping):
        return {key: _with_times(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_times(item) for item in value]
    return value


def metrics_text(state: MountState, conflicts: int) -> bytes:
    """The counters in Prometheus' text format; `conflicts` is the number of conflicts that the mount remembers."""
    # Imported here because it brings an HTTP server along, which would delay every mount.
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

    class Snapshot(Collector):
        def collect(self) -> Iterator[Metric]:
            started = GaugeMetricFamily("memfs_start_time_seconds", "When the mount began, in seconds since the epoch.")
            started.add_metric([], state.started_at.timestamp())
            yield started
            remembered = GaugeMetricFamily("memfs_conflicts", "Conflicts listed in .memfs/conflicts.")
            remembered.add_metric([], conflicts)
            yield remembered
            errors = CounterMetricFamily("memfs_errors", "Errors that callers were given.", labels=["errno"])
            for name, count in sorted(state.errors.items()):
                errors.add_metric([name], count)
            yield errors
            requests = CounterMetricFamily("memfs_requests", "Requests sent to the service.", labels=["store", "operation"])
            for store in state.stores:
                for operation, count in sorted(store.requests.items()):
                    requests.add_metric([store.name, operation], count)
            yield requests
            for name, text, value in _GAUGES:
                gauge = GaugeMetricFamily(name, text, labels=["store"])
                for store in state.stores:
                    measured = value(store, state)
                    if measured is not None:
                        gauge.add_metric([store.name], measured)
                yield gauge
            for name, text, total in _COUNTERS:
                counter = CounterMetricFamily(name, text, labels=["store"])
                for store in state.stores:
                    counter.add_metric([store.name], total(store))
                yield counter

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Snapshot())
    return generate_latest(registry)


_GAUGES: tuple[tuple[str, str, Callable[[StoreState, MountState], float | None]], ...] = (
    ("memfs_reachable", "1 when the service answered the last request.", lambda store, _: float(store.reachable)),
    ("memfs_staleness_seconds", "Time since all changes were known.", lambda store, state: freshness(store, state.now)),
    ("memfs_pending", "Files whose content is still to be stored.", lambda store, _: store.pending),
    ("memfs_refused", "Files whose content the store refused.", lambda store, _: store.refused),
    ("memfs_scratch_files", "Files that are kept on this machine only.", lambda store, _: store.scratch_files),
    ("memfs_scratch_directories", "Directories kept on this machine only.", lambda store, _: store.scratch_directories),
    ("memfs_scratch_bytes", "Size of the files kept on this machine only.", lambda store, _: store.scratch_bytes),
    ("memfs_memories", "Memories in the store.", lambda store, _: store.memories),
    ("memfs_content_bytes", "Size of the memories in the store.", lambda store, _: store.content_bytes),
    ("memfs_cached_bytes", "Content held in the cache.", lambda store, _: store.cached_bytes),
)
_COUNTERS: tuple[tuple[str, str, Callable[[StoreState], float]], ...] = (
    ("memfs_cache_hits", "Reads answered from the cache.", lambda store: store.cache_hits),
    ("memfs_cache_misses", "Reads that had to ask the service.", lambda store: store.cache_misses),
)


class StateDirectory(ViewDirectory):
    """`.memfs`. `state` tells how the mount is now, without waiting for anything."""

    def __init__(self, key: str, state: Callable[[], MountState], notices: Notices) -> None:
        super().__init__(key, mtime_ns=time_ns(state().started_at))
        self._state = state
        self._renderers: dict[str, Callable[[], bytes]] = {
            "status": lambda: status_text(state()),
            "status.json": lambda: status_json(state()),
            "errors": lambda: json_lines(notices.errors),
            "conflicts": lambda: json_lines(notices.conflicts),
            "metrics": lambda: metrics_text(state(), len(notices.conflicts)),
        }
        self._logs: Mapping[str, Sequence[Notice | ConflictNotice]] = {"errors": notices.errors, "conflicts": notices.conflicts}

    async def lookup(self, name: str) -> ViewDirectory | ViewFile | None:
        return self._file(name) if name in self._renderers else None

    async def entries(self) -> list[tuple[str, ViewDirectory | ViewFile]]:
        return [(name, self._file(name)) for name in self._renderers]

    def _file(self, name: str) -> RenderedFile:
        # A log changes with its last line, so that `tail -f` and make(1) see when there is something new.
        log = self._logs.get(name)
        time = self._state().now if log is None else log[-1].time if log else self._state().started_at
        return RenderedFile(f"{self.key}/{name}", self._renderers[name], mtime_ns=time_ns(time))
