"""Three-way merge of texts by lines, and the name of the file that takes what cannot be merged; pure.

A line ends with ``\\n``; a ``\\r`` before it is part of the line end, any other ``\\r`` (or NUL) is an ordinary character. No
line end is changed, except that one is added where a text without a final line end would run into the next line.

What merges:

* Edits that leave at least one common line unchanged between them. Edits of neighbouring lines, and insertions at the same
  place within the text, overlap: which words belong together is then not for a program to guess.
* Additions of both sides after the last line: theirs, then ours, each in full, even where both added the same line (two agents
  that log the same words have made two entries). This holds also when the texts differ elsewhere.
* A last line without a line end counts as that line, not as another one. One side may continue it while the other adds lines
  below; when both continue it differently, both changed one line, and that is an overlap.
* The same change made by both sides at one place within the text is made once, and what both deleted is gone. Deleting
  lines that the other side changed is an overlap.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from posixpath import splitext
from typing import Any, cast

from merge3 import Merge3
from patiencediff import PatienceSequenceMatcher

from memfs.model.content import MAX_CONTENT_BYTES
from memfs.replica.scratch import ScratchRules

_LF = b"\n"
_CRLF = b"\r\n"


@dataclass(frozen=True)
class Merged:
    """A text that holds the changes of both sides; UTF-8 of at most 102,400 bytes, so a memory can hold it."""

    content: bytes


@dataclass(frozen=True)
class Overlap:
    """Both sides must be kept apart; `reason` says why, in words for a person."""

    reason: str


def merge(base: bytes, ours: bytes, theirs: bytes) -> Merged | Overlap:
    """Apply to `base` what `ours` and `theirs` made of it.

    Equal sides give that side, and when one side did not change `base` the result is the other one, byte for byte. The cost
    grows with n log n of the number of lines, whatever they hold.
    """
    if ours in (theirs, base):
        return _storable(theirs)
    if theirs == base:
        return _storable(ours)
    newline = _line_end(base) or _line_end_of_sides(base, ours, theirs)
    if ours.startswith(base) and theirs.startswith(base):
        merged = _append(base, ours, theirs, newline)
    else:
        merged = _merge_lines(base, ours, theirs, newline)
    return Overlap("both sides changed the same lines") if merged is None else _storable(merged)


def _storable(content: bytes) -> Merged | Overlap:
    if len(content) > MAX_CONTENT_BYTES:
        return Overlap(f"together both sides are longer than the {MAX_CONTENT_BYTES:,} bytes of a memory")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return Overlap("the merged text would not be UTF-8")
    return Merged(content)


def _line_end(text: bytes) -> bytes:
    """The last line end in `text`; empty when it has none."""
    last = text.rfind(_LF)
    if last < 0:
        return b""
    return _CRLF if text[last - 1 : last] == b"\r" else _LF


def _line_end_of_sides(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """The line end for texts whose base has none: that of the sides, or where they differ, one that keeps the base's line."""
    ends = {_line_end(ours), _line_end(theirs)}
    if _CRLF in ends and (_LF not in ends or (base + _CRLF) in (ours[: len(base) + 2], theirs[: len(base) + 2])):
        return _CRLF
    return _LF


def _is_finished(text: bytes) -> bool:
    """Whether something added after `text` begins a new line."""
    return not text or text.endswith(_LF)


def _append(base: bytes, ours: bytes, theirs: bytes, newline: bytes) -> bytes | None:
    """`base`, which both sides begin with, and the additions of both; None when both continue its last line differently."""
    ours_rest, ours_end, ours_lines = _split_addition(base, ours)
    theirs_rest, theirs_end, theirs_lines = _split_addition(base, theirs)
    if ours_rest and theirs_rest and ours_rest != theirs_rest:
        return None
    merged = base + (theirs_rest or ours_rest)
    lines = _join(theirs_lines, ours_lines, newline)
    if _is_finished(base):
        return merged + lines
    return merged + (theirs_end or ours_end) + lines


