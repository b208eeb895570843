"""Tablestore AgentStorage: memory stores, files ("items"), their versions, structured memories and their search.

Every action is one POST. What no page tells is in `Guesses`; what is documented for one action only and assumed of others
(`INVALID_PARAMETER`) is the default there.
"""

import base64
import binascii
import hashlib
import itertools
import re
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.emulators.serving import Emulator, Refusal, Reply, Request

INSTANCE = "inst"
KEY = "dummy-key"
MAX_BYTES = 102_400
PARTS = ("appId", "tenantId", "agentId", "runId")
MODES = {"ots": ("messages", ["structured"]), "file+ots": ("messages", ["structured", "file"]), "filemem": ("file", ["file"])}
BINARY = {
    ".pdf": ("application/pdf", b"%PDF-"),
    ".png": ("image/png", b"\x89PNG\r\n\x1a\n"),
    ".jpg": ("image/jpeg", b"\xff\xd8\xff"),
    ".jpeg": ("image/jpeg", b"\xff\xd8\xff"),
}
"""Extension: media type and first bytes. Office files are left out: what their first bytes must be is not told."""


@dataclass
class Guesses:
    """Behaviour that the documentation does not pin."""

    conflict_status: int = 409
    path_code: str = "PATH_CONFLICT"
    guard_code: str = "PRECONDITION_FAILED"
    missing_status: int = 404
    missing_code: str = "NOT_FOUND"
    invalid_code: str = "INVALID_PARAMETER"
    max_items: int | None = None
    """How many files a store and scope may hold, where the deployment enforces it."""
    old_generation: bool = False
    """The routes of the first releases: none of those emulated here."""


Scope = tuple[str, str, str, str]


@dataclass
class _Store:
    name: str
    description: str
    instructions: str
    mode: str
    created_at: str
    updated_at: str

    @property
    def versioned(self) -> bool:
        return self.mode == "filemem"


@dataclass
class _Version:
    id: str
    seq: int
    item: str
    store: str
    scope: Scope
    operation: str
    path: str | None
    content: bytes | None
    media_type: str | None
    created_at: str
    actor: dict[str, str]
    redacted_at: str | None = None
    redacted_by: dict[str, str] | None = None


@dataclass
class _Item:
    id: str
    store: str
    scope: Scope
    path: str
    content: bytes
    media_type: str | None
    version: _Version
    created_at: str
    updated_at: str


