"""An open file description, as the rules of one save, one version need it."""

import os

from memfs.replica.tree import File


class Handle:
    """One open of one file.

    `fresh`: it created the file or cut it to nothing, and nothing else. `wrote`: bytes went through it since the last flush
    that dealt with them. `flushed`: a flush of it committed. `shared`: it was written to after that, so several processes use
    it.
    """

    __slots__ = ("appending", "file", "flushed", "fresh", "mappable", "process", "shared", "writable", "wrote")

    def __init__(self, file: File, flags: int, process: int) -> None:
        self.file = file
        self.process = process
        """The thread that opened it."""
        self.writable = flags & os.O_ACCMODE != os.O_RDONLY
        self.appending = bool(flags & os.O_APPEND)
        self.mappable = flags & os.O_ACCMODE == os.O_RDWR
        """Whether pages of a shared mapping may be written through it; it stays open as long as the mapping."""
        self.fresh = False
        self.wrote = False
        self.flushed = False
        self.shared = False
