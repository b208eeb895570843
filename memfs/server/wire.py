"""What requests may say: bodies and queries, and how each wrong one is refused (400, contract sections 1.3 and 3)."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memfs.model.content import Sha256, is_sha256
from memfs.model.errors import InvalidRequest
from memfs.model.ids import StoreId
from memfs.model.objects import Access, Operation, View
from memfs.model.sessions import MAX_INSTRUCTIONS
from memfs.stores.base import DEFAULT_LIMIT, MAX_LIMIT

B = TypeVar("B", bound="Body")
Id = TypeVar("Id")


class Body(BaseModel):
    """A request body; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CreateStore(Body):
    name: str
    description: str | None = None
    metadata: dict[str, str] | None = None


class UpdateStore(Body):
    name: str | None = None
    description: str | None = None
    metadata: dict[str, str | None] | None = None


class CreateMemory(Body):
    path: str
    content: str


class Precondition(Body):
    type: Literal["content_sha256"]
    content_sha256: str


class UpdateMemory(Body):
    """A null stands for an absent key (section 14, choice 3)."""

    content: str | None = None
    path: str | None = None
    precondition: Precondition | None = None

    def expected(self) -> Sha256 | None:
        return None if self.precondition is None else sha256_text(self.precondition.content_sha256)


class AttachStore(Body):
    """An element of a session's `resources` (section 7)."""

    type: Literal["memory_store"]
    memory_store_id: StoreId
    access: Access | None = None
    instructions: str | None = Field(default=None, max_length=MAX_INSTRUCTIONS)


class CreateSession(Body):
    """This server keeps a session's attachments; what would have to run (agent, environment) is noted and not run."""

    agent: str | dict[str, Any] | None = None
    environment_id: str | None = None
    title: str | None = None
    metadata: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]] | None = Field(
        default=None, max_length=16
    )
    resources: list[AttachStore] | None = None
    vault_ids: list[str] | None = None


def parse(kind: type[B], raw: bytes) -> B:
    """`raw` as a `kind`; raise `InvalidRequest` that names the field and the rule, never the value."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise InvalidRequest("; ".join(_problem(detail) for detail in error.errors(include_url=False)[:5])) from None


def _problem(detail: Any) -> str:
    place = ".".join(str(part)[:64] for part in detail["loc"])
    if detail["type"] == "json_invalid":
        return "the body is not valid JSON"
    return f"{place or 'body'}: {detail['msg']}"


class Query:
    """The parameters of a URL; unknown ones are ignored, as `beta` and `order_by` are."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters

    def text(self, name: str) -> str | None:
        """None when absent or empty."""
        return self._parameters.get(name) or None

    def id(self, kind: Callable[[str], Id], name: str) -> Id | None:
        value = self.text(name)
        return None if value is None else kind(value)

    def view(self, default: View) -> View:
        match self.text("view"):
            case None:
                return default
            case "basic":
                return "basic"
            case "full":
                return "full"
        raise InvalidRequest("view must be basic or full")

    def limit(self) -> int:
        value = self._number("limit")
        if value is None:
            return DEFAULT_LIMIT
        if not 1 <= value <= MAX_LIMIT:
            raise InvalidRequest(f"limit must be between 1 and {MAX_LIMIT}")
        return value

    def depth(self) -> int | None:
        value = self._number("depth")
        if value not in (None, 0, 1):
            raise InvalidRequest("depth must be 0 or 1")
        return value

    def flag(self, name: str) -> bool:
        match self.text(name):
            case None | "false":
                return False
            case "true":
                return True
        raise InvalidRequest(f"{name} must be true or false")

    def operation(self) -> Operation | None:
        match self.text("operation"):
            case None:
                return None
            case "created":
                return "created"
            case "modified":
                return "modified"
            case "deleted":
                return "deleted"
        raise InvalidRequest("operation must be created, modified or deleted")

    def time(self, name: str) -> datetime | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            time = None
        if time is None or time.tzinfo is None:
            raise InvalidRequest(f"{name} must be an RFC 3339 time with a time zone")
        return time

    def sha256(self, name: str) -> Sha256 | None:
        value = self._parameters.get(name)
        return None if value is None else sha256_text(value)

    def _number(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            raise InvalidRequest(f"{name} must be a number")
        return int(value)


def sha256_text(text: str) -> Sha256:
    """Raise `InvalidRequest` unless `text` is 64 lowercase hex digits (section 14, choice 12)."""
    if not is_sha256(text):
        raise InvalidRequest("a content hash is 64 lowercase hex digits")
    return Sha256(text)
