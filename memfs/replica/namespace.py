"""Names of one store: create, mkdir, unlink, rmdir and rename, and what each does to memories."""

import os
import stat
import unicodedata
from contextlib import AsyncExitStack

import trio

from memfs.model.content import check_size, decode, sha256_of
from memfs.model.errors import (
    MemfsError,
    NotFound,
    PathConflict,
    PathNotUnicode,
    PathTooLong,
    PreconditionFailed,
    StoreArchived,
    StoreFull,
)
from memfs.model.paths import check_length, check_segment
from memfs.replica.attached import Attached
from memfs.replica.changes import Feed
from memfs.replica.commit import Committer, Intent, Overlapping
from memfs.replica.drafts import Draft, FileBuffer, MemoryBuffer, now_ns
from memfs.replica.errors import (
    Busy,
    CrossesBorder,
    InvalidArgument,
    IsDirectory,
    NameTaken,
    NoSuchName,
    NotDirectory,
    NotEmpty,
)
from memfs.replica.files import Files
from memfs.replica.handles import Handle
from memfs.replica.journal import JournalledReplacement
from memfs.replica.listing import Listing
from memfs.replica.parking import Park, Parking, keep_time
from memfs.replica.scratch import SCRATCH_DIRECTORIES, is_mkstemp, looks_temporary
from memfs.replica.scratchtree import ScratchNode, ScratchTree
from memfs.replica.tree import NAME_MAX, Directory, File, Head, Kind, Meta, Node

RENAMES_IN_FLIGHT = 8
ROOM_KNOWN_SECONDS = 0.5
ROOM_AMPLE = 5_000


def check_name(name: bytes) -> str:
    """The segment that a directory entry's `name` stands for, in NFC. Raises `InvalidPath` and what derives from it."""
    if len(name) > NAME_MAX:
        raise PathTooLong(f"a name has at most {NAME_MAX} bytes")
    try:
        segment = name.decode("utf-8")
    except UnicodeDecodeError:
        raise PathNotUnicode("a name must be UTF-8") from None
    if not segment.isascii():
        segment = unicodedata.normalize("NFC", segment)
        if len(segment.encode()) > NAME_MAX:
            raise PathTooLong(f"a name has at most {NAME_MAX} bytes")
    check_segment(segment)
    return segment


def look_up_name(name: bytes) -> str | None:
    """As `check_name`, but None for a name that nothing can have. Raises `PathTooLong` for one over 255 bytes."""
    if len(name) > NAME_MAX:
        raise PathTooLong(f"a name has at most {NAME_MAX} bytes")
    try:
        segment = name.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if segment.isascii():
        return segment
    return unicodedata.normalize("NFC", segment)


