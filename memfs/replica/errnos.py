"""The one place that knows which errno each error is: for who called, and for `.memfs/errors` where nobody waits."""

import errno

from memfs.model import errors as model
from memfs.replica import errors as replica

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


def errno_of(error: BaseException) -> int:
    """The errno for an error; EIO for a surprise."""
    if isinstance(error, model.MemfsError):
        for kind, number in _TABLE:
            if isinstance(error, kind):
                return number
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    return errno.EIO


def name_of(number: int) -> str:
    """The name of an errno, such as ``EIO``."""
    return errno.errorcode.get(number, str(number))


def words_of(error: BaseException, where: str) -> str:
    """What happened, in one sentence without content or credentials; `where` it did is told of a surprise."""
    if isinstance(error, model.MemfsError):
        return error.message
    if isinstance(error, OSError):
        return error.strerror or name_of(errno_of(error))
    return f"memfs has a defect: {type(error).__name__} in {where}"
