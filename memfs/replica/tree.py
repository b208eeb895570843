"""The names of one store, as the mount knows them: directories, files, the memory behind each. Pure: no I/O, no clock.

A directory is *listed* when all its children are known; then a name that is not among them does not exist. Directories have no
object in the store: one exists while something lies below it, or while it is *kept* by this mount (made by mkdir, or emptied
through it). A file has a head when the store has a memory for it, and a draft when somebody wrote to it here.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NewType

import trio

from memfs.model.content import Sha256
from memfs.model.ids import MemoryId, StoreId, VersionId
from memfs.model.objects import Memory

if TYPE_CHECKING:
    from memfs.replica.drafts import Draft
    from memfs.replica.handles import Handle
    from memfs.replica.parking import Park

Inode = NewType("Inode", int)

NEVER = float("-inf")
"""A time before all others; one object, for as many nodes as there are."""
NAME_MAX = 255
"""The longest name, in bytes, that Linux tools can handle."""
HIDDEN_NAMES = frozenset({".versions", ".search"})
"""Names in a store's root that show views; a memory of that name is shown escaped."""


def inode_for(text: str) -> Inode:
    """The inode number that stands for `text` on every mount, for good: 62 bits of its hash, never a small number."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return Inode(int.from_bytes(digest, "big") & ((1 << 62) - 1) | (1 << 62))


def escape(segment: str) -> str:
    """A stable name for a segment that a file system cannot show under its own: its beginning, ``~`` and a hash."""
    digest = hashlib.sha256(segment.encode()).hexdigest()[:12]
    head = segment.encode()[: NAME_MAX - len(digest) - 1].decode("utf-8", "ignore")
    return f"{head.replace('/', '_')}~{digest}"


def can_be_shown(path: str) -> bool:
    """Whether each segment of a store's path can be a name at all, escaped or not; a hostile service may say anything."""
    framed = f"{path}/"
    if not path.startswith("/") or any(odd in framed for odd in ("//", "/./", "/../", "\0")):
        return False
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


@dataclass(frozen=True, slots=True)
class Head:
    """The newest version of a memory, or an older one that a reader still holds. Times in nanoseconds since the epoch."""

    memory_id: MemoryId
    version_id: VersionId
    sha256: Sha256
    size: int
    created_ns: int
    updated_ns: int
    media_type: str | None = None
    """Set for a binary memory, which can only be read."""
    metadata: tuple[tuple[str, str], ...] = ()
    """What the service keeps beside the content, sorted by key; as of the last listing."""


def nanoseconds(memory: Memory) -> tuple[int, int]:
    """created_at and updated_at of `memory`, exactly (a float would round microseconds)."""
    return time_ns(memory.created_at), time_ns(memory.updated_at)


def time_ns(time: datetime) -> int:
    """`time` as nanoseconds since the epoch, exactly."""
    return int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1_000


def head_of(memory: Memory, resolution_ns: int = 1_000) -> Head:
    """The head that `memory` describes.

    Where a service counts whole seconds, the nanoseconds derive from the version id, so that every version has a time of its
    own and a change of the same second still drops the kernel's pages.
    """
    created_ns, updated_ns = nanoseconds(memory)
    return Head(
        memory_id=memory.id,
        version_id=memory.memory_version_id,
        sha256=memory.content_sha256,
        size=memory.content_size_bytes,
        created_ns=created_ns if created_ns != updated_ns else updated_ns,  # one object for both
        updated_ns=spread_time(updated_ns, memory.memory_version_id, resolution_ns),
        media_type=memory.media_type,
        metadata=tuple(sorted(memory.metadata.items())),
    )


def spread_time(time: int, version_id: VersionId, resolution_ns: int) -> int:
    if resolution_ns < 1_000_000:
        return time
    return time - time % resolution_ns + inode_for(version_id) % resolution_ns


class Kind(Enum):
    """How a file relates to the store."""

    MEMORY = "memory"
    """It is a memory, or becomes one at its next commit."""
    SCRATCH = "scratch"
    """Its name says that it never is one."""
    SETTLING = "settling"
    """It looks temporary; it becomes a memory when it still stands a while after its last close."""


class Meta:
    """What chmod, chown and utimens set; None where nothing was set. Never sent to the store."""

    __slots__ = ("atime_ns", "gid", "mode", "mtime_ns", "uid")

    def __init__(
        self,
        mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
        mtime_ns: int | None = None,
        atime_ns: int | None = None,
    ) -> None:
        self.mode = mode
        """Permission bits, without the file type."""
        self.uid = uid
        self.gid = gid
        self.mtime_ns = mtime_ns
        self.atime_ns = atime_ns

    def update(self, change: "Meta") -> None:
        """Take over what `change` sets."""
        self.mode = self.mode if change.mode is None else change.mode
        self.uid = self.uid if change.uid is None else change.uid
        self.gid = self.gid if change.gid is None else change.gid
        self.mtime_ns = self.mtime_ns if change.mtime_ns is None else change.mtime_ns
        self.atime_ns = self.atime_ns if change.atime_ns is None else change.atime_ns

    def copy(self) -> "Meta":
        return Meta(self.mode, self.uid, self.gid, self.mtime_ns, self.atime_ns)

    @property
    def empty(self) -> bool:
        return (self.mode, self.uid, self.gid, self.mtime_ns, self.atime_ns) == (None,) * 5


