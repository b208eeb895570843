"""What all FUSE operations of a mount share: nodes, open handles, attributes, and the wrapper that no exception escapes."""

import contextlib
import errno
import functools
import itertools
import os
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

import pyfuse3

from memfs.fuse.attributes import Attributes
from memfs.fuse.errors import Translator
from memfs.fuse.inodes import InodeTable
from memfs.fuse.options import MountOptions
from memfs.fuse.root import MountRoot, ViewEntry
from memfs.model.errors import ReadOnly, Unavailable
from memfs.replica.handles import Handle
from memfs.replica.replica import Replica
from memfs.replica.scratchtree import ScratchHandle, ScratchNode
from memfs.replica.tree import Directory, File, Node, inode_for
from memfs.views.tree import Content, ViewDirectory, ViewFile

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class DirectoryHandle:
    """An open directory: one picture of its entries from the first readdir (or the last rewind) to the end."""

    __slots__ = ("entries", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.entries: list[tuple[bytes, Node]] | None = None


class ViewHandle:
    __slots__ = ("content", "node")

    def __init__(self, node: ViewEntry, content: Content) -> None:
        self.node = node
        self.content = content


OpenHandle = Handle | ScratchHandle | DirectoryHandle | ViewHandle


class Stale(Exception):
    """The kernel asks for an inode that it was told of by an earlier daemon, or has forgotten."""


def operation(
    handler: Callable[Parameters, Coroutine[Any, Any, Result]],
) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
    """Wrap a handler: whatever it raises becomes an errno. An exception of another kind would end the mount."""
    name = handler.__name__

    @functools.wraps(handler)
    async def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return await handler(*args, **kwargs)
        except pyfuse3.FUSEError:
            raise
        except Stale:
            raise pyfuse3.FUSEError(errno.ESTALE) from None
        except Exception as error:  # noqa: BLE001 - a mount must outlive every surprise
            base: Any = args[0]
            raise base.failed(error, name, args[1:]) from None

    return wrapped


def unanswered(
    handler: Callable[Parameters, Coroutine[Any, Any, None]],
) -> Callable[Parameters, Coroutine[Any, Any, None]]:
    """Wrap a handler that the kernel hears nothing from: whatever it raises is noted, and nothing else happens."""
    name = handler.__name__

    @functools.wraps(handler)
    async def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            await handler(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a mount must outlive every surprise
            base: Any = args[0]
            base.failed(error, name, args[1:])

    return wrapped


class Base(pyfuse3.Operations):
    """State and helpers; `memfs.fuse.operations` has the operations themselves."""

    supports_dot_lookup = True
    enable_writeback_cache = False

    def __init__(self, options: MountOptions, root: MountRoot, translator: Translator) -> None:
        super().__init__()
        self.options = options
        self.root = root
        self.inodes = InodeTable(root)
        self.handles: dict[int, OpenHandle] = {}
        self._next_handle = itertools.count(1)
        self.translator = translator
        self.default_uid = os.getuid() if options.uid is None else options.uid
        self.default_gid = os.getgid() if options.gid is None else options.gid
        self.attributes = Attributes(
            uid=self.default_uid, gid=self.default_gid, umask=options.umask, timeout=options.max_staleness / 2
        )
        self._view_entries: dict[str, ViewEntry] = {}
        self.store_views: dict[str, dict[str, ViewDirectory | ViewFile]] = {}
        """The hidden views in each store's root, by the store's directory name."""

    # Nodes and handles

    def node(self, inode: int) -> Node:
        """Raises `Stale` for an inode that nobody knows."""
        node = self.inodes.get(inode)
        if node is None:
            raise Stale
        return node

    def new_handle(self, handle: OpenHandle) -> pyfuse3.FileHandleT:
        number = next(self._next_handle)
        self.handles[number] = handle
        return pyfuse3.FileHandleT(number)

    def attributes_of(self, node: Node) -> pyfuse3.EntryAttributes:
        """What stat(2) shows of a node that the kernel knows.

        While somebody holds open what had the same number before (a file that was replaced), the node shows the one by which
        the kernel knows it, and keeps that while it is open itself: programs that follow a name (`tail -F`) tell by the number
        that it means another file now.
        """
        entry = self.attributes.of(node)
        if not isinstance(node, File) or node.bound is None:
            return entry
        if node.handles or (not node.dead and node.number in node.volume.attached.held):
            entry.st_ino = pyfuse3.InodeT(node.bound)
        return entry

    def answer(self, node: Node, name: str) -> pyfuse3.EntryAttributes:
        """Attributes that name `node` to the kernel, which will have to forget it once more."""
        inode = self.inodes.bind(node)
        entry = self.attributes.of(node, name)
        entry.st_ino = pyfuse3.InodeT(inode)
        self.inodes.count(inode)
        return entry

    def view_entry(self, view: ViewDirectory | ViewFile, above: Node, name: str) -> ViewEntry:
        """The node for a view's node, found under `name`; the same one while the kernel knows it."""
        entry = self._view_entries.get(view.key)
        if entry is None:
            entry = ViewEntry(view, inode_for(f"view:{view.key}"), above)
            self._view_entries[view.key] = entry
        entry.view = view
        entry.name = name
        return entry

    def drop(self, node: Node | None) -> None:
        """The kernel knows the node no more by one of its numbers."""
        if node is None or node.bound is not None:
            return
        if isinstance(node, ViewEntry):
            self._view_entries.pop(node.view.key, None)
        elif isinstance(node, ScratchNode):
            node.tree.forget(node)

    def attributes_changed(self, node: Node) -> None:
        """Make the kernel ask again for a node's attributes; takes no lock there, so it is safe anywhere."""
        if node.bound is not None:
            with contextlib.suppress(OSError):  # the kernel has forgotten it already
                pyfuse3.invalidate_inode(pyfuse3.InodeT(node.bound), attr_only=True)

    # Errors

    def failed(self, error: Exception, name: str, args: tuple[Any, ...]) -> pyfuse3.FUSEError:
        store, path = self._where(name, args)
        if isinstance(error, Unavailable) and store in self.root.replicas:
            self.root.replicas[store].attached.doubtful = True
        return self.translator.translate(error, name, store, path)

    def _where(self, name: str, args: tuple[Any, ...]) -> tuple[str, str]:
        """Which store and path an operation was about, as well as can be told."""
        if not args or not isinstance(args[0], int):
            return "", ""
        node: Node | None
        if name in ("read", "write", "flush", "release", "fsync", "readdir", "releasedir", "fsyncdir"):
            handle = self.handles.get(args[0])
            node = handle.file if isinstance(handle, Handle) else handle.node if handle is not None else None
        else:
            node = self.inodes.get(args[0])
        child = f"/{os.fsdecode(args[1])}" if len(args) > 1 and isinstance(args[1], bytes) else ""
        while isinstance(node, ViewEntry):
            child = f"/{node.name}{child}"
            node = node.above
        if isinstance(node, File | Directory):
            return node.volume.name, (node.path + child).encode("utf-8", "replace").decode()
        return "", child.encode("utf-8", "replace").decode()

    # Rules that several operations need

    def replica_of(self, node: Node) -> Replica:
        """The replica that a file or directory belongs to."""
        replica: Replica = node.volume
        return replica

    @staticmethod
    def refuse(what: str) -> ReadOnly:
        return ReadOnly(f"{what} is read-only: write inside a store's directory")
