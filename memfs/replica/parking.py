"""Names taken from a memory that may be given back at once.

Many tools save by taking the old file away first: they unlink it, or rename it to a backup, and create a new one under its
name. So the name is free at once, but the memory waits, *parked*: a file that appears under the name continues it, as one
modified version. When none does in time, the deletion or the rename was meant, and goes out. Each park is in the journal, so
that a kill in between neither loses nor resurrects anything.
"""

import contextlib
from dataclasses import dataclass, field, replace

import trio

from memfs.model.errors import ConcurrentModification, MemfsError, NotFound, PreconditionFailed, Unauthenticated, Unavailable
from memfs.model.ids import MemoryId, new_memory_id
from memfs.replica.attached import Attached
from memfs.replica.commit import Committer, Intent, Overlapping
from memfs.replica.drafts import Draft, MemoryBuffer
from memfs.replica.errors import StateFailed, StateFull
from memfs.replica.scratch import RENAME_PARK_SECONDS, UNLINK_PARK_SECONDS
from memfs.replica.tree import File, Head, Kind, Meta, inode_for

RETRY_SECONDS = 5.0
FINISHED_AT_ONCE = 8
"""How many parks go out at the same time."""
LATER = (Unavailable, Unauthenticated, ConcurrentModification, StateFull, StateFailed)
"""What may pass: the deletion or rename stands, and is sent again."""


@dataclass(eq=False)
class Park:
    """`path` is free and the memory `head` waits. `file` is the node that had the name: unlinked, or renamed to `file.path`."""

    path: str
    head: Head
    file: File
    renamed: bool
    backup: Head | None = None
    """The memory that had the backup's name already."""
    meta: Meta | None = None
    """What was set on the memory; whoever continues it does not inherit it (tools set it anew)."""
    lock: trio.Lock = field(default_factory=trio.Lock)
    over: bool = False
    told: bool = False
    """Its failure was reported; it is tried again until the store takes it or refuses it for good."""


