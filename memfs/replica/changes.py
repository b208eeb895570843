"""Follows the store's versions, so that the tree is never older than the freshness bound.

Demand-driven: an access past the bound waits for one poll that all waiters share, a mount in use polls ahead of the bound, an
idle one asks nothing. A poll asks for the versions since the newest one seen, with an overlap, because a service's clock may
put a version a little before one that was seen already; ids that were seen are not looked at twice. Now and then all that is
listed is listed again: that finds what the versions could not tell (pruned, clock set back, a server without the filter).

A redaction makes no version, so no poll tells of one. But only what is no head any more can be redacted; so the bytes of a
version leave this machine when a poll has told that it was superseded, or its memory deleted, whether it is redacted or not.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import trio

from memfs.model.content import Sha256
from memfs.model.errors import MemfsError, NotFound, PermissionDenied, Unauthenticated
from memfs.model.ids import MemoryId, VersionId
from memfs.model.objects import Memory, MemoryVersion
from memfs.replica.attached import Attached
from memfs.replica.drafts import now_ns
from memfs.replica.former import Former
from memfs.replica.parking import Parking
from memfs.replica.tree import Directory, File, Head, spread_time, time_ns

OVERLAP = timedelta(seconds=10)
ASKED_ONE_BY_ONE = 4
"""So many memories are asked for what their versions do not tell; for more, one listing is less."""
TRIM_ABOVE = 1000
"""How much is remembered of changes before what is old is forgotten."""
REMEMBER_CHANGED_SECONDS = 60.0
"""For how long an answer of the store may be on its way."""
LOCAL_POLL_SECONDS = 0.05
"""How often a mount in use looks at a store where looking is cheap."""
FORMER_PAGES = 10
"""How many pages of versions since an earlier mount are worth its cache."""
SAVE_FORMER_SECONDS = 60.0
IDLE_AFTER_BOUNDS = 2
"""After so many freshness bounds without an access a mount is idle."""


class Feed:
    """Keeps the tree of one attached store fresh to within `bound` seconds."""

    def __init__(
        self,
        attached: Attached,
        parking: Parking,
        bound: float,
        relist: Callable[[], Awaitable[None]],
        list_again: Callable[[Directory], Awaitable[None]],
        full_relist_seconds: float = 300.0,
    ) -> None:
        self.attached = attached
        self.parking = parking
        self.bound = bound
        self.relist = relist
        self.list_again = list_again
        self.full_relist_seconds = full_relist_seconds
        self.fresh_until = float("-inf")
        """On trio's clock: until then what the tree says is within the bound."""
        self.kernel_seconds = bound / 2
        """How long the kernel may keep what it is told now: half the bound, and never past `fresh_until`, so that the age of
        the tree and that of the kernel's copy together stay within the bound."""
        self.checked_at = float("-inf")
        """On trio's clock: when the poll began that last succeeded."""
        self.known_at: datetime | None = None
        """The same on the wall's clock; None: not yet."""
        self.used_at = float("-inf")
        self.stale_since: datetime | None = None
        """Set while the store cannot be asked."""
        self.trouble = ""
        """Why it cannot be asked; empty while it can."""
        self._failed_at = float("-inf")
        self.polls = 0
        self._seen: dict[VersionId, datetime] = {}
        self._newest: datetime | None = None
        self._token: object | None = None
        self._lock = trio.Lock()
        self._used = trio.Event()
        self._listed_at = float("-inf")
        self._trim_seen_at = self._trim_changed_at = TRIM_ABOVE
        self._superseded = False
        """Something may have stopped being a head since the last sweep."""
        self._swept_at = float("-inf")
        disk = attached.blobs.disk is not None and attached.service.capabilities.versions
        self._former = Former(attached.journal.directory) if disk else None
        self._saved_at = float("-inf")
        attached.blobs.in_use.append(self._heads)

    async def start(self) -> None:
        """Begin at the newest version: whatever is listed later holds all before it."""
        self._token = await self.attached.service.change_token(self.attached.store_id)
        capabilities = self.attached.service.capabilities
        # Where the versions since a time cannot be asked for, the newest page is what new ones are told apart from.
        limit = 1 if capabilities.version_times else capabilities.max_limit
        known = await self._since_former()
        if not known:
            known = (await self.attached.service.list_versions(self.attached.store_id, limit=limit)).data
        if known:
            self._newest = known[0].created_at
            self._seen.update((version.id, version.created_at) for version in known)
        else:
            self._newest = None
        self._fresh(trio.current_time())
        self._listed_at = trio.current_time()

    async def _since_former(self) -> list[MemoryVersion]:
        """The versions since an earlier mount ended, newest first; what they superseded goes from the disk cache.

        None where that mount left nothing; and where there are too many, or a service cannot be asked: then all of it goes.
        """
        attached, former = self.attached, self._former
        if former is None or former.newest is None:
            return []
        strict = attached.service.capabilities.strict_time_order
        since = former.newest if strict else former.newest - OVERLAP
        found: list[MemoryVersion] = []
        page_token: str | None = None
        for _ in range(FORMER_PAGES if attached.service.capabilities.version_times else 0):
            page = await attached.service.list_versions(
                attached.store_id, created_at_gte=since, limit=attached.service.capabilities.max_limit, page=page_token
            )
            found += page.data
            page_token = page.next_page
            if page_token is None:
                decided: set[MemoryId] = set()
                for version in found:
                    if version.memory_id in decided:
                        continue
                    decided.add(version.memory_id)
                    if (sha256 := former.superseded(version.memory_id, version.content_sha256)) is not None:
                        attached.blobs.forget(sha256)
                return found
        for sha256 in former.heads.values():
            attached.blobs.forget(sha256)
        former.heads.clear()
        return found

    def _forget_former(self, version: MemoryVersion) -> None:
        """What a memory had when an earlier mount saw it is its content no more."""
        if self._former is not None:
            sha256 = self._former.superseded(version.memory_id, version.content_sha256)
            if sha256 is not None:
                self.attached.blobs.supersede(sha256)

    def _save_former(self, now: float) -> None:
        if self._former is not None:
            self._saved_at = now
            by_id = self.attached.tree.by_id
            heads = {memory_id: file.head.sha256 for memory_id, file in by_id.items() if file.head is not None}
            self._former.save(self._newest or datetime(1970, 1, 1, tzinfo=UTC), heads)

    def _fresh(self, now: float) -> None:
        self.checked_at = now
        self.known_at = datetime.now(UTC) - timedelta(seconds=trio.current_time() - now)
        self.fresh_until = now + self.bound
        self.kernel_seconds = self.bound / 2
        self.stale_since = None
        self.trouble = ""

    def is_fresh(self) -> bool:
        """Whether the tree is within the bound at this moment; counts as a use of the mount."""
        now = trio.current_time()
        if now > self.fresh_until:
            return False
        self.used_at = now
        self.kernel_seconds = min(self.bound / 2, self.fresh_until - now)
        if not self._used.is_set():
            self._used.set()
        return True

    async def ensure(self) -> None:
        """Return when the tree is fresh; when the store does not answer, with what is known (then `stale_since` is set)."""
        if self.is_fresh():
            return
        now = self.used_at = trio.current_time()
        if not self._used.is_set():
            self._used.set()
        if self.stale_since is not None and (self._lock.locked() or now - self._failed_at < IDLE_AFTER_BOUNDS * self.bound):
            return  # it is being asked again already: an outage must not make every look wait for the time-out
        async with self._lock:
            if trio.current_time() <= self.fresh_until:
                return
            await self._poll_or_note()

    async def look(self) -> None:
        """Before something is removed or replaced: see what others just did, where looking costs nothing."""
        if self.attached.service.capabilities.change_token:
            async with self._lock:
                await self._poll_or_note()
        else:
            await self.ensure()

    async def _poll_or_note(self) -> None:
        try:
            await self.poll()
        except NotFound:
            self._stale("the store was deleted")
        except (Unauthenticated, PermissionDenied):
            self._stale("the credential was refused")
        except MemfsError as error:
            self._stale(error.message)

    def _stale(self, reason: str) -> None:
        if self.stale_since is None:
            self.stale_since = datetime.now(UTC)
            self.attached.notices.error(
                store=self.attached.name, path="", operation="refresh", error="EIO", message=f"cannot refresh: {reason}"
            )
        self.trouble = reason
        self._failed_at = trio.current_time()
        # Ask again after a while, not at every access.
        self.fresh_until = trio.current_time() + self.bound / 2
        self.kernel_seconds = self.bound / 2

    async def run(self) -> None:
        """Poll ahead of the bound while the mount is in use; ends by cancellation."""
        try:
            await self._follow()
        finally:
            self._save_former(trio.current_time())

    async def _follow(self) -> None:
        local = self.attached.service.capabilities.change_token
        interval = min(LOCAL_POLL_SECONDS, self.bound / 4) if local else self.bound
        while True:
            self._used = trio.Event()
            if trio.current_time() - self.used_at > IDLE_AFTER_BOUNDS * self.bound:
                await self._used.wait()
            wait = self.checked_at + interval - trio.current_time()
            if wait > 0:
                await trio.sleep(wait)
                continue
            async with self._lock:
                if trio.current_time() - self.checked_at >= interval:
                    await self._poll_or_note()
            if self.stale_since is not None:
                await trio.sleep(interval)

    async def poll(self) -> None:
        """Bring every change since the last poll into the tree. Raises what the store raises."""
        attached = self.attached
        started = trio.current_time()
        if attached.service.capabilities.change_token:
            token = await attached.service.change_token(attached.store_id)
            settled = self.stale_since is None and not attached.blocked and not attached.doubtful
            if token == self._token and settled:
                self._fresh(started)
                self._drop_superseded(started)
                return
            self._token = token
            await self._check_archived()
        self.polls += 1
        if not attached.service.capabilities.versions:
            await self.relist()
        versions = await self._new_versions()
        candidates: dict[MemoryId, list[MemoryVersion]] = {}
        for version in versions:  # newest first
            self._superseded = True
            self._forget_former(version)
            if version.redacted_at is None:
                candidates.setdefault(version.memory_id, []).append(version)
        # What changed here while the answer was on its way, or is changing, waits for the next poll.
        waiting = {key for key in candidates if self._is_changing(key, started)}
        untold = {key for key, found in candidates.items() if key not in waiting and self._is_untold(found[0])}
        if len(untold) > ASKED_ONE_BY_ONE:
            await self.relist()
        else:
            untold = set()
        asked = {key: found for key, found in candidates.items() if key not in waiting and key not in untold}
        newest_of = {key: await self._newest_of(found) for key, found in asked.items()}
        waiting |= {key for key in newest_of if self._is_changing(key, started)}
        told = {key: change for key, change in newest_of.items() if key not in waiting}
        unsure = self._unsure(told, asked)
        self._apply(told)
        for directory in unsure:
            await self.list_again(directory)
        await self._show_unblocked()
        newest = self._newest
        for version in reversed(versions):
            if version.memory_id not in waiting:
                self._seen[version.id] = version.created_at
            if newest is None or version.created_at > newest:
                newest = version.created_at
        again = [version.created_at for version in versions if version.memory_id in waiting]
        self._newest = min([newest, *again]) if newest is not None else None
        if again:
            self._token = None
        self._trim(started)
        if attached.doubtful or started - self._listed_at > self.full_relist_seconds:
            attached.doubtful = False
            self._listed_at = started
            self._superseded = True
            await self._check_archived()
            await self.relist()
        self._fresh(started)
        self._drop_superseded(started)

    async def _new_versions(self) -> list[MemoryVersion]:
        """The versions that were not seen yet, newest first."""
        attached = self.attached
        capabilities = attached.service.capabilities
        since: datetime | None = None
        if self._newest is not None and capabilities.version_times:
            since = self._newest if capabilities.strict_time_order else self._newest - OVERLAP
        found: list[MemoryVersion] = []
        page_token: str | None = None
        while True:
            page = await attached.service.list_versions(
                attached.store_id, created_at_gte=since, limit=capabilities.max_limit, page=page_token
            )
            unseen = [version for version in page.data if version.id not in self._seen]
            found += unseen
            page_token = page.next_page
            old = self._newest is not None and bool(page.data) and page.data[-1].created_at < self._newest - OVERLAP
            if page_token is None or old or (since is None and not unseen):
                return found

    def _is_untold(self, version: MemoryVersion) -> bool:
        """Whether `version` may be news, and only the memory itself tells what it calls its newest version."""
        attached = self.attached
        if attached.service.capabilities.head_versions or version.operation == "deleted":
            return False
        file = attached.tree.by_id.get(version.memory_id)
        if file is None or file.head is None or file.head.sha256 != version.content_sha256:
            return True
        # One that this mount renamed is on its way to the path that the version tells.
        return file.path != version.path and file.head.version_id not in attached.known_versions

    def _is_changing(self, memory_id: MemoryId, started: float) -> bool:
        if memory_id in self.parking.ids or self.attached.changed_since(memory_id, started):
            return True
        file = self.attached.tree.by_id.get(memory_id)
        return file is not None and file.lock is not None and file.lock.locked()

    async def _show_unblocked(self) -> None:
        """Show the memories whose names were taken by files that were being changed, where that is done now."""
        attached = self.attached
        for memory_id, taken in list(attached.blocked.items()):
            if attached.holds_name(taken):
                continue
            with contextlib.suppress(NotFound):
                memory = await attached.service.retrieve_memory(attached.store_id, memory_id, view="basic")
                attached.blocked.pop(memory_id, None)
                if memory_id not in self.parking.ids:
                    attached.place(attached.head(memory), memory.path)
                continue
            attached.blocked.pop(memory_id, None)

    async def _check_archived(self) -> None:
        """Archiving a store makes no version."""
        attached = self.attached
        if not attached.read_only and (await attached.service.retrieve_store(attached.store_id)).archived_at is not None:
            attached.became_read_only()

    async def _newest_of(self, found: list[MemoryVersion]) -> MemoryVersion | Memory | None:
        """What a memory is now, of which the versions `found`, newest first by their times, were not seen yet.

        Where the times do not tell which came last (equal ones, or a clock that was set back) the memory itself is asked for.
        None when it is what the tree knows already.
        """
        attached = self.attached
        unknown = [version for version in found if version.id not in attached.known_versions]
        if not unknown or unknown[0].created_at < found[0].created_at:
            return None  # what this mount made last stands on all of them
        newest = unknown[0]
        file = attached.tree.by_id.get(newest.memory_id)
        head = file.head if file is not None else None
        if file is not None and head is not None and head.version_id == newest.id and newest.path in (None, file.path):
            return None
        capabilities = attached.service.capabilities
        resolution = max(capabilities.time_resolution_ns, 1)
        known_ns = head.updated_ns - head.updated_ns % resolution if head is not None else 0
        if capabilities.strict_time_order:
            return newest if time_ns(newest.created_at) >= known_ns else None
        # Where the history does not tell what a memory calls its newest version, only the memory does.
        told = capabilities.head_versions or newest.operation == "deleted"
        if not told and not self._is_untold(newest):
            return None
        twice = sum(version.created_at == newest.created_at for version in found) > 1
        if told and not twice and (head is None or time_ns(newest.created_at) > known_ns):
            return newest
        try:
            memory = await attached.service.retrieve_memory(attached.store_id, newest.memory_id, view="basic")
        except NotFound:
            return next((version for version in found if version.operation == "deleted"), None)
        if not told and memory.memory_version_id in attached.known_versions:
            return None  # a rename of this mount may be half done: its path is told by nobody else
        known = file is not None and head is not None and head.version_id == memory.memory_version_id
        return None if known and file is not None and file.path == memory.path else memory

    def _unsure(
        self, changes: Mapping[MemoryId, MemoryVersion | Memory | None], found: Mapping[MemoryId, list[MemoryVersion]]
    ) -> list[Directory]:
        """The directories to list again: one below may have lost its last memory, and as it was never listed nobody knows."""
        tree = self.attached.tree
        unsure: list[Directory] = []
        for memory_id, change in changes.items():
            if memory_id in tree.by_id or change is None or change.path is None:
                continue
            if isinstance(change, MemoryVersion) and change.operation == "deleted":
                left = tree.unsure(change.path)
                unsure += [left] if left is not None else []
            elif tree.would_show(change.path) and all(version.operation != "created" for version in found[memory_id]):
                # It was moved here, and no version tells from where.
                unlisted = (below for below in tree.directories_below(tree.root) if not below.listed and not below.kept)
                unsure += [below.parent for below in unlisted if below.parent is not None]
        several = list(dict.fromkeys(unsure))
        return several if len(several) <= ASKED_ONE_BY_ONE else []  # the next full listing tells of so many

    def _apply(self, changes: Mapping[MemoryId, MemoryVersion | Memory | None]) -> None:
        """Bring all of them into the tree at once: names may have been swapped, or taken over by other memories."""
        attached = self.attached
        placed: list[tuple[Head, str]] = []
        emptied: list[Directory] = []
        for memory_id, change in changes.items():
            file = attached.tree.by_id.get(memory_id)
            if change is None or memory_id in self.parking.ids or (file is not None and file.park is not None):
                continue  # nothing new, or its fate is decided here in a moment, against its hash
            attached.elsewhere.discard(change.memory_version_id if isinstance(change, Memory) else change.id)
            attached.changed_here[memory_id] = trio.current_time()  # a listing under way may not know it yet
            deleted = isinstance(change, MemoryVersion) and change.operation == "deleted"
            if deleted and file is not None and file.dirty:
                attached.orphan(file)  # somebody writes to it: the commit creates it again
                continue
            if not deleted and change.path is not None:
                if change.content_sha256 is None:
                    continue
                placed.append((self._head(change, file), change.path))
            if file is None or (not deleted and file.path == change.path) or (file.lock is not None and file.lock.locked()):
                continue
            if file.parent is not None:
                emptied.append(file.parent)
            attached.tree.detach(file)
            if deleted:
                attached.forget(file)
        for head, path in placed:
            attached.place(head, path)
        for directory in emptied:
            directory.mtime_ns = now_ns()
            attached.tree.prune(directory)

    def _head(self, change: MemoryVersion | Memory, file: File | None) -> Head:
        attached = self.attached
        if isinstance(change, Memory):
            return attached.head(change)
        assert change.content_sha256 is not None
        made_ns = time_ns(change.created_at)
        return Head(
            memory_id=change.memory_id,
            version_id=change.id,
            sha256=change.content_sha256,
            size=change.content_size_bytes or 0,
            created_ns=file.head.created_ns if file is not None and file.head is not None else made_ns,
            updated_ns=spread_time(made_ns, change.id, attached.service.capabilities.time_resolution_ns),
            media_type=change.media_type,
            metadata=file.head.metadata if file is not None and file.head is not None else (),
        )

    def _heads(self) -> Iterator[Sha256]:
        """The contents that the memories of this store have now, as far as is known."""
        for file in self.attached.tree.by_id.values():
            if file.head is not None:
                yield file.head.sha256
        for park in self.parking.ids.values():
            yield park.head.sha256

    def _drop_superseded(self, now: float) -> None:
        """Let go of the bytes of what is no head any more, in memory and on disk; twice in a bound at most, it looks at all."""
        attached = self.attached
        if not self._superseded or now - self._swept_at < self.bound / 2 or not attached.service.capabilities.versions:
            return
        self._superseded = False
        self._swept_at = now
        attached.blobs.sweep()
        for file in attached.tree.by_id.values():
            draft, head = file.draft, file.head
            if draft is None or draft.base is None or head is None or draft.base.version_id == head.version_id:
                continue
            if attached.blobs.is_versioned(draft.base.sha256):
                draft.base_content = None  # a merge asks for it again
        with contextlib.suppress(MemfsError):  # the disk fails: whoever writes next is told, and this is tried again
            attached.journal.wipe_removed()
        if now - self._saved_at > SAVE_FORMER_SECONDS:
            self._save_former(now)

    def _trim(self, now: float) -> None:
        strict = self.attached.service.capabilities.strict_time_order
        if self._newest is not None and len(self._seen) > self._trim_seen_at:
            horizon = self._newest if strict else self._newest - 2 * OVERLAP
            self._seen = {key: time for key, time in self._seen.items() if time >= horizon}
            self._trim_seen_at = TRIM_ABOVE + 2 * len(self._seen)
        changed_here = self.attached.changed_here
        if len(changed_here) > self._trim_changed_at:
            for key in [key for key, changed in changed_here.items() if changed < now - REMEMBER_CHANGED_SECONDS]:
                del changed_here[key]
            self._trim_changed_at = TRIM_ABOVE + 2 * len(changed_here)