@dataclass
class _Unit:
    """A structured memory."""

    id: str
    store: str
    scope: Scope
    unit_type: str
    title: str
    text: str
    keywords: list[str]
    metadata: dict[str, str]
    created_at: str
    updated_at: str
    sources: list[dict[str, Any]] = field(default_factory=list)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Tablestore(Emulator):
    """One instance of the service."""

    def __init__(self) -> None:
        super().__init__()
        self.guesses = Guesses()
        self.stores: dict[str, _Store] = {}
        self.items: dict[str, _Item] = {}
        self.versions: list[_Version] = []
        """Oldest first."""
        self.units: dict[str, _Unit] = {}
        self.projected: dict[tuple[str, Scope], list[_Item]] = {}
        """What the service itself wrote into read-only stores."""
        self.searches: list[dict[str, Any]] = []
        """The body of every search, as it came."""
        self._numbers = itertools.count(1)
        self._tokens: dict[str, tuple[Any, int]] = {}

    def is_write(self, request: Request) -> bool:
        return request.path.startswith(("Add", "Update", "Delete", "Create", "Redact"))

    def error(self, refusal: Refusal) -> Reply:
        request_id = uuid.uuid4().hex
        body = {"code": refusal.kind, "message": refusal.message, "requestId": request_id}
        return Reply(refusal.status, body, {"x-ots-requestid": request_id})

    def handle(self, request: Request) -> Reply:
        wrong = request.headers.get("x-ots-instancename") != INSTANCE or request.headers.get("x-ots-apikey") != KEY
        if self.faults.expired or wrong:
            raise Refusal(403, "OTSAuthFailed", "the API key is not valid for this instance")
        handler: Callable[[dict[str, Any]], dict[str, Any]] | None = getattr(self, f"do_{request.path}", None)
        if request.method != "POST" or handler is None or self.guesses.old_generation:
            raise Refusal(404, "OTSUnsupportOperation", f"unsupported operation: {request.path}")
        if not isinstance(request.body, dict):
            raise self._invalid("the body must be a JSON object")
        return Reply(200, handler(request.body), {"x-ots-requestid": uuid.uuid4().hex})

    # Helpers

    def _invalid(self, message: str) -> Refusal:
        return Refusal(400, self.guesses.invalid_code, message)

    def _missing(self, what: str) -> Refusal:
        return Refusal(self.guesses.missing_status, self.guesses.missing_code, f"{what} does not exist")

    @staticmethod
    def _now() -> str:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _store(self, body: dict[str, Any]) -> _Store:
        store = self.stores.get(str(body.get("memoryStoreName")))
        if store is None:
            raise self._missing("the memory store")
        return store

    def _scope(self, body: dict[str, Any], *, wild: bool = False) -> Scope:
        """The scope of an item action: all four parts; with `wild`, `*` as a suffix of agent and run."""
        scope = body.get("scope")
        if not isinstance(scope, dict):
            raise self._invalid("scope is required")
        parts = [scope.get(part) for part in PARTS]
        if not all(isinstance(part, str) and part and len(part.encode()) <= 128 for part in parts):
            raise self._invalid("scope needs appId, tenantId, agentId and runId of at most 128 bytes")
        if any("/" in part or "\0" in part for part in parts if isinstance(part, str)):
            raise self._invalid("a part of a scope has no slash and no NUL")
        app, tenant, agent, run = (str(part) for part in parts)
        if "*" in (app, tenant) or (not wild and "*" in (agent, run)) or (agent == "*" and run != "*"):
            raise self._invalid("the scope must be exact here, or end in '*'")
        return app, tenant, agent, run

    @staticmethod
    def _matches(pattern: Scope, scope: Scope) -> bool:
        return all(wanted in ("*", part) for wanted, part in zip(pattern, scope, strict=True))

    def _typed(self, body: dict[str, Any]) -> _Store:
        if body.get("type") != "memoryfile":
            raise self._invalid("type must be memoryfile")
        return self._store(body)

    def _file_store(self, body: dict[str, Any], *, write: bool = False, versions: bool = False) -> _Store:
        store = self._typed(body)
        if store.mode == "ots":
            raise self._invalid("this memory store has no files")
        if write and store.mode != "filemem":
            raise Refusal(409, "READ_ONLY_STORE", "the files of this memory store are written by the service")
        if versions and not store.versioned:
            raise self._invalid("the files of this memory store have no versions")
        return store

    def _limit(self, body: dict[str, Any], most: int = 100, default: int = 20) -> int:
        limit = body.get("limit", default)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= most:
            raise self._invalid(f"limit must be between 1 and {most}")
        return limit

    def _page(self, body: dict[str, Any], rows: list[Any], limit: int, bound_to: Any) -> tuple[list[Any], dict[str, str]]:
        start = 0
        if body.get("nextToken"):
            known = self._tokens.get(str(body["nextToken"]))
            if known is None or known[0] != bound_to:
                raise self._invalid("nextToken belongs to another list")
            start = known[1]
        more = {}
        if start + limit < len(rows):
            token = uuid.uuid4().hex
            self._tokens[token] = (bound_to, start + limit)
            more["nextToken"] = token
        return rows[start : start + limit], more

    def _path(self, path: Any) -> str:
        if not isinstance(path, str) or not path.startswith("/") or path == "/" or path.endswith("/"):
            raise self._invalid("path begins with a slash and does not end with one")
        path = unicodedata.normalize("NFC", path)
        if len(path.encode()) > 1024 or "\0" in path:
            raise self._invalid("path has at most 1024 bytes and no NUL")
        if any(segment in ("", ".", "..") for segment in path[1:].split("/")):
            raise self._invalid("path has no empty, '.' or '..' segment")
        return path

    def _prefix(self, body: dict[str, Any]) -> str:
        prefix = body.get("pathPrefix", "/")
        if not isinstance(prefix, str) or not prefix.startswith("/") or not prefix.endswith("/"):
            raise self._invalid("pathPrefix begins and ends with a slash")
        if any(unicodedata.category(character) in ("Cc", "Cf") for character in prefix):
            raise self._invalid("pathPrefix has no control or format characters")
        return prefix

    def _full(self, body: dict[str, Any]) -> bool:
        view = body.get("view", "basic")
        if view not in ("basic", "full"):
            raise self._invalid("view must be basic or full")
        return bool(view == "full")

    def _content(self, body: dict[str, Any], path: str) -> tuple[bytes, str | None]:
        """The bytes and, of a binary file, its media type."""
        if ("content" in body) == ("contentBase64" in body):
            raise self._invalid("give exactly one of content and contentBase64")
        if "content" in body:
            if not isinstance(body["content"], str):
                raise self._invalid("content must be a string")
            content, media_type = body["content"].encode(), None
        else:
            try:
                content = base64.b64decode(str(body["contentBase64"]), validate=True)
            except binascii.Error:
                raise self._invalid("contentBase64 is no base64") from None
            extension = f".{path.rpartition('.')[2].lower()}"
            media_type, magic = BINARY.get(extension, (None, b""))
            if media_type is None or body.get("mediaType") != media_type or not content.startswith(magic):
                raise self._invalid("extension, mediaType and content of a binary file must agree")
        if len(content) > MAX_BYTES:
            raise Refusal(413, "PAYLOAD_TOO_LARGE", "a file holds at most 102400 bytes")
        return content, media_type

    @staticmethod
    def _actor(body: dict[str, Any]) -> dict[str, str]:
        session = body.get("sessionId")
        if session:
            return {"actorType": "session", "actorId": str(session)}
        return {"actorType": "api_key", "actorId": "key-of-the-tests"}

    # Stores

    def do_CreateMemoryStore(self, body: dict[str, Any]) -> dict[str, Any]:
        name = body.get("memoryStoreName")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]{1,32}", name):
            raise self._invalid("memoryStoreName has 1 to 32 letters, digits and underscores")
        if "storageMode" in body and ("inputType" in body or "outputTypes" in body):
            raise self._invalid("storageMode excludes inputType and outputTypes")
        mode = body.get("storageMode", "ots")
        if "inputType" in body or "outputTypes" in body:
            kinds = (body.get("inputType"), sorted(body.get("outputTypes") or [], reverse=True))
            mode = next((mode for mode, (given, made) in MODES.items() if kinds == (given, made)), None)
        if mode not in MODES:
            raise self._invalid("this combination of types does not exist")
        if len(str(body.get("description", "")).encode()) > 1024 or len(str(body.get("extractInstructions", ""))) > 4096:
            raise self._invalid("description or extractInstructions is too long")
        if name in self.stores:
            raise Refusal(self.guesses.conflict_status, "STORE_EXISTS", "a memory store of this name exists")
        now = self._now()
        description, instructions = body.get("description", ""), body.get("extractInstructions", "")
        self.stores[name] = _Store(name, description, instructions, mode, now, now)
        return self._store_object(self.stores[name])

    @staticmethod
    def _store_object(store: _Store) -> dict[str, Any]:
        given, made = MODES[store.mode]
        return {
            "memoryStoreName": store.name,
            "description": store.description,
            "extractInstructions": store.instructions,
            "storageMode": store.mode,
            "inputType": given,
            "outputTypes": made,
            "createdAt": store.created_at,
            "updatedAt": store.updated_at,
            "lastSeenAt": 0,
        }

    def do_GetMemoryStore(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._store_object(self._store(body))

    def do_UpdateMemoryStore(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._store(body)
        if len(str(body.get("description", "")).encode()) > 1024:
            raise self._invalid("description has at most 1024 bytes")
        store.description = body.get("description", store.description)
        store.instructions = body.get("extractInstructions", store.instructions)
        store.updated_at = self._now()
        return self._store_object(store)

    def do_ListMemoryStores(self, body: dict[str, Any]) -> dict[str, Any]:
        rows, more = self._page(body, sorted(self.stores), self._limit(body), "stores")
        shown = [self._store_object(self.stores[name]) for name in rows]
        return {"stores": [{k: s[k] for k in ("memoryStoreName", "inputType", "outputTypes")} for s in shown], **more}

    def do_DeleteMemoryStore(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._store(body)
        del self.stores[store.name]
        self.items = {key: item for key, item in self.items.items() if item.store != store.name}
        self.versions = [version for version in self.versions if version.store != store.name]
        self.units = {key: unit for key, unit in self.units.items() if unit.store != store.name}
        return {"deleted": True, "memoryStoreName": store.name}

    def do_ListMemoryStoreScopes(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._store(body)
        pattern = self._loose_scope(body)
        known = {i.scope for i in self.items.values() if i.store == store.name}
        known |= {u.scope for u in self.units.values() if u.store == store.name}
        rows = sorted(scope for scope in known if self._matches(pattern, scope) and self._filtered(body.get("filter"), scope))
        shown, more = self._page(body, rows, self._limit(body), ("scopes", store.name, pattern))
        found = [dict(zip(PARTS, scope, strict=True)) for scope in shown]
        return {"scopes": found, "scope": body["scope"], "memoryStoreName": store.name, **more}

    # Items

    def _item_object(self, item: _Item, *, full: bool, listed: bool = False) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "type": "memoryfile",
            "itemId": item.id,
            "scope": dict(zip(PARTS, item.scope, strict=True)),
            "path": item.path,
            "contentSha256": _sha256(item.content),
            "contentSizeBytes": len(item.content),
            "latestSeq": item.version.seq,
            "latestVersionId": item.version.id,
            "createdAt": item.created_at,
            "updatedAt": item.updated_at,
        }
        if item.media_type is not None:
            shown["mediaType"] = item.media_type
        if full and item.media_type is None:
            shown["content"] = item.content.decode()
        elif full and not listed:
            shown["contentBase64"] = base64.b64encode(item.content).decode()
        return shown

    def _record(self, item: _Item, operation: str, actor: dict[str, str]) -> None:
        gone = operation == "deleted"
        version = _Version(
            f"fmver3{uuid.uuid4().hex}",
            next(self._numbers),
            item.id,
            item.store,
            item.scope,
            operation,
            item.path,
            None if gone else item.content,
            item.media_type,
            self._now(),
            actor,
        )
        self.versions.append(version)
        item.version = version

    def _at(self, store: _Store, scope: Scope, path: str) -> _Item | None:
        for item in [*self.items.values(), *self.projected.get((store.name, scope), [])]:
            if (item.store, item.scope, item.path) == (store.name, scope, path):
                return item
        return None

    def _by_id(self, store: _Store, scope: Scope, item_id: Any) -> _Item:
        item = self.items.get(str(item_id))
        for projected in self.projected.get((store.name, scope), []):
            item = projected if projected.id == item_id else item
        if item is None or (item.store, item.scope) != (store.name, scope):
            raise self._missing("the item")
        return item

    def _addressed(self, body: dict[str, Any], store: _Store, scope: Scope) -> _Item:
        if ("itemId" in body) == ("path" in body):
            raise self._invalid("give exactly one of itemId and path")
        if "itemId" in body:
            return self._by_id(store, scope, body["itemId"])
        item = self._at(store, scope, self._path(body["path"]))
        if item is None:
            raise self._missing("the item")
        return item

    def _check_guard(self, body: dict[str, Any], item: _Item) -> None:
        expected = (body.get("precondition") or {}).get("expectedVersionId")
        if expected is not None and expected != item.version.id:
            raise Refusal(self.guesses.conflict_status, self.guesses.guard_code, "the item has another version by now")

    def project(self, store: str, scope: Scope, path: str, content: str) -> None:
        """What only the service can do: put a file into a read-only store."""
        now = self._now()
        version = _Version("", 1, "", store, scope, "created", path, content.encode(), None, now, {})
        version.id = f"fmver3{uuid.uuid4().hex}"
        item = _Item(f"mem_{uuid.uuid4().hex}", store, scope, path, content.encode(), None, version, now, now)
        held = self.projected.setdefault((store, scope), [])
        held[:] = [other for other in held if other.path != path] + [item]

    def do_AddItem(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._file_store(body, write=True)
        scope, path = self._scope(body), self._path(body.get("path"))
        content, media_type = self._content(body, path)
        if self._at(store, scope, path) is not None:
            raise Refusal(self.guesses.conflict_status, self.guesses.path_code, "an item with this path exists")
        held = sum(1 for item in self.items.values() if (item.store, item.scope) == (store.name, scope))
        if self.guesses.max_items is not None and held >= self.guesses.max_items:
            raise Refusal(409, "QUOTA_EXCEEDED", "the store and scope hold as many files as they may")
        now = self._now()
        blank = _Version("", 0, "", store.name, scope, "created", path, content, media_type, now, {})
        item = _Item(f"mem_{uuid.uuid4().hex}", store.name, scope, path, content, media_type, blank, now, now)
        self.items[item.id] = item
        self._record(item, "created", self._actor(body))
        return self._item_object(item, full=self._full(body))

    def do_GetItem(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._file_store(body)
        return self._item_object(self._addressed(body, store, self._scope(body)), full=self._full(body))

    def do_ListItems(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._file_store(body)
        pattern, prefix, full = self._scope(body, wild=store.versioned), self._prefix(body), self._full(body)
        depth = body.get("depth", 0)
        if depth not in (0, 1):
            raise self._invalid("depth must be 0 or 1")
        limit = self._limit(body)
        limit = min(limit, 20) if full else limit
        held = [item for item in self.items.values() if item.store == store.name and self._matches(pattern, item.scope)]
        held += self.projected.get((store.name, pattern), [])
        below = sorted((i for i in held if i.path.startswith(prefix)), key=lambda i: (i.scope, i.path.encode()))
        rows: list[dict[str, Any]] = []
        for item in below:
            first, slash, _ = item.path[len(prefix) :].partition("/")
            if depth == 1 and slash:
                scope = dict(zip(PARTS, item.scope, strict=True))
                row = {"type": "memoryfile_prefix", "scope": scope, "path": f"{prefix}{first}/"}
            else:
                row = self._item_object(item, full=full, listed=True)
            if row not in rows[-1:]:
                rows.append(row)
        shown, more = self._page(body, rows, limit, ("items", store.name, pattern, prefix, depth, full))
        return {"type": "memoryfile", "items": shown, **more, **({} if store.mode == "filemem" else {"readOnly": True})}

    def do_UpdateItem(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._file_store(body, write=True)
        scope = self._scope(body)
        if "itemId" not in body:
            raise self._invalid("itemId is required")
        if body.get("overwrite") and "path" not in body:
            raise self._invalid("overwrite needs path")
        has_content = "content" in body or "contentBase64" in body
        if "path" not in body and not has_content:
            raise self._invalid("give path or content")
        item = self._by_id(store, scope, body["itemId"])
        path = self._path(body["path"]) if "path" in body else item.path
        content, media_type = self._content(body, path) if has_content else (item.content, item.media_type)
        self._check_guard(body, item)
        occupier = self._at(store, scope, path)
        actor = self._actor(body)
        if occupier is not None and occupier is not item:
            if not body.get("overwrite"):
                raise Refusal(self.guesses.conflict_status, self.guesses.path_code, "an item with this path exists")
            del self.items[occupier.id]
            self._record(occupier, "deleted", actor)
        if (path, content) != (item.path, item.content):
            item.path, item.content, item.media_type, item.updated_at = path, content, media_type, self._now()
            self._record(item, "modified", actor)
        return self._item_object(item, full=self._full(body))

    def do_DeleteItem(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._file_store(body, write=True)
        scope = self._scope(body, wild=True)
        if "*" not in scope:
            item = self._addressed(body, store, scope)
            self._check_guard(body, item)
            del self.items[item.id]
            self._record(item, "deleted", self._actor(body))
            return {"type": "memoryfile", "itemId": item.id, "deleted": True}
        if "itemId" in body or "path" in body or "precondition" in body:
            raise self._invalid("a ranged deletion names no item")
        prefix = self._prefix(body)
        for item in list(self.items.values()):
            if item.store == store.name and self._matches(scope, item.scope) and item.path.startswith(prefix):
                del self.items[item.id]
                self._record(item, "deleted", self._actor(body))
        return {"type": "memoryfile", "taskId": f"fmdel_{uuid.uuid4().hex}", "status": "pending"}

    # Versions

    def _version_object(self, version: _Version, *, full: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "type": "memoryfile",
            "versionId": version.id,
            "itemId": version.item,
            "scope": dict(zip(PARTS, version.scope, strict=True)),
            "operation": version.operation,
            "createdBy": version.actor,
            "createdAt": version.created_at,
        }
        if version.redacted_at is not None:
            return {**shown, "redacted": True, "redactedAt": version.redacted_at, "redactedBy": version.redacted_by}
        shown["path"] = version.path
        if version.content is not None:
            shown |= {"contentSha256": _sha256(version.content), "contentSizeBytes": len(version.content)}
            if version.media_type is not None:
                shown["mediaType"] = version.media_type
            if full and version.media_type is None:
                shown["content"] = version.content.decode()
            elif full:
                shown["contentBase64"] = base64.b64encode(version.content).decode()
        return shown

    def do_ListItemVersions(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._file_store(body, versions=True)
        pattern, full = self._scope(body, wild=True), self._full(body)
        if body.get("apiKeyId"):
            raise self._invalid("apiKeyId is not supported yet")
        if body.get("operation") not in (None, "created", "modified", "deleted"):
            raise self._invalid("operation must be created, modified or deleted")
        limit = self._limit(body)
        session = body.get("sessionId")
        rows = [
            version
            for version in reversed(self.versions)
            if version.store == store.name
            and self._matches(pattern, version.scope)
            and body.get("itemId") in (None, version.item)
            and body.get("operation") in (None, version.operation)
            and (session is None or version.actor == {"actorType": "session", "actorId": session})
            and self._within(body, version.created_at)
        ]
        filters = [body.get(name) for name in ("itemId", "operation", "sessionId", "createdAtGte", "createdAtLte")]
        shown, more = self._page(body, rows, min(limit, 20) if full else limit, ("versions", store.name, pattern, filters))
        return {"type": "memoryfile", "versions": [self._version_object(v, full=full) for v in shown], **more}

    def _within(self, body: dict[str, Any], time: str) -> bool:
        return all(
            body.get(name) is None or good(self._time(time), self._time(body[name]))
            for name, good in (("createdAtGte", lambda a, b: a >= b), ("createdAtLte", lambda a, b: a <= b))
        )

    def _time(self, text: Any) -> datetime:
        try:
            return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        except ValueError:
            raise self._invalid("this is no RFC 3339 time") from None

    def _version(self, body: dict[str, Any]) -> _Version:
        store, scope = self._file_store(body, versions=True), self._scope(body)
        for version in self.versions:
            if (version.id, version.store, version.scope) == (body.get("versionId"), store.name, scope):
                return version
        raise self._missing("the version")

    def do_GetItemVersion(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._version_object(self._version(body), full=self._full(body))

    def do_RedactItemVersion(self, body: dict[str, Any]) -> dict[str, Any]:
        version = self._version(body)
        if version.redacted_at is None:
            version.redacted_at, version.redacted_by = self._now(), self._actor(body)
        return self._version_object(version, full=False)

    def do_DeleteItemVersions(self, body: dict[str, Any]) -> dict[str, Any]:
        store, pattern = self._file_store(body, write=True), self._scope(body, wild=True)
        if "*" not in pattern:
            raise self._invalid("the scope must end in '*'")
        if any(item.store == store.name and self._matches(pattern, item.scope) for item in self.items.values()):
            raise Refusal(self.guesses.conflict_status, "LIVE_ITEMS", "there are live items in this range")
        self.versions = [v for v in self.versions if v.store != store.name or not self._matches(pattern, v.scope)]
        return {"type": "memoryfile", "taskId": f"fmdel_{uuid.uuid4().hex}", "status": "pending"}

    # Structured memories

    def _loose_scope(self, body: dict[str, Any]) -> Scope:
        """The scope of memory actions: appId exact, the rest default to `__default__`, `*` is wild."""
        scope = body.get("scope")
        if not isinstance(scope, dict) or not scope.get("appId") or scope["appId"] == "*":
            raise self._invalid("scope.appId is required and must not be '*'")
        app, tenant, agent, run = (str(scope.get(part, "__default__")) for part in PARTS)
        return app, tenant, agent, run

    def _filtered(self, condition: Any, scope: Scope) -> bool:
        if condition is None:
            return True
        match condition:
            case {"op": "and", "conditions": list(conditions)}:
                return all(self._filtered(one, scope) for one in conditions)
            case {"op": "or", "conditions": list(conditions)}:
                return any(self._filtered(one, scope) for one in conditions)
            case {"op": "not", "condition": one}:
                return not self._filtered(one, scope)
            case {"op": "eq", "field": str(name), "value": str(value)}:
                held = "/".join(scope) if name == "text" else dict(zip(PARTS, scope, strict=True)).get(name, "")
                return re.fullmatch(re.escape(value).replace(r"\*", ".*"), held) is not None
        raise self._invalid("this filter is not understood")

    def do_AddMemories(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self._store(body)
        if store.mode == "filemem":
            raise self._invalid("this memory store takes files only")
        scope = self._loose_scope(body)
        if "*" in scope:
            raise self._invalid("the scope must be exact here")
        texts = [str(message.get("content", "")) for message in body.get("messages") or []] or [str(body.get("text", ""))]
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for text in texts:
            source = {"messageId": uuid.uuid4().hex, "timestampMs": int(datetime.now(UTC).timestamp() * 1000), "text": text}
            unit = _Unit(
                uuid.uuid4().hex,
                store.name,
                scope,
                "atomic_fact",
                text[:64],
                text,
                sorted(set(re.findall(r"\w{3,}", text)))[:8],
                dict(body.get("metadata") or {}),
                now,
                now,
                [source],
            )
            self.units[unit.id] = unit
        return {"taskId": f"task_{uuid.uuid4().hex}", "status": "completed", "memoryStoreName": store.name}

    def _unit_object(self, unit: _Unit) -> dict[str, Any]:
        return {
            "id": unit.id,
            "conversation_key": "/".join(unit.scope),
            "scope": dict(zip(PARTS, unit.scope, strict=True)),
            "unit_type": unit.unit_type,
            "title": unit.title,
            "text": unit.text,
            "search_text": f"{unit.title}\n{unit.text}",
            "keywords": unit.keywords,
            "source_turn_ids": [source["messageId"] for source in unit.sources],
            "metadata": unit.metadata,
            "deleted": False,
            "created_at": unit.created_at,
            "effective_at": unit.created_at,
            "updated_at": unit.updated_at,
            "salience": 0.8,
            "version": 1,
        }

    def do_ListMemories(self, body: dict[str, Any]) -> dict[str, Any]:
        store, pattern = self._store(body), self._loose_scope(body)
        rows = [
            unit
            for unit in self.units.values()
            if unit.store == store.name
            and self._matches(pattern, unit.scope)
            and self._filtered(body.get("filter"), unit.scope)
        ]
        shown, more = self._page(body, rows, self._limit(body), ("memories", store.name, pattern))
        return {"memories": [self._unit_object(unit) for unit in shown], "memoryStoreName": store.name, **more}

    def do_GetMemory(self, body: dict[str, Any]) -> dict[str, Any]:
        unit = self.units.get(str(body.get("memoryId")))
        if unit is None or unit.store != self._store(body).name:
            raise self._missing("the memory")
        return self._unit_object(unit)

    def do_DeleteMemory(self, body: dict[str, Any]) -> dict[str, Any]:
        self.do_GetMemory(body)
        del self.units[str(body["memoryId"])]
        return {"deleted": True, "memoryId": body["memoryId"]}

    # Search

    def _ratio(self, body: dict[str, Any], name: str) -> float | None:
        value = body.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise self._invalid(f"{name} must be between 0 and 1")
        return float(value)

    def do_SearchMemories(self, body: dict[str, Any]) -> dict[str, Any]:
        self.searches.append(body)
        store = self._store(body)
        query = body.get("query")
        if not isinstance(query, str) or not query or len(query) > 8192:
            raise self._invalid("query has 1 to 8192 characters")
        pattern = self._loose_scope(body)
        if "*" in pattern and "file" in MODES[store.mode][1]:
            raise self._invalid("a memory store with files cannot be searched with a wildcard scope")
        top = self._limit({"limit": body.get("topK", 10)}, most=50)
        thresholds = body.get("thresholds") or {}
        if thresholds and "minSimilarity" in body:
            raise self._invalid("minSimilarity and thresholds exclude each other")
        least_similarity = self._ratio(thresholds, "minSimilarity")
        least_score = self._ratio(thresholds, "minScore")
        least_score = self._ratio(body, "minSimilarity") if least_score is None else least_score
        metadata = self._search_metadata(body)
        context = self._context(body, pattern)

        def wanted(score: float) -> bool:
            return score > 0 and score >= (least_score or 0) and score >= (least_similarity or 0)

        results: list[dict[str, Any]] = []
        for unit in self.units.values() if "structured" in MODES[store.mode][1] else ():
            in_scope = unit.store == store.name and self._matches(pattern, unit.scope)
            if not in_scope or not self._filtered(body.get("filter"), unit.scope):
                continue
            if any(unit.metadata.get(key) != value for key, value in metadata.items()):
                continue
            score = _similarity(query, f"{unit.title}\n{unit.text}\n{' '.join(unit.keywords)}")
            if wanted(score):
                hit = {"unit": self._unit_object(unit), "score": score, "similarity": score, "source": "vector"}
                if context is not None:
                    same = unit.scope == context
                    hit |= {"rankingScore": score + 0.05 * same, "rankingSignals": {"sameSession": same}}
                results.append(hit)
        results.sort(key=lambda hit: hit.get("rankingScore", hit["score"]), reverse=True)
        files = []
        for item in self.projected.get((store.name, pattern), []):
            summary = item.content.decode()[:200]
            score = _similarity(query, summary)
            if wanted(score):
                files.append(
                    {
                        "type": "memoryfile",
                        "itemId": item.id,
                        "path": item.path,
                        "summary": summary,
                        "versionId": item.version.id,
                        "versionSeq": item.version.seq,
                        "score": score,
                        "similarity": score,
                    }
                )
        files.sort(key=lambda hit: hit["score"], reverse=True)
        answer: dict[str, Any] = {"results": results[:top], "fileResults": files[:top]}
        if body.get("includeEvidence"):
            answer["evidence"] = [source for hit in results[:top] for source in self.units[str(hit["unit"]["id"])].sources]
        return {**answer, "scope": dict(zip(PARTS, pattern, strict=True)), "memoryStoreName": store.name}

    def _search_metadata(self, body: dict[str, Any]) -> dict[str, str]:
        metadata = body.get("metadata") or {}
        wrong = not isinstance(metadata, dict) or len(metadata) > 16
        if wrong or any(len(k) > 64 or not isinstance(v, str) or len(v) > 1024 for k, v in metadata.items()):
            raise self._invalid("metadata has at most 16 pairs of 64 and 1024 characters")
        return dict(metadata)

    def _context(self, body: dict[str, Any], pattern: Scope) -> Scope | None:
        if "contextScope" not in body:
            return None
        context = self._scope({"scope": body["contextScope"]})
        if not self._matches(pattern, context) or not self._filtered(body.get("filter"), context):
            raise self._invalid("contextScope must lie in scope and satisfy filter")
        return context


def _pieces(text: str) -> Iterator[str]:
    lowered = text.lower()
    yield from re.findall(r"[a-z0-9]+", lowered)
    han = re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", lowered)
    yield from ("".join(pair) for pair in itertools.pairwise(han))


def _similarity(query: str, text: str) -> float:
    """How much of the query's words the text has, between 0 and 1."""
    wanted, held = set(_pieces(query)), set(_pieces(text))
    return round(len(wanted & held) / len(wanted), 6) if wanted else 0.0