class Namespace:
    def __init__(
        self,
        attached: Attached,
        committer: Committer,
        parking: Parking,
        files: Files,
        listing: Listing,
        feed: Feed,
    ) -> None:
        self.attached = attached
        self.committer = committer
        self.parking = parking
        self.files = files
        self.list_directory = listing.directory
        self.list_below = listing.below
        self.feed = feed
        self._room: int | None = None
        self._room_until = float("-inf")

    def check_child(self, directory: Directory, segment: str) -> str:
        """The path of a child to be. Raises `PathTooLong`, and `NoSuchName` in a directory that was removed."""
        if directory.dead:
            raise NoSuchName("the directory was removed")
        path = f"{directory.path}/{segment}"
        check_length(path, path.count("/"))
        return path

    # Making

    async def create(
        self,
        directory: Directory,
        name: bytes,
        *,
        mode: int,
        flags: int,
        umask: int,
        owner: tuple[int | None, int | None],
        process: int,
    ) -> tuple[File, Handle]:
        """open(2) with O_CREAT of a name that did not exist.

        `mode` is what the umask leaves of it; `owner` is the uid and gid to remember, None for the mount's own. Raises
        `StoreFull` when there is no room for another memory.
        """
        attached = self.attached
        attached.check_writable()
        segment = check_name(name)
        await self.list_directory(directory)
        existing = directory.children.get(segment)
        if existing is not None:
            if flags & os.O_EXCL:
                raise NameTaken(f"{segment} exists already")
            if not isinstance(existing, File):
                raise IsDirectory(f"{segment} is a directory")
            return existing, await self.files.open(existing, flags, process)
        scratch = attached.rules.is_scratch(segment)
        path = f"{directory.path}/{segment}" if scratch else self.check_child(directory, segment)
        if directory.dead:
            raise NoSuchName("the directory was removed")
        await self.parking.finish_within(path)
        park = await self.parking.take(path)
        if scratch and park is None:
            kind = Kind.SCRATCH
        elif park is None and self._looks_temporary(directory, segment, mode, flags, umask):
            kind = Kind.SETTLING
        else:
            kind = Kind.MEMORY
            if park is None:
                await self._check_room()
        file = attached.new_file(directory, segment, kind)
        meta = Meta(mode=mode & 0o7777, uid=owner[0], gid=owner[1])
        if meta.mode == 0o666 & ~attached.umask:
            meta.mode = None
        file.meta = None if meta.empty else meta
        attached.tree.add(directory, segment, file)
        if kind is Kind.MEMORY:
            file.draft = Draft(MemoryBuffer())
            file.draft.dirty = True
        else:
            attached.begin_local(file)
        if park is not None:
            self.parking.continued(file, park, process)
        attached.directory_changed(directory)
        handle = Handle(file, flags, process)
        handle.fresh = True
        self.files.opened(handle)
        if park is not None:
            await self.parking.release_backup(park)
        return file, handle

    async def _check_room(self) -> None:
        """Raise `StoreFull` when the store is known to be full."""
        attached = self.attached
        maximum = attached.service.capabilities.max_memories
        if maximum is None or not attached.service.capabilities.local:
            return
        now = trio.current_time()
        if self._room is not None and now < self._room_until:
            return
        usage = await attached.service.usage(attached.store_id)
        if usage is None:
            return
        self._room = maximum - usage.memories
        # Far from the cap nobody fills the store within a moment.
        self._room_until = now + (ROOM_KNOWN_SECONDS if self._room > ROOM_AMPLE else 0)
        if self._room <= 0:
            raise StoreFull(f"the store {attached.name} holds {maximum:,} memories, as many as it may: remove some first")

    def _looks_temporary(self, directory: Directory, segment: str, mode: int, flags: int, umask: int) -> bool:
        def exists(name: str) -> bool:
            child = directory.children.get(name)
            return isinstance(child, File) and child.head is not None

        return is_mkstemp(flags, mode, umask, segment) or looks_temporary(segment, exists)

    async def make_directory(self, directory: Directory, name: bytes, meta: Meta | None) -> Node:
        attached = self.attached
        attached.check_writable()
        segment = check_name(name)
        path = self.check_child(directory, segment)
        await self.list_directory(directory)
        if segment in directory.children:
            raise NameTaken(f"{segment} exists already")
        if segment in SCRATCH_DIRECTORIES:
            return self._make_scratch_tree(directory, segment, meta)
        await self.parking.finish_path(path)
        made = attached.tree.make_directory(directory, segment)
        made.listed = True  # a name that did not exist has nothing below it
        made.meta = meta
        made.mtime_ns = made.ctime_ns = now_ns()
        made.kept = True
        attached.remember_directory(made)
        attached.directory_changed(directory)
        return made

    def _make_scratch_tree(self, directory: Directory, segment: str, meta: Meta | None) -> ScratchNode:
        attached = self.attached
        key = attached.journal.add_scratch_tree(f"{directory.path}/{segment}")
        root = ScratchTree(attached, key, segment, directory).root
        if meta is not None:
            root.set_meta(meta.mode, meta.uid, meta.gid)
        attached.tree.add(directory, segment, root)
        attached.directory_changed(directory)
        return root

    def set_directory_meta(
        self,
        directory: Directory,
        *,
        mode: int | None,
        uid: int | None,
        gid: int | None,
        atime_ns: int | None,
        mtime_ns: int | None,
    ) -> None:
        """chmod, chown, utimens of a directory: remembered here."""
        attached = self.attached
        attached.check_writable()
        meta = directory.meta or Meta()
        meta.mode = mode if mode is not None else meta.mode
        meta.uid = uid if uid is not None else meta.uid
        meta.gid = gid if gid is not None else meta.gid
        meta.atime_ns = atime_ns if atime_ns is not None else meta.atime_ns
        meta.mtime_ns = mtime_ns if mtime_ns is not None else meta.mtime_ns
        directory.meta = meta
        directory.ctime_ns = now_ns()
        if not directory.dead:
            attached.remember_directory(directory)

    # Removing

    async def unlink(self, directory: Directory, name: bytes) -> None:
        attached = self.attached
        attached.check_writable()
        segment = look_up_name(name)
        await self.feed.look()
        file = directory.children.get(segment) if segment is not None else None
        if file is None:
            raise NoSuchName("nothing has this name")
        if not isinstance(file, File):
            raise IsDirectory(f"{segment} is a directory")
        self._check_seen(file)
        await self.committer.make_certain(file)
        async with file.locked():
            if file.dead or directory.children.get(file.name) is not file:
                raise NoSuchName("it was removed meanwhile")
            await self._hold_for_readers(file)
            path = file.path
            if file.head is not None:
                self.parking.prepare_unlink(file, path)
            self._take_name(file)
            if file.head is not None:
                self.parking.unlinked(file, path)
        attached.directory_changed(directory)

    def _check_seen(self, file: File) -> None:
        """Raise `Busy` when the content is not the one that the caller could have seen."""
        if file.head is None or file.shown is None or file.draft is not None:
            return
        if file.shown.version_id != file.head.version_id and file.shown.sha256 != file.head.sha256:
            file.shown = file.head
            self.attached.attributes_changed(file)
            raise Busy(f"{file.path}: another session just changed it; look at it, then repeat")

    async def _hold_for_readers(self, file: File) -> None:
        """Those who hold it open go on reading what it is now, whatever becomes of the memory."""
        if file.handles and file.draft is None and (file.shown or file.head) is not None:
            content = await self.files.whole(file)
            if file.draft is None:
                held = file.shown or file.head
                file.draft = Draft(MemoryBuffer(content), file.head, content)
                if held is not None:
                    file.draft.mtime_ns = held.updated_ns

    def _detach(self, node: Node) -> None:
        """Take the node's name away; a directory that this empties stays until rmdir."""
        parent = node.parent
        self.attached.tree.detach(node)
        if parent is not None and not parent.children:
            self.attached.keep_directory(parent)

    def _take_name(self, file: File) -> None:
        """`file` loses its name: it is dead, and nothing of its draft will be stored."""
        attached = self.attached
        self._detach(file)
        file.dead = True
        file.ctime_ns = now_ns()
        attached.forget_draft(file)
        if file.handles == 0:
            attached.end_local(file)
            file.draft = None
        elif file.local_key is not None:
            # The bytes stay for those who hold it open; a remount must not find the name again.
            attached.journal.remove_local_file(file.local_key)
        if file.bound is not None:
            attached.attributes_changed(file)

    async def remove_directory(self, directory: Directory, name: bytes) -> None:
        attached = self.attached
        attached.check_writable()
        segment = look_up_name(name)
        child = directory.children.get(segment) if segment is not None else None
        if child is None:
            raise NoSuchName("nothing has this name")
        if isinstance(child, ScratchNode):
            child.tree.check_empty()
            self._drop_scratch_tree(directory, child)
            return
        if not isinstance(child, Directory):
            raise NotDirectory(f"{segment} is no directory")
        await self.list_directory(child)
        if child.children:
            raise NotEmpty(f"{segment} is not empty")
        self._drop_directory(directory, child)

    def _drop_directory(self, parent: Directory, child: Directory) -> None:
        attached = self.attached
        path = child.path
        self._detach(child)
        child.dead = True
        attached.journal.remove_directory(path)
        attached.directory_changed(parent)

    def _drop_scratch_tree(self, parent: Directory, root: ScratchNode) -> None:
        attached = self.attached
        self._detach(root)
        root.dead = True
        attached.journal.remove_scratch_tree(root.tree.key)
        attached.directory_changed(parent)

    # Renaming

    async def rename(
        self,
        old_directory: Directory,
        old_name: bytes,
        new_directory: Directory,
        new_name: bytes,
        *,
        replace: bool,
        process: int,
    ) -> None:
        """rename(2) within the store. `replace` false: RENAME_NOREPLACE."""
        attached = self.attached
        attached.check_writable()
        old_segment = look_up_name(old_name)
        node = old_directory.children.get(old_segment) if old_segment is not None else None
        if node is None:
            raise NoSuchName("nothing has this name")
        segment = check_name(new_name)
        await self.feed.look()
        await self.list_directory(new_directory)
        target = new_directory.children.get(segment)
        if target is node:
            return
        if target is not None and not replace:
            raise NameTaken(f"{segment} exists already")
        if new_directory.dead:
            raise NoSuchName("the directory was removed")
        if isinstance(node, File):
            if target is not None and not isinstance(target, File):
                raise IsDirectory(f"{segment} is a directory")
            await self._rename_file(node, target, new_directory, segment, process)
        elif isinstance(node, ScratchNode):
            await self._rename_scratch_tree(node, target, new_directory, segment)
        elif isinstance(node, Directory):
            await self._rename_directory(node, target, new_directory, segment)
        attached.directory_changed(old_directory)
        if new_directory is not old_directory:
            attached.directory_changed(new_directory)

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
            await self._rename_file(file, target, directory, segment, process)
        except BaseException:
            os.rename(attached.journal.file_path(file.local_key), real_path)
            attached.journal.remove_local_file(file.local_key)
            raise
        node.dead = True
        attached.directory_changed(directory)
        return file

    async def _rename_file(self, file: File, target: File | None, directory: Directory, segment: str, process: int) -> None:
        attached = self.attached
        to_scratch = attached.rules.is_scratch(segment)
        path = f"{directory.path}/{segment}" if to_scratch else self.check_child(directory, segment)
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
            await self._rename_local(file, target, directory, segment, path, to_scratch, process)
        else:
            await self._rename_memory(file, target, directory, segment, path, process)

    async def _rename_back(self, file: File, target: File | None, directory: Directory, segment: str, process: int) -> None:
        """A file that was renamed to a backup gets its own name again: nothing has happened."""
        park = file.park
        assert park is not None
        if target is None:
            self.parking.continued(file, park, process)
            file.park = None
            self.attached.journal.remove_park(park.head.memory_id)
            self._move(file, None, directory, segment)
            return
        await self.parking.finish(park)
        await self._rename_memory(file, target, directory, segment, f"{directory.path}/{segment}", process)

    async def _rename_local(
        self, file: File, target: File | None, directory: Directory, segment: str, path: str, to_scratch: bool, process: int
    ) -> None:
        """A file that is not in the store gets another name: the usual end of an atomic save."""
        park = await self.parking.take(path)
        head = target.head if target is not None else park.head if park is not None else None
        if to_scratch and head is None:
            self._make_scratch(file, path)
            self._move(file, target, directory, segment)
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
            if draft is None or draft.refusal is not None:
                if draft is not None and draft.refusal is not None:
                    raise draft.refusal
                raise NoSuchName("it was removed meanwhile")
            check_size(draft.buffer.size)
            content = draft.buffer.content()
            decode(content)
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
            fresh = attached.new_file(file.parent or attached.tree.root, file.name, Kind.MEMORY)
            file.memory_id = fresh.memory_id
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
            await self._hold_for_readers(target)
        head = target.head if target is not None else None
        number = target.number if target is not None else None
        if target is not None and target.head is not None:
            attached.tree.by_id.pop(target.head.memory_id, None)
        file.kind = Kind.MEMORY
        if file.draft is not None:
            file.draft.dirty = True
        self._move(file, target, directory, segment)
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
        elif attached.service.capabilities.chooses_memory_id and file.memory_id is None:
            file.memory_id = attached.new_file(directory, segment, Kind.MEMORY).memory_id

    def _make_scratch(self, file: File, path: str) -> None:
        """`file`, which is not in the store, gets a name that keeps it out."""
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

    def _move(self, file: File, target: File | None, directory: Directory, segment: str) -> None:
        """Give `file` its new name in the tree and in the local state; `target` loses it."""
        attached = self.attached
        if target is not None:
            self._take_name(target)
        self._detach(file)
        attached.tree.add(directory, segment, file)
        file.segment = segment
        file.ctime_ns = now_ns()
        if file.local_key is not None:
            attached.journal.change_local_file(file.local_key, path=file.path, kind=file.kind.value, meta=file.meta)
        if file.journal_key is not None:
            attached.journal.move_draft(file.journal_key, file.path)

    async def _rename_memory(
        self, file: File, target: File | None, directory: Directory, segment: str, path: str, process: int
    ) -> None:
        attached = self.attached
        async with file.locked():
            assert file.head is not None
            old_path = file.path
            dirty = file.draft is not None and file.draft.dirty
            if attached.rules.is_backup(segment) and not dirty:
                await self._park_renamed(file, target, directory, segment, old_path)
                return
            await self.parking.finish_path(path)
            if target is not None and target.head is not None:
                await self._replace_memory(file, target, directory, segment, path, process)
                return
            if target is not None:
                await self._hold_for_readers(target)
            head = file.head
            try:
                memory = await attached.service.update_memory(attached.store_id, head.memory_id, path=path)
            except StoreArchived:
                attached.became_read_only()
                raise
            except NotFound:
                attached.unplace(file)
                attached.forget(file)
                raise NoSuchName(f"{old_path}: another session removed it") from None
            except PathConflict as conflict:
                raise Busy(f"{path}: another session just took this name; look again, then repeat") from conflict
            self._move(file, target, directory, segment)
            self._renamed(file, head, attached.head(memory))

    def _renamed(self, file: File, old: Head, new: Head) -> None:
        """The store has `file` under its new path; the content, and so its time, is what it was."""
        attached = self.attached
        kept = Head(new.memory_id, new.version_id, new.sha256, new.size, new.created_ns, old.updated_ns)
        self.committer.adopt(file, kept)
        if file.shown is not None and file.shown.sha256 == kept.sha256:
            file.shown = kept
        if file.draft is not None and file.draft.base is not None and file.draft.base.sha256 == kept.sha256:
            file.draft.base = kept
        keep_time(attached, file, old)

    async def _park_renamed(self, file: File, target: File | None, directory: Directory, segment: str, old_path: str) -> None:
        backup: Head | None = None
        if target is not None:
            backup = target.head
            await self._hold_for_readers(target)
            if backup is not None:
                self.attached.tree.by_id.pop(backup.memory_id, None)
        else:
            await self.parking.finish_path(f"{directory.path}/{segment}")
        self._move(file, target, directory, segment)
        self.parking.renamed(file, old_path, backup)

    async def _replace_memory(
        self, file: File, target: File, directory: Directory, segment: str, path: str, process: int
    ) -> None:
        """A memory takes the name of another: the target gets its content and keeps its lineage, then the source goes."""
        attached = self.attached
        source, target_head = file.head, target.head
        assert source is not None
        assert target_head is not None
        draft = file.draft
        if draft is not None and draft.dirty and not file.unflushed:
            content = draft.buffer.content()
        else:
            content = await attached.content(file.shown or source)
        content_sha256 = sha256_of(content)
        attached.journal.put_replacement(
            JournalledReplacement(source.memory_id, source.sha256, target_head.memory_id, content_sha256)
        )
        try:
            stored = await self._store_replacement(file, target, target_head, content, path, process)
        except MemfsError:
            attached.journal.remove_replacement(source.memory_id)
            raise
        try:
            await attached.service.delete_memory(attached.store_id, source.memory_id, expected_content_sha256=source.sha256)
        except NotFound:
            pass
        except PreconditionFailed as error:
            attached.report("rename", file.path, error)
        attached.journal.remove_replacement(source.memory_id)
        attached.note_change(source.memory_id)
        attached.tree.by_id.pop(source.memory_id, None)
        attached.journal.put_attributes(source.memory_id, number=None, sha256=None, meta=None)
        await self._become(file, target, None, directory, segment, process)
        self.committer.adopt(file, stored)
        attached.blobs.put(sha256_of(content), content)
        if draft is None:
            file.shown = stored
        elif not file.unflushed and draft.buffer.content() == content:
            file.draft = None
            file.shown = stored
            attached.forget_draft(file)
        else:
            draft.base = stored

    async def _store_replacement(self, file: File, target: File, head: Head, content: bytes, path: str, process: int) -> Head:
        async with target.locked():
            if sha256_of(content) == head.sha256:
                return head
            return await self._store_over(file, head, self._base(target, head, process), content, path)

    # Directories

    async def _rename_scratch_tree(self, root: ScratchNode, target: Node | None, directory: Directory, segment: str) -> None:
        attached = self.attached
        if segment not in SCRATCH_DIRECTORIES:
            raise CrossesBorder("a scratch directory cannot become an ordinary one by a rename")
        if target is not None:
            if not isinstance(target, ScratchNode):
                raise NotDirectory(f"{segment} is no directory")
            target.tree.check_empty()
            self._drop_scratch_tree(directory, target)
        self._detach(root)
        attached.tree.add(directory, segment, root)
        attached.journal.move_scratch_tree(root.tree.key, root.path)

    async def _rename_directory(self, moved: Directory, target: Node | None, directory: Directory, segment: str) -> None:
        attached = self.attached
        if segment in SCRATCH_DIRECTORIES:
            await self.list_below(moved)
            if moved.children:
                raise CrossesBorder("an ordinary directory cannot become a scratch directory by a rename")
            raise InvalidArgument("make a scratch directory with mkdir")
        if target is not None:
            if not isinstance(target, Directory):
                raise NotDirectory(f"{segment} is no directory")
            await self.list_directory(target)
            if target.children:
                raise NotEmpty(f"{segment} is not empty")
        above: Directory | None = directory
        while above is not None:
            if above is moved:
                raise InvalidArgument("a directory cannot move below itself")
            above = above.parent
        old_path = moved.path
        new_path = f"{directory.path}/{segment}"
        check_length(new_path, new_path.count("/"))
        await self.list_below(moved)
        await self.parking.finish_below(old_path)
        await self.parking.finish_path(new_path)
        await self.parking.finish_below(new_path)
        files = [file for file in attached.tree.files_below(moved) if file.kind is not Kind.SCRATCH]
        for file in files:
            path = new_path + file.path[len(old_path) :]
            check_length(path, path.count("/"))
        key = attached.journal.begin_directory_rename(old_path, new_path)
        try:
            moved_files, failure = await self._rename_memories(files, old_path, new_path)
        finally:
            attached.journal.end_directory_rename(key)
        if failure is not None:
            self._show_half_moved(moved_files, moved, directory, segment)
            raise failure
        if target is not None and isinstance(target, Directory):
            self._drop_directory(directory, target)
        self._move_directory(moved, directory, segment, old_path, new_path)

    def _move_directory(self, moved: Directory, directory: Directory, segment: str, old_path: str, new_path: str) -> None:
        attached = self.attached
        self._detach(moved)
        attached.tree.add(directory, segment, moved)
        moved.ctime_ns = now_ns()
        with attached.journal.transaction():
            attached.journal.move_below(old_path, new_path)
            attached.keep_directory(moved)
            for below in (moved, *attached.tree.directories_below(moved)):
                attached.remember_directory(below)

    async def _rename_memories(self, files: list[File], old_path: str, new_path: str) -> tuple[list[File], MemfsError | None]:
        """Bring every memory among `files` to its path below `new_path`, several at a time, until one fails.

        Returns those that were moved in the store (not in the tree yet), and the first failure.
        """
        attached = self.attached
        moved: list[File] = []
        limit = trio.CapacityLimiter(RENAMES_IN_FLIGHT)
        failures: list[MemfsError] = []

        async def rename_one(file: File) -> None:
            async with limit, file.locked():
                head = file.head
                if failures or head is None:
                    return
                path = new_path + file.path[len(old_path) :]
                try:
                    memory = await attached.service.update_memory(attached.store_id, head.memory_id, path=path)
                except NotFound:
                    attached.unplace(file)
                    attached.forget(file)
                except MemfsError as error:
                    failures.append(error)
                else:
                    self._renamed(file, head, attached.head(memory))
                    moved.append(file)

        async with trio.open_nursery() as nursery:
            for file in files:
                nursery.start_soon(rename_one, file)
        if not failures:
            return moved, None
        if isinstance(failures[0], PathConflict):
            return moved, Busy(f"{new_path}: another session has something of this name; look again, then repeat")
        return moved, failures[0]

    def _show_half_moved(self, files: list[File], moved: Directory, directory: Directory, segment: str) -> None:
        """After a directory rename that failed half way: show `files`, which the store has below the new path, there."""
        tree = self.attached.tree
        old_depth = moved.path.count("/")
        for file in files:
            place = tree.ensure_directory(directory, segment)
            for part in file.path.split("/")[old_depth + 1 : -1]:
                place = tree.ensure_directory(place, part)
            self._move(file, None, place, file.segment)
