"""Names as they come from the kernel, and as the store has them."""

import unicodedata

from memfs.model.errors import PathNotUnicode, PathTooLong
from memfs.model.paths import check_segment
from memfs.replica.tree import NAME_MAX


def check_name(name: bytes) -> str:
    """The segment that a directory entry's `name` stands for, in NFC. Raises `InvalidPath` and what derives from it."""
    if len(name) > NAME_MAX:
        raise PathTooLong(f"a name has at most {NAME_MAX} bytes")
    try:
        segment = name.decode("utf-8")
    except UnicodeDecodeError:
        raise PathNotUnicode("a name must be UTF-8") from None
    if not segment.isascii():
        segment = unicodedata.normalize("NFC", segment)
        if len(segment.encode()) > NAME_MAX:
            raise PathTooLong(f"a name has at most {NAME_MAX} bytes")
    check_segment(segment)
    return segment


def look_up_name(name: bytes) -> str | None:
    """As `check_name`, but None for a name that nothing can have. Raises `PathTooLong` for one over 255 bytes."""
    if len(name) > NAME_MAX:
        raise PathTooLong(f"a name has at most {NAME_MAX} bytes")
    try:
        segment = name.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if segment.isascii():
        return segment
    return unicodedata.normalize("NFC", segment)
