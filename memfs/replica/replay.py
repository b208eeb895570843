"""Brings the local state of an earlier daemon back: into the tree what is local, into the store what was not confirmed.

Replay goes through the same commit path as a save, with the base it recorded: it merges, it does not overwrite.
"""

import os

from memfs.model.content import Sha256, encode
from memfs.model.errors import InvalidRequest, MemfsError, NotFound, PathConflict, PreconditionFailed, Unavailable
from memfs.model.ids import MemoryId
from memfs.model.objects import Memory
from memfs.replica.attached import Attached
from memfs.replica.commit import NO_TEXT, Committer, Intent, Overlapping
from memfs.replica.drafts import CUTTING, Draft, FileBuffer, MemoryBuffer
from memfs.replica.errors import Conflict
from memfs.replica.journal import JournalledDraft, JournalledPark
from memfs.replica.listing import Listing
from memfs.replica.parking import LATER
from memfs.replica.scratch import SCRATCH_DIRECTORIES
from memfs.replica.scratchtree import ScratchTree
from memfs.replica.tree import Directory, File, Head, Inode, Kind


class Replay:
    def __init__(self, attached: Attached, committer: Committer, listing: Listing) -> None:
        self.attached = attached
        self.committer = committer
        self.listing = listing
        self.unfinished = False
        """Something was left that the store did not take yet."""
        # What an earlier daemon left and is not dealt with yet; what this one begins is in the journal too.
        self.parks = attached.journal.parks()
        self.replacements = attached.journal.replacements()
        self.directory_renames = attached.journal.directory_renames()

    async def run(self) -> None:
        """Raises nothing: what the store does not take now stays in the journal, and shows as pending."""
        reachable = await self.finish_names()
        for draft in self.attached.journal.drafts():
            try:
                if reachable:
                    await self._draft(draft)
                else:
                    self._put_in_tree(draft, _base_of(draft), "the service did not answer when the mount began")
            except Unavailable:
                reachable = False  # the others would wait as long, one after the other
        self.unfinished = not await self._finish_parks() or not reachable

    async def finish_names(self) -> bool:
        """Finish the renames and replacements that were under way; whether the service answered."""
        try:
            await self._finish_directory_renames()
            await self._finish_replacements()
        except Unavailable as error:
            self.attached.report("replay", "", error)
            return False
        return True

    async def again(self) -> bool:
        """Try once more the deletions and renames that an earlier daemon left; whether all is done.

        Not for drafts: those show as pending, and are tried like all that is pending.
        """
        if self.unfinished:
            self.unfinished = not (await self.finish_names() and await self._finish_parks())
        return not self.unfinished

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
        while self.directory_renames:
            key, old, new = self.directory_renames[0]
            await self._move_memories(old, new)
            with attached.journal.transaction():
                attached.journal.move_below(old, new)
                attached.journal.end_directory_rename(key)
            del self.directory_renames[0]

    async def _move_memories(self, old: str, new: str) -> None:
        """Every memory below `old` goes below `new`, but for those whose place was taken meanwhile. Raises `Unavailable`."""
        attached = self.attached
        memories: list[Memory] = []
        page: str | None = None
        while True:
            answer = await attached.service.list_memories(attached.store_id, path_prefix=f"{old}/", limit=100, page=page)
            memories += [item for item in answer.data if isinstance(item, Memory)]
            page = answer.next_page
            if page is None:
                break
        for memory in memories:
            try:
                await attached.service.update_memory(attached.store_id, memory.id, path=new + memory.path[len(old) :])
            except Unavailable:
                raise
            except MemfsError as error:
                attached.report("replay", memory.path, error)

    async def _finish_replacements(self) -> None:
        """A memory that was to take the name of another goes if the other has its content by now; else nothing has happened."""
        attached = self.attached
        while self.replacements:
            replacement = self.replacements[0]
            try:
                if await self._has_had(replacement.target_id, replacement.content_sha256):
                    await attached.service.delete_memory(
                        attached.store_id, replacement.memory_id, expected_content_sha256=replacement.sha256
                    )
            except Unavailable:
                raise
            except NotFound:
                pass
            except MemfsError as error:
                attached.report("replay", "", error)
            attached.journal.remove_replacement(replacement.memory_id)
            del self.replacements[0]

    async def _has_had(self, memory_id: MemoryId, sha256: Sha256) -> bool:
        attached = self.attached
        memory = await attached.service.retrieve_memory(attached.store_id, memory_id, view="basic")
        if memory.content_sha256 == sha256:
            return True
        if not attached.service.capabilities.versions:
            return False
        versions = await attached.service.list_versions(attached.store_id, memory_id=memory_id, limit=20)
        return any(version.content_sha256 == sha256 for version in versions.data)

    async def _draft(self, draft: JournalledDraft) -> None:
        """Raises `Unavailable` when the service does not answer; the draft shows as pending then."""
        attached = self.attached
        base = _base_of(draft)
        if draft.refused is not None:
            await self._show_draft(draft, base)
            return
        if self.committer.keeps_back(draft.content):
            await self._show_draft(draft, base, NO_TEXT)
            return
        intent = Intent(
            path=draft.path,
            content=draft.content,
            target=base,
            base=base,
            base_content=None,
            append_only=draft.append_only,
            memory_id=None,
            # The daemon may have been killed before it knew.
            sent=attached.journal.sent(draft.key),
            journal_key=draft.key,
        )
        try:
            attached.check_writable()
            await self.committer.store(intent)
        except Overlapping as overlap:
            parent = self._directory(draft.path.rpartition("/")[0])
            try:
                sidecar = await self.committer.put_aside(parent, draft.path.rpartition("/")[2], draft.content, overlap)
            except MemfsError as error:
                await self._postpone(draft, base, error)
                return
            attached.report(
                "replay",
                draft.path,
                Conflict(f"what was written before the mount ended is in {sidecar}: {overlap.message}"),
            )
        except MemfsError as error:
            await self._postpone(draft, base, error)
            return
        with attached.journal.transaction():
            if draft.memory_id is not None:
                attached.journal.remove_park(draft.memory_id)
            attached.journal.remove_draft(draft.key)

    async def _postpone(self, draft: JournalledDraft, base: Head | None, error: MemfsError) -> None:
        self.attached.report("replay", draft.path, error)
        await self._show_draft(draft, base)
        if isinstance(error, Unavailable):
            raise error

    async def _show_draft(self, draft: JournalledDraft, base: Head | None, reason: str | None = None) -> None:
        """What cannot be stored now shows in its place, and is tried again."""
        attached = self.attached
        parent = self._directory(draft.path.rpartition("/")[0])
        try:
            await self.listing.directory(parent)
        except MemfsError as error:
            attached.report("replay", draft.path, error)
        unknown = "it was written before the mount ended and could not be stored since"
        self._put_in_tree(draft, base, draft.refused or reason or unknown)

    def _put_in_tree(self, draft: JournalledDraft, base: Head | None, reason: str) -> None:
        attached = self.attached
        parent_path, _, name = draft.path.rpartition("/")
        parent = self._directory(parent_path)
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
        file.draft.sent = attached.journal.sent(draft.key)
        if draft.refused is not None:
            cutting = {kind.__name__: kind for kind in CUTTING}
            file.draft.refusal = cutting.get(draft.cut or "", InvalidRequest)(draft.refused)
        file.journal_key = draft.key
        attached.wait(file, reason)

    async def _finish_parks(self) -> bool:
        """Send the deletions and renames that were acknowledged; whether all were dealt with."""
        attached = self.attached
        left: list[JournalledPark] = []
        for park in self.parks:
            try:
                if park.new_path is None:
                    await self._delete(park)
                else:
                    await self._rename(park, park.new_path)
            except LATER as error:
                attached.report("replay", park.path, error)
                left.append(park)
                continue
            except NotFound:
                pass
            except MemfsError as error:
                attached.report("replay", park.path, error)
            attached.journal.remove_park(park.memory_id)
        self.parks = left
        return not left

    async def _delete(self, park: JournalledPark) -> None:
        attached = self.attached
        await attached.service.delete_memory(attached.store_id, park.memory_id, expected_content_sha256=park.sha256)

    async def _rename(self, park: JournalledPark, new_path: str) -> None:
        """A memory was renamed to a backup's name; where that was another memory's, this one gets the content."""
        attached = self.attached
        try:
            await attached.service.update_memory(attached.store_id, park.memory_id, path=new_path)
        except PathConflict as conflict:
            if conflict.memory_id is None or conflict.path != new_path:
                raise
            backup = attached.head(await attached.service.retrieve_memory(attached.store_id, conflict.memory_id, view="basic"))
            memory = await attached.service.retrieve_memory(attached.store_id, park.memory_id)
            content = encode(memory.content or "")
            try:
                await self.committer.store(Intent(new_path, content, backup, backup, None, False, None))
            except Overlapping as overlap:
                raise PreconditionFailed(overlap.message) from overlap
            await attached.service.delete_memory(
                attached.store_id, park.memory_id, expected_content_sha256=memory.content_sha256
            )


def _base_of(draft: JournalledDraft) -> Head | None:
    if draft.memory_id is None or draft.base_version is None or draft.base_sha256 is None:
        return None
    return Head(draft.memory_id, draft.base_version, draft.base_sha256, 0, 0, 0)
