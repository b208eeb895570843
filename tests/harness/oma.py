"""An emulation of OMA, a service that speaks the contract with differences of its own.

It is written from what OMA was seen to do, and shares no code with the product. `Quirks` adds what its sibling openma and
broken networks do.
"""

import base64
import contextlib
import hashlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

KEY = "oma-key-of-the-tests"
KEY_ID = "apikey_oma"


@dataclass
class Quirks:
    """What an answer may look like besides OMA's normal ones; a test changes them while the server runs."""

    lost_races: int = 0
    """So many of the next updates answer that another writer won."""
    failing_creates: int = 0
    """So many of the next creations are carried out and answered with a 500."""
    untyped: bool = False
    """Objects have no `type`, and creating overwrites, as on openma."""
    redaction_status: int = 400
    """How the redaction of a head is refused."""
    console_user: bool = False
    """Writes come from OMA's console: an actor without a key."""
    bearer: bool = True
    """Accept the key as a Bearer token too."""


@dataclass
class Oma:
    """The service's state, for tests to look at; and its URL."""

    quirks: Quirks = field(default_factory=Quirks)
    stores: dict[str, dict[str, Any]] = field(default_factory=dict)
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: list[dict[str, Any]] = field(default_factory=list)
    contents: dict[str, str] = field(default_factory=dict)
    """By version id."""
    requests: list[str] = field(default_factory=list)
    """Method and path of each, in order."""
    url: str = ""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_oma{next(self.numbers):08}"

    def write(self, method: str) -> int:
        """How many requests of this method came so far."""
        return sum(1 for request in self.requests if request.startswith(method))


