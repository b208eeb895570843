"""A scratch directory: whatever a tool puts there, of any size and kind, on this machine only, across remounts.

Its content is a real directory of the state directory, and every operation is the same operation there. So modes, times and
renames need no code, and it outlives the daemon by itself.
"""

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from memfs.model.errors import InvalidPath, NotSupported, PathTooLong
from memfs.replica.errors import NotEmpty
from memfs.replica.scratch import SYMLINK_DIRECTORIES
from memfs.replica.tree import NAME_MAX, Directory, Inode, Meta, Node, inode_for

if TYPE_CHECKING:
    from memfs.replica.attached import Attached


class ScratchNode(Node):
    """A file, directory or symbolic link at or below a scratch directory."""

    __slots__ = ("above", "open_descriptors", "tree")

    def __init__(self, tree: "ScratchTree", name: str, above: "ScratchNode | None", number: Inode) -> None:
        super().__init__(tree, name, None, number)
        self.tree = tree
        self.above = above
        """The directory that holds it; None for the scratch directory itself, whose `parent` is in the store's tree."""
        self.open_descriptors: list[int] = []

    @property
    def real_path(self) -> str:
        segments = []
        node: ScratchNode | None = self
        while node is not None and node.above is not None:
            segments.append(node.name)
            node = node.above
        return "/".join([self.tree.directory, *reversed(segments)])

    @property
    def hidden_path(self) -> str:
        """The path in the store's tree that the node would have."""
        return f"{self.tree.root.path}{self.real_path[len(self.tree.directory) :]}"

    def status(self) -> os.stat_result:
        """What lstat(2) says of it, also after it was unlinked while somebody holds it open."""
        if self.open_descriptors:
            return os.fstat(self.open_descriptors[0])
        return os.lstat(self.real_path)

    def set_meta(self, change: Meta) -> None:
        path: str | int = self.open_descriptors[0] if self.open_descriptors else self.real_path
        follow = isinstance(path, int)
        if change.uid is not None or change.gid is not None:
            with contextlib.suppress(PermissionError):  # only root can keep the owners of an archive
                os.chown(
                    path,
                    -1 if change.uid is None else change.uid,
                    -1 if change.gid is None else change.gid,
                    follow_symlinks=follow,
                )
        if change.mode is not None and not stat.S_ISLNK(self.status().st_mode):
            os.chmod(path, change.mode & 0o7777)
        if change.atime_ns is not None or change.mtime_ns is not None:
            status = self.status()
            atime_ns = status.st_atime_ns if change.atime_ns is None else change.atime_ns
            mtime_ns = status.st_mtime_ns if change.mtime_ns is None else change.mtime_ns
            os.utime(path, ns=(atime_ns, mtime_ns), follow_symlinks=follow)


class ScratchHandle:
    __slots__ = ("descriptor", "node")

    def __init__(self, node: ScratchNode, descriptor: int) -> None:
        self.node = node
        self.descriptor = descriptor


