"""From a draft to a version: one create or one update, with the hash that the draft was based on; never an overwrite.

When the precondition fails, somebody else saved meanwhile. Then the two are merged by lines and stored on top of the new
head, again with its hash, until it holds. What cannot be merged stays apart: the head keeps theirs, ours becomes a sibling.
"""

import contextlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import trio

from memfs.model.content import Sha256, check_size, decode, encode, sha256_of
from memfs.model.errors import (
    ConcurrentModification,
    MemfsError,
    NotFound,
    NotSupported,
    PathConflict,
    PermissionDenied,
    PreconditionFailed,
    StoreArchived,
    StoreFull,
    Unauthenticated,
    Unavailable,
)
from memfs.model.ids import MemoryId, VersionId
from memfs.model.objects import Memory
from memfs.model.paths import check_path
from memfs.replica.attached import Attached
from memfs.replica.drafts import Draft
from memfs.replica.errors import Conflict, NameTaken, StateFailed, StateFull
from memfs.replica.merge import Merged, merge, sidecar_name
from memfs.replica.tree import Directory, File, Head, Kind, Meta, inode_for, time_ns

NO_TEXT = "this service keeps no file without text: it waits on this machine until there is some in it"
MAX_ROUNDS = 50
"""How often a save merges with yet another head before it gives up for now: each round, somebody else did save."""


_MENDABLE = (
    NameTaken,
    Unavailable,
    Unauthenticated,
    PermissionDenied,
    StoreFull,
    ConcurrentModification,
    NotFound,
    StateFull,
    StateFailed,
)


