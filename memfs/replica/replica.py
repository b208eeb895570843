"""One attached store as the mount sees it: its parts put together, from the replay at the start to the drain at the end."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from weakref import WeakSet

import trio

from memfs.model.errors import MemfsError, StoreArchived, Unavailable
from memfs.model.ids import SessionId
from memfs.model.objects import Store
from memfs.replica.attached import Attached
from memfs.replica.blobs import BlobCache
from memfs.replica.changes import Feed
from memfs.replica.commit import Committer, may_pass
from memfs.replica.drafts import now_ns
from memfs.replica.errors import Conflict, DrainIncomplete, InvalidArgument
from memfs.replica.files import Files
from memfs.replica.journal import Journal, JournalBusy
from memfs.replica.listing import Listing
from memfs.replica.names import look_up_name
from memfs.replica.namespace import Namespace
from memfs.replica.notices import Notices
from memfs.replica.orphans import replay_orphans
from memfs.replica.parking import Parking
from memfs.replica.readings import Readings
from memfs.replica.replay import Replay
from memfs.replica.scratch import ScratchRules
from memfs.replica.tasks import outlive
from memfs.replica.timers import Timers
from memfs.replica.tree import Directory, File, Head, Kind, Node, Tree, time_ns
from memfs.stores.base import KeepsMetadata, MemoryStore, Usage

RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 30.0
DRAINED_AT_ONCE = 8
"""How many files are stored at the same time when the mount ends."""
NAMED_PATHS = 1000
"""How many of the paths that could not be stored the end of a mount names in its one line."""


class Replica:
    """Opened by `open_replica`; then `namespace` and `files` do what a file system does, and `run` what happens by itself."""

    def __init__(self, attached: Attached, bound: float) -> None:
        self.attached = attached
        self.committer = Committer(attached)
        self.parking = Parking(attached, self.committer)
        self.listing = Listing(attached, self.parking)
        self.files = Files(attached, self.committer, self.parking, self.listing.walks)
        self.feed = Feed(attached, self.parking, bound, self.listing.relist, self.listing.again)
        self.namespace = Namespace(attached, self.committer, self.parking, self.files, self.listing, self.feed)
        self.usage: Usage | None = None
        self.created_ns = time_ns(attached.store.created_at)
        self.drafted: WeakSet[File] = WeakSet()
        """The files that have a draft, as `File.draft` keeps it: the status, each second, must not walk a large tree."""
        attached.tree.volume = attached.tree.root.volume = self

    @property
    def name(self) -> str:
        return self.attached.name

    @property
    def root(self) -> Directory:
        return self.attached.tree.root

    async def start(self) -> None:
        """Show what is local, store what an earlier daemon left, begin to follow the store."""
        self.replay = Replay(self.attached, self.committer, self.listing)
        await self.feed.start()
        self.replay.show_local()
        await self.replay.run()

    async def look_ahead(self) -> None:
        """Ask for the root of a store far away: whatever anybody does first needs its names. Who finds it missing says why."""
        capabilities = self.attached.service.capabilities
        if not capabilities.local and capabilities.depth_listing:
            with suppress(MemfsError):
                await self.listing.directory(self.root)

    async def run(self) -> None:
        """Timers, polls and retries; ends by cancellation."""
        self.attached.timers.surprised = self._surprised
        async with trio.open_nursery() as nursery:
            for task in (self.attached.timers.run, self.feed.run, self._retry, self._replay_orphans):
                nursery.start_soon(outlive, task, self._surprised)

    def _surprised(self, error: Exception) -> None:
        """A defect of memfs in what nobody waits for."""
        message = f"memfs has a defect: {type(error).__name__} in a task of the mount"
        self.attached.notices.error(store=self.name, path="", operation="background", error="EIO", message=message)

    async def _replay_orphans(self) -> None:
        pause = RETRY_SECONDS
        while not self.attached.read_only and not await replay_orphans(self.attached):
            await trio.sleep(pause)
            pause = min(pause * 2, MAX_RETRY_SECONDS)

    async def _retry(self) -> None:
        """Store what could not be stored, with growing pauses while the service does not answer."""
        pause = RETRY_SECONDS
        while True:
            await trio.sleep(pause)
            failed = self.replay.unfinished and not await self.replay.again()
            try:
                await self.namespace.directory_renames.bring_back()
            except Unavailable:
                failed = True
            for file in [file for file in self.attached.pending if self._can_retry(file)]:
                try:
                    await self.committer.commit(file)
                except Unavailable:
                    failed = True
                    break
                except MemfsError as error:
                    if may_pass(error):
                        failed = True
                    else:
                        self.attached.report("retry", file.path, error)
                        self._refuse(file, error)
            pause = min(pause * 2, MAX_RETRY_SECONDS) if failed else RETRY_SECONDS

    def _refuse(self, file: File, error: MemfsError) -> None:
        """What is pending can never be stored as it is: it is kept until somebody deals with it."""
        if isinstance(error, Conflict):
            return  # those words stand beside the file; what was written since then has not been tried yet
        if file.draft is not None and file.draft.dirty:
            self.attached.journal_draft(file, refused=error.message)
            file.draft.refusal = file.draft.refusal or error

    @staticmethod
    def _can_retry(file: File) -> bool:
        return file.draft is not None and file.draft.refusal is None and not file.dead and not file.unflushed

    # Looking

    async def lookup(self, directory: Directory, name: bytes) -> Node | None:
        """The child of that name, None when there is none. Raises `PathTooLong`, and `Unavailable` when nobody knows."""
        if not self.feed.is_fresh():
            await self.feed.ensure()
        segment = look_up_name(name)
        if segment is None:
            return None
        child = directory.children.get(segment)
        if child is None and not directory.listed:
            await self.listing.directory(directory)
            child = directory.children.get(segment)
        return child

    async def entries(self, directory: Directory) -> list[tuple[str, Node]]:
        await self.feed.ensure()
        await self.listing.directory(directory, reading=True)
        return list(directory.children.items())

    async def known_usage(self) -> Usage | None:
        self.usage = await self.attached.service.usage(self.attached.store_id)
        return self.usage

    async def author(self, head: Head) -> dict[str, object] | None:
        """The actor that made a version; None when it was not recorded."""
        if not self.attached.service.capabilities.attribution:
            return None
        version = await self.attached.service.retrieve_version(self.attached.store_id, head.version_id, view="basic")
        return version.created_by.model_dump() if version.created_by is not None else None

    def maximum(self) -> int | None:
        return self.attached.service.capabilities.max_memories

    # Storing

    async def sync_below(self, directory: Directory) -> None:
        """Store everything that waits at or below `directory`.

        Raises the first refusal after trying all, or `Unavailable` as soon as the service does not answer.
        """
        failure: MemfsError | None = None
        try:
            await self.parking.finish_below(directory.path)
        except MemfsError as error:
            failure = error
        for file in self.attached.tree.files_below(directory):
            if file.draft is None or file.kind is not Kind.MEMORY:
                continue
            if not file.draft.cut:
                file.draft.refusal = None  # the store refused it, and may have another opinion by now
            try:
                await self.committer.commit(file)
            except MemfsError as error:
                failure = failure or error
                if isinstance(error, Unavailable):
                    break  # the others would wait as long, one after the other
                if not may_pass(error):
                    self._refuse(file, error)
        await self.attached.service.sync()
        if failure is not None:
            raise failure

    async def discard(self, file: File) -> None:
        """Give up what was written to `file` and is not stored: it is what the store has, or is gone when that has nothing.

        Raises `InvalidArgument` when nothing waits.
        """
        async with file.locked():
            draft = file.draft
            if draft is None or not draft.dirty or file.kind is not Kind.MEMORY or file.dead:
                raise InvalidArgument(f"{file.path}: nothing waits to be stored")
            self.attached.forget_draft(file)
            self.attached.end_local(file)
            file.draft = None
            for handle in file.open_handles:
                handle.wrote = handle.fresh = False
            if file.head is None:
                directory = file.parent
                self.attached.tree.detach(file)
                file.dead = True
                if directory is not None:
                    self.attached.directory_changed(directory)
            if file.bound is not None:
                self.attached.attributes_changed(file)

    @property
    def keeps_metadata(self) -> bool:
        """Whether the service keeps metadata beside the content of a memory."""
        return isinstance(self.attached.service, KeepsMetadata)

    async def set_metadata(self, file: File, key: str, value: str | None) -> None:
        """Set `key` of what the service keeps beside the content of `file`, or delete it; what is written is stored before.

        The content keeps its time. Raises `InvalidArgument` for a file that is not in the store.
        """
        attached, service = self.attached, self.attached.service
        attached.check_writable()
        if file.park is not None and file.park.renamed:
            await self.parking.finish(file.park)
        await self.committer.commit(file)
        async with file.locked():
            head = file.head
            if not isinstance(service, KeepsMetadata) or head is None or file.dead:
                raise InvalidArgument(f"{file.path}: only what is in the store has metadata")
            try:
                memory = await service.update_metadata(
                    attached.store_id, head.memory_id, {key: value}, precondition=head.sha256
                )
            except StoreArchived:
                attached.became_read_only()
                raise
            file.ctime_ns = now_ns()
            self.namespace.renames.renamed(file, head, attached.head(memory))
            if file.bound is not None:
                attached.attributes_changed(file)

    async def drain(self, deadline: float) -> None:
        """Store everything, also what settles, before the mount ends; what may pass is tried until `deadline` (trio's clock).

        Raises `DrainIncomplete` that names what is kept, and where.
        """
        pause = 0.2
        while True:
            left = await self._drain_once()
            if not left:
                return
            lasting = not any(may_pass(error) for _, error in left)
            if lasting or trio.current_time() + pause > deadline:
                break
            await trio.sleep(pause)
            pause = min(pause * 2, 5.0)
        for path, error in left:
            self.attached.report("drain", path, error)
        raise DrainIncomplete(
            f"{len(left)} change(s) could not be stored; they are kept in {self.attached.journal.directory} "
            f"and the next mount of the store tries again: {self._named(left)}"
        )

    def _named(self, left: list[tuple[str, MemfsError]]) -> str:
        """What could not be stored, each path once, and each reason once."""
        paths_by_reason: dict[str, list[str]] = {}
        for path, error in left[:NAMED_PATHS]:
            paths_by_reason.setdefault(error.message, []).append(f"{self.attached.name}{path}")
        named = [f"{', '.join(paths)}: {reason}" for reason, paths in paths_by_reason.items()]
        if len(left) > NAMED_PATHS:
            named.append(f"and {len(left) - NAMED_PATHS:,} more: `memfs pending list` names them")
        return "; ".join(named)

    async def _drain_once(self) -> list[tuple[str, MemfsError]]:
        """Try to store everything, several at a time; returns what could not be, with the reason."""
        attached = self.attached
        left: list[tuple[str, MemfsError]] = []
        limit = trio.CapacityLimiter(DRAINED_AT_ONCE)

        async def store(file: File) -> None:
            async with limit:
                try:
                    if file.kind is Kind.SETTLING:
                        await self.files.settle(file)
                    else:
                        await self.committer.commit(file)
                except MemfsError as error:
                    if file.kind is not Kind.MEMORY:
                        attached.report("drain", file.path, error)  # it stays here, as the scratch file that it is
                        return
                    left.append((file.path, error))
                    if not may_pass(error):
                        self._refuse(file, error)

        try:
            await self.parking.finish_below("")
        except MemfsError as error:
            left += [(park.path, error) for park in self.parking.by_path.values()] or [("", error)]
        with suppress(Unavailable):
            await self.namespace.directory_renames.bring_back()
        async with trio.open_nursery() as nursery:
            for file in list(attached.tree.files_below(attached.tree.root)):
                if file.draft is not None and file.kind is not Kind.SCRATCH:
                    nursery.start_soon(store, file)
        return left


@asynccontextmanager
async def open_replica(
    service: MemoryStore,
    store: Store,
    *,
    name: str,
    session_id: SessionId,
    state_directory: Path,
    mountpoint: Path,
    bound: float,
    read_only: bool,
    umask: int,
    scratch_patterns: tuple[str, ...],
    notices: Notices,
    blobs: BlobCache,
    timeout: float,
    patience: float,
) -> AsyncIterator[Replica]:
    """A replica of `store`, its local state locked; a remount waits up to `patience` seconds for the drain of the last one.

    `timeout` bounds, in seconds, how long an operation waits for the service.
    """
    journal = await _open_journal(state_path(state_directory, store, mountpoint), patience)
    try:
        tree = Tree(None, store.id)
        attached = Attached(
            service=service,
            store=store,
            name=name,
            session_id=session_id,
            tree=tree,
            journal=journal,
            blobs=blobs,
            rules=ScratchRules(scratch_patterns),
            timers=Timers(),
            notices=notices,
            readings=Readings(),
            umask=umask,
            read_only=read_only or store.archived_at is not None,
            timeout=timeout,
        )
        if journal.damage is not None:
            notices.error(store=name, path="", operation="mount", error="EIO", message=journal.damage)
        journal.set_place(str(mountpoint), name)
        replica = Replica(attached, bound)
        await replica.start()
        yield replica
    finally:
        journal.close()


def state_path(state_directory: Path, store: Store, mountpoint: Path) -> Path:
    """Where the state of a store under a mount point is."""
    return state_directory / store.id / place_key(mountpoint)


def place_key(mountpoint: Path) -> str:
    """A file name that stands for a mount point."""
    return hashlib.sha256(str(mountpoint).encode("utf-8", "surrogateescape")).hexdigest()[:16]


async def _open_journal(path: Path, patience: float) -> Journal:
    deadline = trio.current_time() + patience
    while True:
        try:
            return Journal(path)
        except JournalBusy:
            if trio.current_time() > deadline:
                raise
            await trio.sleep(0.05)
