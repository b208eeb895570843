"""What every read-only virtual tree shows to the file system: directories, files and their attributes.

The file system serves any view from these classes alone and knows none of them apart. A view holds no inode numbers and no open
files; it hands out nodes, and a node says all that a `stat` needs without asking anybody. Names are those that readdir shows,
already escaped.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

NO_XATTRS: Mapping[str, bytes] = {}


class ViewNode:
    """A directory or file of a view, as it was when it was looked up; a later look-up may give another object for it."""

    def __init__(
        self, key: str, *, mtime_ns: int, ctime_ns: int | None = None, xattrs: Mapping[str, bytes] = NO_XATTRS
    ) -> None:
        self.key = key
        """What the inode number derives from: unique in the mount, the same for the same thing after a remount. Nodes of one
        key are interchangeable; a file with another content, where it is immutable, has another key."""
        self.mtime_ns = mtime_ns
        """Nanoseconds since the epoch."""
        self.ctime_ns = mtime_ns if ctime_ns is None else ctime_ns
        self.xattrs = xattrs
        """Extended attributes by their full names (``user.memory.id``)."""

    @property
    def timeout(self) -> float | None:
        """For how many seconds the kernel may keep the name and the attributes; None: as long as those of a memory."""
        return None


class ViewDirectory(ViewNode, ABC):
    """A directory. Its methods raise `Unavailable` when a service must be asked and does not answer."""

    @abstractmethod
    async def lookup(self, name: str) -> "ViewDirectory | ViewFile | None":
        """The child of that name, None when there is none. Finds hidden children too, which `entries` leaves out."""

    @abstractmethod
    async def entries(self) -> "list[tuple[str, ViewDirectory | ViewFile]]":
        """All children that a listing shows, each name once, without ``.`` and ``..``; in an order that stays."""


class Content(Protocol):
    """The bytes of one opened file; those that are read stay the same until it is closed, whatever happens to the file."""

    async def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; none only at the end, and fewer only there or in a file that is `direct`.

        Raises as `ViewFile.open` does.
        """
        ...


class ViewFile(ViewNode, ABC):
    """A file that can only be read."""

    @property
    @abstractmethod
    def size(self) -> int:
        """In bytes, known without a request; 0 for one whose length shows only as it is read (see `direct`)."""

    @property
    def immutable(self) -> bool:
        """The content of this key never changes: the kernel may keep its pages from one open to the next.

        `open` must be called all the same: the file may have been redacted or pruned.
        """
        return False

    @property
    def direct(self) -> bool:
        """Reads must bypass the kernel's cache and `size`: every open may show another content, of another length."""
        return False

    @abstractmethod
    async def open(self) -> Content:
        """The content to read from; fetched here where it is not at hand.

        Raises `Redacted`, `NotFound` when the file is no more, and `Unavailable`.
        """


class BytesContent:
    """Content that is at hand."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    async def read(self, offset: int, size: int) -> bytes:
        return self.content[offset : offset + size]


class RenderedFile(ViewFile):
    """A file written anew for everyone who opens it; each open sees one state to the end."""

    def __init__(self, key: str, render: Callable[[], bytes], *, mtime_ns: int) -> None:
        super().__init__(key, mtime_ns=mtime_ns)
        self._render = render

    @property
    def size(self) -> int:
        return len(self._render())

    @property
    def direct(self) -> bool:
        return True

    @property
    def timeout(self) -> float:
        return 0.0

    async def open(self) -> Content:
        return BytesContent(self._render())