def may_pass(error: MemfsError) -> bool:
    """Whether the same content can be stored later, when the service, the credential, the store's size or our disk allow it."""
    return isinstance(error, _MENDABLE)


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
    sent: set[Sha256] = field(default_factory=set)
    """As `Draft.sent`; `store` keeps it up to date."""
    journal_key: int | None = None
    """The row of the journal that keeps the content, so that a replay knows of `sent` too."""


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

    def keeps_back(self, content: bytes) -> bool:
        """Whether the service refuses `content` for having no text in it: then it waits here until it has some."""
        if self.attached.service.capabilities.empty_content:
            return False
        return not content.strip() or not decode(content).strip()

    def keep_back(self, file: File) -> None:
        """Keep the draft of `file`, which `keeps_back`: it shows, it is pending, and it is not sent."""
        self.attached.journal_draft(file)
        self.attached.wait(file, NO_TEXT)

    async def commit(self, file: File) -> None:
        """Store the draft of `file`, if it has one that is dirty; on return, or when it raises, nothing was lost.

        Raises what the store refuses it for; `Conflict` when ours went to a sidecar; `Unavailable` at the latest when the
        mount's time-out has passed: then it is tried again in the background.
        """
        attached = self.attached
        with trio.move_on_after(attached.timeout):
            async with file.locked():
                await self.commit_locked(file)
            return
        late = Unavailable(f"{file.path}: it could not be stored within {attached.timeout:g} s; it is kept and tried again")
        if file.dirty and not file.dead:
            attached.wait(file, late.message)
            attached.journal_draft(file)
        raise late

    async def make_certain(self, file: File) -> None:
        """Before the name of `file` changes: find out whether a save of it whose answer was lost has happened.

        Raises `Unavailable` while nobody can tell.
        """
        if file.draft is None or not file.draft.sent:
            return
        try:
            await self.commit(file)
        except Unavailable:
            raise
        except MemfsError as error:
            self.attached.report("commit", file.path, error)  # refused, or kept apart: nothing is uncertain any more

    async def commit_locked(self, file: File) -> None:
        draft = file.draft
        if draft is None or not draft.dirty or file.dead or file.kind is not Kind.MEMORY:
            return
        attached = self.attached
        self.check(file)
        generation = draft.generation
        content = draft.buffer.content()
        sha256 = sha256_of(content)
        if (
            file.head is not None
            and not draft.sent
            and sha256 in (file.head.sha256, draft.base.sha256 if draft.base is not None else None)
        ):
            self._clean(file, draft, generation, file.head, content)
            if file.head.sha256 == sha256:
                self.keep_time(file, draft)
            return
        if self.keeps_back(content):
            self.keep_back(file)
            return
        try:
            stored = await self._store_draft(file, draft, content)
        except Overlapping as overlap:
            with trio.CancelScope(shield=True):  # half done it would be done again, and the words stand there twice
                sidecar = await self.put_aside(file.parent, file.segment, content, overlap)
            self._clean(file, draft, generation, overlap.head, content)
            raise Conflict(
                f"{file.path}: {overlap.message}; the file has the other session's words, yours are in {sidecar}"
            ) from None
        except MemfsError as error:
            attached.doubtful = attached.doubtful or isinstance(error, Unavailable)
            attached.wait(file, error.message)
            with contextlib.suppress(StateFull, StateFailed):  # then it waits in memory alone, and the caller is told so
                attached.journal_draft(file)
            raise
        self._stored(file, draft, generation, stored, content)

    async def _store_draft(self, file: File, draft: Draft, content: bytes) -> Stored:
        if not self.attached.service.capabilities.local:
            self.attached.journal_draft(file)
        intent = Intent(
            path=check_path(file.path),
            content=content,
            target=file.head,
            base=draft.base,
            base_content=draft.base_content,
            append_only=draft.append_only,
            memory_id=file.memory_id,
            sent=draft.sent,
            journal_key=file.journal_key,
        )
        return await self.store(intent)

    def _stored(self, file: File, draft: Draft, generation: int, stored: Stored, content: bytes) -> None:
        file.committed_at = trio.current_time()
        self._clean(file, draft, generation, stored.head, content)

    def _clean(self, file: File, draft: Draft, generation: int, head: Head, content: bytes) -> None:
        """`content`, the draft as of `generation`, is dealt with, and the memory is at `head`."""
        attached = self.attached
        self.adopt(file, head)
        sha256 = sha256_of(content)
        attached.blobs.put(sha256, content, versioned=head.sha256 == sha256)
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
            draft.sent.clear()
            attached.settled(file)
            if file.journal_key is not None:
                attached.journal.remove_draft(file.journal_key)
                file.journal_key = None
        if file.bound is not None:
            attached.attributes_changed(file)

    def adopt(self, file: File, head: Head) -> None:
        """`file` is the memory `head` from now on."""
        attached = self.attached
        previous = file.head
        if previous is not None and previous.sha256 != head.sha256:
            attached.blobs.supersede(previous.sha256)
        file.head = head
        attached.make_way(head.memory_id, file)
        attached.tree.by_id[head.memory_id] = file
        attached.note_change(head.memory_id)
        attached.note_version(head.version_id)
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

    def keep_time(self, file: File, draft: Draft) -> None:
        """The same bytes again are no version, but they were written: the file keeps the time of that."""
        file.ctime_ns = draft.mtime_ns
        file.meta = file.meta or Meta()
        if file.meta.mtime_ns is None:
            file.meta.mtime_ns = draft.mtime_ns
            self.attached.remember_meta(file)

    async def store(self, intent: Intent) -> Stored:
        """Bring `intent` into the store. Raises `Overlapping` when it cannot be merged with what is there by now, and
        `Unavailable` when that takes longer than the mount's time-out."""
        with trio.move_on_after(self.attached.timeout):
            return await self._store(intent)
        raise Unavailable(f"{intent.path}: the service did not store it within {self.attached.timeout:g} s")

    async def _store(self, intent: Intent) -> Stored:
        attached = self.attached
        service, store_id = attached.service, attached.store_id
        content, target, base = intent.content, intent.target, intent.base
        base_content = intent.base_content
        merged_into: list[VersionId] = []
        for _ in range(MAX_ROUNDS):
            text = decode(content)
            sha256 = sha256_of(content)
            earlier = frozenset(intent.sent)
            self._note_sent(intent, sha256)
            try:
                if target is None:
                    memory = await service.create_memory(store_id, intent.path, text, memory_id=intent.memory_id)
                else:
                    memory = await service.update_memory(
                        store_id, target.memory_id, content=text, precondition=base.sha256 if base is not None else None
                    )
                self._note_place(memory, intent.path)
                if memory.path == intent.path:
                    for version_id in merged_into:
                        attached.note_version(version_id)
                return Stored(attached.head(memory), content)
            except Unavailable:
                raise
            except MemfsError as refusal:
                if not refusal.maybe_applied and sha256 not in earlier:
                    self._note_not_stored(intent, sha256)
                handled = (NotFound, PathConflict, PreconditionFailed, ConcurrentModification)
                if isinstance(refusal, StoreArchived):
                    attached.became_read_only()
                if not isinstance(refusal, handled) or (isinstance(refusal, NotFound) and target is None):
                    raise
                error = refusal
            if isinstance(error, NotFound):
                # Deleted meanwhile: what was written here is worth a new memory.
                target = None
                intent = _as_new(intent)
                continue
            if isinstance(error, PathConflict):
                if error.memory_id is None:
                    continue
                if error.path != intent.path:
                    raise NameTaken(f"{intent.path}: {error.message}") from error
                theirs_id = error.memory_id
            else:
                assert target is not None
                theirs_id = target.memory_id
            try:
                theirs = await service.retrieve_memory(store_id, theirs_id)
            except NotFound:
                target = None
                intent = _as_new(intent)
                continue
            head = attached.head(theirs)
            self._note_place(theirs, intent.path)
            theirs_content = encode(theirs.content or "")
            if head.sha256 == sha256_of(content) and theirs.path == intent.path:
                return Stored(head, content)
            applied = await self._applied(intent, base, head)
            if applied is not None:
                base, base_content = applied, await attached.content(applied)
            content = await self._merge(intent, base, base_content, content, head, theirs_content)
            base, base_content, target = head, theirs_content, head
            merged_into.append(head.version_id)
            if content == theirs_content:
                return Stored(head, content)
        raise ConcurrentModification(f"{intent.path}: others save this memory faster than it can be merged; it is kept pending")

    def _note_sent(self, intent: Intent, sha256: Sha256) -> None:
        """`sha256` is about to be sent: from now on it may be stored, until the answer says that it is not."""
        if self.attached.service.capabilities.local or sha256 in intent.sent:
            return
        intent.sent.add(sha256)
        if intent.journal_key is not None:
            self.attached.journal.add_sent(intent.journal_key, sha256)

    def _note_not_stored(self, intent: Intent, sha256: Sha256) -> None:
        if sha256 in intent.sent:
            intent.sent.discard(sha256)
            if intent.journal_key is not None:
                self.attached.journal.remove_sent(intent.journal_key, sha256)

    def _note_place(self, memory: Memory, path: str) -> None:
        """Another session may have renamed it meanwhile: then the feed has to move it in the tree, whoever made the version."""
        if memory.path != path:
            self.attached.elsewhere.add(memory.memory_version_id)

    async def _applied(self, intent: Intent, base: Head | None, head: Head) -> Head | None:
        """The newest version up to `head` that an earlier attempt of ours made, whose answer was lost.

        What stands there already must not be merged in once more.
        """
        attached = self.attached
        if not intent.sent:
            return None
        if head.sha256 in intent.sent:
            return head
        if not attached.service.capabilities.versions:
            return None
        page: str | None = None
        while True:
            answer = await attached.service.list_versions(
                attached.store_id, memory_id=head.memory_id, limit=attached.service.capabilities.max_limit, page=page
            )
            for version in answer.data:
                if version.content_sha256 in intent.sent:
                    size, time = version.content_size_bytes or 0, time_ns(version.created_at)
                    return Head(head.memory_id, version.id, version.content_sha256, size, head.created_ns, time)
                if base is not None and version.id == base.version_id:
                    return None
            page = answer.next_page
            if page is None:
                return None

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
            if not attached.service.capabilities.attribution:
                raise NotSupported("this service does not tell who made a version")
            version = await attached.service.retrieve_version(attached.store_id, theirs.version_id, view="basic")
            actor = version.created_by.model_dump() if version.created_by is not None else None
        except NotSupported:
            pass
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
    return replace(head, sha256=sha256, size=size)


def _as_new(intent: Intent) -> Intent:
    return replace(intent, target=None, memory_id=None)
