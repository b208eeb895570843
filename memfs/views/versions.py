"""`.versions`: what the memories of a store were, and the whole store as it was at any time.

Below a directory that has the path of a memory stand its versions, and those of every other memory that ever had this path,
with names by `memfs.views.names`; beside them stand the directories of what is or was below that path. ``@TIME`` and the logs
are found in the root and listed nowhere.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from memfs.model.errors import InvalidPath, NotFound
from memfs.model.objects import format_time
from memfs.model.paths import check_path, check_segment
from memfs.replica.tree import NAME_MAX, Head
from memfs.views.history import History
from memfs.views.instants import parse_instant
from memfs.views.log import LogFile, json_line, text_line
from memfs.views.names import is_version_name, segment_of, shown_name, version_name
from memfs.views.snapshot import SnapshotFile, SnapshotFolder
from memfs.views.timeline import Change
from memfs.views.tree import Content, ViewDirectory, ViewFile


class LivePaths(Protocol):
    """The paths that a store has now, as the mount sees them."""

    async def head(self, path: str) -> Head | None:
        """The head of the memory that has `path`."""
        ...

    async def children(self, prefix: str) -> Iterable[str]:
        """The segments of memories and prefixes directly below `prefix`; none when it does not exist."""
        ...

    async def settle(self) -> None:
        """Send what the mount holds back for a moment, such as a delete, so that the history has it; never fails."""
        ...


def version_xattrs(change: Change) -> Mapping[str, bytes]:
    """The extended attributes of a version, by their full names; absent where the service does not tell."""
    time = format_time(change.created_at)
    values = {
        "id": change.memory_id,
        "version_id": change.id,
        "operation": change.operation,
        "path": change.path,
        "sha256": change.sha256,
        "created_by": change.created_by,
        "session_id": change.session_id,
        "created_at": time,
        "updated_at": time,
        "redacted_at": None if change.redacted_at is None else format_time(change.redacted_at),
        "state": "stored",
    }
    return {f"user.memory.{name}": value.encode() for name, value in values.items() if value is not None}


class VersionFile(ViewFile):
    """The content of one version; empty for a deletion, `Redacted` for a redacted one."""

    def __init__(self, key: str, history: History, change: Change, *, since: Change | None = None) -> None:
        """`since` is the version whose time the file shows, where that is not its own."""
        resolution = history.service.capabilities.time_resolution_ns
        super().__init__(
            f"{key}:{change.id}",
            mtime_ns=(since or change).mtime_ns(resolution),
            ctime_ns=change.mtime_ns(resolution),
            xattrs=version_xattrs(change),
        )
        self._history = history
        self._change = change

    @property
    def size(self) -> int:
        return self._change.size

    @property
    def direct(self) -> bool:
        """The kernel keeps no pages: it would serve them, also to those who have the file open, after a redaction."""
        return True

    async def open(self) -> Content:
        await self._history.content(self._change)
        return _VersionContent(self._history, self._change)


class _VersionContent:
    """Holds nothing itself: a reader who takes longer than the freshness bound hears of a redaction."""

    def __init__(self, history: History, change: Change) -> None:
        self._history = history
        self._change = change

    async def read(self, offset: int, size: int) -> bytes:
        return (await self._history.content(self._change))[offset : offset + size]


class PathDirectory(ViewDirectory):
    """The history of one path and of what lies below it; the path of the root is empty."""

    def __init__(self, key: str, history: History, live: LivePaths, path: str, *, mtime_ns: int) -> None:
        super().__init__(f"{key}:{path}/", mtime_ns=mtime_ns)
        self._view_key = key
        self._history = history
        self._live = live
        self._path = path

    async def lookup(self, name: str) -> ViewDirectory | ViewFile | None:
        name = unicodedata.normalize("NFC", name)
        if is_version_name(name):
            found = (await self._versions()).get(name)
            if found is None:  # not just None: who saw the name a moment ago should find out why it is gone
                raise NotFound("the service does not keep a version of this name (any more): `ls` shows which it keeps")
            return found
        segment = segment_of(name, in_root=not self._path)
        if segment is None:
            return None
        if len(name.encode("utf-8", "surrogatepass")) > NAME_MAX * 3 // 4:
            # Perhaps the short form of a segment that is too long for a name.
            segment = next((found for found in await self._segments() if self._shown(found) == name), segment)
        path = f"{self._path}/{segment}"
        try:
            check_segment(segment)
            check_path(path)
        except InvalidPath:
            return None
        return self._child(segment) if await self._exists(path) else None

    async def entries(self) -> list[tuple[str, ViewDirectory | ViewFile]]:
        found: dict[str, ViewDirectory | ViewFile] = {}
        found.update(sorted((await self._versions()).items()))
        found.update(sorted((self._shown(segment), self._child(segment)) for segment in await self._segments()))
        return list(found.items())

    def _shown(self, segment: str) -> str:
        return shown_name(segment, in_root=not self._path)

    def _child(self, segment: str) -> "PathDirectory":
        return PathDirectory(self._view_key, self._history, self._live, f"{self._path}/{segment}", mtime_ns=self.mtime_ns)

    async def _exists(self, path: str) -> bool:
        if await self._live.head(path) is not None or any(await self._live.children(f"{path}/")):
            return True
        return await self._history.existed(path)

    async def _head(self) -> Head | None:
        return await self._live.head(self._path) if self._path else None

    async def _segments(self) -> set[str]:
        prefix = f"{self._path}/"
        former = await self._history.names_below(prefix, has_memory=await self._head() is not None)
        return {*await self._live.children(prefix), *former}

    async def _versions(self) -> dict[str, VersionFile]:
        """The versions of every memory that ever had this path, by name."""
        if not self._path:
            return {}
        head = await self._head()
        memories = await self._history.memories_at(self._path, has_memory=head is not None)
        changes: list[Change] = []
        if head is not None:
            memories.discard(head.memory_id)
            changes += await self._history.lineage(head.memory_id, head.version_id)
        for lineage in await self._history.lineages(memories):
            # What had this path may have been pruned, or redacted and with it the knowledge that it had.
            if any(change.path == self._path for change in lineage):
                changes += lineage
        directory = self._path.rpartition("/")[2]
        return {
            version_name(change.created_at, change.operation, change.id, directory): VersionFile(
                f"{self._view_key}:version", self._history, change
            )
            for change in changes
        }


class SnapshotDirectory(ViewDirectory):
    """A directory of the store as it was at one time."""

    def __init__(self, view_key: str, name: str, history: History, folder: SnapshotFolder) -> None:
        """`name` is the path within `.versions`, which begins with ``@``."""
        super().__init__(f"{view_key}:{name}/", mtime_ns=folder.time * 1_000)
        self._view_key = view_key
        self._name = name
        self._history = history
        self._folder = folder

    async def lookup(self, name: str) -> ViewDirectory | ViewFile | None:
        name = unicodedata.normalize("NFC", name)
        child = self._folder.children.get(name)
        return None if child is None else self._node(name, child)

    async def entries(self) -> list[tuple[str, ViewDirectory | ViewFile]]:
        return [(name, self._node(name, child)) for name, child in sorted(self._folder.children.items())]

    def _node(self, name: str, child: SnapshotFile | SnapshotFolder) -> ViewDirectory | ViewFile:
        if isinstance(child, SnapshotFolder):
            return SnapshotDirectory(self._view_key, f"{self._name}/{name}", self._history, child)
        # Two times that show the same version show the same file.
        return VersionFile(f"{self._view_key}:snapshot", self._history, child.change, since=child.since)


class VersionsDirectory(PathDirectory):
    """`.versions` itself. `key` is unique to the store; `now` tells the time, from which ``@2h`` counts back."""

    def __init__(
        self,
        key: str,
        history: History,
        live: LivePaths,
        *,
        mtime_ns: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(key, history, live, "", mtime_ns=mtime_ns)
        self._now = now

    async def lookup(self, name: str) -> ViewDirectory | ViewFile | None:
        if line := {"@log": text_line, "@log.jsonl": json_line}.get(name):
            key = f"{self._view_key}:{name}"
            return LogFile(key, self._history, line, settle=self._live.settle, mtime_ns=self.mtime_ns)
        if name.startswith("@"):
            await self._live.settle()
            instant = parse_instant(name[1:], self._now())
            if instant is not None:
                return SnapshotDirectory(self._view_key, name, self._history, await self._history.at(instant))
        return await super().lookup(name)
