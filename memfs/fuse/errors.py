"""What the kernel gets for what a handler raised. Every errno given to a caller leaves its sentence."""

import errno
import logging
from collections import Counter

import pyfuse3

from memfs.model import errors as model
from memfs.replica.errnos import errno_of, name_of, words_of
from memfs.replica.notices import Notices

log = logging.getLogger(__name__)

_EXPECTED = frozenset({errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.EXDEV})
"""What programs probe for all day: an answer, not an event worth a line. But `NotFound` is one: something is gone."""


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
        name = name_of(number)
        self.counts[name] += 1
        if not isinstance(error, model.MemfsError | OSError):
            log.exception("%s failed", operation, exc_info=error)
        told = isinstance(error, model.NotFound) or (isinstance(error, model.PathConflict) and operation != "lookup")
        if number not in _EXPECTED or told:
            self.notices.error(store=store, path=path, operation=operation, error=name, message=words_of(error, operation))
        return pyfuse3.FUSEError(number)
