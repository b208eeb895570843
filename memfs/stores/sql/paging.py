"""Pages: limits, and cursors that only fit the request they came from (contract sections 1.4 and 14, choices 6 and 7)."""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence

from memfs.model.errors import InvalidRequest
from memfs.model.objects import View
from memfs.stores.base import MAX_FULL_LIMIT

_PREFIX = "page_"
_DIGEST_BYTES = 9

Position = list[str | int]


def check_limit(limit: int, maximum: int, view: View = "basic") -> int:
    """How many items a page may hold; raises `InvalidRequest` when `limit` is out of range."""
    if not 1 <= limit <= maximum:
        raise InvalidRequest(f"limit must be from 1 to {maximum:,}")
    return min(limit, MAX_FULL_LIMIT) if view == "full" else limit


def check_view(view: str) -> None:
    if view not in ("basic", "full"):
        raise InvalidRequest("view must be basic or full")


def cursor(request: Sequence[object], position: Position) -> str:
    """The `next_page` after `position`, bound to the `request`: all parameters but limit and page."""
    place = json.dumps(position, separators=(",", ":")).encode()
    return _PREFIX + base64.urlsafe_b64encode(_digest(request, place) + place).decode().rstrip("=")


def position(request: Sequence[object], page: str, kinds: Sequence[type]) -> Position:
    """The position that `cursor` was given, values of these `kinds`; raises `InvalidRequest` for any other text."""
    encoded = page.removeprefix(_PREFIX)
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    digest, place = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
    if not page.startswith(_PREFIX) or not place or digest != _digest(request, place):
        raise InvalidRequest("page is not a cursor of this list: repeat the request that gave it, or begin without page")
    found: Position = json.loads(place)
    if [type(value) for value in found] != list(kinds):
        raise InvalidRequest("page is a cursor of another version of this program: begin again without page")
    return found


def _digest(request: Sequence[object], place: bytes) -> bytes:
    return hashlib.sha256(json.dumps([*request]).encode() + b"\0" + place).digest()[:_DIGEST_BYTES]