class _Refusal(Exception):
    def __init__(self, status: int, kind: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.status, self.body = status, {"type": kind, "message": message, **fields}


def _invalid(message: str) -> _Refusal:
    return _Refusal(400, "invalid_request_error", message)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cursor(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _position(page: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(page + "=" * (-len(page) % 4)))
    except ValueError:
        raise _invalid("page is invalid") from None
    if not isinstance(value, dict):
        raise _invalid("page is invalid")
    return value


def _locale_order(path: str) -> tuple[str, str]:
    """As a database with a language's collation sorts: case and punctuation count last."""
    return "".join(c for c in path.casefold() if c.isalnum()), path.swapcase()


class _Service:
    def __init__(self, oma: Oma) -> None:
        self.oma = oma

    def application(self) -> Starlette:
        routes = [
            ("POST", "/v1/memory_stores", self.create_store),
            ("GET", "/v1/memory_stores", self.list_stores),
            ("GET", "/v1/memory_stores/{s}", self.get_store),
            ("POST", "/v1/memory_stores/{s}/archive", self.archive),
            ("POST", "/v1/memory_stores/{s}/memories", self.create),
            ("GET", "/v1/memory_stores/{s}/memories", self.list_memories),
            ("GET", "/v1/memory_stores/{s}/memories/{m}", self.get),
            ("POST", "/v1/memory_stores/{s}/memories/{m}", self.update),
            ("DELETE", "/v1/memory_stores/{s}/memories/{m}", self.delete),
            ("GET", "/v1/memory_stores/{s}/memory_versions", self.list_versions),
            ("GET", "/v1/memory_stores/{s}/memory_versions/{v}", self.get_version),
            ("POST", "/v1/memory_stores/{s}/memory_versions/{v}/redact", self.redact),
        ]
        return Starlette(routes=[Route(path, self._gate(handler), methods=[method]) for method, path, handler in routes])

    def _gate(self, handler: Any) -> Any:
        async def handle(request: Request) -> Response:
            self.oma.requests.append(f"{request.method} {request.url.path}")
            try:
                if request.query_params.get("beta") != "true":
                    raise _invalid("beta=true is required")
                self._authenticate(request)
                raw = await request.body()
                if len(raw) > 1024 * 1024:
                    raise _invalid("Invalid JSON body")
                answer = handler(request, json.loads(raw) if raw else {})
            except _Refusal as refusal:
                body = {"type": "error", "request_id": "req_oma", "error": refusal.body}
                return JSONResponse(body, refusal.status, {"request-id": "req_oma"})
            return JSONResponse(self._dressed(answer), headers={"request-id": "req_oma"})

        return handle

    def _authenticate(self, request: Request) -> None:
        offered = request.headers.get("x-api-key")
        if offered is None and self.oma.quirks.bearer:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            offered = token if scheme.lower() == "bearer" else None
        if not offered:
            raise _Refusal(401, "authentication_error", "Missing API key")
        if offered != KEY:
            raise _Refusal(401, "authentication_error", "Invalid API key")

    def _dressed(self, answer: Any) -> Any:
        if not self.oma.quirks.untyped:
            return answer
        if "data" in answer:
            return {"data": [self._dressed(item) for item in answer["data"]]}
        return {name: value for name, value in answer.items() if name not in ("type", "memory_version_id", "metadata")}

    def _actor(self) -> dict[str, Any]:
        return {"type": "api_actor"} if self.oma.quirks.console_user else {"type": "api_actor", "api_key_id": KEY_ID}

    # Stores

    def create_store(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        now = _now()
        store = {
            "id": self.oma.new_id("memstore"),
            "type": "memory_store",
            "name": body["name"],
            "description": body.get("description", ""),
            "metadata": body.get("metadata", {}),
            "created_at": now,
            "updated_at": now,
            "archived_at": None,
            "workspace": "unknown to the contract",
        }
        self.oma.stores[store["id"]] = store
        self._maybe_fail_after_all()
        return store

    def _maybe_fail_after_all(self) -> None:
        if self.oma.quirks.failing_creates:
            self.oma.quirks.failing_creates -= 1
            raise _Refusal(500, "api_error", "Internal server error")

    def list_stores(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        shown = request.query_params.get("include_archived") == "true"
        stores = [s for s in reversed(self.oma.stores.values()) if shown or s["archived_at"] is None]
        return self._cut(request, stores, lambda s: {"created_at": s["created_at"], "uuid": s["id"]}, "uuid", "id")

    def get_store(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        return self._store(request)

    def _store(self, request: Request, *, write: bool = False) -> dict[str, Any]:
        store = self.oma.stores.get(request.path_params["s"])
        if store is None:
            raise _Refusal(404, "not_found_error", "Memory store not found")
        if write and store["archived_at"] is not None and not self.oma.quirks.untyped:
            raise _invalid("memory store must not be archived")
        return store

    def archive(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        store = self._store(request)
        store["archived_at"] = store["archived_at"] or _now()
        return store

    # Memories

    def create(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        store = self._store(request, write=True)
        path, content = self._path(body.get("path")), self._content(body.get("content"))
        standing = self._at(store["id"], path)
        if standing is not None and not self.oma.quirks.untyped:
            raise self._conflict(standing)
        now = _now()
        memory = standing or {
            "id": self.oma.new_id("mem"),
            "type": "memory",
            "memory_store_id": store["id"],
            "path": path,
            "created_at": now,
        }
        self.oma.memories[memory["id"]] = memory
        self._version(memory, "modified" if standing else "created", content)
        self._maybe_fail_after_all()
        return self._shown(memory, request, "basic")

    def _conflict(self, standing: dict[str, Any]) -> _Refusal:
        return _Refusal(
            409,
            "memory_path_conflict_error",
            "path is taken",
            conflicting_path=standing["path"],
            conflicting_memory_id=standing["id"],
            conflict_error={"type": "conflict_error", "message": "path is taken"},
        )

    def _at(self, store_id: str, path: str) -> dict[str, Any] | None:
        found = (m for m in self.oma.memories.values() if m["memory_store_id"] == store_id and m["path"] == path)
        return next(found, None)

    @staticmethod
    def _path(path: Any) -> str:
        if not isinstance(path, str) or not path.startswith("/") or path.endswith("/") or "//" in path or len(path) > 1024:
            raise _invalid("path is invalid")
        return path

    @staticmethod
    def _content(content: Any) -> str:
        if not isinstance(content, str) or len(content.encode("utf-8", "replace")) > 102_400:
            raise _invalid("content is invalid")
        return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _version(self, memory: dict[str, Any], operation: str, content: str | None) -> None:
        encoded = None if content is None else content.encode()
        version = {
            "id": self.oma.new_id("memver"),
            "type": "memory_version",
            "memory_store_id": memory["memory_store_id"],
            "memory_id": memory["id"],
            "operation": operation,
            "path": memory["path"],
            "content_sha256": None if encoded is None else hashlib.sha256(encoded).hexdigest(),
            "content_size_bytes": None if encoded is None else len(encoded),
            "created_at": _now(),
            "created_by": self._actor(),
            "redacted_at": None,
            "redacted_by": None,
        }
        self.oma.versions.append(version)
        if content is not None:
            self.oma.contents[version["id"]] = content
            memory |= {name: version[name] for name in ("content_sha256", "content_size_bytes")}
            memory |= {"memory_version_id": version["id"], "updated_at": version["created_at"]}

    def _shown(self, item: dict[str, Any], request: Request, default: str) -> dict[str, Any]:
        version_id = item.get("memory_version_id", item["id"])
        full = request.query_params.get("view", default) == "full"
        return {**item, "content": self.oma.contents.get(version_id) if full else None}

    def _memory(self, request: Request) -> dict[str, Any]:
        memory = self.oma.memories.get(request.path_params["m"])
        if memory is None or memory["memory_store_id"] != request.path_params["s"]:
            raise _Refusal(404, "not_found_error", "Memory not found")
        return memory

    def get(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        self._store(request)
        return self._shown(self._memory(request), request, "full")

    def update(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        self._store(request, write=True)
        memory = self._memory(request)
        if None in (body.get("path", ""), body.get("content", "")):
            raise _invalid("path and content must be strings")
        path = self._path(body.get("path", memory["path"]))
        content = self._content(body.get("content", self.oma.contents[memory["memory_version_id"]]))
        sha = hashlib.sha256(content.encode()).hexdigest()
        if (path, sha) == (memory["path"], memory["content_sha256"]):
            return self._shown(memory, request, "basic")
        expected = body.get("precondition")
        if expected is not None and expected["content_sha256"] != memory["content_sha256"]:
            raise _Refusal(409, "memory_precondition_failed_error", "precondition failed")
        if self.oma.quirks.lost_races:
            self.oma.quirks.lost_races -= 1
            raise _Refusal(500, "api_error", "Could not update memory")
        standing = self._at(memory["memory_store_id"], path)
        if standing is not None and standing is not memory:
            raise self._conflict(standing)
        memory["path"] = path
        self._version(memory, "modified", content)
        return self._shown(memory, request, "basic")

    def delete(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        memory = self._memory(request)
        expected = request.query_params.get("expected_content_sha256")
        if expected is not None and expected != memory["content_sha256"]:
            raise _Refusal(409, "memory_precondition_failed_error", "precondition failed")
        del self.oma.memories[memory["id"]]
        self._version(memory, "deleted", None)
        return {"id": memory["id"], "type": "memory_deleted"}

    def list_memories(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        store = self._store(request)
        query = request.query_params
        prefix = query.get("path_prefix", "")
        found = [m for m in self.oma.memories.values() if m["memory_store_id"] == store["id"] and m["path"].startswith(prefix)]
        if "depth" not in query:
            found.sort(key=lambda m: _locale_order(m["path"]))
            items = [self._shown(m, request, "basic") for m in found]
            return self._cut(request, items, lambda m: {"path": m["path"], "updated_at": m["updated_at"]}, "path", "path", True)
        if not query["depth"].isdigit() or int(query["depth"]) < 1:
            raise _invalid("depth must be at least 1")
        rolled: dict[str, dict[str, Any]] = {}
        base = prefix or "/"
        for memory in found:
            segments = memory["path"][len(base) :].split("/")
            if len(segments) <= int(query["depth"]):
                rolled[memory["path"]] = self._shown(memory, request, "basic")
            else:
                above = base + "/".join(segments[: int(query["depth"])]) + "/"
                rolled[above] = {"type": "memory_prefix", "path": above}
        items = [rolled[path] for path in sorted(rolled, key=str.encode)]
        answer = self._cut(request, items, lambda m: {"path": m["path"]}, "path", "path")
        answer["prefixes"] = [item["path"] for item in items if item["type"] == "memory_prefix"]
        return answer

    def _cut(self, request: Request, items: list[Any], cursor: Any, key: str, name: str, flat: bool = False) -> dict[str, Any]:
        """One page of `items`, beginning behind the cursor."""
        limit = int(request.query_params.get("limit", "20"))
        if not 1 <= limit <= 100:
            raise _invalid("limit must be between 1 and 100")
        if request.query_params.get("view") == "full":
            limit = min(limit, 20)
        if page := request.query_params.get("page"):
            position = _position(page)
            if key not in position or (flat and "updated_at" not in position):
                raise _invalid("page is invalid")
            places = [index for index, item in enumerate(items) if item[name] == position[key]]
            items = items[places[0] + 1 :] if places else []
        more = len(items) > limit
        return {"data": items[:limit], "next_page": _cursor(cursor(items[limit - 1])) if more else None}

    # Versions

    def list_versions(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        store = self._store(request)
        query = request.query_params
        found = [v for v in reversed(self.oma.versions) if v["memory_store_id"] == store["id"]]
        for name in ("memory_id", "operation"):
            if name in query:
                found = [v for v in found if v[name] == query[name]]
        if "api_key_id" in query:
            found = [v for v in found if v["created_by"].get("api_key_id") == query["api_key_id"]]
        if "session_id" in query:
            found = []
        if since := query.get("created_at[gte]"):
            moment = datetime.fromisoformat(since)
            found = [v for v in found if datetime.fromisoformat(v["created_at"]) >= moment]
        items = [self._shown(v, request, "basic") for v in found]
        return self._cut(request, items, lambda v: {"created_at": v["created_at"], "uuid": v["id"]}, "uuid", "id")

    def get_version(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        return self._shown(self._found_version(request), request, "full")

    def _found_version(self, request: Request) -> dict[str, Any]:
        version = next((v for v in self.oma.versions if v["id"] == request.path_params["v"]), None)
        if version is None:
            raise _Refusal(404, "not_found_error", "Memory version not found")
        return version

    def redact(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        version = self._found_version(request)
        if any(m["memory_version_id"] == version["id"] for m in self.oma.memories.values()):
            kind = "conflict_error" if self.oma.quirks.redaction_status == 409 else "invalid_request_error"
            raise _Refusal(self.oma.quirks.redaction_status, kind, "cannot redact the active memory version")
        if version["redacted_at"] is None:
            self.oma.contents.pop(version["id"], None)
            version |= {"path": None, "content_sha256": None, "content_size_bytes": None}
            version |= {"redacted_at": _now(), "redacted_by": self._actor()}
        return self._shown(version, request, "basic")


@contextlib.contextmanager
def oma() -> Iterator[Oma]:
    """A running OMA on a free loopback port."""
    state = Oma()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Sockets made so keep small packets back for 40 ms, which OMA does not.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        state.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(_Service(state).application(), lifespan="off", log_config=None))
        thread = threading.Thread(target=server.run, args=([listener],), name="oma")
        thread.start()
        try:
            deadline = time.monotonic() + 20
            while not server.started:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            yield state
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()