class Parking:
    """The parks of one attached store."""

    def __init__(self, attached: Attached, committer: Committer) -> None:
        self.attached = attached
        self.committer = committer
        self.by_path: dict[str, Park] = {}
        self.ids: dict[MemoryId, Park] = {}

    def prepare_unlink(self, file: File, path: str) -> None:
        """Journal that `file`, a memory at `path`, is to go, and its draft with it; raises `StateFull` before that is done."""
        assert file.head is not None
        journal = self.attached.journal
        with journal.transaction():
            if file.park is None:
                journal.put_park(file.head.memory_id, path, file.head.sha256, None)
            else:
                park = file.park
                journal.put_park(park.head.memory_id, park.path, park.head.sha256, None)
                if park.backup is not None:
                    journal.put_park(park.backup.memory_id, path, park.backup.sha256, None)
            if file.journal_key is not None:
                journal.remove_draft(file.journal_key)
        file.journal_key = None

    def unlinked(self, file: File, path: str) -> None:
        """`file`, a memory whose name `path` has just been taken out of the tree, waits for a successor."""
        assert file.head is not None
        if file.park is not None:
            # It was renamed from its own name before: what goes away is the memory under that name.
            park = file.park
            park.renamed = False
            file.park = None
            if park.backup is not None:
                self._park(Park(path, park.backup, file, renamed=False), UNLINK_PARK_SECONDS)
            return
        self._park(Park(path, file.head, file, renamed=False, meta=file.meta), UNLINK_PARK_SECONDS)

    def renamed(self, file: File, old_path: str, backup: Head | None, unlinked: Park | None) -> None:
        """`file` was renamed from `old_path` to a backup name, which belonged to the memory `backup`, or to that of `unlinked`,
        which its tool has just removed to make way."""
        assert file.head is not None
        if unlinked is not None:
            backup = unlinked.head
            self._end(unlinked)
        park = Park(old_path, file.head, file, renamed=True, backup=backup, meta=file.meta)
        file.park = park
        journal = self.attached.journal
        with journal.transaction():
            if unlinked is not None:
                journal.remove_park(unlinked.head.memory_id)
            journal.put_park(park.head.memory_id, park.path, park.head.sha256, park.file.path)
        self._park(park, RENAME_PARK_SECONDS)

    def _park(self, park: Park, seconds: float) -> None:
        self.by_path[park.path] = park
        self.ids[park.head.memory_id] = park
        self.attached.tree.by_id.pop(park.head.memory_id, None)
        self.attached.note_change(park.head.memory_id)
        self.attached.timers.after(seconds, lambda: self._due(park))

    def continued(self, file: File, park: Park, process: int) -> None:
        """`file`, made by `process`, has appeared under the parked name: it is that memory from now on."""
        attached = self.attached
        self._end(park)
        file.continues_park = not park.renamed
        file.head = park.head
        file.memory_id = None
        file.number = attached.memory_number(park.head.memory_id)
        attached.tree.by_id[park.head.memory_id] = file
        attached.note_change(park.head.memory_id)
        if file.draft is not None:
            file.draft.base = self.attached.readings.base(park.head.memory_id, process) or park.head
            file.draft.append_only = False

    async def release_backup(self, park: Park) -> None:
        """The file that was renamed away is a file of its own: a memory under a backup name, local under a scratch name."""
        attached, file = self.attached, park.file
        if not park.renamed:
            return
        if file.dead:
            attached.journal.remove_park(park.head.memory_id)
            return
        file.park = None
        content = await attached.content(park.head)
        file.head = park.backup
        attached.blobs.put(park.head.sha256, content)
        if park.backup is not None:
            file.number = attached.memory_number(park.backup.memory_id)
            attached.tree.by_id[park.backup.memory_id] = file
        else:
            file.memory_id = attached.choose_id()
            file.number = inode_for(file.memory_id or new_memory_id())
        scratch = park.backup is None and attached.rules.is_scratch(file.name)
        if scratch:
            file.kind = Kind.SCRATCH
            attached.begin_local(file, content)
            assert file.draft is not None
            file.draft.mtime_ns = park.head.updated_ns
            attached.journal.remove_park(park.head.memory_id)
            return
        file.draft = Draft(MemoryBuffer(content), park.backup)
        file.draft.mtime_ns = park.head.updated_ns
        file.draft.dirty = True
        file.draft.append_only = False
        attached.journal_draft(file)
        attached.journal.remove_park(park.head.memory_id)
        try:
            await self.committer.commit(file)
        except MemfsError as error:
            attached.report("backup", file.path, error)

    async def take(self, path: str) -> Park | None:
        """The park on `path`, if there is one whose deletion or rename is not on its way; while it is, wait for that."""
        park = self.by_path.get(path)
        if park is not None and park.lock.locked():
            async with park.lock:
                pass
            return self.by_path.get(path)
        return park

    def _end(self, park: Park) -> None:
        park.over = True
        if self.by_path.get(park.path) is park:
            del self.by_path[park.path]
        if self.ids.get(park.head.memory_id) is park:
            del self.ids[park.head.memory_id]

    async def _due(self, park: Park) -> None:
        if park.over:
            return
        try:
            await self.finish(park)
        except MemfsError as error:
            if not park.told:
                self.attached.report("unlink" if not park.renamed else "rename", park.path, error)
            park.told = not park.over

    async def finish(self, park: Park) -> None:
        """Nobody continued it: delete or rename the memory now. Raises when the store refuses; then the tree shows what is."""
        async with park.lock:
            if park.over:
                return
            try:
                if park.renamed and not park.file.dead:
                    await self._finish_rename(park)
                else:
                    await self._finish_unlink(park)
            except LATER:
                self.attached.timers.after(RETRY_SECONDS, lambda: self._due(park))
                raise
            except MemfsError:
                self._end(park)
                self.attached.journal.remove_park(park.head.memory_id)
                await self._restore(park)
                raise

    async def _finish_unlink(self, park: Park) -> None:
        attached = self.attached
        head = park.head
        try:
            await attached.service.delete_memory(attached.store_id, head.memory_id, expected_content_sha256=head.sha256)
        except NotFound:
            pass
        except PreconditionFailed:
            raise PreconditionFailed(
                f"{park.path}: another session changed it after you saw it, so it was not removed; "
                "read it, then remove it again"
            ) from None
        attached.note_change(head.memory_id)
        self._end(park)
        with attached.journal.transaction():
            attached.journal.remove_park(head.memory_id)
            attached.journal.put_attributes(head.memory_id, number=None, sha256=None, meta=None)

    async def _finish_rename(self, park: Park) -> None:
        attached, file = self.attached, park.file
        async with file.locked():
            if park.backup is None:
                memory = await attached.service.update_memory(attached.store_id, park.head.memory_id, path=file.path)
                head = attached.head(memory)
                if head.sha256 == park.head.sha256:
                    head = replace(head, updated_ns=park.head.updated_ns)
            else:
                content = await attached.content(park.head)
                try:
                    stored = await self.committer.store(Intent(file.path, content, park.backup, park.backup, None, False, None))
                except Overlapping as overlap:
                    raise PreconditionFailed(overlap.message) from overlap
                head = stored.head
                with contextlib.suppress(NotFound):
                    await attached.service.delete_memory(
                        attached.store_id, park.head.memory_id, expected_content_sha256=park.head.sha256
                    )
            self._end(park)
            file.park = None
            self.committer.adopt(file, head)
            file.shown = head if file.shown is None or file.shown.sha256 == head.sha256 else file.shown
            attached.journal.remove_park(park.head.memory_id)
            if head.sha256 == park.head.sha256:
                keep_time(attached, file, head)
            else:
                show_news(attached, file)

    async def _restore(self, park: Park) -> None:
        """The store has another opinion: show what it has."""
        attached = self.attached
        park.file.park = None
        if park.file.dirty:
            attached.orphan(park.file)
        elif not park.file.dead:
            attached.let_go(park.file)
        for head in (park.head, park.backup):
            if head is not None:
                await self.show_again(head.memory_id)

    async def show_again(self, memory_id: MemoryId) -> None:
        """Show a memory that this mount had let go of, and the store has not."""
        attached = self.attached
        try:
            memory = await attached.service.retrieve_memory(attached.store_id, memory_id, view="basic")
        except NotFound:
            return
        except MemfsError:
            attached.doubtful = True
            return
        attached.place(attached.head(memory), memory.path)

    async def finish_path(self, path: str) -> None:
        """Finish the park on `path`, if there is one, because the name is about to be used in another way."""
        park = self.by_path.get(path)
        if park is not None:
            await self.finish(park)

    async def finish_within(self, path: str) -> None:
        """Finish the parks below `path`, where a directory was: the store has no memory whose path contains another's."""
        if any(parked.startswith(f"{path}/") for parked in self.by_path):
            await self.finish_below(f"{path}/")

    async def finish_below(self, prefix: str) -> None:
        """Finish every park at or below a path ("": everywhere; with a "/" at its end: only below it).

        Raises the last failure after trying all.
        """
        failures: list[MemfsError] = []
        limit = trio.CapacityLimiter(FINISHED_AT_ONCE)

        async def finish(park: Park) -> None:
            async with limit:
                try:
                    await self.finish(park)
                except MemfsError as error:
                    failures.append(error)

        async with trio.open_nursery() as nursery:
            for park in list(self.by_path.values()):
                if _lies_below(park.path, prefix) or (park.renamed and _lies_below(park.file.path, prefix)):
                    nursery.start_soon(finish, park)
        if failures:
            raise failures[-1]


def _lies_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix.removesuffix('/')}/")


def show_news(attached: Attached, file: File) -> None:
    """What `file` was renamed with is not what it had: its time and the kernel's pages are old."""
    if file.head is not None and file.meta is not None:
        file.meta = attached.memory_meta(file.head)
    if file.bound is not None:
        attached.attributes_changed(file)


def keep_time(attached: Attached, file: File, head: Head) -> None:
    """A rename is no change of the content: its time stays what it was, also for the next mount."""
    memory_time = file.meta.mtime_ns if file.meta is not None else None
    file.meta = file.meta or Meta()
    file.meta.mtime_ns = memory_time if memory_time is not None else head.updated_ns
    attached.remember_meta(file)
