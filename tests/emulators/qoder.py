"""Qoder Cloud Agents' memory stores in both documented generations, "entry" and "memory".

What no page tells is a field of `Guesses`.
"""

import hashlib
import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from tests.emulators.serving import Emulator, Refusal, Reply, Request

TOKEN = "pt-dummy"
MAX_BYTES = 100 * 1024
Generation = Literal["entry", "memory"]


@dataclass
class Guesses:
    """Behaviour that the documentation does not pin."""

    conflict_status: int = 409
    store_created_status: int = 200
    paging: Literal["ids", "pages"] = "ids"
    """How lists continue: by `last_id` as documented, or by `next_page` as the newest SDK expects."""
    version_ids: bool = False
    """Memories name their newest version, as the newest SDK expects."""
    hash_guard_on_delete: bool = False
    """`expected_content_sha256` of the newest SDK is honoured."""


@dataclass
class _Memory:
    id: str
    store: str
    path: str
    content: str
    version: int
    version_id: str
    metadata: dict[str, str]
    created_at: str
    updated_at: str


@dataclass
class _Version:
    id: str
    store: str
    memory: str
    path: str
    content: str | None
    action: str
    created_at: str
    redacted_at: str | None = None


@dataclass
class _Store:
    id: str
    name: str
    description: str
    metadata: dict[str, str]
    created_at: str
    updated_at: str
    archived_at: str | None = None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Qoder(Emulator):
    """One account of the service."""

    base = "api/v1/cloud"

    def __init__(self, generation: Generation) -> None:
        super().__init__()
        self.generation: Generation = generation
        self.guesses = Guesses()
        self.stores: dict[str, _Store] = {}
        self.memories: dict[str, _Memory] = {}
        self.versions: list[_Version] = []
        """Oldest first."""
        self._answers: dict[str, tuple[Any, Reply]] = {}
        self._clock = itertools.count()
        self._last = datetime.now(UTC)

    @property
    def modern(self) -> bool:
        return self.generation == "memory"

    # Shapes

    def error(self, refusal: Refusal) -> Reply:
        body: dict[str, Any] = {"type": "error", "error": {"type": refusal.kind, "message": refusal.message}}
        if self.modern:
            body["request_id"] = f"req_{uuid.uuid4().hex}"
        return Reply(refusal.status, body)

    def _conflict(self, message: str) -> Refusal:
        return Refusal(self.guesses.conflict_status, "invalid_request_error" if self.modern else "conflict_error", message)

    def _now(self) -> str:
        now = max(datetime.now(UTC), self._last)
        self._last = now
        text = now.isoformat(timespec="milliseconds" if self.modern else "microseconds")
        return text.replace("+00:00", "Z")

    def _id(self, prefix: str) -> str:
        """Rises with time, as those of the service do."""
        return f"{prefix}_{int(datetime.now(UTC).timestamp() * 1000):012x}{next(self._clock):08x}{uuid.uuid4().hex[:12]}"

    def _store_object(self, store: _Store) -> dict[str, Any]:
        mine = [memory for memory in self.memories.values() if memory.store == store.id]
        shown: dict[str, Any] = {
            "id": store.id,
            "type": "memory_store",
            "name": store.name,
            "description": store.description,
            "status": "archived" if store.archived_at else "active",
            "entry_count": len(mine),
            "total_size": sum(len(memory.content.encode()) for memory in mine),
            "metadata": store.metadata,
            "created_at": store.created_at,
            "updated_at": store.updated_at,
        }
        if self.modern or store.archived_at:
            shown["archived_at"] = store.archived_at
        return shown

    def _memory_object(self, memory: _Memory, *, content: bool) -> dict[str, Any]:
        modern = self.modern
        shown: dict[str, Any] = {
            "id": memory.id,
            "type": "memory",
            "memory_store_id" if modern else "store_id": memory.store,
            "path": memory.path,
            "content_size_bytes" if modern else "size": len(memory.content.encode()),
            "content_sha256": _sha256(memory.content),
            "version": memory.version,
            "metadata": memory.metadata,
            "created_at": memory.created_at,
            "updated_at": memory.updated_at,
        }
        if self.guesses.version_ids:
            shown["memory_version_id"] = memory.version_id
        if content:
            shown["content"] = memory.content
        return shown

    def _version_object(self, version: _Version, *, content: bool) -> dict[str, Any]:
        modern = self.modern
        gone = version.action == "deleted"
        text = version.content or ""
        shown: dict[str, Any] = {
            "id": version.id,
            "type": "memory_version",
            "memory_store_id" if modern else "store_id": version.store,
            "memory_id" if modern else "entry_id": version.memory,
            "path" if modern else "entry_path": version.path,
            "content_size_bytes" if modern else "size": 0 if gone else len(text.encode()),
            "content_sha256": "" if gone else _sha256(text),
            "operation" if modern else "action": version.action,
            "redacted": version.redacted_at is not None,
            "created_at": version.created_at,
        }
        if version.redacted_at is not None:
            shown["redacted_at"] = version.redacted_at
        elif content and not gone:
            shown["content"] = text
        return shown

    # Requests

    def handle(self, request: Request) -> Reply:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if self.faults.expired or scheme.lower() != "bearer" or token != TOKEN:
            raise Refusal(401, "authentication_error", "the access token is invalid")
        key = request.headers.get("idempotency-key")
        if key is None or request.method == "GET":
            return self._route(request)
        known = self._answers.get(key)
        asked = (request.method, request.path, request.body)
        if known is not None:
            if known[0] != asked:
                raise Refusal(409, "conflict_error", "the idempotency key was used for another request")
            return known[1]
        reply = self._route(request)
        self._answers[key] = (asked, reply)
        return reply

    def _route(self, request: Request) -> Reply:
        versions = "memory_versions" if self.modern else "versions"
        update = "POST" if self.modern else "PUT"
        handler: Callable[..., Reply] | None = None
        arguments: list[str] = []
        match (request.method, *request.path.split("/")):
            case ("POST", "memory_stores"):
                handler = self._create_store
            case ("GET", "memory_stores"):
                handler = self._list_stores
            case ("GET", "memory_stores", store):
                handler, arguments = self._get_store, [store]
            case ("POST", "memory_stores", store) if self.modern:
                handler, arguments = self._update_store, [store]
            case ("DELETE", "memory_stores", store):
                handler, arguments = self._delete_store, [store]
            case ("POST", "memory_stores", store, "archive"):
                handler, arguments = self._archive, [store]
            case ("POST", "memory_stores", store, "memories"):
                handler, arguments = self._create, [store]
            case ("GET", "memory_stores", store, "memories"):
                handler, arguments = self._list, [store]
            case ("GET", "memory_stores", store, "memories", memory):
                handler, arguments = self._get, [store, memory]
            case (method, "memory_stores", store, "memories", memory) if method == update:
                handler, arguments = self._update, [store, memory]
            case ("DELETE", "memory_stores", store, "memories", memory):
                handler, arguments = self._delete, [store, memory]
            case ("GET", "memory_stores", store, kind) if kind == versions:
                handler, arguments = self._list_versions, [store]
            case ("GET", "memory_stores", store, kind, version) if kind == versions:
                handler, arguments = self._get_version, [store, version]
            case ("POST", "memory_stores", store, kind, version, "redact") if kind == versions:
                handler, arguments = self._redact, [store, version]
        if handler is None:
            raise Refusal(404, "not_found_error", "there is no such route")
        return handler(request, *arguments)

    @staticmethod
    def _body(request: Request) -> dict[str, Any]:
        if not isinstance(request.body, dict):
            raise Refusal(400, "invalid_request_error", "the body must be a JSON object")
        return request.body

    @staticmethod
    def _metadata(body: dict[str, Any]) -> dict[str, str] | None:
        metadata = body.get("metadata")
        if metadata is None:
            return None
        wrong = not isinstance(metadata, dict) or len(metadata) > 16
        if wrong or any(len(k) > 64 or not isinstance(v, str) or len(v) > 512 for k, v in metadata.items()):
            raise Refusal(400, "invalid_request_error", "metadata has at most 16 pairs of 64 and 512 characters")
        return dict(metadata)

    def _page(self, request: Request, rows: list[Any], show: Callable[[Any], dict[str, Any]]) -> Reply:
        query = request.query
        if "after_id" in query and "before_id" in query:
            raise Refusal(400, "invalid_request_error", "after_id and before_id exclude each other")
        try:
            limit = int(query.get("limit", "20"))
        except ValueError:
            limit = 0
        if not 1 <= limit <= 100:
            raise Refusal(400, "invalid_request_error", "limit must be between 1 and 100")
        ids = [row.id for row in rows]
        cursor = query.get("page") if self.guesses.paging == "pages" else query.get("after_id")
        start = 0
        if cursor is not None:
            if cursor.removeprefix("p-") not in ids:
                raise Refusal(400, "invalid_request_error", "the cursor fits no entry of this list")
            start = ids.index(cursor.removeprefix("p-")) + 1
        elif "before_id" in query:
            if query["before_id"] not in ids:
                raise Refusal(400, "invalid_request_error", "the cursor fits no entry of this list")
            end = ids.index(query["before_id"])
            start = max(0, end - limit)
            rows = rows[:end]
        shown = rows[start : start + limit]
        more = start + limit < len(rows)
        if self.guesses.paging == "pages":
            return Reply(200, {"data": [show(row) for row in shown], "next_page": f"p-{shown[-1].id}" if more else None})
        return Reply(
            200,
            {
                "data": [show(row) for row in shown],
                "first_id": shown[0].id if shown else None,
                "last_id": shown[-1].id if shown else None,
                "has_more": more,
            },
        )

    # Stores

    def _store(self, store_id: str) -> _Store:
        store = self.stores.get(store_id)
        if store is None:
            raise Refusal(404, "not_found_error", "memory store not found")
        return store

    def _writable(self, store_id: str) -> _Store:
        store = self._store(store_id)
        if store.archived_at:
            raise self._conflict("the memory store is archived")
        return store

    @staticmethod
    def _text(body: dict[str, Any], name: str, most: int) -> str:
        text = body.get(name, "")
        if not isinstance(text, str) or len(text.strip()) > most:
            raise Refusal(400, "invalid_request_error", f"{name} has at most {most} characters")
        return text.strip()

    def _create_store(self, request: Request) -> Reply:
        body = self._body(request)
        name, description = self._text(body, "name", 64), self._text(body, "description", 1024)
        if not name:
            raise Refusal(400, "invalid_request_error", "name is required")
        metadata = self._metadata(body) or {}
        now = self._now()
        store = _Store(self._id("memstore"), name, description, metadata, now, now)
        self.stores[store.id] = store
        return Reply(self.guesses.store_created_status, self._store_object(store))

    def _list_stores(self, request: Request) -> Reply:
        return self._page(request, list(reversed(self.stores.values())), self._store_object)

    def _get_store(self, request: Request, store_id: str) -> Reply:
        return Reply(200, self._store_object(self._store(store_id)))

    def _update_store(self, request: Request, store_id: str) -> Reply:
        store, body = self._writable(store_id), self._body(request)
        metadata = self._metadata(body)
        if "name" in body:
            name = self._text(body, "name", 64)
            if not name:
                raise Refusal(400, "invalid_request_error", "name must not be empty")
            store.name = name
        if "description" in body:
            store.description = self._text(body, "description", 1024)
        if metadata is not None:
            store.metadata = metadata
        store.updated_at = self._now()
        return Reply(200, self._store_object(store))

    def _archive(self, request: Request, store_id: str) -> Reply:
        store = self._store(store_id)
        if not store.archived_at:
            store.archived_at = store.updated_at = self._now()
        return Reply(200, self._store_object(store))

    def _delete_store(self, request: Request, store_id: str) -> Reply:
        self._store(store_id)
        del self.stores[store_id]
        self.memories = {key: memory for key, memory in self.memories.items() if memory.store != store_id}
        self.versions = [version for version in self.versions if version.store != store_id]
        return Reply(200, {"id": store_id, "type": "memory_store_deleted"}) if self.modern else Reply(204)

    # Memories

    def _memory(self, store_id: str, memory_id: str) -> _Memory:
        self._store(store_id)
        memory = self.memories.get(memory_id)
        if memory is None or memory.store != store_id:
            raise Refusal(404, "not_found_error", "memory not found")
        return memory

    @staticmethod
    def _content(body: dict[str, Any]) -> str:
        content = body.get("content")
        if not isinstance(content, str) or not content.strip():
            raise Refusal(400, "invalid_request_error", "content is required and must not be blank")
        if len(content.encode()) > MAX_BYTES:
            raise Refusal(400, "invalid_request_error", "content has at most 100 KB")
        return content

    def _record(self, memory: _Memory, action: str) -> str:
        version_id = self._id("memver")
        content = None if action == "deleted" else memory.content
        when = self._now() if action == "deleted" else memory.updated_at
        self.versions.append(_Version(version_id, memory.store, memory.id, memory.path, content, action, when))
        memory.version_id = version_id
        return version_id

    def _create(self, request: Request, store_id: str) -> Reply:
        body = self._body(request)
        self._writable(store_id)
        path = body.get("path")
        if not isinstance(path, str) or not path or path.startswith("/") or ".." in path or len(path.encode()) > 1024:
            raise Refusal(400, "invalid_request_error", "path must be relative, without '..', of at most 1024 bytes")
        content, metadata = self._content(body), self._metadata(body) or {}
        if any(memory.store == store_id and memory.path == path for memory in self.memories.values()):
            raise self._conflict("a memory with this path exists")
        now = self._now()
        memory = _Memory(self._id("mem"), store_id, path, content, 1, "", metadata, now, now)
        self.memories[memory.id] = memory
        self._record(memory, "created")
        return Reply(201, self._memory_object(memory, content=True))

    def _list(self, request: Request, store_id: str) -> Reply:
        self._store(store_id)
        prefix = request.query.get("path_prefix", "") if self.modern else ""
        rows = [m for m in self.memories.values() if m.store == store_id and m.path.startswith(prefix)]
        return self._page(request, rows, lambda memory: self._memory_object(memory, content=False))

    def _get(self, request: Request, store_id: str, memory_id: str) -> Reply:
        return Reply(200, self._memory_object(self._memory(store_id, memory_id), content=True))

    def _update(self, request: Request, store_id: str, memory_id: str) -> Reply:
        memory, body = self._memory(store_id, memory_id), self._body(request)
        self._writable(store_id)
        content, metadata = self._content(body), self._metadata(body)
        if not self.modern and body.get("version") is not None and body["version"] != memory.version:
            raise self._conflict("the version is not the current one")
        if body.get("content_sha256") is not None and body["content_sha256"] != _sha256(memory.content):
            raise self._conflict("the content has another hash")
        memory.content, memory.version, memory.updated_at = content, memory.version + 1, self._now()
        if metadata is not None:
            memory.metadata = metadata
        self._record(memory, "updated")
        return Reply(200, self._memory_object(memory, content=True))

    def _delete(self, request: Request, store_id: str, memory_id: str) -> Reply:
        memory = self._memory(store_id, memory_id)
        self._writable(store_id)
        expected = request.query.get("expected_content_sha256")
        if self.guesses.hash_guard_on_delete and expected is not None and expected != _sha256(memory.content):
            raise self._conflict("the content has another hash")
        del self.memories[memory_id]
        self._record(memory, "deleted")
        return Reply(200, {"id": memory_id, "type": "memory_deleted"}) if self.modern else Reply(204)

    # Versions

    def _version(self, store_id: str, version_id: str) -> _Version:
        self._store(store_id)
        for version in self.versions:
            if version.id == version_id and version.store == store_id:
                return version
        raise Refusal(404, "not_found_error", "memory version not found")

    def _list_versions(self, request: Request, store_id: str) -> Reply:
        self._store(store_id)
        wanted = request.query.get("memory_id") if self.modern else None
        rows = [v for v in reversed(self.versions) if v.store == store_id and wanted in (None, v.memory)]
        return self._page(request, rows, lambda version: self._version_object(version, content=False))

    def _get_version(self, request: Request, store_id: str, version_id: str) -> Reply:
        return Reply(200, self._version_object(self._version(store_id, version_id), content=True))

    def _redact(self, request: Request, store_id: str, version_id: str) -> Reply:
        version = self._version(store_id, version_id)
        if version.redacted_at is not None and self.modern:
            raise self._conflict("the version is redacted already")
        version.redacted_at = version.redacted_at or self._now()
        return Reply(200, self._version_object(version, content=True))
