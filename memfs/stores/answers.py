"""From a service's answer to the contract's objects, or to the error that it stands for."""

from datetime import datetime
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from memfs.model import content as contents
from memfs.model.content import sha256_of
from memfs.model.errors import BadAnswer, InvalidRequest
from memfs.model.objects import Memory, Page, View, format_time
from memfs.stores.failures import error_of
from memfs.stores.transport import Answer

T = TypeVar("T")


def result(answer: Answer, kind: TypeAdapter[T], *, creating: bool = False) -> T:
    """The object that `answer` holds. Raises the error of a failure (see `error_of`), `BadAnswer` for another object."""
    if answer.failure is not None:
        error = error_of(answer.failure, creating=creating)
        error.maybe_applied = answer.maybe_applied
        raise error
    try:
        return kind.validate_json(answer.body)
    except ValidationError as invalid:
        # Only where it went wrong: the values may be content.
        place = ".".join(str(part) for part in invalid.errors(include_input=False, include_url=False)[0]["loc"])
        raise BadAnswer(f"the service's answer is not what the contract says (at {place or 'its start'})") from None


def page_of(page: Page[T], asked: str | None) -> Page[T]:
    """`page` with None for an empty cursor. Raises `BadAnswer` when its cursor is the one that was `asked` for."""
    if not page.next_page:
        return page if page.next_page is None else page.model_copy(update={"next_page": None})
    if page.next_page == asked:
        raise BadAnswer("the service's listing does not get past one page")
    return page


def intact(memory: Memory, view: View) -> Memory:
    """Raise `BadAnswer` when a content does not have the hash that came with it: better no bytes than wrong ones."""
    if view != "full":
        return memory
    content = memory.binary if memory.media_type is not None else None if memory.content is None else memory.content.encode()
    if content is None or sha256_of(content) != memory.content_sha256:
        raise BadAnswer("the service sent a content that does not have its own hash")
    return memory


def gone_by_us(answer: Answer) -> bool:
    """Whether a deletion was repeated after a lost answer and finds its work done."""
    return answer.failure is not None and answer.failure.status == 404 and answer.maybe_applied


def checked_hash(sha256: str) -> str:
    """`sha256`; raises `InvalidRequest` when it is none."""
    if not contents.is_sha256(sha256):
        raise InvalidRequest("a content hash is 64 lowercase hex digits")
    return sha256


def checked_limit(limit: int, most: int) -> int:
    """`limit`; raises `InvalidRequest` when it is not between 1 and `most`."""
    if not 1 <= limit <= most:
        raise InvalidRequest(f"limit must be between 1 and {most}")
    return limit


def time_parameter(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)
