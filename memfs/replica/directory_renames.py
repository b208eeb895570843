"""Renames of directories: a path update for each memory below, several in flight; the store has no directories."""

import trio

from memfs.model.errors import MemfsError, NotFound, PathConflict, Unavailable
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
        attached.moving += 1
        try:
            await self._move_memories(files, moved, directory, segment)
            if isinstance(target, Directory):
                self.entries.drop_directory(directory, target)
            self._move_directory(moved, directory, segment, old_path, new_path)
        finally:
            attached.moving -= 1

    async def _move_memories(self, files: list[File], moved: Directory, directory: Directory, segment: str) -> None:
        """In the store, all or none: who is told of a failure must find what was there before.

        Else `mv d e` again would move what is left of d into e. What cannot be brought back because the service does not answer
        shows in its old place, and is brought back when it does.
        """
        attached = self.attached
        old_path, new_path = moved.path, f"{directory.path}/{segment}"
        key = attached.journal.begin_directory_rename(old_path, new_path)
        try:
            there, unclear, failure = await self._rename_memories(files, old_path, new_path)
            if failure is None:
                return
            here, _, obstacle = await self._rename_memories([*there, *unclear], old_path, old_path)
            if isinstance(obstacle, Unavailable):
                attached.astray.update((file, file.path) for file in (*there, *unclear) if file not in here)
            else:
                self._show_half_moved([file for file in there if file not in here], moved, directory, segment)
            raise failure
        finally:
            attached.journal.end_directory_rename(key)

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

    async def bring_back(self) -> None:
        """What the store still has at the new place of a rename that failed goes where it shows. Raises `Unavailable`."""
        attached = self.attached
        for file, path in list(attached.astray.items()):
            async with file.locked():
                if file.head is not None and file.path == path and file in attached.astray:
                    try:
                        memory = await attached.service.update_memory(attached.store_id, file.head.memory_id, path=path)
                    except Unavailable:
                        raise
                    except MemfsError as error:
                        attached.report("rename", path, error)  # the next listing shows it where it is
                    else:
                        self.renames.renamed(file, file.head, attached.head(memory))
                attached.astray.pop(file, None)

    async def _rename_memories(
        self, files: list[File], old_path: str, new_path: str
    ) -> tuple[list[File], list[File], MemfsError | None]:
        """Bring every memory among `files` to its path below `new_path`, several at a time, until one fails.

        Returns those that were moved in the store (in the tree they stay where they are), those of which nobody knows, and the
        first failure.
        """
        attached = self.attached
        moved: list[File] = []
        unclear: list[File] = []
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
                    if file.dirty:
                        attached.orphan(file)
                    else:
                        attached.let_go(file)
                except MemfsError as error:
                    failures.append(error)
                    if isinstance(error, Unavailable):
                        unclear.append(file)
                else:
                    self.renames.renamed(file, head, attached.head(memory))
                    moved.append(file)

        async with trio.open_nursery() as nursery:
            for file in files:
                nursery.start_soon(rename_one, file)
        failure = failures[0] if failures else None
        if isinstance(failure, PathConflict):
            failure = Busy(f"{new_path}: another session has something of this name; look again, then repeat")
        return moved, unclear, failure

    def _show_half_moved(self, files: list[File], moved: Directory, directory: Directory, segment: str) -> None:
        """After a directory rename that failed half way: show `files`, which the store keeps below the new path, there."""
        tree = self.attached.tree
        old_depth = moved.path.count("/")
        for file in files:
            place = tree.ensure_directory(directory, segment)
            for part in file.path.split("/")[old_depth + 1 : -1]:
                place = tree.ensure_directory(place, part)
            self.entries.move(file, None, place, file.segment)
