"""Model Studio's memory stores ("AgentStudio"). What the documentation and the SDK contradict each other in is in `Guesses`."""

import hashlib
import itertools
import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from tests.emulators.serving import Emulator, Refusal, Reply, Request

TOKEN = "sk-dummy"
MAX_BYTES = 102_400


@dataclass
class Guesses:
    """Behaviour that the documentation does not pin."""

    guard: Literal["both", "top level", "object", "neither"] = "both"
    """Which spelling of an update's hash is honoured; an unknown field is ignored."""
    created_status: int = 200
    archived_code: str = "invalid_request_error"


@dataclass
class _Store:
    id: str
    name: str
    description: str
    metadata: dict[str, str]
    created_at: str
    updated_at: str
    archived_at: str | None = None


@dataclass
class _Memory:
    id: str
    store: str
    path: str
    content: str
    version_id: str
    created_at: str
    updated_at: str


@dataclass
class _Version:
    id: str
    store: str
    memory: str
    operation: str
    path: str | None
    content: str | None
    created_at: str
    redacted_at: str | None = None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _invalid(message: str) -> Refusal:
    return Refusal(400, "invalid_request_error", message)


class ModelStudio(Emulator):
    """One workspace of the service."""

    base = "api/v1/agentstudio"

    def __init__(self) -> None:
        super().__init__()
        self.guesses = Guesses()
        self.stores: dict[str, _Store] = {}
        self.memories: dict[str, _Memory] = {}
        self.versions: list[_Version] = []
        """Oldest first."""
        self._numbers = itertools.count(1)
        self._last = datetime.now(UTC)

    def error(self, refusal: Refusal) -> Reply:
        request_id = str(uuid.uuid4())
        error = {"code": refusal.kind, "message": refusal.message}
        body = {"type": "error", "error": error, "request_id": request_id}
        return Reply(refusal.status, body, {"x-request-id": request_id})

    def _now(self) -> str:
        self._last = max(datetime.now(UTC), self._last)
        return self._last.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers):08d}{uuid.uuid4().hex[:12]}"

    def handle(self, request: Request) -> Reply:
        if self.faults.expired or request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, "InvalidApiKey", "the API key is invalid")
        handler: Callable[..., dict[str, Any]] | None = None
        arguments: list[str] = []
        status = 200
        match (request.method, *request.path.split("/")):
            case ("POST", "memory_stores"):
                handler, status = self._create_store, self.guesses.created_status
            case ("GET", "memory_stores"):
                handler = self._list_stores
            case ("GET", "memory_stores", store):
                handler, arguments = self._get_store, [store]
            case ("POST", "memory_stores", store):
                handler, arguments = self._update_store, [store]
            case ("DELETE", "memory_stores", store):
                handler, arguments = self._delete_store, [store]
            case ("POST", "memory_stores", store, "archive"):
                handler, arguments = self._archive, [store]
            case ("POST", "memory_stores", store, "memories"):
                handler, arguments, status = self._create, [store], self.guesses.created_status
            case ("GET", "memory_stores", store, "memories"):
                handler, arguments = self._list, [store]
            case ("GET", "memory_stores", store, "memories", memory):
                handler, arguments = self._get, [store, memory]
            case ("POST", "memory_stores", store, "memories", memory):
                handler, arguments = self._update, [store, memory]
            case ("DELETE", "memory_stores", store, "memories", memory):
                handler, arguments = self._delete, [store, memory]
            case ("GET", "memory_stores", store, "memory_versions"):
                handler, arguments = self._list_versions, [store]
            case ("GET", "memory_stores", store, "memory_versions", version):
                handler, arguments = self._get_version, [store, version]
            case ("POST", "memory_stores", store, "memory_versions", version, "redact"):
                handler, arguments = self._redact, [store, version]
        if handler is None:
            raise Refusal(404, "not_found_error", "there is no such route")
        return Reply(status, handler(request, *arguments), {"x-request-id": str(uuid.uuid4())})

    @staticmethod
    def _body(request: Request) -> dict[str, Any]:
        if not isinstance(request.body, dict):
            raise _invalid("the body must be a JSON object")
        return request.body

    @staticmethod
    def _view(request: Request) -> bool:
        view = request.query.get("view", "basic")
        if view not in ("basic", "full"):
            raise _invalid("view must be basic or full")
        return view == "full"

    def _page(self, request: Request, rows: list[Any], show: Callable[[Any], Any], *, full: bool) -> dict[str, Any]:
        try:
            limit = int(request.query.get("limit", "20"))
        except ValueError:
            limit = 0
        most = 20 if full else 100
        if not 1 <= limit <= most:
            raise _invalid(f"limit must be between 1 and {most}")
        start = 0
        if "page" in request.query:
            try:
                start = int(request.query["page"].removeprefix("np-"))
            except ValueError:
                raise _invalid("page is invalid") from None
        more = start + limit < len(rows)
        return {
            "data": [show(row) for row in rows[start : start + limit]],
            "next_page": f"np-{start + limit}" if more else None,
        }

    # Stores

    def _store(self, store_id: str) -> _Store:
        store = self.stores.get(store_id)
        if store is None:
            raise Refusal(404, "not_found_error", "memory store not found")
        return store

    def _writable(self, store_id: str) -> None:
        if self._store(store_id).archived_at:
            raise Refusal(400, self.guesses.archived_code, "the memory store is archived")

    @staticmethod
    def _store_object(store: _Store) -> dict[str, Any]:
        return {"type": "memory_store", **vars(store)}

    @staticmethod
    def _checked_metadata(metadata: Any) -> dict[str, str]:
        if not isinstance(metadata, dict) or len(metadata) > 16:
            raise _invalid("metadata has at most 16 pairs")
        if any(len(k) > 64 or not isinstance(v, str) or len(v) > 512 for k, v in metadata.items()):
            raise _invalid("metadata has keys of at most 64 and values of at most 512 characters")
        return dict(metadata)

    def _create_store(self, request: Request) -> dict[str, Any]:
        body = self._body(request)
        name = body.get("name")
        if not isinstance(name, str) or not 1 <= len(name) <= 255:
            raise _invalid("name has 1 to 255 characters")
        metadata = self._checked_metadata(body.get("metadata") or {})
        now = self._now()
        store = _Store(self._id("memstore"), name, body.get("description") or "", metadata, now, now)
        self.stores[store.id] = store
        return self._store_object(store)

    def _list_stores(self, request: Request) -> dict[str, Any]:
        archived = request.query.get("include_archived") == "true"
        rows = [store for store in reversed(self.stores.values()) if archived or not store.archived_at]
        return self._page(request, rows, self._store_object, full=False)

    def _get_store(self, request: Request, store_id: str) -> dict[str, Any]:
        return self._store_object(self._store(store_id))

    def _update_store(self, request: Request, store_id: str) -> dict[str, Any]:
        store, body = self._store(store_id), self._body(request)
        self._writable(store_id)
        if "metadata" in body:
            given = body["metadata"] if isinstance(body["metadata"], dict) else {}
            store.metadata = self._checked_metadata({key: value for key, value in given.items() if value is not None})
        if "name" in body:
            if not isinstance(body["name"], str) or not 1 <= len(body["name"]) <= 255:
                raise _invalid("name has 1 to 255 characters")
            store.name = body["name"]
        store.description = body.get("description", store.description)
        store.updated_at = self._now()
        return self._store_object(store)

    def _archive(self, request: Request, store_id: str) -> dict[str, Any]:
        store = self._store(store_id)
        if not store.archived_at:
            store.archived_at = store.updated_at = self._now()
        return self._store_object(store)

    def _delete_store(self, request: Request, store_id: str) -> dict[str, Any]:
        self._store(store_id)
        del self.stores[store_id]
        self.memories = {key: memory for key, memory in self.memories.items() if memory.store != store_id}
        self.versions = [version for version in self.versions if version.store != store_id]
        return {"id": store_id, "type": "memory_store_deleted"}

    # Memories

    def _memory(self, store_id: str, memory_id: str) -> _Memory:
        self._store(store_id)
        memory = self.memories.get(memory_id)
        if memory is None or memory.store != store_id:
            raise Refusal(404, "not_found_error", "memory not found")
        return memory

    @staticmethod
    def _path(body: dict[str, Any]) -> str:
        path = body.get("path")
        if not isinstance(path, str) or not path.startswith("/") or not 2 <= len(path.encode()) <= 1024:
            raise _invalid("path begins with a slash and has 2 to 1024 bytes")
        if any(segment in ("", ".", "..") for segment in path[1:].split("/")):
            raise _invalid("path has no empty, '.' or '..' segment")
        if not unicodedata.is_normalized("NFC", path):
            raise _invalid("path must be in NFC")
        if any(unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") for character in path):
            raise _invalid("path has no control, format or separator characters")
        return path

    @staticmethod
    def _content(body: dict[str, Any]) -> str:
        content = body.get("content")
        if not isinstance(content, str):
            raise _invalid("content is required")
        if len(content.encode()) > MAX_BYTES:
            raise _invalid("content has at most 102400 bytes")
        return content

    def _check_free(self, store_id: str, path: str, besides: str = "") -> None:
        for memory in self.memories.values():
            if memory.store == store_id and memory.path == path and memory.id != besides:
                raise Refusal(409, "memory_path_conflict_error", "a memory with this path exists")

    @staticmethod
    def _memory_object(memory: _Memory, *, full: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "id": memory.id,
            "type": "memory",
            "memory_store_id": memory.store,
            "path": memory.path,
            "content_sha256": _sha256(memory.content),
            "content_size_bytes": len(memory.content.encode()),
            "memory_version_id": memory.version_id,
            "created_at": memory.created_at,
            "updated_at": memory.updated_at,
        }
        if full:
            shown["content"] = memory.content
        return shown

    def _record(self, memory: _Memory, operation: str) -> None:
        version_id = self._id("memver")
        content = None if operation == "deleted" else memory.content
        when = self._now() if operation == "deleted" else memory.updated_at
        self.versions.append(_Version(version_id, memory.store, memory.id, operation, memory.path, content, when))
        memory.version_id = version_id

    def _create(self, request: Request, store_id: str) -> dict[str, Any]:
        body = self._body(request)
        self._writable(store_id)
        path, content = self._path(body), self._content(body)
        self._check_free(store_id, path)
        now = self._now()
        memory = _Memory(self._id("mem"), store_id, path, content, "", now, now)
        self.memories[memory.id] = memory
        self._record(memory, "created")
        return self._memory_object(memory, full=False)

    def _list(self, request: Request, store_id: str) -> dict[str, Any]:
        self._store(store_id)
        prefix, depth = request.query.get("path_prefix", "/"), request.query.get("depth", "0")
        if not prefix.startswith("/") or not prefix.endswith("/"):
            raise _invalid("path_prefix begins and ends with a slash")
        if depth not in ("0", "1"):
            raise _invalid("depth must be 0 or 1")
        full = self._view(request)
        below = [m for m in self.memories.values() if m.store == store_id and m.path.startswith(prefix)]
        below.sort(key=lambda memory: memory.path.encode())
        if depth == "0":
            answer = self._page(request, below, lambda memory: self._memory_object(memory, full=full), full=full)
            return {**answer, "prefixes": []}
        rows: list[Any] = []
        for memory in below:
            first, slash, _ = memory.path[len(prefix) :].partition("/")
            entry = f"{prefix}{first}/" if slash else memory
            if entry not in rows[-1:]:
                rows.append(entry)
        answer = self._page(
            request, rows, lambda row: row if isinstance(row, str) else self._memory_object(row, full=full), full=full
        )
        shown = answer["data"]
        return {
            "data": [row for row in shown if not isinstance(row, str)],
            "prefixes": [row for row in shown if isinstance(row, str)],
            "next_page": answer["next_page"],
        }

    def _get(self, request: Request, store_id: str, memory_id: str) -> dict[str, Any]:
        return self._memory_object(self._memory(store_id, memory_id), full=True)

    def _guard(self, body: dict[str, Any], current: str) -> None:
        guards = []
        if self.guesses.guard in ("both", "top level"):
            guards.append(body.get("content_sha256"))
        if self.guesses.guard in ("both", "object") and isinstance(body.get("precondition"), dict):
            guards.append(body["precondition"].get("content_sha256"))
        if any(guard is not None and guard != _sha256(current) for guard in guards):
            raise Refusal(409, "memory_precondition_failed_error", "the content has another hash")

    def _update(self, request: Request, store_id: str, memory_id: str) -> dict[str, Any]:
        memory, body = self._memory(store_id, memory_id), self._body(request)
        self._writable(store_id)
        if body.get("path") is None and body.get("content") is None:
            raise _invalid("path or content is required")
        path = self._path(body) if body.get("path") is not None else memory.path
        content = self._content(body) if body.get("content") is not None else memory.content
        if (path, content) == (memory.path, memory.content):
            return self._memory_object(memory, full=False)
        self._guard(body, memory.content)
        self._check_free(store_id, path, besides=memory.id)
        memory.path, memory.content, memory.updated_at = path, content, self._now()
        self._record(memory, "modified")
        return self._memory_object(memory, full=False)

    def _delete(self, request: Request, store_id: str, memory_id: str) -> dict[str, Any]:
        memory = self._memory(store_id, memory_id)
        self._writable(store_id)
        del self.memories[memory_id]
        self._record(memory, "deleted")
        return {"id": memory_id, "type": "memory_deleted"}

    # Versions

    def _version_object(self, version: _Version, *, full: bool) -> dict[str, Any]:
        content = version.content
        shown: dict[str, Any] = {
            "id": version.id,
            "type": "memory_version",
            "memory_store_id": version.store,
            "memory_id": version.memory,
            "operation": version.operation,
            "path": version.path,
            "content_sha256": None if content is None else _sha256(content),
            "content_size_bytes": None if content is None else len(content.encode()),
            "created_at": version.created_at,
            "redacted_at": version.redacted_at,
        }
        if full:
            shown["content"] = content
        return shown

    def _list_versions(self, request: Request, store_id: str) -> dict[str, Any]:
        self._store(store_id)
        query, full = request.query, self._view(request)
        rows = [
            version
            for version in reversed(self.versions)
            if version.store == store_id
            and query.get("memory_id") in (None, version.memory)
            and query.get("operation") in (None, version.operation)
            and _time(query.get("created_at.gte"), datetime.min.replace(tzinfo=UTC)) <= _time(version.created_at)
            and _time(version.created_at) <= _time(query.get("created_at.lte"), datetime.max.replace(tzinfo=UTC))
        ]
        return self._page(request, rows, lambda version: self._version_object(version, full=full), full=full)

    def _version(self, store_id: str, version_id: str) -> _Version:
        self._store(store_id)
        for version in self.versions:
            if version.id == version_id and version.store == store_id:
                return version
        raise Refusal(404, "not_found_error", "memory version not found")

    def _get_version(self, request: Request, store_id: str, version_id: str) -> dict[str, Any]:
        return self._version_object(self._version(store_id, version_id), full=True)

    def _redact(self, request: Request, store_id: str, version_id: str) -> dict[str, Any]:
        version = self._version(store_id, version_id)
        if version.redacted_at is None:
            version.redacted_at = self._now()
            version.path = version.content = None
        return self._version_object(version, full=True)


def _time(text: str | None, default: datetime | None = None) -> datetime:
    if text is None:
        assert default is not None
        return default
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise _invalid("this is no RFC 3339 time") from None