class ScratchTree:
    """One scratch directory of a store. All methods are those of a file system and raise `OSError` as the real one does."""

    def __init__(self, attached: "Attached", key: int, name: str, parent: Directory) -> None:
        self.attached = attached
        self.key = key
        self.directory = os.fspath(attached.journal.tree_path(key))
        self.symlinks = name in SYMLINK_DIRECTORIES
        self.nodes: dict[int, ScratchNode] = {}
        self.root = ScratchNode(self, name, None, self._number(os.lstat(self.directory).st_ino))
        self.root.parent = parent

    def _number(self, real: int) -> Inode:
        return inode_for(f"{self.attached.store_id}:scratch:{self.key}:{real}")

    @staticmethod
    def check_name(name: bytes) -> str:
        """A name within a scratch directory: anything that the local file system takes."""
        if len(name) > NAME_MAX:
            raise PathTooLong(f"a name has at most {NAME_MAX} bytes")
        if name in (b"", b".", b"..") or b"/" in name:
            raise InvalidPath("not a name")
        return os.fsdecode(name)

    def _node(self, directory: ScratchNode, name: str, status: os.stat_result) -> ScratchNode:
        node = self.nodes.get(status.st_ino)
        if node is None or node.dead:
            node = ScratchNode(self, name, directory, self._number(status.st_ino))
            self.nodes[status.st_ino] = node
        node.above = directory
        node.name = name
        return node

    def forget(self, node: ScratchNode) -> None:
        """The kernel knows the node no more."""
        for real, known in list(self.nodes.items()):
            if known is node:
                del self.nodes[real]

    def check_empty(self) -> None:
        if os.listdir(self.directory):
            raise NotEmpty(f"{self.root.name} is not empty")

    def lookup(self, directory: ScratchNode, name: bytes) -> ScratchNode | None:
        text = self.check_name(name)
        try:
            return self._node(directory, text, os.lstat(f"{directory.real_path}/{text}"))
        except FileNotFoundError:
            return None

    def entries(self, directory: ScratchNode) -> list[tuple[str, ScratchNode]]:
        with os.scandir(directory.real_path) as entries:
            return [(entry.name, self._node(directory, entry.name, entry.stat(follow_symlinks=False))) for entry in entries]

    def create(self, directory: ScratchNode, name: bytes, mode: int, flags: int) -> ScratchHandle:
        self.attached.check_writable()
        text = self.check_name(name)
        path = f"{directory.real_path}/{text}"
        descriptor = os.open(path, (flags & ~os.O_APPEND) | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, mode & 0o7777)
        node = self._node(directory, text, os.fstat(descriptor))
        node.open_descriptors.append(descriptor)
        node.handles += 1
        return ScratchHandle(node, descriptor)

    def open(self, node: ScratchNode, flags: int) -> ScratchHandle:
        if flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_TRUNC:
            self.attached.check_writable()
        wanted = flags & (os.O_ACCMODE | os.O_TRUNC)
        if node.open_descriptors and node.dead:
            descriptor = os.open(f"/proc/self/fd/{node.open_descriptors[0]}", wanted | os.O_CLOEXEC)
        else:
            descriptor = os.open(node.real_path, wanted | os.O_NOFOLLOW | os.O_CLOEXEC)
        node.open_descriptors.append(descriptor)
        node.handles += 1
        return ScratchHandle(node, descriptor)

    def release(self, handle: ScratchHandle) -> None:
        handle.node.open_descriptors.remove(handle.descriptor)
        handle.node.handles -= 1
        os.close(handle.descriptor)

    def make_directory(self, directory: ScratchNode, name: bytes, mode: int) -> ScratchNode:
        self.attached.check_writable()
        text = self.check_name(name)
        path = f"{directory.real_path}/{text}"
        os.mkdir(path, 0o700)
        os.chmod(path, mode & 0o7777)
        return self._node(directory, text, os.lstat(path))

    def symlink(self, directory: ScratchNode, name: bytes, target: bytes) -> ScratchNode:
        self.attached.check_writable()
        if not self.symlinks:
            raise NotSupported("symbolic links exist in node_modules and .venv only; a store has none")
        path = f"{directory.real_path}/{self.check_name(name)}"
        os.symlink(os.fsdecode(target), path)
        return self._node(directory, self.check_name(name), os.lstat(path))

    def remove(self, directory: ScratchNode, name: bytes, *, is_directory: bool) -> None:
        self.attached.check_writable()
        text = self.check_name(name)
        path = f"{directory.real_path}/{text}"
        node = self.nodes.pop(os.lstat(path).st_ino, None)
        try:
            if is_directory:
                os.rmdir(path)
            else:
                os.unlink(path)
        except OSError:
            if node is not None:
                self.nodes[os.lstat(path).st_ino] = node
            raise
        if node is not None:
            node.dead = True

    def rename(
        self, old_directory: ScratchNode, old_name: bytes, new_directory: ScratchNode, new_name: bytes, *, replace: bool
    ) -> None:
        self.attached.check_writable()
        old, new = self.check_name(old_name), self.check_name(new_name)
        old_path, new_path = f"{old_directory.real_path}/{old}", f"{new_directory.real_path}/{new}"
        try:
            replaced: os.stat_result | None = os.lstat(new_path)
        except FileNotFoundError:
            replaced = None
        if replaced is not None and not replace:
            raise FileExistsError(17, "exists already")
        os.rename(old_path, new_path)
        if replaced is not None:
            node = self.nodes.get(replaced.st_ino)
            if node is not None and os.lstat(new_path).st_ino != replaced.st_ino:
                node.dead = True
                del self.nodes[replaced.st_ino]
        self._node(new_directory, new, os.lstat(new_path))
