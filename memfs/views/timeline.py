"""What is known of a store's history: every change, by memory and by path; pure.

A timeline begins empty, takes changes in any order and any number of times, and is complete when its owner has read the history
to its end.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from memfs.model.content import Sha256
from memfs.model.ids import MemoryId, VersionId
from memfs.model.objects import MemoryVersion, Operation, SessionActor
from memfs.model.paths import parent_prefix
from memfs.replica.tree import spread_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RANK = {"created": 0, "modified": 1, "deleted": 2}


def microseconds(time: datetime) -> int:
    """`time` as microseconds since the epoch, exactly."""
    return (time - _EPOCH) // _MICROSECOND


def datetime_of(time: int) -> datetime:
    """The time that lies `time` microseconds after the epoch, in UTC."""
    return _EPOCH + timedelta(microseconds=time)


@dataclass(frozen=True, slots=True)
class Change:
    """One version without its content; a tenth of the size of a `MemoryVersion`, because a history has many."""

    id: VersionId
    memory_id: MemoryId
    operation: Operation
    path: str | None
    """None when redacted."""
    sha256: Sha256 | None
    """None when redacted or deleted."""
    size: int
    """In bytes; 0 when redacted or deleted."""
    time: int
    """`created_at`, in microseconds since the epoch."""
    created_by: str | None
    """The actor as JSON."""
    session_id: str | None
    redacted: int | None
    """`redacted_at`, in microseconds since the epoch."""

    @property
    def created_at(self) -> datetime:
        return datetime_of(self.time)

    @property
    def redacted_at(self) -> datetime | None:
        return None if self.redacted is None else datetime_of(self.redacted)

    @property
    def order(self) -> tuple[int, int, str]:
        """Sorts the changes of one memory, oldest first: where times are too coarse, creation first and deletion last."""
        return self.time, _RANK[self.operation], self.id

    def mtime_ns(self, resolution_ns: int) -> int:
        """In nanoseconds since the epoch; made unique below the resolution of the service's clock, as that of a head is."""
        return spread_time(self.time * 1_000, self.id, resolution_ns)


def change_of(version: MemoryVersion) -> Change:
    """`version` without its content. Texts that many versions share are held once."""
    actor = version.created_by
    return Change(
        id=version.id,
        memory_id=MemoryId(sys.intern(version.memory_id)),
        operation=version.operation,
        path=None if version.path is None else sys.intern(version.path),
        sha256=version.content_sha256,
        size=version.content_size_bytes or 0,
        time=microseconds(version.created_at),
        created_by=None if actor is None else sys.intern(actor.model_dump_json(exclude_none=True)),
        session_id=sys.intern(actor.session_id) if isinstance(actor, SessionActor) else None,
        redacted=None if version.redacted_at is None else microseconds(version.redacted_at),
    )


@dataclass
class Timeline:
    """The known changes of one store."""

    complete: bool = False
    """Nothing older than what is known exists; set by the owner."""
    generation: int = 0
    """Grows with every change that is added or taken away."""
    _changes: dict[MemoryId, list[Change]] = field(default_factory=dict)
    _unsorted: set[MemoryId] = field(default_factory=set)
    _ids: set[VersionId] = field(default_factory=set)
    _memories: dict[str, set[MemoryId]] = field(default_factory=dict)
    """The memories that had each path."""
    _names: dict[str, set[str]] = field(default_factory=dict)
    """The segments below each prefix."""

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, version_id: VersionId) -> bool:
        return version_id in self._ids

    def add(self, version: MemoryVersion) -> Change | None:
        """The change that `version` adds; None when it was known."""
        if version.id in self._ids:
            return None
        change = change_of(version)
        self._insert(change)
        return change

    def replace(self, memory_id: MemoryId, changes: Sequence[Change]) -> int | None:
        """Make `changes` all that is known of a memory, as when some were redacted or pruned.

        Answers the time of the oldest change that differs, None when none does.
        """
        old = {change.id: change for change in self._changes.get(memory_id, ())}
        new = {change.id: change for change in changes}
        different = [change.time for change in (*old.values(), *new.values()) if old.get(change.id) != new.get(change.id)]
        if not different:
            return None
        self.generation += 1
        self._ids.difference_update(old)
        self._changes.pop(memory_id, None)
        for path in {change.path for change in old.values() if change.path is not None}:
            self._memories[path].discard(memory_id)
            self._drop_unused(path)
        for change in changes:
            self._insert(change)
        return min(different)

    def _insert(self, change: Change) -> None:
        self._ids.add(change.id)
        self._changes.setdefault(change.memory_id, []).append(change)
        self._unsorted.add(change.memory_id)
        self.generation += 1
        if change.path is None:
            return
        memories = self._memories.get(change.path)
        if memories is None:
            memories = self._memories[change.path] = set()
            self._add_names(change.path)
        memories.add(change.memory_id)

    def _add_names(self, path: str) -> None:
        while path:
            prefix = parent_prefix(path)
            names = self._names.get(prefix)
            if names is not None:
                names.add(path[len(prefix) :])
                return
            self._names[prefix] = {path[len(prefix) :]}
            path = prefix[:-1]

    def _drop_unused(self, path: str) -> None:
        """Forget the name of `path`, and of the prefixes above it, where no memory had it any more."""
        if not self._memories.get(path):
            self._memories.pop(path, None)
        while path and path not in self._memories and not self._names.get(f"{path}/"):
            self._names.pop(f"{path}/", None)
            prefix = parent_prefix(path)
            self._names[prefix].discard(path[len(prefix) :])
            path = prefix[:-1]

    def memories_at(self, path: str) -> set[MemoryId]:
        """The memories that had this path at some time."""
        return self._memories.get(path, set())

    def knows(self, path: str) -> bool:
        """Whether a memory had `path` or a path below it."""
        return bool(self._memories.get(path) or self._names.get(f"{path}/"))

    def names_below(self, prefix: str) -> set[str]:
        """The segments that stood directly below `prefix` at some time."""
        return self._names.get(prefix, set())

    def lineage(self, memory_id: MemoryId) -> Sequence[Change]:
        """The changes of one memory, oldest first."""
        changes = self._changes.get(memory_id, [])
        if memory_id in self._unsorted:
            changes.sort(key=lambda change: change.order)
            self._unsorted.discard(memory_id)
        return changes

    def lineages(self) -> Iterator[Sequence[Change]]:
        for memory_id in list(self._changes):
            yield self.lineage(memory_id)
