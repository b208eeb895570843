"""From a draft to a version: one create or one update, with the hash that the draft was based on; never an overwrite.

When the precondition fails, somebody else saved meanwhile. Then the two are merged by lines and stored on top of the new
head, again with its hash, until it holds. What cannot be merged stays apart: the head keeps theirs, ours becomes a sibling.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import trio

from memfs.model.content import Sha256, check_size, decode, encode, sha256_of
from memfs.model.errors import ConcurrentModification, MemfsError, NotFound, PathConflict, PreconditionFailed, StoreArchived
from memfs.model.ids import MemoryId
from memfs.model.paths import check_path
from memfs.replica.attached import Attached
from memfs.replica.drafts import Draft
from memfs.replica.errors import Conflict, NameTaken
from memfs.replica.merge import Merged, merge, sidecar_name
from memfs.replica.tree import Directory, File, Head, Kind, inode_for

MAX_ROUNDS = 50
"""How often a save merges with yet another head before it gives up for now: each round, somebody else did save."""


class Overlapping(MemfsError):
    """Ours and the head changed the same lines; carries the head and why they do not merge."""

    def __init__(self, head: Head, reason: str) -> None:
        super().__init__(reason)
        self.head = head


@dataclass(frozen=True)
class Intent:
    """What is to be stored where."""

    path: str
    content: bytes
    target: Head | None
    """The memory to update; None: a new one."""
    base: Head | None
    """What the content derives from; None: from nothing."""
    base_content: bytes | None
    append_only: bool
    memory_id: MemoryId | None
    """The id of a new memory, where this side chooses it."""


@dataclass(frozen=True)
class Stored:
    head: Head
    content: bytes
    """What the head holds: the intent's content, or what it was merged to."""


