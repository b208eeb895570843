"""`SearchMemories`: the limits of its fields, checked before anything is sent, and the body that says them."""

from collections.abc import Mapping
from typing import Any

from memfs.model.errors import InvalidRequest
from memfs.stores.base import SearchRequest
from memfs.stores.tablestore.scope import Scope, parse_exact, parse_search

MAX_QUERY = 8_192
MAX_TOP_K = 50
MAX_METADATA = 16
MAX_KEY = 64
MAX_VALUE = 1_024


def search_body(request: SearchRequest, store: str, own: Scope, *, has_files: bool) -> dict[str, Any]:
    """The body of the request; `own` is the scope of the mount. Raises `InvalidRequest` for what the service would refuse."""
    if not request.query or len(request.query) > MAX_QUERY:
        raise InvalidRequest(f"a query has 1 to {MAX_QUERY:,} characters")
    scope = parse_search(request.scope) if request.scope is not None else own
    if has_files and not scope.exact:
        raise InvalidRequest(f"scope {str(scope)!r}: a store that makes files is searched in an exact scope only")
    body: dict[str, Any] = {"memoryStoreName": store, "query": request.query, "scope": scope.wire()}
    if request.filter is not None:
        body["filter"] = dict(request.filter)
    if request.context_scope is not None:
        body["contextScope"] = _context(request.context_scope, scope).wire()
    if request.top_k is not None:
        if not 1 <= request.top_k <= MAX_TOP_K:
            raise InvalidRequest(f"top-k is between 1 and {MAX_TOP_K}")
        body["topK"] = request.top_k
    thresholds = {
        name: _ratio(name, value)
        for name, value in (("minSimilarity", request.min_similarity), ("minScore", request.min_score))
        if value is not None
    }
    if thresholds:
        body["thresholds"] = thresholds
    if request.metadata:
        body["metadata"] = _metadata(request.metadata)
    body["enableRerank"] = request.rerank
    body["includeEvidence"] = request.evidence
    return body


def _context(text: str, scope: Scope) -> Scope:
    context = parse_exact(text)
    if any(wanted not in ("*", part) for wanted, part in zip(scope.parts, context.parts, strict=True)):
        raise InvalidRequest(f"context scope {text!r} does not lie in scope {str(scope)!r}")
    return context


def _ratio(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InvalidRequest(f"{name} is between 0 and 1")
    return value


def _metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    if len(metadata) > MAX_METADATA or any(len(k) > MAX_KEY or len(v) > MAX_VALUE for k, v in metadata.items()):
        raise InvalidRequest(f"metadata has at most {MAX_METADATA} keys of {MAX_KEY} characters, with values of {MAX_VALUE:,}")
    return dict(metadata)
