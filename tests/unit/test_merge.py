"""The three-way merge: nobody's words vanish, whatever both sides did."""

import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfs.model.content import MAX_CONTENT_BYTES
from memfs.model.paths import check_segment
from memfs.replica.merge import Merged, Overlap, merge, sidecar_name
from memfs.replica.scratch import ScratchRules

# Few distinct lines, so that equal lines, shared changes and ambiguous alignments are common.
_LINE = st.sampled_from(["", "a", "b", "c", "- x", "é", "\r", "m\rn", "\x00", "\u2028"])
_END = st.sampled_from(["\n", "\n", "\n", "\r\n"])


@st.composite
def _texts(draw: st.DrawFn) -> bytes:
    text = "".join(line + end for line, end in draw(st.lists(st.tuples(_LINE, _END), max_size=8)))
    return (text + draw(st.sampled_from(["", "", "z", "a"]))).encode()


@st.composite
def _edits(draw: st.DrawFn, base: bytes) -> bytes:
    """`base` after up to three edits, each of which replaces a few lines by a few others, or adds text at the end."""
    lines = base.splitlines(keepends=True) if draw(st.booleans()) else base.split(b"\n")
    joint = b"" if lines and lines[-1:] != [b""] and b"".join(lines) == base else b"\n"
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(lines)))
        end = draw(st.integers(start, min(len(lines), start + 2)))
        lines[start:end] = [line.encode() + (b"" if joint else b"\n") for line in draw(st.lists(_LINE, max_size=2))]
    return joint.join(lines) + draw(st.sampled_from([b"", b"", b"added\n", b"\nadded", b"a\n", b"\r\n"]))