class Committer:
    """Stores the drafts of one attached store."""

    def __init__(self, attached: Attached) -> None:
        self.attached = attached

    def check(self, file: File) -> None:
        """Raise what a commit of `file` would be refused for on this side, without asking anybody."""
        draft = file.draft
        if draft is None:
            return
        if draft.refusal is not None:
            raise draft.refusal
        self.attached.check_writable()
        decode(draft.buffer.content())

    async def commit(self, file: File) -> None:
        """Store the draft of `file`, if it has one that is dirty; on return, or when it raises, nothing was lost.

        Raises what the store refuses it for; `Conflict` when ours went to a sidecar.
        """
        async with file.locked():
            await self.commit_locked(file)

    async def commit_locked(self, file: File) -> None:
        draft = file.draft
        if draft is None or not draft.dirty or file.dead or file.kind is not Kind.MEMORY:
            return
        attached = self.attached
        self.check(file)
        generation = draft.generation
        content = draft.buffer.content()
        sha256 = sha256_of(content)
        if file.head is not None and sha256 in (file.head.sha256, draft.base.sha256 if draft.base is not None else None):
            self._clean(file, draft, generation, file.head, content)
            return
        if not attached.service.capabilities.local:
            attached.journal_draft(file)
        intent = Intent(
            path=check_path(file.path),
            content=content,
            target=file.head,
            base=draft.base,
            base_content=draft.base_content,
            append_only=draft.append_only,
            memory_id=file.memory_id,
        )
        try:
            stored = await self.store(intent)
        except Overlapping as overlap:
            sidecar = await self.put_aside(file.parent, file.segment, content, overlap)
            self._clean(file, draft, generation, overlap.head, content)
            raise Conflict(
                f"{intent.path}: {overlap.message}; the file has the other session's words, yours are in {sidecar}"
            ) from None
        except MemfsError as error:
            attached.journal_draft(file)
            attached.wait(file, error.message)
            raise
        self._stored(file, draft, generation, stored, content)

    def _stored(self, file: File, draft: Draft, generation: int, stored: Stored, content: bytes) -> None:
        attached = self.attached
        file.committed_at = trio.current_time()
        if stored.content is not content:
            attached.blobs.put(sha256_of(content), content)
        self._clean(file, draft, generation, stored.head, content)

    def _clean(self, file: File, draft: Draft, generation: int, head: Head, content: bytes) -> None:
        """`content`, the draft as of `generation`, is dealt with, and the memory is at `head`."""
        attached = self.attached
        self.adopt(file, head)
        sha256 = sha256_of(content)
        attached.blobs.put(sha256, content)
        # Until the kernel asks again it has the size of what was written here, whatever that was merged to.
        seen = head if head.sha256 == sha256 else _with_content(head, sha256, len(content))
        if seen is not head:
            attached.readings.wrote(seen)
        if draft.generation == generation:
            file.draft = None
            file.shown = seen
            attached.forget_draft(file)
            attached.end_local(file)
            for handle in file.open_handles:
                handle.wrote = handle.fresh = False
        else:
            draft.base = seen
            draft.base_content = content
            draft.append_only = draft.append_only and draft.buffer.read(0, len(content)) == content
            attached.settled(file)
        if file.bound is not None:
            attached.attributes_changed(file)

    def adopt(self, file: File, head: Head) -> None:
        """`file` is the memory `head` from now on."""
        attached = self.attached
        previous = file.head
        file.head = head
        attached.tree.by_id[head.memory_id] = file
        attached.note_change(head.memory_id)
        attached.readings.wrote(head)
        if file.continues_park:
            file.continues_park = False
            attached.journal.remove_park(head.memory_id)
        if previous is not None and previous.memory_id != head.memory_id:
            if attached.tree.by_id.get(previous.memory_id) is file:
                del attached.tree.by_id[previous.memory_id]
            file.number = attached.memory_number(head.memory_id)
        if file.meta is not None or file.number != inode_for(head.memory_id):
            attached.remember_meta(file)

    async def store(self, intent: Intent) -> Stored:
        """Bring `intent` into the store. Raises `Overlapping` when it cannot be merged with what is there by now."""
        attached = self.attached
        service, store_id = attached.service, attached.store_id
        content, target, base = intent.content, intent.target, intent.base
        base_content = intent.base_content
        for _ in range(MAX_ROUNDS):
            text = decode(content)
            try:
                if target is None:
                    memory = await service.create_memory(store_id, intent.path, text, memory_id=intent.memory_id)
                else:
                    memory = await service.update_memory(
                        store_id, target.memory_id, content=text, precondition=base.sha256 if base is not None else None
                    )
                return Stored(attached.head(memory), content)
            except StoreArchived:
                attached.read_only = True
                raise
            except NotFound:
                if target is None:
                    raise
                # Deleted meanwhile: what was written here is worth a new memory.
                target = None
                intent = _as_new(intent)
                continue
            except PathConflict as conflict:
                if conflict.memory_id is None:
                    continue
                if conflict.path != intent.path:
                    raise NameTaken(f"{intent.path}: {conflict.message}") from conflict
                theirs_id = conflict.memory_id
            except (PreconditionFailed, ConcurrentModification):
                assert target is not None
                theirs_id = target.memory_id
            try:
                theirs = await service.retrieve_memory(store_id, theirs_id)
            except NotFound:
                target = None
                intent = _as_new(intent)
                continue
            head = attached.head(theirs)
            theirs_content = encode(theirs.content or "")
            if head.sha256 == sha256_of(content) and theirs.path == intent.path:
                return Stored(head, content)
            content = await self._merge(intent, base, base_content, content, head, theirs_content)
            base, base_content, target = head, theirs_content, head
            if content == theirs_content:
                return Stored(head, content)
        raise ConcurrentModification(f"{intent.path}: others save this memory faster than it can be merged; it is kept pending")

    async def _merge(
        self, intent: Intent, base: Head | None, base_content: bytes | None, ours: bytes, head: Head, theirs: bytes
    ) -> bytes:
        if base is None and not intent.append_only:
            raise Overlapping(head, "another session created it at the same time")
        if base_content is None:
            try:
                base_content = await self.attached.content(base) if base is not None else b""
            except (NotFound, MemfsError) as error:
                raise Overlapping(head, f"what both sides started from is gone: {error}") from error
        merged = merge(base_content, ours, theirs)
        if isinstance(merged, Merged):
            return merged.content
        raise Overlapping(head, merged.reason)

    async def put_aside(self, directory: Directory | None, segment: str, content: bytes, overlap: Overlapping) -> str:
        """Store `content` beside the file that it could not be merged into; return the sibling's path."""
        attached = self.attached
        assert directory is not None
        tail = attached.session_id[-6:]
        for attempt in range(100):
            suffix = tail if attempt == 0 else f"{tail}{attempt}"
            name = sidecar_name(segment, datetime.now(UTC), suffix)
            path = f"{directory.path}/{name}"
            try:
                memory = await attached.service.create_memory(attached.store_id, path, decode(content))
            except PathConflict:
                continue
            attached.note_change(memory.id)
            attached.place(attached.head(memory), path)
            await self._record_conflict(f"{directory.path}/{segment}", path, overlap.head)
            return path
        raise overlap

    async def _record_conflict(self, path: str, sidecar: str, theirs: Head) -> None:
        attached = self.attached
        actor: dict[str, object] | None = None
        try:
            version = await attached.service.retrieve_version(attached.store_id, theirs.version_id, view="basic")
            actor = version.created_by.model_dump() if version.created_by is not None else None
        except MemfsError as error:
            attached.report("merge", path, error)
        attached.notices.conflict(
            store=attached.name,
            path=path,
            sidecar=sidecar,
            our_session=attached.session_id,
            their_actor=actor,
            their_version=theirs.version_id,
        )

    # Files that were local until now

    def make_memory(self, file: File) -> None:
        """`file` was scratch or settling and is a memory from now on. Raises when no memory can hold its bytes."""
        draft = file.draft
        if file.kind is Kind.MEMORY or draft is None:
            file.kind = Kind.MEMORY
            return
        check_size(draft.buffer.size)
        decode(draft.buffer.content())
        draft.dirty = True
        file.kind = Kind.MEMORY


def _with_content(head: Head, sha256: Sha256, size: int) -> Head:
    return Head(head.memory_id, head.version_id, sha256, size, head.created_ns, head.updated_ns)


def _as_new(intent: Intent) -> Intent:
    return Intent(intent.path, intent.content, None, intent.base, intent.base_content, intent.append_only, None)
