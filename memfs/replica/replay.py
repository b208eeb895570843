"""Brings the local state of an earlier daemon back: into the tree what is local, into the store what was not confirmed.

Replay goes through the same commit path as a save, with the base it recorded: it merges, it does not overwrite.
"""

import os

from memfs.model.errors import MemfsError, NotFound, PathConflict, PreconditionFailed
from memfs.replica.attached import Attached
from memfs.replica.commit import Committer, Intent, Overlapping
from memfs.replica.drafts import Draft, FileBuffer, MemoryBuffer
from memfs.replica.errors import Conflict
from memfs.replica.journal import JournalledDraft, JournalledPark
from memfs.replica.listing import Listing
from memfs.replica.scratch import SCRATCH_DIRECTORIES
from memfs.replica.scratchtree import ScratchTree
from memfs.replica.tree import Directory, File, Head, Inode, Kind


class Replay:
    def __init__(self, attached: Attached, committer: Committer, listing: Listing) -> None:
        self.attached = attached
        self.committer = committer
        self.listing = listing

    async def run(self) -> None:
        """Raises nothing: what the store does not take now stays in the journal, and shows as pending."""
        await self._finish_directory_renames()
        for draft in self.attached.journal.drafts():
            await self._draft(draft)
        for park in self.attached.journal.parks():
            await self._park(park)

    # What is local

    def show_local(self) -> None:
        """Put local directories, files and scratch directories into the tree; no request."""
        attached = self.attached
        for kept in attached.journal.directories():
            directory = self._directory(kept.path)
            directory.kept = kept.kept or directory.parent is None
            directory.meta = None if kept.meta.empty else kept.meta
            if kept.number is not None:
                directory.number = kept.number
        for key, path in attached.journal.scratch_trees():
            parent_path, _, name = path.rpartition("/")
            if name in SCRATCH_DIRECTORIES and attached.journal.tree_path(key).is_dir():
                parent = self._directory(parent_path)
                attached.tree.add(parent, name, ScratchTree(attached, key, name, parent).root)
        for local in attached.journal.local_files():
            source = attached.journal.file_path(local.key)
            if local.kind == Kind.MEMORY.value or not source.exists():
                # Never closed: nobody was told that it is stored.
                source.unlink(missing_ok=True)
                attached.journal.remove_local_file(local.key)
                continue
            parent_path, _, name = local.path.rpartition("/")
            parent = self._directory(parent_path)
            # A settling file whose tool was killed stays local until somebody touches it.
            file = File(attached.tree.volume, name, parent, Inode(local.number), Kind.SCRATCH)
            file.local_key = local.key
            file.meta = None if local.meta.empty else local.meta
            buffer = FileBuffer(source)
            file.draft = Draft(buffer)
            file.draft.mtime_ns = os.stat(source).st_mtime_ns
            buffer.close()
            attached.tree.add(parent, name, file)

    def _directory(self, path: str) -> Directory:
        directory = self.attached.tree.root
        for segment in path.split("/")[1:]:
            if segment:
                directory = self.attached.tree.ensure_directory(directory, segment)
        return directory

    # What was under way

    async def _finish_directory_renames(self) -> None:
        attached = self.attached
        for key, old, new in attached.journal.directory_renames():
            try:
                await self._move_memories(old, new)
            except MemfsError as error:
                attached.report("rename", old, error)
                continue
            attached.journal.move_below(old, new)
            attached.journal.end_directory_rename(key)

    async def _move_memories(self, old: str, new: str) -> None:
        attached = self.attached
        while True:
            page = await attached.service.list_memories(attached.store_id, path_prefix=f"{old}/", limit=100)
            memories = [item for item in page.data if item.type == "memory"]
            for memory in memories:
                await attached.service.update_memory(attached.store_id, memory.id, path=new + memory.path[len(old) :])
            if not memories:
                return

    async def _draft(self, draft: JournalledDraft) -> None:
        attached = self.attached
        base: Head | None = None
        if draft.memory_id is not None and draft.base_version is not None and draft.base_sha256 is not None:
            base = Head(draft.memory_id, draft.base_version, draft.base_sha256, 0, 0, 0)
        if draft.refused is not None:
            await self._show_draft(draft, base)
            return
        intent = Intent(
            path=draft.path,
            content=draft.content,
            target=base,
            base=base,
            base_content=None,
            append_only=draft.append_only,
            memory_id=None,
        )
        try:
            attached.check_writable()
            await self.committer.store(intent)
        except Overlapping as overlap:
            parent = self._directory(draft.path.rpartition("/")[0])
            try:
                sidecar = await self.committer.put_aside(parent, draft.path.rpartition("/")[2], draft.content, overlap)
            except MemfsError as error:
                attached.report("replay", draft.path, error)
                await self._show_draft(draft, base)
                return
            attached.report(
                "replay",
                draft.path,
                Conflict(f"what was written before the mount ended is in {sidecar}: {overlap.message}"),
            )
        except MemfsError as error:
            attached.report("replay", draft.path, error)
            await self._show_draft(draft, base)
            return
        if draft.memory_id is not None:
            attached.journal.remove_park(draft.memory_id)
        attached.journal.remove_draft(draft.key)

    async def _show_draft(self, draft: JournalledDraft, base: Head | None) -> None:
        """What cannot be stored now shows in its place, and is tried again."""
        attached = self.attached
        parent_path, _, name = draft.path.rpartition("/")
        parent = self._directory(parent_path)
        try:
            await self.listing.directory(parent)
        except MemfsError as error:
            attached.report("replay", draft.path, error)
        existing = parent.children.get(name)
        if isinstance(existing, File):
            file = existing
        else:
            file = attached.new_file(parent, name, Kind.MEMORY)
            attached.tree.add(parent, name, file)
        file.draft = Draft(MemoryBuffer(draft.content), base)
        file.draft.dirty = True
        file.draft.append_only = draft.append_only
        file.draft.since_ns = file.draft.mtime_ns = draft.since_ns
        file.journal_key = draft.key
        attached.wait(file, draft.refused or "it was written before the mount ended and could not be stored since")

    async def _park(self, park: JournalledPark) -> None:
        attached = self.attached
        try:
            if park.new_path is None:
                await attached.service.delete_memory(attached.store_id, park.memory_id, expected_content_sha256=park.sha256)
            else:
                await attached.service.update_memory(attached.store_id, park.memory_id, path=park.new_path)
        except NotFound:
            pass
        except (PreconditionFailed, PathConflict) as error:
            attached.report("replay", park.path, error)
        except MemfsError as error:
            attached.report("replay", park.path, error)
            return
        attached.journal.remove_park(park.memory_id)
