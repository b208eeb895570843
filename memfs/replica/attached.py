"""What the parts of a replica share: the store, its tree, its local state, and the ways from the one to the others."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import trio

from memfs.model.content import EMPTY_SHA256, encode, sha256_of
from memfs.model.errors import NotFound, ReadOnly, Redacted, StoreArchived, Unavailable
from memfs.model.ids import MemoryId, SessionId, StoreId, VersionId, new_memory_id
from memfs.model.objects import Memory, Store
from memfs.replica.blobs import BlobCache
from memfs.replica.drafts import Draft, FileBuffer, MemoryBuffer, now_ns
from memfs.replica.errnos import errno_of, name_of, words_of
from memfs.replica.journal import Journal
from memfs.replica.notices import Notices
from memfs.replica.readings import Readings
from memfs.replica.scratch import ScratchRules
from memfs.replica.timers import Timers
from memfs.replica.tree import Directory, File, Head, Inode, Kind, Meta, Node, Tree, can_be_shown, escape, head_of, inode_for
from memfs.stores.base import MemoryStore

KNOWN_VERSIONS = 4096
"""More than this mount makes between two polls."""


def _ignore(node: Node) -> None:
    pass


@dataclass
class Attached:
    """One attached store."""

    service: MemoryStore
    store: Store
    name: str
    """The store's directory name on the mount."""
    session_id: SessionId
    tree: Tree
    journal: Journal
    blobs: BlobCache
    rules: ScratchRules
    timers: Timers
    notices: Notices
    readings: Readings
    umask: int
    """What the modes of files and directories lack by default."""
    read_only: bool
    """Mounted read-only, attached read-only, or archived."""
    timeout: float
    """How long, in seconds, an operation may wait for the service."""
    attributes_changed: Callable[[Node], None] = _ignore
    """Tells the kernel that what it knows about a node's size and times is old; must not block."""
    changed_here: dict[MemoryId, float] = field(default_factory=dict)
    """When this mount last changed a memory (trio's clock): an older answer of the store must not undo it in the tree."""
    known_versions: dict[VersionId, None] = field(default_factory=dict)
    """Versions that this mount made, or merged into one of its own: they tell it nothing new. Bounded, oldest first."""
    doubtful: bool = False
    """A change of this mount may have been applied or not, its answer lost: all that is listed is to be listed again."""
    astray: dict[File, str] = field(default_factory=dict)
    """Memories that a failed rename of a directory took along in the store and could not bring back yet, and the paths under
    which they show and that they get back."""
    moving: int = 0
    """How many renames of directories are under way."""
    blocked: dict[MemoryId, File] = field(default_factory=dict)
    """Memories that do not show, because a file that is being changed here has their name: the feed comes back to them."""
    elsewhere: set[VersionId] = field(default_factory=set)
    """Versions that this mount met under another path than it shows: the feed brings them to their place."""
    held: dict[Inode, int] = field(default_factory=dict)
    """The inode numbers of replaced and removed files that somebody still holds open, and how many bear each."""
    edition: int = 0
    """Counts the changes that this mount made in the store."""
    pending: set[File] = field(default_factory=set)
    """Files whose bytes could not be stored, kept in the journal."""
    reasons: dict[File, str] = field(default_factory=dict)
    """Why each of them could not, as a sentence."""

    @property
    def store_id(self) -> StoreId:
        return self.store.id

    def check_writable(self) -> None:
        if self.read_only:
            why = "is archived" if self.store.archived_at is not None else "is attached read-only"
            raise ReadOnly(f"the store {self.name} {why}: nothing can be written to it")

    def check_text(self, head: Head | None) -> None:
        """Raise `ReadOnly` for a binary memory: what is written here is text."""
        if head is not None and head.media_type is not None:
            raise ReadOnly(f"this is a binary file ({head.media_type}): it can be read, moved and removed, but not written")

    def became_read_only(self) -> None:
        """The service says that the store was archived meanwhile: from now on every writer is refused."""
        if not self.read_only:
            self.read_only = True
            self.store = self.store.model_copy(update={"archived_at": datetime.now(UTC)})
            self.report("refresh", "", StoreArchived(f"the store {self.name} was archived: nothing can be written to it"))
            for node in (*self.tree.files_below(self.tree.root), *self.tree.directories_below(self.tree.root)):
                if node.bound is not None:
                    self.attributes_changed(node)

    def report(self, operation: str, path: str, error: Exception) -> None:
        """Note a failure that no caller waits for."""
        name, message = name_of(errno_of(error)), words_of(error, operation)
        self.notices.error(store=self.name, path=path, operation=operation, error=name, message=message)

    # Memories and nodes

    def head(self, memory: Memory) -> Head:
        return head_of(memory, self.service.capabilities.time_resolution_ns)

    def memory_number(self, memory_id: MemoryId) -> Inode:
        """The inode number of a memory: that of its id, or the one it was born with on this mount."""
        attributes = self.journal.attributes(memory_id)
        if attributes is not None and attributes.number is not None:
            return attributes.number
        return inode_for(memory_id)

    def memory_meta(self, head: Head) -> Meta | None:
        """What was set on a memory here; times only while the content is the one they were set on."""
        attributes = self.journal.attributes(head.memory_id)
        if attributes is None or attributes.meta.empty:
            return None
        meta = attributes.meta.copy()
        if attributes.sha256 != head.sha256:
            meta.mtime_ns = meta.atime_ns = None
        return meta

    def remember_meta(self, file: File) -> None:
        """Keep what is set on a file across remounts."""
        if file.head is not None:
            number = file.number if file.number != inode_for(file.head.memory_id) else None
            self.journal.put_attributes(file.head.memory_id, number=number, sha256=file.head.sha256, meta=file.meta)
        elif file.local_key is not None:
            self.journal.change_local_file(file.local_key, path=file.path, kind=file.kind.value, meta=file.meta)

    def new_file(self, directory: Directory, name: str, kind: Kind) -> File:
        """A node for a file that is about to be made; not in the tree yet."""
        memory_id = self.choose_id() if kind is Kind.MEMORY else None
        file = File(self.tree.volume, name, directory, inode_for(memory_id or new_memory_id()), kind)
        file.memory_id = memory_id
        return file

    def choose_id(self) -> MemoryId | None:
        """The id for a memory that is to be made; None where the service chooses it."""
        return new_memory_id() if self.service.capabilities.chooses_memory_id else None

    def place(self, head: Head, path: str) -> File | None:
        """Show the memory `head` at `path`, as the store says; None when the directory is not known well enough to show it.

        A node that the memory has already moves; nothing is done to a file that this side is changing at the moment.
        """
        file = self.tree.by_id.get(head.memory_id)
        if file is not None:
            if file.park is not None or (file.lock is not None and file.lock.locked()):
                return file
            if file.path != path or (file.parent is not None and file.parent.children.get(file.name) is not file):
                left = file.parent
                self.tree.detach(file)
                file.dead = False
                placed = self._put_in_tree(file, path, head.memory_id)
                if left is not None:
                    left.mtime_ns = now_ns()
                    self.tree.prune(left)
                if not placed:
                    self.forget(file)
                    return None
            self.update_head(file, head)
            return file
        segment = path.rpartition("/")[2]
        file = File(self.tree.volume, segment, None, self.memory_number(head.memory_id))
        if not self._put_in_tree(file, path, head.memory_id):
            return None
        file.head = head
        file.meta = self.memory_meta(head)
        self.tree.by_id[head.memory_id] = file
        return file

    def _put_in_tree(self, file: File, path: str, memory_id: MemoryId) -> bool:
        """Give `file` the name that `path` says; False when an unlisted directory hides whether it is needed, or no name can
        show it."""
        if not can_be_shown(path):
            return False
        directory = self.tree.root
        segments = path.split("/")[1:]
        walked = directory.walked > 0  # a listing under way may make all below known, and be older than this
        for segment in segments[:-1]:
            if not walked and not directory.listed and directory.listing is None and segment not in directory.children:
                return False
            directory = self.tree.ensure_directory(directory, segment)
            walked = walked or directory.walked > 0
        if not walked and not directory.listed and directory.listing is None:
            return False
        name = self.tree.place_name(directory, segments[-1])
        taken = directory.children.get(name)
        if isinstance(taken, File) and taken is not file:
            if taken.kind is not Kind.MEMORY:
                name = escape(segments[-1])
            elif self.holds_name(taken):
                self.blocked[memory_id] = taken
                return False  # what is done here comes first: a commit meets the other memory and merges
            else:
                self.let_go(taken)
        self.tree.add(directory, name, file)
        file.segment = segments[-1]
        directory.mtime_ns = now_ns()
        return True

    @staticmethod
    def holds_name(file: File) -> bool:
        """Whether something is under way with `file` that its name is needed for: unstored bytes, a rename, a park."""
        if file.dead:
            return False
        return file.dirty or file.park is not None or (file.lock is not None and file.lock.locked())

    def orphan(self, file: File) -> None:
        """The store has the memory no more, but `file` has unstored bytes: those are worth a new memory."""
        self._is_no_memory(file)
        file.head = None
        file.memory_id = self.choose_id()

    def unplace(self, file: File) -> None:
        directory = file.parent
        self.tree.detach(file)
        if directory is not None:
            directory.mtime_ns = now_ns()
            self.tree.prune(directory)

    def make_way(self, memory_id: MemoryId, file: File) -> None:
        """`file` is that memory now: another node that shows it, where the store had it before, leaves the tree.

        Unless something is written there: that is stored first, into the same memory, and then has its place.
        """
        shown = self.tree.by_id.get(memory_id)
        if shown is not None and shown is not file and not shown.dirty:
            self.let_go(shown)

    def let_go(self, file: File) -> None:
        """Take `file` out of the tree, and `forget` it."""
        self.unplace(file)
        self.forget(file)

    def forget(self, file: File) -> None:
        """The store has this memory no more, or no longer here: those who hold it open keep what they see."""
        file.dead = True
        if file.head is not None:
            self.blobs.supersede(file.head.sha256)
        self._is_no_memory(file)
        if file.bound is not None:
            self.attributes_changed(file)

    def _is_no_memory(self, file: File) -> None:
        if file.head is not None and self.tree.by_id.get(file.head.memory_id) is file:
            del self.tree.by_id[file.head.memory_id]

    def update_head(self, file: File, head: Head) -> None:
        """A version newer than the one known; readers see it once the kernel has been told its size."""
        if file.head is not None and file.head.version_id == head.version_id:
            return
        if file.head is not None and file.head.sha256 != head.sha256:
            self.blobs.supersede(file.head.sha256)
        self.tree.changes += 1
        file.head = head
        if file.meta is not None:
            file.meta = self.memory_meta(head)
        if file.bound is not None:
            self.attributes_changed(file)

    def keep_directory(self, directory: Directory) -> None:
        """It stays until rmdir, also after a remount."""
        if not directory.kept:
            directory.kept = True
            self.remember_directory(directory)

    def remember_directory(self, directory: Directory) -> None:
        path = directory.path
        number = directory.number if directory.number != self.tree.directory_number(path) else None
        meta = directory.meta
        if path and (directory.kept or number is not None or (meta is not None and not meta.empty)):
            self.journal.put_directory(path, kept=directory.kept, number=number, meta=meta)
        elif path:
            self.journal.remove_directory(path)
        elif meta is not None:
            self.journal.put_directory("/", kept=True, number=None, meta=meta)

    def directory_changed(self, directory: Directory) -> None:
        """An entry came or went through this mount."""
        now = now_ns()
        directory.mtime_ns = now
        directory.ctime_ns = now
        if directory.meta is not None and directory.meta.mtime_ns is not None:
            directory.meta.mtime_ns = None
            self.remember_directory(directory)
        if directory.bound is not None:
            self.attributes_changed(directory)

    # Content

    async def content(self, head: Head) -> bytes:
        """The bytes of a version. Raises `NotFound` when it was pruned, `Redacted`, `Unavailable`."""
        if head.sha256 == EMPTY_SHA256:
            return b""
        blob = self.blobs.get(head.sha256)
        if blob is not None:
            return blob
        with trio.move_on_after(self.timeout):
            return await self._fetch(head)
        raise Unavailable(f"the service did not send the content within {self.timeout:g} s")

    async def _fetch(self, head: Head) -> bytes:
        try:
            memory = await self.service.retrieve_memory(self.store_id, head.memory_id)
            text, binary, sha256 = memory.content, memory.binary, memory.content_sha256
        except NotFound:
            text, binary, sha256 = None, None, None
        if sha256 != head.sha256 or (text is None and binary is None):
            version = await self.service.retrieve_version(self.store_id, head.version_id)
            if version.redacted_at is not None:
                raise Redacted("an administrator removed the content of this version")
            text, binary = version.content, version.binary
        content = encode(text or "") if binary is None else binary
        self.blobs.put(sha256_of(content), content)
        return content

    # Drafts and local files

    def begin_local(self, file: File, content: bytes | None = None) -> None:
        """Keep the bytes of `file` in a local file from now on: it is scratch, or settling."""
        if file.local_key is None:
            file.local_key = self.journal.add_local_file(file.path, file.kind.value, file.number, file.meta)
        buffer = FileBuffer(self.journal.file_path(file.local_key))
        if content is not None:
            buffer.truncate(0)
            buffer.write(0, content)
        file.draft = Draft(buffer)

    def end_local(self, file: File) -> None:
        """The bytes of `file` are in the store, or not wanted any more."""
        if file.local_key is not None:
            if file.draft is not None and isinstance(file.draft.buffer, FileBuffer):
                file.draft.buffer.delete()
            else:
                self.journal.file_path(file.local_key).unlink(missing_ok=True)
            self.journal.remove_local_file(file.local_key)
            file.local_key = None

    def journal_draft(self, file: File, refused: str | None = None) -> None:
        """Keep what is written and not stored, so that it outlives the daemon."""
        draft = file.draft
        if draft is None or file.kind is not Kind.MEMORY:
            return
        base = draft.base
        if refused is None and draft.refusal is not None:
            refused = draft.refusal.message
        content = draft.buffer.content()
        with self.journal.transaction():
            key = self.journal.put_draft(
                file.journal_key,
                path=file.path,
                memory_id=file.head.memory_id if file.head is not None else None,
                base_version=base.version_id if base is not None else None,
                base_sha256=base.sha256 if base is not None else None,
                content=content,
                append_only=draft.append_only,
                since_ns=draft.since_ns,
                refused=refused,
                cut=type(draft.refusal).__name__ if draft.cut else None,
            )
            for sha256 in draft.sent if file.journal_key is None else ():
                self.journal.add_sent(key, sha256)
            if file.local_key is not None:
                self.journal.remove_local_file(file.local_key)
        file.journal_key = key
        if file.local_key is not None:
            self.end_local(file)
            draft.buffer = MemoryBuffer(content)

    def forget_draft(self, file: File) -> None:
        if file.journal_key is not None:
            self.journal.remove_draft(file.journal_key)
            file.journal_key = None
        self.settled(file)

    def wait(self, file: File, reason: str) -> None:
        """The bytes of `file` wait in the journal, because of `reason`."""
        self.pending.add(file)
        self.reasons[file] = reason

    def settled(self, file: File) -> None:
        self.pending.discard(file)
        self.reasons.pop(file, None)

    @property
    def between_places(self) -> bool:
        """Whether this mount is about to bring memories to other places than the store tells: no listing counts then."""
        return self.moving > 0 or bool(self.astray)

    def note_change(self, memory_id: MemoryId) -> None:
        self.edition += 1
        self.changed_here[memory_id] = trio.current_time()

    def changed_since(self, memory_id: MemoryId, started: float) -> bool:
        """Whether the memory was changed here, or a change of it became known, at `started` on trio's clock or later."""
        return self.changed_here.get(memory_id, float("-inf")) >= started

    def note_version(self, version_id: VersionId) -> None:
        """What came before or with this version is known here, unless it is in another place than it shows."""
        if version_id in self.elsewhere:
            return
        self.known_versions[version_id] = None
        if len(self.known_versions) > KNOWN_VERSIONS:
            del self.known_versions[next(iter(self.known_versions))]

    def state(self, file: File) -> str:
        """What `user.memory.state` says."""
        draft = file.draft
        if draft is not None and draft.refusal is not None:
            return "refused"
        if file.kind is not Kind.MEMORY:
            return "scratch"
        if draft is not None and draft.dirty:
            return "pending"
        return "stored"
