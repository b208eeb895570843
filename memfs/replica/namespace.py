"""Names of one store: create, mkdir, unlink, rmdir and rename, as a file system calls them."""

import os

import trio

from memfs.model.errors import StoreFull
from memfs.replica.attached import Attached
from memfs.replica.changes import Feed
from memfs.replica.commit import Committer
from memfs.replica.directory_renames import DirectoryRenames
from memfs.replica.drafts import Draft, MemoryBuffer, now_ns
from memfs.replica.entries import Entries
from memfs.replica.errors import IsDirectory, NameTaken, NoSuchName, NotDirectory, NotEmpty
from memfs.replica.files import Files
from memfs.replica.handles import Handle
from memfs.replica.listing import Listing
from memfs.replica.names import check_name, look_up_name
from memfs.replica.parking import Parking
from memfs.replica.renames import FileRenames
from memfs.replica.scratch import SCRATCH_DIRECTORIES, is_mkstemp, looks_temporary
from memfs.replica.scratchtree import ScratchNode, ScratchTree
from memfs.replica.tree import Directory, File, Kind, Meta, Node

ROOM_KNOWN_SECONDS = 0.5
ROOM_AMPLE = 5_000
"""A store with more room than this does not fill up within a moment."""


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
        self.feed = feed
        self._room: int | None = None
        self._room_until = float("-inf")
        self.entries = Entries(attached, files)
        self.renames = FileRenames(attached, committer, parking, files, self.entries, listing, feed)
        self.directory_renames = DirectoryRenames(attached, parking, self.entries, self.renames, listing)

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
        `StoreFull` when there is no room for another memory, `StateFull` when its bytes could not be kept safe.
        """
        attached = self.attached
        attached.check_writable()
        attached.journal.check_room(0)
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
        path = f"{directory.path}/{segment}" if scratch else self.entries.check_child(directory, segment)
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
        attached.journal.check_room(0)
        segment = check_name(name)
        path = self.entries.check_child(directory, segment)
        await self.list_directory(directory)
        if segment in directory.children:
            raise NameTaken(f"{segment} exists already")
        if segment in SCRATCH_DIRECTORIES:
            return self._make_scratch_tree(directory, segment, meta)
        await self.parking.finish_path(path)
        made = attached.tree.make_directory(directory, segment)
        made.listed = True  # a name that did not exist has nothing below it
        made.meta = meta
        made.kept = True
        attached.remember_directory(made)
        attached.directory_changed(directory)
        made.mtime_ns = made.ctime_ns = directory.mtime_ns  # one event, one time
        return made

    def _make_scratch_tree(self, directory: Directory, segment: str, meta: Meta | None) -> ScratchNode:
        attached = self.attached
        key = attached.journal.add_scratch_tree(f"{directory.path}/{segment}")
        root = ScratchTree(attached, key, segment, directory).root
        if meta is not None:
            root.set_meta(meta)
        attached.tree.add(directory, segment, root)
        attached.directory_changed(directory)
        return root

    def set_directory_meta(self, directory: Directory, change: Meta) -> None:
        """chmod, chown, utimens of a directory: remembered here."""
        attached = self.attached
        attached.check_writable()
        directory.meta = directory.meta or Meta()
        directory.meta.update(change)
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
        self.entries.check_seen(file)
        await self.committer.make_certain(file)
        async with file.locked():
            if file.dead or directory.children.get(file.name) is not file:
                raise NoSuchName("it was removed meanwhile")
            await self.entries.hold_for_readers(file)
            path = file.path
            if file.head is not None:
                self.parking.prepare_unlink(file, path)
            self.entries.take_name(file)
            if file.head is not None:
                self.parking.unlinked(file, path)
        attached.directory_changed(directory)

    async def remove_directory(self, directory: Directory, name: bytes) -> None:
        attached = self.attached
        attached.check_writable()
        segment = look_up_name(name)
        child = directory.children.get(segment) if segment is not None else None
        if child is None:
            raise NoSuchName("nothing has this name")
        if isinstance(child, ScratchNode):
            child.tree.check_empty()
            self.entries.drop_scratch_tree(directory, child)
            return
        if not isinstance(child, Directory):
            raise NotDirectory(f"{segment} is no directory")
        await self.list_directory(child)
        if child.children:
            raise NotEmpty(f"{segment} is not empty")
        self.entries.drop_directory(directory, child)

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
        """rename(2) within the store. `replace` false: RENAME_NOREPLACE. Raises `StateFull` before anything is done."""
        attached = self.attached
        attached.check_writable()
        attached.journal.check_room(0)
        old_segment = look_up_name(old_name)
        node = old_directory.children.get(old_segment) if old_segment is not None else None
        if node is None:
            raise NoSuchName("nothing has this name")
        segment = check_name(new_name)
        await self.directory_renames.bring_back()
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
            await self.renames.rename_file(node, target, new_directory, segment, process)
        elif isinstance(node, ScratchNode):
            await self.directory_renames.rename_scratch_tree(node, target, new_directory, segment)
        elif isinstance(node, Directory):
            await self.directory_renames.rename_directory(node, target, new_directory, segment)
        attached.directory_changed(old_directory)
        if new_directory is not old_directory:
            attached.directory_changed(new_directory)
