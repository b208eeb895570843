"""The one place that knows both worlds: which errno each error becomes. Every errno given to a caller leaves its sentence."""

import errno
import logging
from collections import Counter

import pyfuse3

from memfs.model import errors as model
from memfs.replica import errors as replica
from memfs.replica.notices import Notices

log = logging.getLogger(__name__)

# The first class that an error is an instance of decides, so the special ones stand before the general.
_TABLE: tuple[tuple[type[model.MemfsError], int], ...] = (
    (replica.NoSuchName, errno.ENOENT),
    (replica.NameTaken, errno.EEXIST),
    (replica.IsDirectory, errno.EISDIR),
    (replica.NotDirectory, errno.ENOTDIR),
    (replica.NotEmpty, errno.ENOTEMPTY),
    (replica.InvalidArgument, errno.EINVAL),
    (replica.CrossesBorder, errno.EXDEV),
    (replica.Busy, errno.EBUSY),
    (replica.Conflict, errno.ESTALE),
    (replica.StateFull, errno.ENOSPC),
    (replica.CutShort, errno.ENOSPC),
    (replica.StateFailed, errno.EIO),
    (model.PathTooLong, errno.ENAMETOOLONG),
    (model.PathNotUnicode, errno.EILSEQ),
    (model.InvalidPath, errno.EINVAL),
    (model.ContentTooLarge, errno.EFBIG),
    (model.ContentNotText, errno.EILSEQ),
    (model.StoreFull, errno.ENOSPC),
    (model.MetadataFull, errno.ENOSPC),
    (model.MetadataTooLong, errno.ERANGE),
    (model.StoreArchived, errno.EROFS),
    (model.ReadOnly, errno.EROFS),
    (model.Unauthenticated, errno.EACCES),
    (model.PermissionDenied, errno.EACCES),
    (model.Redacted, errno.EACCES),
    (model.NotFound, errno.ENOENT),
    (model.PathConflict, errno.EEXIST),
    (model.PreconditionFailed, errno.EBUSY),
    (model.ConcurrentModification, errno.EBUSY),
    (model.NotSupported, errno.EPERM),
    (model.OutOfSpace, errno.ENOSPC),
    (model.Unavailable, errno.EIO),
    (model.InvalidRequest, errno.EINVAL),
    (model.MemfsError, errno.EIO),
)

_EXPECTED = frozenset({errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.EXDEV})
"""What programs probe for all day: an answer, not an event worth a line. But `NotFound` is one: something is gone."""


def errno_of(error: BaseException) -> int:
    """The errno for an error; EIO for a surprise."""
    if isinstance(error, model.MemfsError):
        for kind, number in _TABLE:
            if isinstance(error, kind):
                return number
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    return errno.EIO


class Translator:
    """Turns what a handler raised into what the kernel gets, and notes it."""

    def __init__(self, notices: Notices) -> None:
        self.notices = notices
        self.counts: Counter[str] = Counter()

    def surprised(self, error: Exception) -> None:
        """Note a defect of memfs in what no caller waits for."""
        message = f"memfs has a defect: {type(error).__name__} in a task of the mount"
        self.notices.error(store="", path="", operation="background", error="EIO", message=message)

    def translate(self, error: Exception, operation: str, store: str, path: str) -> pyfuse3.FUSEError:
        number = errno_of(error)
        name = errno.errorcode.get(number, str(number))
        self.counts[name] += 1
        if isinstance(error, model.MemfsError):
            message = error.message
        elif isinstance(error, OSError):
            message = error.strerror or name
        else:
            log.exception("%s failed", operation, exc_info=error)
            message = f"memfs has a defect: {type(error).__name__} in {operation}"
        told = isinstance(error, model.NotFound) or (isinstance(error, model.PathConflict) and operation != "lookup")
        if number not in _EXPECTED or told:
            self.notices.error(store=store, path=path, operation=operation, error=name, message=message)
        return pyfuse3.FUSEError(number)