@st.composite
def _forks(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    """A base, and what two sides made of it."""
    base = draw(_texts())
    sides = draw(st.sampled_from(["edits", "texts"]))
    strategy = _edits(base) if sides == "edits" else _texts()
    return base, draw(strategy), draw(strategy)


def _bare_lines(text: bytes) -> list[bytes]:
    """The lines without their ends. A text may end in a lone ``\\r``, which is part of a line end when the text goes on."""
    return [line.rstrip(b"\r") for line in text.removesuffix(b"\n").split(b"\n")] if text else []


@settings(max_examples=1500, deadline=None)
@given(_forks())
def test_no_line_that_a_side_added_is_missing(fork: tuple[bytes, bytes, bytes]) -> None:
    base, ours, theirs = fork
    merged = merge(base, ours, theirs)
    if isinstance(merged, Overlap):
        assert base not in (ours, theirs)
        assert ours != theirs
        return
    result = Counter(_bare_lines(merged.content))
    for side in (ours, theirs):
        for line in Counter(_bare_lines(side)) - Counter(_bare_lines(base)):
            assert result[line] > 0, (line, merged.content)


@settings(max_examples=1500, deadline=None)
@given(_forks())
def test_the_merge_invents_no_line(fork: tuple[bytes, bytes, bytes]) -> None:
    base, ours, theirs = fork
    merged = merge(base, ours, theirs)
    if isinstance(merged, Merged):
        assert set(_bare_lines(merged.content)) <= {*_bare_lines(base), *_bare_lines(ours), *_bare_lines(theirs)}


@settings(max_examples=1000, deadline=None)
@given(_forks())
def test_swapping_the_sides_changes_only_the_order(fork: tuple[bytes, bytes, bytes]) -> None:
    base, ours, theirs = fork
    one, other = merge(base, ours, theirs), merge(base, theirs, ours)
    assert type(one) is type(other)
    if isinstance(one, Merged) and isinstance(other, Merged):
        assert Counter(_bare_lines(one.content)) == Counter(_bare_lines(other.content))


@settings(deadline=None)
@given(_forks())
def test_merging_again_gives_the_same(fork: tuple[bytes, bytes, bytes]) -> None:
    assert merge(*fork) == merge(*fork)


@settings(deadline=None)
@given(_texts(), _texts())
def test_equal_sides_and_unchanged_sides(base: bytes, changed: bytes) -> None:
    assert merge(base, changed, changed) == Merged(changed)
    assert merge(base, base, changed) == Merged(changed)
    assert merge(base, changed, base) == Merged(changed)


@settings(deadline=None)
@given(_texts(), st.lists(_LINE, min_size=1, max_size=4), st.lists(_LINE, min_size=1, max_size=4))
def test_lines_that_both_appended_all_stay_in_order(base: bytes, ours: list[str], theirs: list[str]) -> None:
    if base and not base.endswith(b"\n"):
        base += b"\n"
    our_lines, their_lines = (b"".join(line.encode() + b"\n" for line in lines) for lines in (ours, theirs))
    merged = merge(base, base + our_lines, base + their_lines)
    assert merged == Merged(base + (our_lines if ours == theirs else their_lines + our_lines))


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        pytest.param(b"1\n2\n3\n", b"one\n2\n3\n", b"1\n2\nthree\n", b"one\n2\nthree\n", id="edits of different lines"),
        pytest.param(b"1\r\n2\r\n3\r\n", b"one\r\n2\r\n3\r\n", b"1\r\n2\r\n3\r\n4\r\n", b"one\r\n2\r\n3\r\n4\r\n", id="crlf"),
        pytest.param(b"1\n2\n3", b"one\n2\n3", b"1\n2\nthree", b"one\n2\nthree", id="no final line end anywhere"),
        pytest.param(b"1\n2\n3", b"one\n2\n3", b"1\n2\n3\n", b"one\n2\n3\n", id="one side adds the final line end"),
        pytest.param(b"1\n2\n3\n", b"one\n2\n3\n", b"1\n2\n3", b"one\n2\n3", id="one side takes the final line end away"),
        pytest.param(b"", b"ours\n", b"theirs\n", b"theirs\nours\n", id="both fill an empty file"),
        pytest.param(b"a\n", b"a\nM\n", b"a\nL\n", b"a\nL\nM\n", id="both append"),
        pytest.param(b"a\n", b"a\nM", b"a\nL", b"a\nL\nM", id="both append without a line end"),
        pytest.param(b"a\n", b"a\n\nM\n", b"a\nL", b"a\nL\n\nM\n", id="an appended blank line stays"),
        pytest.param(b"a\n", b"a\n\n", b"a", b"a\n\n", id="a blank line stays, though the other side ends without a line end"),
        pytest.param(b"a\r\n", b"a\r\nM", b"a\r\nL", b"a\r\nL\r\nM", id="the line end put between is the text's own"),
        pytest.param(b"a", b"a\nM\n", b"a\nL\n", b"a\nL\nM\n", id="unfinished base, both end its line and append"),
        pytest.param(b"a", b"a\nM", b"a\nL", b"a\nL\nM", id="unfinished base, nobody ends his own"),
        pytest.param(b"a", b"a\r\nM\r\n", b"a\r\nL\r\n", b"a\r\nL\r\nM\r\n", id="unfinished base, crlf"),
        pytest.param(b"a", b"a\nM\n", b"aL\n", b"aL\nM\n", id="they continue the unfinished line, we append"),
        pytest.param(b"a", b"aM\n", b"a\nL\n", b"aM\nL\n", id="we continue the unfinished line, they append"),
        pytest.param(b"a", b"aM", b"a\nL", b"aM\nL", id="the same without line ends"),
        pytest.param(b"a", b"aL\nM\n", b"aL", b"aL\nM\n", id="both continue the line alike"),
        pytest.param(b"a", b"a\n", b"a\nL", b"a\nL", id="we only end the line"),
        pytest.param(b"1\n", b"1\nL\nM\n", b"1\nL\n", b"1\nL\nL\nM\n", id="both logged the same line"),
        pytest.param(b"1\n2\n", b"one\n2\nL\n", b"1\n2\nL\n", b"one\n2\nL\nL\n", id="both logged the same line, one edited"),
        pytest.param(b"1\n2\n", b"one\n2\nM\n", b"1\n2\nL\n", b"one\n2\nL\nM\n", id="both append, one edited as well"),
        pytest.param(b"1\n2\n", b"one\n2\nM\n", b"1\n2\nL", b"one\n2\nL\nM\n", id="the same, their last line unfinished"),
        pytest.param(b"z", b"z\r\n", b"\nz", b"\nz\r\n", id="the sides differ in their line ends"),
        pytest.param(b"z", b"\nz", b"z\r\n", b"\nz\r\n", id="the same, the other way round"),
        pytest.param(b"1\n2\n3\n", b"one\n2\n3\n", b"1\n2\n", b"one\n2\n", id="a deletion and an edit apart from it"),
        pytest.param(b"1\n2\n3\n4\n", b"1\n3\n4\n", b"1\n3\nfour\n", b"1\n3\nfour\n", id="both delete the same line"),
        pytest.param(b"1\n2\n3\n", b"1\nX\n3\n4\n", b"0\n1\nX\n3\n", b"0\n1\nX\n3\n4\n", id="the same change within the text"),
        pytest.param(
            b"a\rb\n2\nc\rd\n", b"a\rB\n2\nc\rd\n", b"a\rb\n2\nC\rd\n", b"a\rB\n2\nC\rd\n", id="a lone cr ends no line"
        ),
        pytest.param(b"\x00\n2\n\x00\n", b"\x00!\n2\n\x00\n", b"\x00\n2\n!\x00\n", b"\x00!\n2\n!\x00\n", id="nul"),
    ],
)
def test_merges(base: bytes, ours: bytes, theirs: bytes, merged: bytes) -> None:
    assert merge(base, ours, theirs) == Merged(merged)


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        pytest.param(b"1\n2\n3\n", b"1\ntwo\n3\n", b"1\nzwei\n3\n", id="the same line"),
        pytest.param(b"1\n2\n3\n4\n", b"1\ntwo\n3\n4\n", b"1\n2\nthree\n4\n", id="neighbouring lines"),
        pytest.param(b"1\n2\n", b"1\nours\n2\n", b"1\ntheirs\n2\n", id="insertions at one place within the text"),
        pytest.param(b"1\n2\n3\n", b"1\n3\n", b"1\ntwo\n3\n", id="deleted here, changed there"),
        pytest.param(b"1\n2\n3\n", b"1\n3\n", b"1\n2\nnew\n3\n", id="deleted here, continued there"),
        pytest.param(b"1\n2\n", b"", b"1\n2\n3\n", id="emptied here, appended there"),
        pytest.param(b"1\n2", b"1\n2 ours", b"1\n2 theirs", id="both continue the unfinished line"),
        pytest.param(b"1\n2\n", b"1\ntwo\nM\n", b"1\n2\nL\n", id="last line changed here, appended there"),
        pytest.param(b"", b"x" * 60_000 + b"\n", b"y" * 60_000 + b"\n", id="longer than a memory"),
        pytest.param(b"\n", b"\n\xff\n", b"\n2\n", id="not UTF-8"),
    ],
)
def test_overlaps(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert isinstance(merge(base, ours, theirs), Overlap)
    assert isinstance(merge(base, theirs, ours), Overlap)


def test_the_largest_memory_that_a_merge_makes() -> None:
    base = b"x" * (MAX_CONTENT_BYTES - 5) + b"\n"
    assert merge(base, base + b"1\n", base + b"2\n") == Merged(base + b"2\n1\n")
    assert isinstance(merge(base, base + b"1\n", base + b"22\n"), Overlap)


def _shuffled(lines: list[bytes], seed: int) -> list[bytes]:
    return random.Random(seed).sample(lines, len(lines))


def _spread(change: bytes, seed: int) -> Callable[[list[bytes]], list[bytes]]:
    """500 edits all over the text."""

    def edit(lines: list[bytes]) -> list[bytes]:
        places = set(random.Random(seed).sample(range(len(lines)), min(500, len(lines))))
        return [change if place in places else line for place, line in enumerate(lines)]

    return edit


_ONE_CHARACTER_LINES = [bytes([97 + random.Random(7 * i).randrange(26)]) + b"\n" for i in range(51_000)]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([b"\n"] * 102_000, id="equal lines"),
        pytest.param([b"same\n"] * 20_000, id="equal words"),
        pytest.param(_ONE_CHARACTER_LINES, id="one-character lines"),
        pytest.param([b"%d\n" % i for i in range(17_000)], id="all different"),
        pytest.param([b"%d\n" % (i // 2) for i in range(17_000)], id="each twice"),
        pytest.param([b"a\n", b"b\n"] * 25_000, id="alternating"),
    ],
)
@pytest.mark.parametrize("kind", ["shuffle", "reverse", "edits", "insertions"])
def test_no_text_takes_long(lines: list[bytes], kind: str) -> None:
    base = b"".join(lines)
    if kind == "insertions":
        third = len(lines) // 3
        ours = [*lines[:third], b"X\n", *lines[third:]]
        theirs = [*lines[: 2 * third], b"Y\n", *lines[2 * third :]]
    elif kind == "edits":
        ours, theirs = _spread(b"X\n", 1)(lines), _spread(b"Y\n", 2)(lines)
    elif kind == "shuffle":
        ours, theirs = _shuffled(lines, 1), _shuffled(lines, 2)
    else:
        ours, theirs = lines[::-1], _shuffled(lines, 3)
    start = time.process_time()
    merged = merge(base, b"".join(ours), b"".join(theirs))
    assert time.process_time() - start < 1
    if kind == "insertions":
        assert isinstance(merged, Merged)
        assert b"X\n" in merged.content
        assert b"Y\n" in merged.content


_TIME = datetime(2026, 8, 26, 10, 15, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "sidecar"),
    [
        ("coffee.md", "coffee.conflict-20260826T101500.123456Z-Ab3x.md"),
        ("notes", "notes.conflict-20260826T101500.123456Z-Ab3x"),
        ("a.tar.gz", "a.tar.conflict-20260826T101500.123456Z-Ab3x.gz"),
        (".hidden", ".hidden.conflict-20260826T101500.123456Z-Ab3x"),
        (".hidden.md", ".hidden.conflict-20260826T101500.123456Z-Ab3x.md"),
        ("日記.txt", "日記.conflict-20260826T101500.123456Z-Ab3x.txt"),
        ("a.tmp", "a.conflict-20260826T101500.123456Z-Ab3x"),
        ("a.bak", "a.conflict-20260826T101500.123456Z-Ab3x"),
        ("a.tmp.md", "a_tmp.conflict-20260826T101500.123456Z-Ab3x.md"),
        (".#a.md", "a.conflict-20260826T101500.123456Z-Ab3x.md"),
    ],
)
def test_sidecar_names(name: str, sidecar: str) -> None:
    assert sidecar_name(name, _TIME, "Ab3x") == sidecar


def test_an_extension_that_does_not_fit_is_left_out() -> None:
    name = f"a.{'x' * 20}"
    assert sidecar_name(name, _TIME, "Ab3x", max_bytes=50) == "a.conflict-20260826T101500.123456Z-Ab3x"
    assert sidecar_name(name, _TIME, "Ab3x", max_bytes=60).endswith(f"Ab3x.{'x' * 20}")


def test_a_sidecar_name_is_in_utc_and_has_a_tail() -> None:
    time = _TIME.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert sidecar_name("a", time, "../é x") == "a.conflict-20260826T101500.123456Z-x"
    assert sidecar_name("a", time, "") == "a.conflict-20260826T101500.123456Z-unknown"


def _is_segment(text: str) -> bool:
    try:
        check_segment(text)
    except Exception:  # noqa: BLE001
        return False
    return True


_NAMES = st.one_of(
    st.text(min_size=1, max_size=300).filter(_is_segment),
    st.text(alphabet="~#.-_tmpswaé語😀", min_size=1, max_size=90).filter(_is_segment),
    st.sampled_from(
        [".a.swp", "a~", "#a#", "#a.b#", ".#x", "4913", "x.tmp-1", ".nfs12", "._a", ".DS_Store", "." * 255, "語" * 85]
    ),
)


@settings(max_examples=1000, deadline=None)
@given(_NAMES, st.sampled_from([255, 120, 60]), st.text(max_size=30))
def test_a_sidecar_name_is_legal_short_and_no_scratch_name(name: str, max_bytes: int, tail: str) -> None:
    rules = ScratchRules()
    sidecar = sidecar_name(name, _TIME, tail, rules=rules, max_bytes=max_bytes)
    check_segment(sidecar)
    assert len(sidecar.encode()) <= max_bytes
    assert "conflict-20260826T101500.123456Z-" in sidecar
    assert not rules.is_backup(sidecar)