class Node:
    """What files, directories and scratch directories of a store have in common.

    `number` is the inode number to show; `bound` the one by which the kernel knows the node now (see `memfs.fuse.inodes`), None
    when it does not. `handles` counts the open ones. A dead node has lost its name and lives for those who hold it open.
    """

    __slots__ = ("_segment", "bound", "ctime_ns", "dead", "handles", "meta", "name", "number", "parent", "volume")

    def __init__(self, volume: Any, name: str, parent: "Directory | None", number: Inode) -> None:
        self.volume = volume
        self.name = name
        self.parent = parent
        self.number = number
        self.bound: Inode | None = None
        self.handles = 0
        self.dead = False
        self.meta: Meta | None = None
        self.ctime_ns = 0
        self._segment: str | None = None

    @property
    def segment(self) -> str:
        """The node's name in the store; it differs from `name` where that is escaped."""
        return self.name if self._segment is None else self._segment

    @segment.setter
    def segment(self, segment: str) -> None:
        self._segment = None if segment == self.name else segment

    @property
    def path(self) -> str:
        """The path in the store; the root's is empty."""
        segments = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            segments.append(node.segment)
            node = node.parent
        segments.append("")
        return "/".join(reversed(segments))


class File(Node):
    """One file. Its bytes are those of `draft` when there is one, else of `shown`."""

    __slots__ = (
        "__weakref__",
        "_draft",
        "committed_at",
        "continues_park",
        "head",
        "held_number",
        "journal_key",
        "kind",
        "lag",
        "local_key",
        "lock",
        "memory_id",
        "open_handles",
        "park",
        "shown",
    )

    def __init__(self, volume: Any, name: str, parent: "Directory | None", number: Inode, kind: Kind = Kind.MEMORY) -> None:
        super().__init__(volume, name, parent, number)
        self.kind = kind
        self.head: Head | None = None
        """The memory; None while the store has none for this file."""
        self.shown: Head | None = None
        """The version whose size and times the kernel was last given: `read` serves it, so that no read is cut."""
        self._draft: Draft | None = None
        self.lag = 0
        """By how many bytes the file is longer than the kernel knows: appending began on a version that it was not told of."""
        self.park: Park | None = None
        """Set while this file, renamed to a backup name, may yet turn out to be a plain rename."""
        self.continues_park = False
        """The journal says that the memory is to be deleted, until this file, which continues it, is stored."""
        self.held_number: Inode | None = None
        """The number that it showed when it lost its name while it was open."""
        self.memory_id: MemoryId | None = None
        """The id that the memory will get, where this side chooses it; meant for a file without a head."""
        self.journal_key: int | None = None
        """The row of the journal that keeps the draft."""
        self.local_key: int | None = None
        """The local file that holds the bytes of a scratch or settling file."""
        self.open_handles: tuple[Handle, ...] = ()
        """Not a list, which would take memory in each of a hundred thousand files that nobody has open."""
        self.lock: trio.Lock | None = None
        self.committed_at = NEVER
        """When the last commit ended, on trio's clock."""

    @property
    def draft(self) -> "Draft | None":
        return self._draft

    @draft.setter
    def draft(self, draft: "Draft | None") -> None:
        self._draft = draft
        if draft is None:
            self.volume.drafted.discard(self)
        else:
            self.volume.drafted.add(self)

    @property
    def dirty(self) -> bool:
        """Whether it has bytes that are not stored."""
        return self._draft is not None and self._draft.dirty

    @property
    def shown_number(self) -> Inode:
        """The number that stat(2) shows: while it is open, the one it was opened by."""
        return self.bound if self.handles and self.bound is not None else self.number

    @property
    def unflushed(self) -> bool:
        """Whether a handle holds changes (a creation and a truncation too) that no flush or release has dealt with."""
        return any(handle.wrote or handle.fresh for handle in self.open_handles)

    def locked(self) -> trio.Lock:
        """Held by whoever changes this file in the store: one commit, rename or delete at a time."""
        if self.lock is None:
            self.lock = trio.Lock()
        return self.lock


class Directory(Node):
    """One directory of the store's tree."""

    __slots__ = ("children", "directories", "kept", "listed", "listing", "mtime_ns", "read_at", "touched", "walked")

    def __init__(self, volume: Any, name: str, parent: "Directory | None", number: Inode) -> None:
        super().__init__(volume, name, parent, number)
        self.children: dict[str, Node] = {}
        self.directories = 0
        """How many of the children are directories."""
        self.listed = False
        self.kept = False
        """It stays although nothing lies below it, until rmdir."""
        self.listing: trio.Lock | None = None
        self.walked = 0
        """How many listings of all below, at any depth, are under way."""
        self.touched: tuple[set[str], ...] = ()
        """For each listing under way the names that changed since it began: what it says about them is old."""
        self.mtime_ns = 0
        self.read_at = NEVER
        """When somebody last read its entries, on trio's clock."""

    def touch(self, name: str) -> None:
        for names in self.touched:
            names.add(name)


