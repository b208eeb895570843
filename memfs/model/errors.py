"""What can go wrong with a store or a mount, in the contract's words.

Every layer raises these; only `memfs.replica.errnos` knows which errno each becomes, and only `memfs.server` which status.
The message is one sentence for a person: what happened, and what to do about it. It never holds content or credentials.
"""

from memfs.model.ids import MemoryId


class MemfsError(Exception):
    """The root of every error that memfs raises on purpose."""

    maybe_applied: bool | None = None
    """Whether an earlier attempt of the call that was refused may have been applied, its answer lost; None: not known."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


class InvalidRequest(MemfsError):
    """The request can never succeed as it stands (400 `invalid_request_error`)."""


class InvalidPath(InvalidRequest):
    """A path that the contract's section 4.1 refuses."""


class PathTooLong(InvalidPath):
    """Over 1,024 bytes or 20 segments, or one name over 255 bytes on a mount."""


class PathNotUnicode(InvalidPath):
    """A path whose bytes are not UTF-8."""


class ContentTooLarge(InvalidRequest):
    """Content over 102,400 bytes (section 4.2)."""


class ContentNotText(InvalidRequest):
    """Content that is not valid UTF-8 (section 4.2)."""


class StoreArchived(InvalidRequest):
    """A create or update in an archived store (section 6.2)."""


class StoreFull(InvalidRequest):
    """The store holds as many memories as it may (section 4.3); existing ones can still be edited."""


class MetadataTooLong(InvalidRequest):
    """A key or a value of a memory's metadata that is longer than the service keeps."""


class MetadataFull(InvalidRequest):
    """The memory's metadata has as many keys as the service keeps."""


class Unauthenticated(MemfsError):
    """No credential, or one that the service does not accept (401)."""


class PermissionDenied(MemfsError):
    """The credential does not allow this (403), such as a write to a store attached read_only."""


class ReadOnly(MemfsError):
    """The store is mounted read-only, or archived, or the place is a view that nobody writes to."""


class NotFound(MemfsError):
    """No such store, memory or version (404)."""


class Redacted(MemfsError):
    """The version exists but an administrator removed its content (section 5)."""


class PathConflict(MemfsError):
    """The path equals, contains or lies below another memory's path (409 `memory_path_conflict_error`)."""

    def __init__(self, message: str, *, path: str, memory_id: MemoryId | None) -> None:
        super().__init__(message)
        self.path = path
        """The requested path, or that of the ancestor or descendant in the way."""
        self.memory_id = memory_id
        """The memory in the way; None when the service could not name it (then: retry)."""


class PreconditionFailed(MemfsError):
    """The memory's content is not the one the request was based on (409 `memory_precondition_failed_error`)."""


class ConcurrentModification(MemfsError):
    """The service gave up on a race between writers (409 `conflict_error`, or a lost race as 500); re-read, then retry."""


class Unavailable(MemfsError):
    """The service did not answer, or answered that it cannot now (connection errors, 408, 429, 5xx).

    The request may or may not have been applied.
    """


class Unreachable(Unavailable):
    """There was no answer at all: nothing serves at this place, or the way there is cut."""


class ServiceFault(Unavailable):
    """The service answered that it cannot (5xx), after all retries that the time-out allowed."""


class OutOfSpace(Unavailable):
    """The disk that holds the database is full; nothing was applied."""


class RateLimited(Unavailable):
    """429 after all retries that the time-out allowed."""


class BadAnswer(Unavailable):
    """The service answered with something that is not the contract."""


class NotSupported(MemfsError):
    """The service, or a file system without that concept, cannot do this at all."""
