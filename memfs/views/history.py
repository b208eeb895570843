"""The history of one store, asked for as little as possible.

Three questions cost differently:

* *What happened to this memory?* One listing of its versions, kept for the freshness bound.
* *Which memories had this path?* Nobody can be asked; it takes the versions of the whole store. They are read once, newest
  first, as far as a question needs them, and followed from then on by what is new, one request per bound. Reading goes on
  where it stopped, so a time-out costs no progress. A question about a path that has a memory now makes do with the newest
  page (where calls are local: the newest 10,000 versions) and the newest deletions; one about a path that has none reads on
  until it finds something.
* *What was the content?* One request per version, or none when a cache has it. A version's content never changes, but it can
  be redacted or pruned, so it is served unasked only within the freshness bound of the last answer that told it exists, and
  kept no longer.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import trio

from memfs.model.content import Sha256, encode
from memfs.model.errors import BadAnswer, InvalidRequest, MemfsError, NotFound, NotSupported, Redacted, Unavailable
from memfs.model.ids import MemoryId, StoreId, VersionId
from memfs.model.objects import MemoryVersion, Operation, Page
from memfs.replica.blobs import BlobCache
from memfs.stores.base import MemoryStore
from memfs.views.snapshot import SnapshotFolder, snapshot
from memfs.views.timeline import Change, Timeline, change_of, datetime_of, microseconds

MAX_CHANGES = 500_000
"""How many versions of one store are read into memory, at about 650 bytes each; the history of a store with more is not read
to its end."""
_PAGE = 250
"""The largest page to ask for: a local store would give more, but nothing else runs for the 60 us that it takes per version."""
_LOCAL_ENOUGH = 10_000
"""How many versions a local store is asked for by a question that could do with less: half a second, once."""
_MAX_LINEAGE_CHANGES = 100_000
_MAX_VERIFIED = 4_096
_CONTENT_BYTES = 16 * 1024 * 1024
"""How many bytes of old versions are held for a moment."""
_MAX_SNAPSHOTS = 4
_KNOWN_DELETION_PAGES = 5
"""How many pages of deletions a look at a path that has a memory may cost, once."""
_MANY_LINEAGES = 16
"""From how many memories on it is worth a try to read the whole history instead of a listing for each."""
_PARALLEL = 8
_OVERLAP = timedelta(seconds=10)
"""By how much the clocks of one service may differ: a version may get an older time than one that was seen before."""
_WHOLE_LISTING_SECONDS = 60.0
"""How often a listing of several pages is read to its end, to see redactions and pruning in its older part."""


@dataclass(frozen=True)
class _Stamp:
    """When something was known to be true."""

    time: float
    token: object | None
    epoch: int


@dataclass(frozen=True)
class _Lineage:
    changes: tuple[Change, ...]
    """Newest first."""
    ids: frozenset[VersionId]
    listed: frozenset[VersionId]
    """Those that the last listing told about; it may have stopped at an older one that was known."""
    stamp: _Stamp
    whole_at: float
    """When it was last read to its end."""


class History:
    """The versions of one store. All methods raise `Unavailable` when the service does not answer within `timeout` seconds.

    `blobs` holds what the memories of the store have now, by hash; nothing is added to it. `later` is called with seconds and
    something to do then; a history has nothing else that runs by itself.
    """

    def __init__(
        self,
        service: MemoryStore,
        store_id: StoreId,
        blobs: BlobCache,
        *,
        max_staleness: float,
        timeout: float,
        later: Callable[[float, Callable[[], None]], None],
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self.service = service
        self.store_id = store_id
        self.timeout = timeout
        self._blobs = blobs
        self._contents = BlobCache(_CONTENT_BYTES)
        self._later = later
        self._max_staleness = max_staleness
        self._clock = clock
        self._epoch = 0
        self._timeline = Timeline()
        self._reading = trio.Lock()
        self._followed: _Stamp | None = None
        self._followed_to: int | None = None
        """The time of the newest version that `_follow` saw; everything up to it, but for the overlap, has been seen."""
        self._older_page: str | None = None
        self._deletions_page: str | None = None
        self._deletion_pages = 0
        self._deletions_known = False
        self._lineages: OrderedDict[MemoryId, _Lineage] = OrderedDict()
        self._lineage_changes = 0
        self._verified: OrderedDict[VersionId, _Stamp] = OrderedDict()
        self._snapshots: OrderedDict[int, SnapshotFolder] = OrderedDict()

    @property
    def limit(self) -> int:
        """The size of the pages to ask for."""
        return min(self.service.capabilities.max_limit, _PAGE)

    def expire(self) -> None:
        """Ask anew at the next question: the store is known to have changed, as after a commit or delete of this mount."""
        self._epoch += 1

    # One memory

    async def lineage(self, memory_id: MemoryId, head: VersionId | None = None) -> tuple[Change, ...]:
        """The versions of a memory, newest first, no staler than the bound, and not without `head` where that is known."""
        known = self._lineages.get(memory_id)
        if known is not None and await self._is_fresh(known.stamp) and (head is None or head in known.ids):
            self._lineages.move_to_end(memory_id)
            return known.changes
        stamp = await self._stamp()
        now = self._clock()
        if known is not None and now - known.whole_at >= _WHOLE_LISTING_SECONDS:
            known = None
        changes: dict[VersionId, Change] = {}
        page: str | None = None
        with in_time(self.timeout, "the versions of this memory"):
            while True:
                answer = await self._list(memory_id=memory_id, page=page)
                changes.update((version.id, change_of(version)) for version in answer.data)
                page = answer.next_page
                if page is None or (known is not None and answer.data and answer.data[-1].id in known.ids):
                    break
        listed = frozenset(changes)
        if page is not None and known is not None:
            for change in known.changes:
                changes.setdefault(change.id, change)
        lineage = _Lineage(
            changes=tuple(sorted(changes.values(), key=lambda change: change.order, reverse=True)),
            ids=frozenset(changes),
            listed=listed,
            stamp=stamp,
            whole_at=now if page is None or known is None else known.whole_at,
        )
        self._keep(memory_id, lineage)
        return lineage.changes

    def _keep(self, memory_id: MemoryId, lineage: _Lineage) -> None:
        """Let all that is held follow what a listing told about a memory."""
        old = self._lineages.pop(memory_id, None)
        known = {change.id: change for change in (old.changes if old is not None else self._timeline.lineage(memory_id))}
        for change in lineage.changes:
            known_change = known.get(change.id, change)
            if change.redacted is not None:
                self._forget_content(known_change)
        self._drop_snapshots(self._timeline.replace(memory_id, lineage.changes))
        self._lineages[memory_id] = lineage
        self._lineage_changes += len(lineage.changes) - (0 if old is None else len(old.changes))
        while len(self._lineages) > 1 and self._lineage_changes > _MAX_LINEAGE_CHANGES:
            _, dropped = self._lineages.popitem(last=False)
            self._lineage_changes -= len(dropped.changes)

    async def lineages(self, memory_ids: Iterable[MemoryId]) -> list[Sequence[Change]]:
        """The versions of each memory, as `lineage` gives them; of very many, as the history was read once and followed."""
        waiting = sorted(memory_ids)
        if len(waiting) > _MANY_LINEAGES:
            await self._follow()
            await self._read_on(len(self._timeline) + len(waiting) * self.limit)
            if self._timeline.complete:
                return [self._timeline.lineage(memory_id) for memory_id in waiting]
        found: list[Sequence[Change]] = []
        errors: list[MemfsError] = []

        async def ask() -> None:
            while waiting and not errors:
                try:
                    found.append(await self.lineage(waiting.pop()))
                except MemfsError as error:
                    errors.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(min(_PARALLEL, len(waiting))):
                nursery.start_soon(ask)
        if errors:
            raise errors[0]
        return found

    # Which memories had a path

    async def memories_at(self, path: str, *, has_memory: bool) -> set[MemoryId]:
        """The memories that had `path` at some time, as far as is known after the deletions were read.

        In a long history one that was renamed away from it long ago may be missing, unless another question has read the whole.
        `has_memory`: the path has a memory now, and so is worth a few requests only.
        """
        await self._read_enough(_KNOWN_DELETION_PAGES if has_memory else None)
        return set(self._timeline.memories_at(path))

    async def names_below(self, prefix: str, *, has_memory: bool) -> set[str]:
        """The segments that stood directly below `prefix` at some time, as far as `memories_at` would know.

        `has_memory`: the path of the prefix has a memory now.
        """
        await self._read_enough(_KNOWN_DELETION_PAGES if has_memory else None)
        return set(self._timeline.names_below(prefix))

    async def existed(self, path: str) -> bool:
        """Whether a memory ever had `path`, or a path below it; reads the history as far as it takes to be sure."""
        await self._read_enough(None)
        if not self._timeline.knows(path):
            await self._read_on()
        return self._timeline.knows(path)

    async def _read_enough(self, deletion_pages: int | None) -> None:
        """Read what most questions need; None for all deletions."""
        await self._follow()
        if self.service.capabilities.local:
            await self._read_on(_LOCAL_ENOUGH)
        if not self._timeline.complete:
            await self._read_deletions(deletion_pages)

    async def _follow(self) -> None:
        """Take in what is new, when the bound has passed."""
        if self._followed is not None and await self._is_fresh(self._followed):
            return
        with in_time(self.timeout, "the history"):
            async with self._reading:
                if self._followed is not None and await self._is_fresh(self._followed):
                    return  # somebody else asked while this waited
                stamp = await self._stamp()
                if self._followed is None:
                    answer = await self._list()
                    self._older_page = answer.next_page
                    self._timeline.complete = answer.next_page is None
                    newest = self._add(answer.data)
                else:
                    newest = await self._list_new()
                if newest is not None:
                    self._followed_to = newest if self._followed_to is None else max(newest, self._followed_to)
                self._followed = stamp

    async def _list_new(self) -> int | None:
        """Add all versions since those that were seen; the time of the newest."""
        since = None if self._followed_to is None else datetime_of(self._followed_to)
        if since is not None and not self.service.capabilities.strict_time_order:
            since -= _OVERLAP
        newest: int | None = None
        page: str | None = None
        while True:
            answer = await self._list(since=since if self.service.capabilities.version_times else None, page=page)
            added = self._add(answer.data)
            newest = added if newest is None else newest
            page = answer.next_page
            if page is None or (since is not None and answer.data and answer.data[-1].created_at < since):
                return newest

    async def _read_on(self, versions: int = MAX_CHANGES) -> None:
        """Read the history to its end, or until so many `versions` are known, from where the last reading stopped."""
        if self._timeline.complete or (versions < MAX_CHANGES and len(self._timeline) >= versions):
            return
        with in_time(self.timeout, "the history"):
            async with self._reading:
                while not self._timeline.complete:
                    if len(self._timeline) >= versions:
                        if versions < MAX_CHANGES:
                            return
                        raise NotSupported(f"the store has more than {MAX_CHANGES:,} versions, too many to search")
                    answer = await self._resume(self._older_page)
                    self._add(answer.data)
                    self._older_page = answer.next_page
                    self._timeline.complete = answer.next_page is None
                    await trio.lowlevel.checkpoint()

    async def _read_deletions(self, pages: int | None) -> None:
        """Read the deletions to the end, or until so many `pages` of them have been read; `_follow` has what comes after."""
        with in_time(self.timeout, "the history"):
            async with self._reading:
                while not self._deletions_known and (pages is None or self._deletion_pages < pages):
                    answer = await self._resume(self._deletions_page, operation="deleted")
                    self._add(answer.data)
                    self._deletion_pages += 1
                    self._deletions_page = answer.next_page
                    self._deletions_known = answer.next_page is None

    def _add(self, versions: Sequence[MemoryVersion]) -> int | None:
        """The time of the newest of `versions`."""
        for version in versions:
            change = self._timeline.add(version)
            if change is not None:
                self._drop_snapshots(change.time)
        return max((microseconds(version.created_at) for version in versions), default=None)

    def _drop_snapshots(self, since: int | None) -> None:
        """Forget those that a change at `since` makes wrong."""
        if since is not None:
            for instant in [instant for instant in self._snapshots if instant >= since]:
                del self._snapshots[instant]

    # The whole store

    async def at(self, instant: datetime) -> SnapshotFolder:
        """The store as it was at the end of the microsecond `instant`."""
        await self._follow()
        await self._read_on()
        time = microseconds(instant)
        folder = self._snapshots.get(time)
        if folder is not None:
            self._snapshots.move_to_end(time)
            return folder
        generation = self._timeline.generation
        folder = SnapshotFolder()
        for made in snapshot(self._timeline.lineages(), time):
            await trio.lowlevel.checkpoint()
            folder = made or folder
        if generation == self._timeline.generation:
            self._snapshots[time] = folder
            if len(self._snapshots) > _MAX_SNAPSHOTS:
                self._snapshots.popitem(last=False)
        return folder

    # Content

    async def content(self, change: Change) -> bytes:
        """The content of a version, empty for a deletion; raises `Redacted`, and `NotFound` when it was pruned."""
        held = b"" if change.operation == "deleted" else None
        if change.sha256 is not None:
            held = self._contents.get(change.sha256) or self._blobs.get(change.sha256)
        if held is not None and change.redacted is None and await self._is_known(change):
            return held
        stamp = await self._stamp()
        try:
            with in_time(self.timeout, "this version"):
                version = await self.service.retrieve_version(
                    self.store_id, change.id, view="full" if held is None else "basic"
                )
        except NotFound:
            self._forget(change)
            raise NotFound("the service does not keep this version any more") from None
        if version.redacted_at is not None:
            self._forget(change, change_of(version))
            raise Redacted("an administrator removed the content of this version")
        self._verified[change.id] = stamp
        self._verified.move_to_end(change.id)
        if len(self._verified) > _MAX_VERIFIED:
            self._verified.popitem(last=False)
        if held is not None:
            return held
        if version.content is None or version.content_sha256 is None:
            raise BadAnswer("the service answered a version without its content")
        content = encode(version.content)
        self._hold(version.content_sha256, content)
        return content

    def _hold(self, sha256: Sha256, content: bytes) -> None:
        """Keep a content for whoever reads on; within the bound it is gone."""
        if not len(self._contents):
            self._later(self._max_staleness, self._let_go)
        self._contents.put(sha256, content)

    def _let_go(self) -> None:
        self._contents = BlobCache(_CONTENT_BYTES)

    def _forget_content(self, change: Change) -> None:
        if change.sha256 is not None:
            self._contents.forget(change.sha256)
            self._blobs.forget(change.sha256)

    async def _is_known(self, change: Change) -> bool:
        """Whether an answer within the bound told that the version is as it was."""
        lineage = self._lineages.get(change.memory_id)
        if lineage is not None and change.id in lineage.listed and await self._is_fresh(lineage.stamp):
            return True
        stamp = self._verified.get(change.id)
        return stamp is not None and await self._is_fresh(stamp)

    def _forget(self, change: Change, redacted: Change | None = None) -> None:
        """A version is gone, or was redacted."""
        self._forget_content(change)
        self._verified.pop(change.id, None)
        lineage = self._lineages.pop(change.memory_id, None)
        if lineage is not None:
            self._lineage_changes -= len(lineage.changes)
        rest = [kept for kept in self._timeline.lineage(change.memory_id) if kept.id != change.id]
        self._drop_snapshots(self._timeline.replace(change.memory_id, rest if redacted is None else [*rest, redacted]))

    # Asking

    async def _list(
        self,
        *,
        memory_id: MemoryId | None = None,
        operation: Operation | None = None,
        since: datetime | None = None,
        page: str | None = None,
    ) -> Page[MemoryVersion]:
        return await self.service.list_versions(
            self.store_id, memory_id=memory_id, operation=operation, created_at_gte=since, limit=self.limit, page=page
        )

    async def _resume(self, page: str | None, operation: Operation | None = None) -> Page[MemoryVersion]:
        """The page of a cursor that may be old; where the service knows it no more, the listing begins anew."""
        try:
            return await self._list(operation=operation, page=page)
        except InvalidRequest:
            if page is None:
                raise
            return await self._list(operation=operation)

    async def _stamp(self) -> _Stamp:
        return _Stamp(self._clock(), await self._token(), self._epoch)

    async def _is_fresh(self, stamp: _Stamp) -> bool:
        if stamp.epoch != self._epoch:
            return False
        if stamp.token is not None:
            return stamp.token == await self._token()
        return self._clock() - stamp.time < self._max_staleness

    async def _token(self) -> object | None:
        return await self.service.change_token(self.store_id) if self.service.capabilities.change_token else None


@contextmanager
def in_time(seconds: float, what: str) -> Iterator[None]:
    """Raise `Unavailable` when the block takes longer."""
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError:
        raise Unavailable(f"reading {what} takes longer than {seconds:g} s: try again, it goes on where it stopped") from None
