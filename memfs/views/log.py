"""`.versions/@log` and `@log.jsonl`: the history of a store, newest first, asked for as it is read."""

import json
from collections.abc import Awaitable, Callable

import trio

from memfs.model.ids import VersionId
from memfs.model.objects import MemoryVersion, SessionActor, format_time
from memfs.views.history import History, in_time
from memfs.views.tree import Content, ViewFile


def text_line(version: MemoryVersion) -> str:
    """Time, operation, path, size in bytes, who, version and memory id, with tabs between; ``-`` for what is not known."""
    actor = version.created_by
    who = "-" if actor is None else actor.session_id if isinstance(actor, SessionActor) else _actor_id(actor.model_dump())
    path = version.path or "-"
    size = "-" if version.content_size_bytes is None else str(version.content_size_bytes)
    # A path with a control character, which a lenient service may hold, must not look like another field or line.
    fields = (format_time(version.created_at), version.operation, path, size, who, version.id, version.memory_id)
    return "\t".join(field if field.isprintable() else json.dumps(field) for field in fields) + "\n"


def _actor_id(actor: dict[str, object]) -> str:
    """The id within an actor, or its type where it has none."""
    return next((str(value) for name, value in actor.items() if name.endswith("_id") and value), str(actor.get("type")))


def json_line(version: MemoryVersion) -> str:
    """The contract's own object, without content."""
    return version.model_dump_json(exclude={"content"}) + "\n"


class LogFile(ViewFile):
    """The versions of a store as lines. Each open reads them anew, one page of the service whenever its reader gets there."""

    def __init__(
        self,
        key: str,
        history: History,
        line: Callable[[MemoryVersion], str],
        *,
        settle: Callable[[], Awaitable[None]],
        mtime_ns: int,
    ) -> None:
        """`settle` is awaited before the history is read."""
        super().__init__(key, mtime_ns=mtime_ns)
        self._settle = settle
        self._history = history
        self._line = line

    @property
    def size(self) -> int:
        return 0

    @property
    def direct(self) -> bool:
        return True

    async def open(self) -> Content:
        await self._settle()
        return _LogContent(self._history, self._line)


class _LogContent:
    """Keeps what was read, so that it can be read again and does not change; some 200 bytes a version."""

    def __init__(self, history: History, line: Callable[[MemoryVersion], str]) -> None:
        self._history = history
        self._line = line
        self._text = bytearray()
        self._seen: set[VersionId] = set()
        self._page: str | None = None
        self._ended = False
        self._reading = trio.Lock()

    async def read(self, offset: int, size: int) -> bytes:
        with in_time(self._history.timeout, "the log"):
            async with self._reading:
                # Whoever wants ten lines asks for many more bytes: one page at a time is enough to go on with.
                while len(self._text) <= offset and not self._ended:
                    await self._read_page()
        return bytes(self._text[offset : offset + size])

    async def _read_page(self) -> None:
        history = self._history
        answer = await history.service.list_versions(history.store_id, limit=history.limit, page=self._page)
        lines = []
        for version in answer.data:
            if version.id not in self._seen:  # a page may begin with what newer versions pushed out of the last one
                self._seen.add(version.id)
                lines.append(self._line(version))
        self._text += "".join(lines).encode("utf-8", "replace")
        self._page = answer.next_page
        self._ended = answer.next_page is None
