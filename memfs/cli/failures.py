"""What a person reads of an error: one sentence, what happened and what to do next."""

import errno

from memfs.model.errors import MemfsError, RateLimited, ServiceFault, Unreachable

CHECK_SERVICE = "check $MEMFS_URL or --url, and that the service runs and can be reached from here"

_STEPS = {
    errno.ENOSPC: "free some space on that disk, then try again",
    errno.EDQUOT: "free some of your space on that disk, then try again",
    errno.ENOENT: "give a place that exists",
    errno.ENOTDIR: "give a place below a directory",
    errno.EACCES: "give a place of yours, or ask its owner",
    errno.EPERM: "give a place of yours, or ask its owner",
    errno.EROFS: "give a place that can be written to",
}


def told(error: BaseException) -> str | None:
    """The sentence about `error`, also about one inside a group of one; None: nobody foresaw it, it is a bug."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror is not None:
        # The machine's doing, not a bug: a full disk, a directory that belongs to somebody else.
        place = f"{error.filename}: " if error.filename is not None else ""
        step = _STEPS.get(error.errno or 0)
        return f"{place}{error.strerror}" + (f": {step}" if step else "")
    if not isinstance(error, MemfsError):
        return None
    step = remedy(error)
    return f"{error.message}: {step}" if step else error.message


def remedy(error: MemfsError) -> str:
    """The next step for what only the command line knows how to mend; empty where the message itself says it."""
    if isinstance(error, Unreachable):
        return CHECK_SERVICE
    if isinstance(error, RateLimited):
        return "wait a minute, then try again"
    if isinstance(error, ServiceFault):
        return "try again later, or tell whoever runs the service"
    return ""
