"""Opening, reading, writing and closing the files of one store: the rules of one save, one version.

Closing a file is called *flush* here, as FUSE does: it happens once for each descriptor that refers to the open file, also
those that a shell or a fork made, so a flush may come before anything, or only half, was written. *Release* comes once, after
the last.
"""

import mmap
import os

import trio

from memfs.model.content import MAX_CONTENT_BYTES
from memfs.model.errors import ContentNotText, MemfsError
from memfs.replica.attached import Attached
from memfs.replica.commit import Committer
from memfs.replica.drafts import Draft, MemoryBuffer, now_ns
from memfs.replica.errors import CutShort, InvalidArgument, StateFull
from memfs.replica.handles import Handle
from memfs.replica.parking import Parking
from memfs.replica.scratch import SETTLE_SECONDS, SHARED_COMMIT_SECONDS
from memfs.replica.tree import File, Head, Inode, Kind, Meta
from memfs.replica.walks import Walks

PAGE_BYTES = mmap.PAGESIZE


class Files:
    def __init__(self, attached: Attached, committer: Committer, parking: Parking, walks: Walks) -> None:
        self.attached = attached
        self.committer = committer
        self.parking = parking
        self.walks = walks

    # Opening and reading

    async def open(self, file: File, flags: int, process: int) -> Handle:
        """Raises `ReadOnly` for a writer where nothing can be written, `StateFull` instead of cutting a file for nothing."""
        writing = flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_TRUNC
        if writing:
            if file.kind is Kind.MEMORY:
                self.attached.check_writable()
                self.attached.check_text(file.head)
                if flags & os.O_TRUNC and not file.dead:
                    self.attached.journal.check_room(0)
            if file.park is not None and file.park.renamed:
                # Nobody edits a backup: it was a plain rename after all.
                await self.parking.finish(file.park)
        handle = Handle(file, flags, process)
        if flags & os.O_TRUNC:
            await self._truncate(file, 0, process)
            handle.fresh = file.dirty
            self._written(file)
        elif file.draft is None and not file.dead and flags & os.O_ACCMODE != os.O_WRONLY:
            # Who looked the name up just before it was replaced opens a dead file, after a newer version was written here.
            head = file.shown or file.head
            if head is not None:
                self.attached.readings.read(head, process)
        self.opened(handle)
        return handle

    def opened(self, handle: Handle) -> None:
        handle.file.open_handles += (handle,)
        handle.file.handles += 1

    async def read(self, handle: Handle, offset: int, size: int) -> bytes:
        file = handle.file
        if file.draft is not None:
            return file.draft.buffer.read(offset, size)
        shown = file.shown or file.head
        if shown is None:
            return b""
        return (await self._content(file, shown))[offset : offset + size]

    async def _content(self, file: File, head: Head) -> bytes:
        """The bytes of a version that somebody reads; who reads all of a directory finds the rest at hand."""
        attached = self.attached
        if not attached.service.capabilities.local and head.size and not attached.blobs.has(head.sha256):
            await self.walks.read_ahead(file, head)
        return await attached.content(head)

    async def whole(self, file: File) -> bytes:
        """All bytes of a file as a reader sees them."""
        if file.draft is not None:
            return file.draft.buffer.content()
        head = file.shown or file.head
        return await self.attached.content(head) if head is not None else b""

    # Writing

    async def _begin_draft(self, file: File, *, appending: bool) -> Draft:
        """The draft of `file`, begun from what the writer sees (an appender: from the newest bytes) when there is none."""
        if file.park is not None and file.park.renamed:
            # It was opened before it got a backup's name, and is written to: it was a plain rename after all.
            await self.parking.finish(file.park)
        draft = file.draft
        if draft is not None:
            return draft
        base = file.head if appending or file.shown is None else file.shown
        content = await self.attached.content(base) if base is not None else b""
        if file.draft is None:  # another writer may have begun it while the content came
            file.lag += len(content) - self._size(file)
            file.draft = Draft(MemoryBuffer(content), base, content)
        return file.draft

    @staticmethod
    def _size(file: File) -> int:
        if file.draft is not None:
            return file.draft.buffer.size
        shown = file.shown or file.head
        return shown.size if shown is not None else 0

    def base_for(self, file: File, process: int) -> Head | None:
        """The version on which a whole new content of `file`, written by `process`, is stored."""
        if file.head is None:
            return None
        return self.attached.readings.base(file.head.memory_id, process) or file.shown or file.head

    async def _truncate(self, file: File, size: int, process: int) -> None:
        file.lag = 0
        draft = file.draft
        if draft is None:
            if size == 0:
                if file.head is not None and file.head.size == 0:
                    return
                draft = file.draft = Draft(MemoryBuffer(), self.base_for(file, process))
                draft.append_only = False
                draft.changed()
            else:
                head = file.shown or file.head
                if head is not None and head.size == size:
                    return
                draft = await self._begin_draft(file, appending=False)
        draft.truncate(size, limited=file.kind is Kind.MEMORY)
        self._times_moved(file)

    def _written(self, file: File) -> None:
        """`file` was opened to be cut, or cut through a handle: also where no byte of it changed, that moves its times."""
        if file.meta is not None:
            self._drop_setid(file.meta)
        if file.draft is None:
            file.meta = file.meta or Meta()
            file.meta.mtime_ns = file.ctime_ns = now_ns()
            self.attached.remember_meta(file)

    def _times_moved(self, file: File) -> None:
        if file.meta is not None and file.meta.mtime_ns is not None:
            file.meta.mtime_ns = None
        file.ctime_ns = 0

    async def write(self, handle: Handle, offset: int, data: bytes) -> int:
        """Take `data`, or none of it.

        Raises `ContentTooLarge`, `ContentNotText` and `StateFull` at once, so that no tool can miss it.
        """
        file = handle.file
        appending = handle.appending and not self._is_of_mapping(file, offset)
        draft = file.draft or await self._begin_draft(file, appending=appending)
        if draft.refusal is not None:
            raise draft.refusal
        if appending:
            offset = draft.buffer.size
        limited = file.kind is Kind.MEMORY and not file.dead
        if limited:
            self._check_room(file, draft, max(draft.buffer.size, offset + len(data)))
        try:
            draft.write(offset, data, limited=limited, appending=appending)
        except ContentNotText:
            self._forsake(file)
            raise
        if handle.flushed:
            handle.shared = True
        handle.wrote = True
        if file.meta is not None:
            self._times_moved(file)
            self._drop_setid(file.meta)
        return len(data)

    def _is_of_mapping(self, file: File, offset: int) -> bool:
        """Whether bytes for `offset` are a page of a mapping, which the kernel writes through any handle that can write.

        Else they belong to the end, wherever the kernel takes that to be: it ignores a size that it was told while somebody
        else made it forget the old one, and knows a size that is neither the file's nor the one it was told last.
        """
        if offset % PAGE_BYTES or offset >= self._size(file) - file.lag:
            return False
        return any(handle.mappable for handle in file.open_handles)

    def _check_room(self, file: File, draft: Draft, size: int) -> None:
        """Raise `StateFull` when the local state has no room for `size` bytes; what nobody was promised is refused too."""
        try:
            self.attached.journal.check_room(min(size, MAX_CONTENT_BYTES))  # more is refused for what it is
        except StateFull as full:
            if draft.dirty and file.journal_key is None:
                draft.refusal = CutShort(full.message)
            raise

    @staticmethod
    def _drop_setid(meta: Meta) -> None:
        """Writing takes the set-user-id bit away, and set-group-id where it means that."""
        if meta.mode is not None:
            meta.mode &= ~0o4000
            if meta.mode & 0o010:
                meta.mode &= ~0o2000

    async def truncate(self, file: File, size: int, handle: Handle | None, process: int) -> None:
        """ftruncate(2) through `handle`, or truncate(2), which is stored before it returns."""
        if size < 0:
            raise InvalidArgument("a file has no negative size")
        if file.kind is Kind.MEMORY and not file.dead:
            self.attached.check_writable()
            self.attached.check_text(file.head)
            self.attached.journal.check_room(0)
            if file.park is not None and file.park.renamed:
                await self.parking.finish(file.park)
        generation = file.draft.generation if file.draft is not None else -1
        await self._truncate(file, size, process)
        changed = file.draft is not None and file.draft.dirty and file.draft.generation != generation
        if handle is not None:
            self._written(file)
            if changed and size == 0 and not handle.wrote:
                handle.fresh = True
            elif changed:
                if handle.flushed:
                    handle.shared = True
                handle.wrote = True
        elif not file.unflushed:
            await self.committer.commit(file)

    # Closing

    async def flush(self, handle: Handle) -> None:
        """A descriptor was closed. Raises what keeps the bytes out of the store; they stay readable, and in the journal."""
        file = handle.file
        draft = file.draft
        if draft is None or not handle.writable or file.dead:
            return
        if file.kind is not Kind.MEMORY:
            if handle.wrote and file.kind is Kind.SCRATCH and not self.attached.rules.is_scratch(file.name):
                file.kind = Kind.SETTLING  # left behind by a tool that was killed, or refused once; now it is wanted
            handle.wrote = handle.fresh = False  # the local file has it
            return
        if draft.refusal is not None:
            raise draft.refusal
        if not handle.wrote:
            return
        if handle.shared:
            self.committer.check(file)
            self.attached.journal_draft(file)
            wait = file.committed_at + SHARED_COMMIT_SECONDS - trio.current_time()
            if wait > 0:
                handle.wrote = False
                self.attached.timers.after(wait, lambda: self._commit_later(file, "write"))
                return
        await self.committer.commit(file)
        handle.wrote = False
        handle.flushed = True

    def _let_go(self, number: Inode) -> None:
        held = self.attached.held
        held[number] -= 1
        if not held[number]:
            del held[number]

    async def release(self, handle: Handle) -> None:
        """The last descriptor was closed; nobody hears what happens now, so failures are noted and the bytes kept."""
        file = handle.file
        file.open_handles = tuple(other for other in file.open_handles if other is not handle)
        file.handles -= 1
        if file.held_number is not None and not file.handles:
            self._let_go(file.held_number)
            file.held_number = None
        draft = file.draft
        if draft is None:
            return
        if file.dead:
            if file.handles == 0:
                self.attached.forget_draft(file)
                self.attached.end_local(file)
                file.draft = None
            return
        if file.kind is Kind.SETTLING:
            if file.handles == 0:
                draft.buffer.close()
                self.attached.timers.after(SETTLE_SECONDS, lambda: self._settle(file))
            return
        if file.kind is Kind.SCRATCH:
            if file.handles == 0:
                draft.buffer.close()
            return
        if draft.dirty and handle.writable and not any(other.wrote for other in file.open_handles):
            await self._commit_later(file, "close")

    async def _commit_later(self, file: File, operation: str) -> None:
        """Commit what no caller waits for."""
        try:
            await self.committer.commit(file)
        except MemfsError as error:
            draft = file.draft
            if draft is not None and draft.dirty:
                self.attached.journal_draft(file, refused=error.message if draft.refusal is not None else None)
                self.attached.wait(file, error.message)
            self.attached.report(operation, file.path, error)

    async def _settle(self, file: File) -> None:
        """A file that looked temporary still stands: it was meant to stay."""
        if file.kind is not Kind.SETTLING or file.dead or file.handles:
            return
        try:
            await self.settle(file)
        except MemfsError as error:
            self.attached.report("settle", file.path, error)

    async def settle(self, file: File) -> None:
        """Make a settling file a memory. Raises when none can hold it; then it stays local."""
        attached = self.attached
        async with file.locked():  # its tool may be giving it its real name
            if file.kind is not Kind.SETTLING or file.dead:
                return
            try:
                attached.check_writable()
                self.committer.make_memory(file)
            except MemfsError:
                self.keep_local(file)
                raise
        await self.committer.commit(file)

    def make_scratch(self, file: File, path: str) -> None:
        """`file`, which is not in the store, stays out of it, under `path`."""
        attached = self.attached
        content = file.draft.buffer.content() if file.draft is not None and file.kind is Kind.MEMORY else None
        file.kind = Kind.SCRATCH
        if file.local_key is None:
            attached.forget_draft(file)
            attached.begin_local(file, content or b"")
            for handle in file.open_handles:
                handle.wrote = handle.fresh = False
        assert file.local_key is not None
        attached.journal.change_local_file(file.local_key, path=path, kind=file.kind.value, meta=file.meta)

    def _forsake(self, file: File) -> None:
        """What `file` was to help to write (a database, where this is its journal) and is empty yet will not be written.

        It stays on this machine until somebody does.
        """
        beside = file.parent.children.values() if file.parent is not None else ()
        named_after = [other for other in beside if isinstance(other, File) and file.name.startswith(other.name)]
        for other in named_after:
            new = other.kind is Kind.MEMORY and other.head is None and other is not file
            if new and other.handles and not self._size(other):
                self.make_scratch(other, other.path)

    def keep_local(self, file: File) -> None:
        """`file`, which looked temporary, was that: it stays on this machine until somebody writes to it again."""
        if file.kind is Kind.SETTLING:
            file.kind = Kind.SCRATCH
            self.attached.remember_meta(file)

    async def fsync(self, handle: Handle) -> None:
        """Store what was written, and return when that survives a loss of power."""
        file = handle.file
        await self.sync_file(file)
        for other in file.open_handles:
            other.fresh = False

    async def sync_file(self, file: File) -> None:
        attached = self.attached
        if file.dead:
            return
        draft = file.draft
        if file.kind is not Kind.MEMORY:
            if draft is not None:
                draft.buffer.sync()
            attached.journal.sync()
            return
        await self.parking.finish_path(file.path)
        if draft is not None:
            self.committer.check(file)
            await self.committer.commit(file)
        await attached.service.sync()

    # Attributes

    def set_meta(self, file: File, change: Meta) -> None:
        """chmod, chown, utimens: remembered here, never sent."""
        if file.kind is Kind.MEMORY:
            self.attached.check_writable()
        meta = file.meta or Meta()
        meta.update(change)
        if change.mtime_ns is not None and file.local_key is not None:
            path = self.attached.journal.file_path(file.local_key)
            os.utime(path, ns=(meta.atime_ns or change.mtime_ns, change.mtime_ns))
        file.meta = meta
        file.ctime_ns = now_ns()
        if not file.dead:
            self.attached.remember_meta(file)
