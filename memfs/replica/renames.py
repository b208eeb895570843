"""Renames of files, and what each does to memories: most are the end of a save."""

import os
import stat
from contextlib import AsyncExitStack
from dataclasses import replace

import trio

from memfs.model.content import check_size, decode, sha256_of
from memfs.model.errors import MemfsError, NotFound, PathConflict, PreconditionFailed, StoreArchived
from memfs.replica.attached import Attached
from memfs.replica.changes import Feed
from memfs.replica.commit import Committer, Intent, Overlapping
from memfs.replica.drafts import Draft, FileBuffer
from memfs.replica.entries import Entries
from memfs.replica.errors import Busy, CrossesBorder, NameTaken, NoSuchName
from memfs.replica.files import Files
from memfs.replica.journal import JournalledReplacement
from memfs.replica.listing import Listing
from memfs.replica.names import check_name
from memfs.replica.parking import Park, Parking, keep_time, show_news
from memfs.replica.scratchtree import ScratchNode
from memfs.replica.tree import Directory, File, Head, Kind, Meta


class FileRenames:
    def __init__(
        self,
        attached: Attached,
        committer: Committer,
        parking: Parking,
        files: Files,
        entries: Entries,
        listing: Listing,
        feed: Feed,
    ) -> None:
        self.attached = attached
        self.committer = committer
        self.parking = parking
        self.files = files
        self.entries = entries
        self.list_directory = listing.directory
        self.feed = feed

    async def rename_out(self, node: ScratchNode, directory: Directory, name: bytes, *, replace: bool, process: int) -> File:
        """A file of a scratch directory gets a name in the store. Raises `CrossesBorder` for any but an idle plain file."""
        attached = self.attached
        attached.check_writable()
        segment = check_name(name)
        await self.feed.look()
        await self.list_directory(directory)
        target = directory.children.get(segment)
        if target is not None and not replace:
            raise NameTaken(f"{segment} exists already")
        status = node.status()
        if not stat.S_ISREG(status.st_mode) or node.handles or (target is not None and not isinstance(target, File)):
            raise CrossesBorder("a rename cannot leave a scratch directory: copy, then remove")
        file = attached.new_file(directory, segment, Kind.SETTLING)
        mode = stat.S_IMODE(status.st_mode)
        file.meta = Meta(mode=None if mode == 0o666 & ~attached.umask else mode, mtime_ns=status.st_mtime_ns)
        real_path = node.real_path
        file.local_key = attached.journal.add_local_file(node.hidden_path, Kind.SETTLING.value, file.number, file.meta)
        os.rename(real_path, attached.journal.file_path(file.local_key))
        file.draft = Draft(FileBuffer(attached.journal.file_path(file.local_key)))
        try:
            await self.rename_file(file, target, directory, segment, process)
        except BaseException:
            os.rename(attached.journal.file_path(file.local_key), real_path)
            attached.journal.remove_local_file(file.local_key)
            raise
        node.dead = True
        attached.directory_changed(directory)
        return file

    async def rename_file(self, file: File, target: File | None, directory: Directory, segment: str, process: int) -> None:
        attached = self.attached
        to_scratch = attached.rules.is_scratch(segment)
        path = f"{directory.path}/{segment}" if to_scratch else self.entries.check_child(directory, segment)
        await self.committer.make_certain(file)
        if target is not None:
            await self.committer.make_certain(target)
        if target is not None and target.park is not None and target.park.renamed:
            await self.parking.finish(target.park)
        if file.park is not None and file.park.renamed:
            if file.park.path == path:
                await self._rename_back(file, target, directory, segment, process)
                return
            await self.parking.finish(file.park)
        if file.head is None:
            try:
                await self._rename_local(file, target, directory, segment, path, to_scratch, process)
            except MemfsError:
                self.files.keep_local(file)  # a save that failed: its temporary file is no memory, whoever takes it away
                raise
        else:
            await self._rename_memory(file, target, directory, segment, path, process)

    async def _rename_back(self, file: File, target: File | None, directory: Directory, segment: str, process: int) -> None:
        """A file that was renamed to a backup gets its own name again: nothing has happened."""
        park = file.park
        assert park is not None
        if target is None and park.backup is None:
            self.parking.continued(file, park, process)
            file.park = None
            self.attached.journal.remove_park(park.head.memory_id)
            self.entries.move(file, None, directory, segment)
            return
        await self.parking.finish(park)
        await self._rename_memory(file, target, directory, segment, f"{directory.path}/{segment}", process)

    async def _rename_local(
        self, file: File, target: File | None, directory: Directory, segment: str, path: str, to_scratch: bool, process: int
    ) -> None:
        """A file that is not in the store gets another name: the usual end of an atomic save."""
        park = await self.parking.take(path)
        head = target.head if target is not None else park.head if park is not None else None
        self.attached.check_text(head)
        if to_scratch and head is None:
            self.files.make_scratch(file, path)
            self.entries.move(file, target, directory, segment)
            return
        async with AsyncExitStack() as locks:
            await locks.enter_async_context(file.locked())
            if target is not None:
                await locks.enter_async_context(target.locked())
                if target.dead:
                    target = None
                else:
                    head = target.head or head
            if park is not None:
                await locks.enter_async_context(park.lock)  # its time may run out while this is stored
                if park.over:
                    park, head = None, target.head if target is not None else None
            if file.unflushed:
                # It goes out with its flush, under the new name and as the target's next version.
                if file.draft is not None and file.kind is not Kind.MEMORY:
                    check_size(file.draft.buffer.size)
                await self._become(file, target, park, directory, segment, process)
                return
            draft = file.draft
            if draft is None:
                raise NoSuchName("it was removed meanwhile")
            if draft.refusal is not None:
                raise draft.refusal
            check_size(draft.buffer.size)
            content = draft.buffer.content()
            decode(content)
            if self.committer.keeps_back(content):
                await self._become(file, target, park, directory, segment, process)
                self.committer.keep_back(file)
                return
            seen = self._base(target, head, process)
            stored: Head | None
            if head is not None and head.sha256 == sha256_of(content):
                stored = head
            else:
                stored = await self._store_over(file, head, seen, content, path)
            await self._become(file, target, park, directory, segment, process)
            self._settled(file, stored, content, draft)
            if stored is head:
                self.committer.keep_time(file, draft)

    def _base(self, target: File | None, head: Head | None, process: int) -> Head | None:
        """What the new content of `head`, whose name `target` may bear, was made from."""
        if target is not None and target.head is not None:
            return self.files.base_for(target, process)
        if head is None:
            return None
        return self.attached.readings.base(head.memory_id, process) or head

    async def _store_over(self, file: File, head: Head | None, seen: Head | None, content: bytes, path: str) -> Head:
        """Store the bytes of `file` as the next version of `head`, or as a new memory at `path`."""
        attached = self.attached
        if file.memory_id is None and head is None:
            file.memory_id = attached.choose_id()
        intent = Intent(
            path=path,
            content=content,
            target=head,
            base=seen,
            base_content=None,
            append_only=False,
            memory_id=file.memory_id,
            sent=file.draft.sent if file.draft is not None else set(),
        )
        if not attached.service.capabilities.local and head is not None:
            attached.note_change(head.memory_id)
        try:
            return (await self.committer.store(intent)).head
        except Overlapping as overlap:
            name = path.rpartition("/")[2]
            parent = attached.tree.find(path.rpartition("/")[0])
            sidecar = await self.committer.put_aside(
                parent if isinstance(parent, Directory) else file.parent, name, content, overlap
            )
            attached.place(overlap.head, path)
            raise Busy(f"{path}: {overlap.message}; it has the other session's words, yours are in {sidecar}") from None

    def _settled(self, file: File, head: Head, content: bytes, draft: Draft) -> None:
        """`file` has its new name and is stored as `head`."""
        attached = self.attached
        self.committer.adopt(file, head)
        attached.blobs.put(sha256_of(content), content)
        if file.draft is draft and not file.unflushed:
            attached.end_local(file)
            attached.forget_draft(file)
            file.draft = None
            file.shown = head
        file.committed_at = trio.current_time()
        if file.meta is not None:
            attached.remember_meta(file)

    async def _become(
        self,
        file: File,
        target: File | None,
        park: Park | None,
        directory: Directory,
        segment: str,
        process: int,
    ) -> None:
        """`file` takes the name, and with it the memory of `target` or of the park on it."""
        attached = self.attached
        if target is not None:
            await self.entries.hold_for_readers(target)
        head = target.head if target is not None else None
        number = target.number if target is not None else None
        if target is not None and target.head is not None:
            attached.tree.by_id.pop(target.head.memory_id, None)
        file.kind = Kind.MEMORY
        if file.draft is not None:
            file.draft.dirty = True
        self.entries.move(file, target, directory, segment)
        if head is not None and number is not None:
            file.head = head
            file.memory_id = None
            file.number = number
            attached.tree.by_id[head.memory_id] = file
            attached.note_change(head.memory_id)
            if file.draft is not None:
                file.draft.base = self.files.base_for(file, process)
                file.draft.append_only = False
        elif park is not None:
            self.parking.continued(file, park, process)
            await self.parking.release_backup(park)
        elif file.memory_id is None:
            file.memory_id = attached.choose_id()

    async def _rename_memory(
        self, file: File, target: File | None, directory: Directory, segment: str, path: str, process: int
    ) -> None:
        attached = self.attached
        async with file.locked():
            assert file.head is not None
            old_path = file.path
            if attached.rules.is_backup(segment) and not file.dirty:
                await self._park_renamed(file, target, directory, segment, old_path)
                return
            await self.parking.finish_path(path)
            if target is not None:
                attached.check_text(target.head)
            if target is not None and target.head is not None:
                await self._replace_memory(file, target, directory, segment, path, process)
                return
            if target is not None:
                await self.entries.hold_for_readers(target)
            head = file.head
            try:
                memory = await attached.service.update_memory(attached.store_id, head.memory_id, path=path)
            except StoreArchived:
                attached.became_read_only()
                raise
            except NotFound:
                if file.dirty:
                    attached.orphan(file)
                    self.entries.move(file, target, directory, segment)
                    return
                attached.let_go(file)
                raise NoSuchName(f"{old_path}: another session removed it") from None
            except PathConflict as conflict:
                raise Busy(f"{path}: another session just took this name; look again, then repeat") from conflict
            attached.make_way(memory.id, file)
            file.dead = False  # had another file taken its place meanwhile, that one has made way now
            self.entries.move(file, target, directory, segment)
            self.renamed(file, head, attached.head(memory))

    def renamed(self, file: File, old: Head, new: Head) -> None:
        """The store has `file` as `new`, under another path or with other metadata: the content, and so its time, stays.

        Unless another session has changed it before: that is news, with a time of its own.
        """
        attached = self.attached
        same = new.sha256 == old.sha256
        kept = replace(new, updated_ns=old.updated_ns) if same else new
        if new.memory_id != old.memory_id:
            # A service that cannot rename has made another memory of it: here it stays the file that it was.
            attached.journal.put_attributes(new.memory_id, number=file.number, sha256=new.sha256, meta=file.meta)
            attached.journal.put_attributes(old.memory_id, number=None, sha256=None, meta=None)
        self.committer.adopt(file, kept)
        if file.shown is not None and file.shown.sha256 == kept.sha256:
            file.shown = kept
        if file.draft is not None and file.draft.base is not None and file.draft.base.sha256 == kept.sha256:
            file.draft.base = kept
        if new.memory_id != old.memory_id and file.journal_key is not None:
            attached.journal_draft(file)
        if same:
            keep_time(attached, file, old)
        else:
            show_news(attached, file)

    async def _park_renamed(self, file: File, target: File | None, directory: Directory, segment: str, old_path: str) -> None:
        backup: Head | None = None
        unlinked: Park | None = None
        if target is not None:
            backup = target.head
            await self.entries.hold_for_readers(target)
            if backup is not None:
                self.attached.tree.by_id.pop(backup.memory_id, None)
        else:
            unlinked = await self.parking.take(f"{directory.path}/{segment}")
            if unlinked is not None and unlinked.renamed:
                await self.parking.finish(unlinked)
                unlinked = None
        self.entries.move(file, target, directory, segment)
        self.parking.renamed(file, old_path, backup, unlinked)

    async def _replace_memory(
        self, file: File, target: File, directory: Directory, segment: str, path: str, process: int
    ) -> None:
        """A memory takes the name of another: the target gets its content and keeps its lineage, then the source goes."""
        attached = self.attached
        source, target_head = file.head, target.head
        assert source is not None
        assert target_head is not None
        seen = (file.shown or source).sha256
        draft = file.draft
        if draft is not None and draft.base is not None and draft.base.memory_id == source.memory_id:
            source = draft.base  # what another session has saved since is not in the draft: it is not removed
        if draft is not None and draft.dirty and not file.unflushed:
            content = draft.buffer.content()
        else:
            content = await attached.content(source)
        content_sha256 = sha256_of(content)
        attached.journal.put_replacement(
            JournalledReplacement(source.memory_id, source.sha256, target_head.memory_id, content_sha256)
        )
        try:
            stored = await self._store_replacement(file, target, target_head, content, path, process)
        except MemfsError:
            attached.journal.remove_replacement(source.memory_id)
            raise
        kept = False
        try:
            await attached.service.delete_memory(attached.store_id, source.memory_id, expected_content_sha256=source.sha256)
        except NotFound:
            pass
        except PreconditionFailed as error:
            attached.report("rename", file.path, error)
            kept = True
        attached.journal.remove_replacement(source.memory_id)
        attached.note_change(source.memory_id)
        attached.tree.by_id.pop(source.memory_id, None)
        attached.journal.put_attributes(source.memory_id, number=None, sha256=None, meta=None)
        await self._become(file, target, None, directory, segment, process)
        self.committer.adopt(file, stored)
        attached.blobs.put(sha256_of(content), content)
        if draft is None:
            file.shown = stored
            if stored.sha256 != seen:
                show_news(attached, file)
        elif not file.unflushed and draft.buffer.content() == content:
            file.draft = None
            file.shown = stored
            attached.forget_draft(file)
        else:
            draft.base = stored
        if kept:
            await self.parking.show_again(source.memory_id)

    async def _store_replacement(self, file: File, target: File, head: Head, content: bytes, path: str, process: int) -> Head:
        async with target.locked():
            if sha256_of(content) == head.sha256:
                return head
            return await self._store_over(file, head, self._base(target, head, process), content, path)