class Tree:
    """All nodes of one store that the mount knows, found by path or by memory id."""

    def __init__(self, volume: Any, store_id: StoreId) -> None:
        self.volume = volume
        self.store_id = store_id
        self.root = Directory(volume, "", None, inode_for(f"{store_id}:/"))
        self.root.kept = True
        self.by_id: dict[MemoryId, File] = {}
        self.changes = 0
        """Grows whenever a name comes or goes, and whenever another session's head becomes known."""

    # Looking

    def find(self, path: str) -> Node | None:
        """The known node at a store path; None when it is not known, whether or not it exists."""
        node: Node = self.root
        for segment in path.split("/")[1:]:
            if not segment:
                continue
            if not isinstance(node, Directory):
                return None
            child = node.children.get(segment)
            if child is None:
                return None
            node = child
        return node

    def on_way(self, path: str) -> Iterator[Directory]:
        """The known directories from the root to the one that holds `path`, as far as they are known."""
        directory = self.root
        yield directory
        for segment in path.split("/")[1:-1]:
            child = directory.children.get(segment)
            if not isinstance(child, Directory):
                return
            directory = child
            yield directory

    def unsure(self, path: str) -> Directory | None:
        """The directory above the first one on the way to `path` that was never listed; None where all is known.

        Nobody has seen what lies in that one: when a memory there is gone, it may be gone itself.
        """
        return next((above for above, below in pairwise(self.on_way(path)) if not below.listed and not below.kept), None)

    def would_show(self, path: str) -> bool:
        """Whether a memory at `path` would be known here, or the directory on the way to it that is not known."""
        *_, last = self.on_way(path)
        return last.listed

    def files_below(self, directory: Directory) -> Iterator[File]:
        for node in list(directory.children.values()):
            if isinstance(node, Directory):
                yield from self.files_below(node)
            elif isinstance(node, File):
                yield node

    def directories_below(self, directory: Directory) -> Iterator[Directory]:
        for node in list(directory.children.values()):
            if isinstance(node, Directory):
                yield node
                yield from self.directories_below(node)

    # Changing

    def directory_number(self, path: str) -> Inode:
        return inode_for(f"{self.store_id}:{path}")

    def make_directory(self, parent: Directory, name: str) -> Directory:
        """A new directory without children."""
        directory = Directory(self.volume, name, parent, Inode(0))
        self.add(parent, name, directory)
        directory.number = self.directory_number(directory.path)
        return directory

    def ensure_directory(self, parent: Directory, segment: str) -> Directory:
        """The child directory `segment`, made when it is not there; a file of that name makes way under an escaped name."""
        name = escape(segment) if _needs_escape(parent, segment) else segment
        child = parent.children.get(name)
        if isinstance(child, Directory):
            return child
        if child is not None:
            self.detach(child)
        made = self.make_directory(parent, name)
        made.segment = segment
        if child is not None:
            self.add(parent, escape(f"{segment}/"), child)
            child.segment = segment
        return made

    def add(self, parent: Directory, name: str, node: Node) -> None:
        replaced = parent.children.get(name)
        parent.directories += (not isinstance(node, File)) - (replaced is not None and not isinstance(replaced, File))
        node.parent = parent
        node.name = name
        parent.children[name] = node
        parent.touch(name)
        self.changes += 1

    def detach(self, node: Node) -> None:
        """Take the node's name away; it keeps `parent`, so that its path can still be told."""
        parent = node.parent
        if parent is not None and parent.children.get(node.name) is node:
            del parent.children[node.name]
            parent.directories -= not isinstance(node, File)
            parent.touch(node.name)
            self.changes += 1
            if isinstance(node, Directory):
                self._show_hidden(parent, node.segment)

    def _show_hidden(self, parent: Directory, segment: str) -> None:
        """A file that was shown under an escaped name beside the directory `segment`, which is gone, has its own name now."""
        hidden = parent.children.get(escape(f"{segment}/"))
        if isinstance(hidden, File) and hidden.segment == segment and segment not in parent.children:
            self.detach(hidden)
            self.add(parent, segment, hidden)
            hidden.segment = segment

    def place_name(self, parent: Directory, segment: str) -> str:
        """The name under which a memory with this last segment is shown in `parent`."""
        if _needs_escape(parent, segment):
            return escape(segment)
        if isinstance(parent.children.get(segment), Directory):
            return escape(f"{segment}/")
        return segment

    def prune(self, directory: Directory) -> None:
        """Remove directories that exist no more: nothing below, known to be complete, and not kept."""
        while directory.parent is not None and not directory.children and directory.listed and not directory.kept:
            parent = directory.parent
            self.detach(directory)
            directory.dead = True
            directory = parent


def _needs_escape(parent: Directory, segment: str) -> bool:
    if parent.parent is None and segment in HIDDEN_NAMES:
        return True
    return len(segment) > NAME_MAX // 4 and len(segment.encode()) > NAME_MAX
