"""Renames of directories: a path update for each memory below, several in flight; the store has no directories."""

import trio

from memfs.model.errors import MemfsError, NotFound, PathConflict
from memfs.model.paths import check_length
from memfs.replica.attached import Attached
from memfs.replica.drafts import now_ns
from memfs.replica.entries import Entries
from memfs.replica.errors import Busy, CrossesBorder, InvalidArgument, NotDirectory, NotEmpty
from memfs.replica.listing import Listing
from memfs.replica.parking import Parking
from memfs.replica.renames import FileRenames
from memfs.replica.scratch import SCRATCH_DIRECTORIES
from memfs.replica.scratchtree import ScratchNode
from memfs.replica.tree import Directory, File, Kind, Node

RENAMES_IN_FLIGHT = 8


class DirectoryRenames:
    def __init__(self, attached: Attached, parking: Parking, entries: Entries, renames: FileRenames, listing: Listing) -> None:
        self.attached = attached
        self.parking = parking
        self.entries = entries
        self.renames = renames
        self.list_directory = listing.directory
        self.list_below = listing.below

    async def rename_scratch_tree(self, root: ScratchNode, target: Node | None, directory: Directory, segment: str) -> None:
        attached = self.attached
        if segment not in SCRATCH_DIRECTORIES:
            raise CrossesBorder("a scratch directory cannot become an ordinary one by a rename")
        if target is not None:
            if not isinstance(target, ScratchNode):
                raise NotDirectory(f"{segment} is no directory")
            target.tree.check_empty()
            self.entries.drop_scratch_tree(directory, target)
        self.entries.detach(root)
        attached.tree.add(directory, segment, root)
        attached.journal.move_scratch_tree(root.tree.key, root.path)

    async def rename_directory(self, moved: Directory, target: Node | None, directory: Directory, segment: str) -> None:
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
            self.entries.drop_directory(directory, target)
        self._move_directory(moved, directory, segment, old_path, new_path)

    def _move_directory(self, moved: Directory, directory: Directory, segment: str, old_path: str, new_path: str) -> None:
        attached = self.attached
        self.entries.detach(moved)
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
                    self.renames.renamed(file, head, attached.head(memory))
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
            self.entries.move(file, None, place, file.segment)
