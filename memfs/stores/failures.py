"""Turns error answers, in the form of the contract (section 1.3) or near it, into the errors of `memfs.model.errors`."""

from memfs.model.errors import (
    BadAnswer,
    ConcurrentModification,
    ContentTooLarge,
    InvalidRequest,
    MemfsError,
    NotFound,
    PathConflict,
    PermissionDenied,
    PreconditionFailed,
    RateLimited,
    ServiceFault,
    StoreArchived,
    StoreFull,
    Unauthenticated,
    Unavailable,
)
from memfs.model.ids import MemoryId
from memfs.stores.credentials import REMEDY
from memfs.stores.transport import Failure

ALLOWED = "a credential that allows it is needed"

_FULL_WORDS = ("limit", "at most", "full", "maximum", "exceed", "too many")


def error_of(failure: Failure, *, creating: bool = False) -> MemfsError:
    """The error that `failure` stands for. `creating`: a 400 may mean that the store is full."""
    message = failure.sentence()
    match failure.status:
        case 401:
            return Unauthenticated(f"{message}; {REMEDY}")
        case 402 | 403:
            return PermissionDenied(f"{message}; {ALLOWED}")
        case 404:
            return NotFound(message)
        case 408:
            return Unavailable(message)
        case 409:
            return _conflict(failure, message)
        case 412:
            return PreconditionFailed(message)
        case 413:
            return ContentTooLarge(message)
        case 429:
            return RateLimited(message)
        case status if status >= 500:
            return ServiceFault(message)
        case status if status >= 400:
            return _invalid(failure, message, creating)
    return BadAnswer(message)


def _conflict(failure: Failure, message: str) -> MemfsError:
    if failure.type == "memory_precondition_failed_error":
        return PreconditionFailed(message)
    if failure.type == "memory_path_conflict_error":
        path, memory_id = failure.fields.get("conflicting_path"), failure.fields.get("conflicting_memory_id")
        return PathConflict(
            message,
            path=path if isinstance(path, str) else "",
            memory_id=MemoryId(memory_id) if isinstance(memory_id, str) and memory_id else None,
        )
    return ConcurrentModification(message)


def _invalid(failure: Failure, message: str, creating: bool) -> MemfsError:
    # The contract has one type for all refusals; these two need another answer from us than a wrong request does.
    words = failure.message.lower()
    if "archived" in words:
        return StoreArchived(message)
    if creating and any(word in words for word in _FULL_WORDS):
        return StoreFull(message)
    return InvalidRequest(message)
