"""Content rules of the contract, section 4.2: UTF-8 text of at most 102,400 bytes, never normalised."""

import hashlib
from typing import NewType

from memfs.model.errors import ContentNotText, ContentTooLarge

Sha256 = NewType("Sha256", str)
"""Lowercase hex SHA-256 of a content's UTF-8 bytes."""

MAX_CONTENT_BYTES = 102_400


def sha256_of(content: bytes) -> Sha256:
    return Sha256(hashlib.sha256(content).hexdigest())


EMPTY_SHA256 = sha256_of(b"")


def is_sha256(text: str) -> bool:
    """Whether `text` is 64 lowercase hex digits."""
    return len(text) == 64 and all(character in "0123456789abcdef" for character in text)


def check_size(size: int) -> None:
    """Raise `ContentTooLarge` when a memory cannot hold `size` bytes."""
    if size > MAX_CONTENT_BYTES:
        raise ContentTooLarge(
            f"a memory holds at most {MAX_CONTENT_BYTES:,} bytes, this would be {size:,}: split it into several files"
        )


def decode(content: bytes) -> str:
    """The text of `content`; raise `ContentTooLarge` or `ContentNotText` when no memory can hold it."""
    check_size(len(content))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ContentNotText(f"a memory holds UTF-8 text, byte {error.start} is none: keep binary files elsewhere") from None


def encode(text: str) -> bytes:
    """The UTF-8 bytes of `text`; raise as `decode` does (a lone surrogate is not text)."""
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ContentNotText("content must not contain lone surrogates") from None
    check_size(len(content))
    return content


def check_fragment(fragment: bytes, *, at_start: bool = False) -> None:
    """Raise `ContentNotText` unless `fragment` can be a piece cut out of UTF-8 text at any byte.

    It may end in an unfinished character, and, unless it is the text's beginning (`at_start`), begin with the end of one (up to
    three continuation bytes).
    """
    if fragment.isascii():
        return
    start = 0
    while not at_start and start < min(3, len(fragment)) and fragment[start] & 0xC0 == 0x80:
        start += 1
    end = len(fragment)
    for back in range(1, min(3, end - start) + 1):
        lead = fragment[end - back]
        if lead & 0xC0 == 0x80:
            continue
        length = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
        if length > back:
            _check_unfinished(fragment[end - back : end])
            end -= back
        break
    try:
        fragment[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ContentNotText(f"a memory holds UTF-8 text, byte {start + error.start} of this write is none") from None


def _check_unfinished(tail: bytes) -> None:
    """Raise `ContentNotText` unless some continuation completes `tail` to one character."""
    try:
        tail.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            raise ContentNotText("a memory holds UTF-8 text, this write ends in bytes that are none") from None
