"""What can go wrong in a file system, beside what can go wrong with a store."""

from memfs.model.errors import MemfsError


class NoSuchName(MemfsError):
    """Nothing has this name (any more)."""


class NameTaken(MemfsError):
    """Something has this name already."""


class IsDirectory(MemfsError):
    """A file was expected."""


class NotDirectory(MemfsError):
    """A directory was expected."""


class NotEmpty(MemfsError):
    """A directory that holds something cannot be removed or replaced."""


class InvalidArgument(MemfsError):
    """A call that makes no sense here."""


class CrossesBorder(MemfsError):
    """A rename between stores, or in or out of a scratch directory: `mv` copies and removes instead."""


class Busy(MemfsError):
    """Somebody else just changed what was to be removed or replaced; look again, then repeat."""


class Conflict(MemfsError):
    """Somebody else changed the same lines: the store has theirs, ours stands beside it."""


class DrainIncomplete(MemfsError):
    """Something written here could not be stored before the mount ended; it is kept for the next mount."""


class StateFull(MemfsError):
    """The disk that holds the local state has no room: what is written cannot be kept safe until it is stored."""


class CutShort(MemfsError):
    """The disk that holds the local state filled up within a save: what was taken of it until then is not the file."""


class StateFailed(MemfsError):
    """The local state cannot be read or written."""
