"""`.memories`: what a service remembers besides files, as files that can only be read.

One directory for each kind, one Markdown file for each memory; what is known besides its text stands in a front matter.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from memfs.model.objects import format_time
from memfs.replica.replica import Replica
from memfs.replica.tree import time_ns
from memfs.stores.base import KeepsStructured, StructuredMemory
from memfs.views.tree import BytesContent, Content, ViewDirectory, ViewFile

_ID_SHOWN = 8
_TITLE_BYTES = 120


def structured_name(unit: Mapping[str, Any]) -> str:
    """The path below `.memories` of a memory that the service describes so: its kind, its title and the start of its id."""
    title = str(unit.get("title") or "memory")
    shown = re.sub(r"[^\w.-]+", "-", title).strip("-.")
    shown = shown.encode()[:_TITLE_BYTES].decode("utf-8", "ignore") or "memory"
    kind = re.sub(r"[^\w-]+", "-", str(unit.get("unit_type") or "memory")) or "memory"
    return f"{kind}/{shown}-{str(unit.get('id', ''))[:_ID_SHOWN]}.md"


def rendered(memory: StructuredMemory) -> bytes:
    """A memory as Markdown."""
    known = {"id": memory.id, "title": memory.title, **memory.facts, "created_at": format_time(memory.created_at)}
    head = [f"{name}: {_value(value)}" for name, value in known.items() if value not in ("", None)]
    return "\n".join(["---", *head, "---", "", memory.text.rstrip(), ""]).encode("utf-8", "replace")


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_value(one)}" for name, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_value(one) for one in value)
    return " ".join(str(value).split())


class StructuredFile(ViewFile):
    def __init__(self, key: str, memory: StructuredMemory) -> None:
        # A changed memory is another file for the kernel: so its pages go with the old one.
        super().__init__(f"{key}:{memory.id}:{format_time(memory.updated_at)}", mtime_ns=time_ns(memory.updated_at))
        self._content = rendered(memory)

    @property
    def size(self) -> int:
        return len(self._content)

    async def open(self) -> Content:
        return BytesContent(self._content)


class _Structured:
    """All structured memories of a store, no staler than the bound."""

    def __init__(self, replica: Replica, service: KeepsStructured, max_staleness: float) -> None:
        self._replica = replica
        self._service = service
        self._max_staleness = max_staleness
        self._read_at = float("-inf")
        self._reading = trio.Lock()
        self._known: dict[str, dict[str, StructuredMemory]] = {}

    async def by_kind(self) -> Mapping[str, Mapping[str, StructuredMemory]]:
        """Kind, then name. Raises `Unavailable`."""
        async with self._reading:
            if trio.current_time() - self._read_at > self._max_staleness:
                found: dict[str, dict[str, StructuredMemory]] = {}
                for memory in await self._service.structured_memories(self._replica.attached.store_id):
                    unit = {"id": memory.id, "title": memory.title, "unit_type": memory.kind}
                    kind, _, name = structured_name(unit).partition("/")
                    found.setdefault(kind, {})[name] = memory
                self._known, self._read_at = found, trio.current_time()
        return self._known


class KindDirectory(ViewDirectory):
    """The memories of one kind."""

    def __init__(self, key: str, structured: _Structured, kind: str, *, mtime_ns: int) -> None:
        super().__init__(f"{key}/{kind}", mtime_ns=mtime_ns)
        self._structured = structured
        self._kind = kind

    async def lookup(self, name: str) -> ViewDirectory | ViewFile | None:
        memory = (await self._structured.by_kind()).get(self._kind, {}).get(name)
        return None if memory is None else StructuredFile(self.key, memory)

    async def entries(self) -> list[tuple[str, ViewDirectory | ViewFile]]:
        found = (await self._structured.by_kind()).get(self._kind, {})
        return [(name, StructuredFile(self.key, memory)) for name, memory in sorted(found.items())]


class StructuredDirectory(ViewDirectory):
    """`.memories` in the root of a store."""

    def __init__(self, key: str, structured: _Structured, *, mtime_ns: int) -> None:
        super().__init__(key, mtime_ns=mtime_ns)
        self._structured = structured

    async def lookup(self, name: str) -> ViewDirectory | ViewFile | None:
        if name not in await self._structured.by_kind():
            return None
        return KindDirectory(self.key, self._structured, name, mtime_ns=self.mtime_ns)

    async def entries(self) -> list[tuple[str, ViewDirectory | ViewFile]]:
        kinds = sorted(await self._structured.by_kind())
        return [(kind, KindDirectory(self.key, self._structured, kind, mtime_ns=self.mtime_ns)) for kind in kinds]


def structured_of(replica: Replica, *, max_staleness: float) -> StructuredDirectory | None:
    """`.memories` in the root of a store; None where the service keeps files only."""
    service = replica.attached.service
    if not isinstance(service, KeepsStructured):
        return None
    key = f"structured:{replica.attached.store_id}"
    return StructuredDirectory(key, _Structured(replica, service, max_staleness), mtime_ns=replica.created_ns)
