"""Path rules of the contract, section 4.1, and the words for parts of a path.

A memory path is absolute within its store: ``/profile/coffee.md``. A prefix is a path that ends with a slash, and stands for
everything below: ``/profile/``; the prefix of the whole store is ``/``.
"""

import unicodedata
from typing import NewType

from memfs.model.errors import InvalidPath, PathTooLong

MemoryPath = NewType("MemoryPath", str)

MAX_PATH_BYTES = 1024
MAX_SEGMENTS = 20

_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})


def check_segment(segment: str) -> None:
    """Raise `InvalidPath` unless `segment` may stand between two slashes."""
    if not segment:
        raise InvalidPath("a path must not have empty segments")
    if segment in (".", ".."):
        raise InvalidPath("a path must not have '.' or '..' segments")
    if "/" in segment:
        raise InvalidPath("a segment must not contain a slash")
    if segment.isascii():
        if not segment.isprintable():
            raise InvalidPath("a path must not contain control characters")
        return
    for character in segment:
        if unicodedata.category(character) in _FORBIDDEN_CATEGORIES:
            raise InvalidPath("a path must not contain control, format or separator characters or surrogates")
    if not unicodedata.is_normalized("NFC", segment):
        raise InvalidPath("a path must be in Unicode normalization form NFC")


def check_path(path: str) -> MemoryPath:
    """Return `path` as a `MemoryPath`; raise `InvalidPath` (or `PathTooLong`) with the rule it breaks."""
    if not path.startswith("/"):
        raise InvalidPath("a path must begin with a slash")
    if path == "/":
        raise InvalidPath("a path must have at least one segment")
    segments = path[1:].split("/")
    for segment in segments:
        check_segment(segment)
    check_length(path, len(segments))
    return MemoryPath(path)


def check_length(path: str, segments: int) -> None:
    """Raise `PathTooLong` when `path`, of so many `segments`, is longer than a store can hold."""
    if segments > MAX_SEGMENTS:
        raise PathTooLong(f"a path has at most {MAX_SEGMENTS} segments, this one has {segments}")
    if len(path) > MAX_PATH_BYTES or len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        raise PathTooLong(f"a path has at most {MAX_PATH_BYTES} bytes of UTF-8")


def check_prefix(prefix: str) -> str:
    """Return `prefix`; raise `InvalidPath` unless it begins and ends with a slash (section 3.1)."""
    if not prefix.startswith("/") or not prefix.endswith("/"):
        raise InvalidPath("path_prefix must begin and end with a slash")
    return prefix


def can_hold(prefix: str) -> bool:
    """Whether a memory can be below `prefix`, which is one by `check_prefix`."""
    try:
        return prefix == "/" or bool(check_path(prefix[:-1]))
    except InvalidPath:
        return False


def ancestors(path: str) -> list[str]:
    """The paths above `path`, nearest the root first: ``/a/b/c`` gives ``/a`` and ``/a/b``."""
    segments = path.split("/")
    return ["/".join(segments[:end]) for end in range(2, len(segments))]


def parent_prefix(path: str) -> str:
    """The prefix that directly holds `path`: ``/a/`` for ``/a/b``, ``/`` for ``/a``."""
    return path[: path.rindex("/") + 1]
