"""Errors as the wire shows them (contract sections 1.2 and 1.3)."""

import json
import logging
from typing import Any

from starlette.responses import Response

from memfs.model.errors import (
    ConcurrentModification,
    InvalidRequest,
    MemfsError,
    NotFound,
    NotSupported,
    PathConflict,
    PermissionDenied,
    PreconditionFailed,
    RateLimited,
    ReadOnly,
    Unauthenticated,
    Unavailable,
)

# The first that fits; subclasses stand before their base.
_STATUSES: tuple[tuple[type[MemfsError], int, str], ...] = (
    (InvalidRequest, 400, "invalid_request_error"),
    (NotSupported, 400, "invalid_request_error"),
    (Unauthenticated, 401, "authentication_error"),
    (PermissionDenied, 403, "permission_error"),
    (ReadOnly, 403, "permission_error"),
    (NotFound, 404, "not_found_error"),
    (PathConflict, 409, "memory_path_conflict_error"),
    (PreconditionFailed, 409, "memory_precondition_failed_error"),
    (ConcurrentModification, 409, "conflict_error"),
    (RateLimited, 429, "rate_limit_error"),
    (Unavailable, 503, "api_error"),
)


log = logging.getLogger("memfs.server")


def json_response(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


def envelope(status: int, kind: str, message: str, request_id: str, **fields: str) -> Response:
    """An error in the contract's envelope; `fields` stand beside type and message."""
    error: dict[str, Any] = {"type": kind, "message": message, **fields}
    body = json.dumps({"type": "error", "error": error, "request_id": request_id}).encode()
    headers: dict[str, str] = {}
    if kind in ("memory_path_conflict_error", "memory_precondition_failed_error"):
        headers["x-should-retry"] = "false"  # the official clients repeat a 409 otherwise, in vain (section 14, choice 2)
    if status == 503:
        headers["retry-after"] = "1"
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return json_response(body, status, headers)


def error_response(error: MemfsError, request_id: str) -> Response:
    for kind, status, name in _STATUSES:
        if isinstance(error, kind):
            if status == 503:
                # What is wrong with our database is for the administrator.
                log.error("%s: %s", request_id, error.message)
                return envelope(status, name, "the store cannot answer now: try again", request_id)
            fields = {}
            if isinstance(error, PathConflict):
                fields = {"conflicting_path": error.path, "conflicting_memory_id": error.memory_id or ""}
            return envelope(status, name, error.message, request_id, **fields)
    log.error("%s: %s: %s", request_id, type(error).__name__, error.message)
    return envelope(500, "api_error", "internal error", request_id)