def _split_addition(base: bytes, text: bytes) -> tuple[bytes, bytes, bytes]:
    """What `text` adds to `base`: the rest of an unfinished last line, the end of that line, and the lines below."""
    addition = text[len(base) :]
    if _is_finished(base):
        return b"", b"", addition
    rest, end, lines = addition.partition(_LF)
    if end and rest.endswith(b"\r"):
        rest, end = rest[:-1], _CRLF
    return rest, end, lines


def _join(first: bytes, second: bytes, newline: bytes) -> bytes:
    """`second` on lines of its own below `first`."""
    return first + newline + second if second and not _is_finished(first) else first + second


def _merge_lines(base: bytes, ours: bytes, theirs: bytes, newline: bytes) -> bytes | None:
    """Merge by lines; None on an overlap."""
    # A missing final line end would make the last line differ from the same line with an end, so each text gets one for the
    # comparison; whether the result has one is merged apart.
    base_lines, ours_lines, theirs_lines = (_lines(text, newline) for text in (base, ours, theirs))
    # Patience matching takes n log n even for texts of equal or shuffled lines, where difflib takes minutes.
    merger = Merge3(base_lines, ours_lines, theirs_lines, sequence_matcher=cast(Any, PatienceSequenceMatcher))
    finished = _is_finished(ours) if _is_finished(theirs) == _is_finished(base) else _is_finished(theirs)
    merged: list[bytes] = []
    passed = 0  # base lines known to lie behind; a region that one side replaced does not tell, the next unchanged one does
    for region in merger.merge_regions():
        if region[0] == "unchanged":
            merged += base_lines[region[1] : region[2]]
            passed = region[2]
        elif region[0] == "conflict":
            _, start, end, ours_start, ours_end, theirs_start, theirs_end = region
            if start < end or end < len(base_lines):
                return None
            merged += theirs_lines[theirs_start:theirs_end] + ours_lines[ours_start:ours_end]
            finished = _is_finished(ours)
        elif region[0] == "same":
            twice = passed == len(base_lines)  # additions at the end, of equal lines
            merged += ours_lines[region[1] : region[2]] * (2 if twice else 1)
        else:
            merged += (ours_lines if region[0] == "a" else theirs_lines)[region[1] : region[2]]
    text = b"".join(merged)
    if finished or (newline == _LF and text.endswith(_CRLF)):
        return text
    unfinished = text.removesuffix(newline)
    # An empty last line without its end would be none.
    return text if _is_finished(unfinished) else unfinished


def _lines(text: bytes, newline: bytes) -> list[bytes]:
    """The lines of `text` with their ends; the last one gets `newline` where it has none."""
    finished = text if _is_finished(text) else text + newline
    return [line + _LF for line in finished.split(_LF)[:-1]]


_PLAIN_RULES = ScratchRules()
_MAX_NAME_BYTES = 255


def sidecar_name(
    name: str,
    time: datetime,
    session_tail: str,
    *,
    rules: ScratchRules = _PLAIN_RULES,
    max_bytes: int = _MAX_NAME_BYTES,
) -> str:
    """The name, beside the file `name`, of what could not be merged into it: ``name.conflict-<time>-<session tail>.ext``.

    It is a legal path segment of at most `max_bytes` (the middle needs about 50 of them), in which a long `name` is cut. It is
    no scratch or backup name by `rules`, or the conflict would never reach the store: where the name's own beginning or
    extension would make it one, they are made plain or left out. The time has microseconds, so that two conflicts of one
    session differ. `time` must be aware.
    """
    tail = "".join(character for character in session_tail if character.isascii() and character.isalnum())[-16:]
    middle = f"conflict-{time.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-{tail or 'unknown'}"
    stem, extension = splitext(name)
    plain = re.sub(r"\W+", "_", stem).strip("_")
    if len(extension.encode()) > 32:
        stem, extension = name, ""
    for start, end in ((stem, extension), (stem, ""), (plain, extension), (plain, "")):
        room = max_bytes - len(middle) - 1 - len(end.encode())
        if room < 0:
            continue
        start = start.encode()[:room].decode("utf-8", "ignore")
        candidate = f"{start}.{middle}{end}" if start else f"{middle}{end}"
        if not rules.is_backup(candidate):
            return candidate
    return middle
