"""What stat(2) shows of each node."""

import os
import stat

import pyfuse3

from memfs.fuse.root import MountRoot, ViewEntry
from memfs.replica.scratchtree import ScratchNode
from memfs.replica.tree import Directory, File, Meta, Node
from memfs.views.tree import ViewDirectory

BLOCK = 512
DIRECTORY_SIZE = 4096
IO_SIZE = 131_072
"""What tools should read and write at a time: one FUSE request."""


class Attributes:
    """Makes the kernel's attributes of nodes, with the owner, modes and time-outs of one mount."""

    def __init__(self, *, uid: int, gid: int, umask: int, timeout: float) -> None:
        self.uid = uid
        self.gid = gid
        self.file_mode = stat.S_IFREG | 0o666 & ~umask
        self.directory_mode = stat.S_IFDIR | 0o777 & ~umask
        self.view_file_mode = stat.S_IFREG | 0o444
        self.view_directory_mode = stat.S_IFDIR | 0o555
        self.timeout = timeout

    def of(self, node: Node, name: str = "") -> pyfuse3.EntryAttributes:
        """The attributes of `node`; a file's content is what readers get from now on (`File.shown`).

        `name`: the one it was looked up by; the kernel must ask for a non-ASCII one each time, since it has two spellings.
        """
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = node.number
        entry.st_uid = self.uid
        entry.st_gid = self.gid
        entry.st_blksize = IO_SIZE
        # Every entry of every listing comes through here, so that a tenth of a microsecond is seen in the time of `find`.
        if isinstance(node, File):
            entry.attr_timeout = seconds = node.volume.feed.kernel_seconds
            entry.entry_timeout = seconds if name.isascii() else 0
            self._file(node, entry)
            return entry
        entry.attr_timeout = seconds = node.volume.feed.kernel_seconds if isinstance(node, Directory) else self.timeout
        entry.entry_timeout = seconds if name.isascii() else 0
        if isinstance(node, Directory):
            self._directory(node, entry)
        elif isinstance(node, ScratchNode):
            self._scratch(node, entry)
        elif isinstance(node, ViewEntry):
            self._view(node, entry)
        else:
            assert isinstance(node, MountRoot)
            entry.st_mode = self.view_directory_mode
            entry.st_nlink = 2 + len(node.replicas)
            entry.st_atime_ns = entry.st_mtime_ns = entry.st_ctime_ns = node.created_ns
        return entry

    @staticmethod
    def _with_meta(meta: Meta, entry: pyfuse3.EntryAttributes, mode: int, mtime: int) -> tuple[int, int, int]:
        """Mode, mtime and atime of a node on which `meta` was set; the owner goes into `entry`."""
        if meta.mode is not None:
            mode = stat.S_IFMT(mode) | meta.mode
        if meta.uid is not None:
            entry.st_uid = meta.uid
        if meta.gid is not None:
            entry.st_gid = meta.gid
        if meta.mtime_ns is not None:
            mtime = meta.mtime_ns
        return mode, mtime, mtime if meta.atime_ns is None else meta.atime_ns

    def _file(self, file: File, entry: pyfuse3.EntryAttributes) -> None:
        file.lag = 0
        draft = file.draft
        if draft is not None:
            size = draft.buffer.size
            mtime = draft.mtime_ns
        else:
            head = file.head if not file.dead or file.shown is None else file.shown
            file.shown = head
            size = head.size if head is not None else 0
            mtime = head.updated_ns if head is not None else 0
        mode = self.file_mode
        atime = mtime
        ctime = file.ctime_ns
        entry.st_ctime_ns = ctime if ctime > mtime else mtime
        if file.meta is not None:
            mode, mtime, atime = self._with_meta(file.meta, entry, mode, mtime)
        entry.st_mode = mode & ~0o222 if file.volume.attached.read_only else mode
        entry.st_nlink = 0 if file.dead else 1
        entry.st_size = size
        entry.st_blocks = (size + BLOCK - 1) // BLOCK
        entry.st_mtime_ns = mtime
        entry.st_atime_ns = atime

    def _directory(self, directory: Directory, entry: pyfuse3.EntryAttributes) -> None:
        mtime = directory.mtime_ns or directory.volume.created_ns
        mode = self.directory_mode
        atime = mtime
        if directory.meta is not None:
            mode, mtime, atime = self._with_meta(directory.meta, entry, mode, mtime)
        entry.st_mode = mode & ~0o222 if directory.volume.attached.read_only else mode
        # Two and one for each directory below; one is how file systems say that they have not counted.
        entry.st_nlink = 0 if directory.dead else 2 + directory.directories if directory.listed else 1
        entry.st_size = DIRECTORY_SIZE
        entry.st_blocks = DIRECTORY_SIZE // BLOCK
        entry.st_mtime_ns = mtime
        entry.st_atime_ns = atime
        entry.st_ctime_ns = directory.ctime_ns or mtime

    def _scratch(self, node: ScratchNode, entry: pyfuse3.EntryAttributes) -> None:
        status = node.status()
        entry.st_mode = status.st_mode
        entry.st_nlink = 0 if node.dead else status.st_nlink
        if status.st_uid != os.geteuid():
            entry.st_uid = status.st_uid
        if status.st_gid != os.getegid():
            entry.st_gid = status.st_gid
        entry.st_size = status.st_size
        entry.st_blocks = status.st_blocks
        entry.st_mtime_ns = status.st_mtime_ns
        entry.st_atime_ns = status.st_atime_ns
        entry.st_ctime_ns = status.st_ctime_ns

    def _view(self, node: ViewEntry, entry: pyfuse3.EntryAttributes) -> None:
        view = node.view
        if isinstance(view, ViewDirectory):
            entry.st_mode = self.view_directory_mode
            entry.st_nlink = 2
        else:
            entry.st_mode = self.view_file_mode
            entry.st_nlink = 1
            entry.st_size = view.size
            entry.st_blocks = (view.size + BLOCK - 1) // BLOCK
        if view.timeout is not None:
            entry.attr_timeout = entry.entry_timeout = view.timeout
        entry.st_mtime_ns = entry.st_atime_ns = view.mtime_ns
        entry.st_ctime_ns = view.ctime_ns
