"""The words of `.versions`: times behind an ``@``, and the names of versions and directories."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfs.replica.tree import NAME_MAX
from memfs.views.instants import parse_instant, parse_span
from memfs.views.names import (
    id_in_version_name,
    is_version_name,
    operation_in_version_name,
    segment_of,
    shown_name,
    version_name,
)

_NOW = datetime(2026, 8, 27, 9, 30, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-08-26", "2026-08-26T23:59:59.999999"),
        ("2024-02-29", "2024-02-29T23:59:59.999999"),
        ("2026-08-26T12:00:00Z", "2026-08-26T12:00:00.999999"),
        ("2026-08-26t12:00:00z", "2026-08-26T12:00:00.999999"),
        ("2026-08-26T12:00:00", "2026-08-26T12:00:00.999999"),
        ("2026-08-26 12:00:00Z", "2026-08-26T12:00:00.999999"),
        ("2026-08-26T12:00Z", "2026-08-26T12:00:59.999999"),
        ("2026-08-26T12:00:00.5Z", "2026-08-26T12:00:00.599999"),
        ("2026-08-26T12:00:00.185Z", "2026-08-26T12:00:00.185999"),
        ("2026-08-26T12:00:00.185042Z", "2026-08-26T12:00:00.185042"),
        ("2026-08-26T12:00:00.185042999Z", "2026-08-26T12:00:00.185042"),
        ("2026-08-26T12:00:00+02:00", "2026-08-26T10:00:00.999999"),
        ("2026-08-26T23:30:00-05:30", "2026-08-27T05:00:00.999999"),
        ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00.999999"),
        ("2h", "2026-08-27T07:30:00.000005"),
        ("3d", "2026-08-24T09:30:00.000005"),
        ("90s", "2026-08-27T09:28:30.000005"),
        ("15m", "2026-08-27T09:15:00.000005"),
        ("1w", "2026-08-20T09:30:00.000005"),
        ("0s", "2026-08-27T09:30:00.000005"),
        ("yesterday", "2026-08-26T23:59:59.999999"),
    ],
)
def test_instants(text: str, instant: str) -> None:
    assert parse_instant(text, _NOW) == datetime.fromisoformat(instant).replace(tzinfo=UTC)
    elsewhere = _NOW.astimezone(datetime.fromisoformat("2026-01-01T00:00:00+05:45").tzinfo)
    assert parse_instant(text, elsewhere) == parse_instant(text, _NOW)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("2026-08-26", "2026-08-26T00:00:00"),
        ("2026-08-26T12:00Z", "2026-08-26T12:00:00"),
        ("2026-08-26T12:00:00.5Z", "2026-08-26T12:00:00.5"),
        ("2h", "2026-08-27T07:30:00.000005"),
        ("yesterday", "2026-08-26T00:00:00"),
    ],
)
def test_times_begin(text: str, start: str) -> None:
    assert parse_span(text, _NOW) == (datetime.fromisoformat(start).replace(tzinfo=UTC), parse_instant(text, _NOW))


@pytest.mark.parametrize(
    "text",
    [
        *("", "log", "tomorrow", "@2h", "2h ago", "h", "-2h", "2y", "999999999w", "٢h"),
        *("26-08-26", "2026-8-26", "2026-02-30", "2026-13-01", "0000-01-01", "2026-08-26\n"),
        *("2026-08-26T12", "2026-08-26T24:00:00Z", "2026-08-26T12:60Z", "2026-08-26T12:00:61Z", "2026-08-26T12:00:00+99:00"),
    ],
)
def test_what_names_no_instant(text: str) -> None:
    assert parse_instant(text, _NOW) is None


@settings(deadline=None)
@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.integers(-23, 23))
def test_every_full_time_names_itself(time: datetime, hours: int) -> None:
    aware = time.replace(tzinfo=UTC)
    shifted = time + timedelta(hours=hours)
    text = f"{shifted.isoformat(timespec='microseconds')}{'-' if hours < 0 else '+'}{abs(hours):02}:00"
    assert parse_instant(text, _NOW) == aware


def test_version_names() -> None:
    time = datetime(2026, 8, 25, 5, 52, 19, 185042, tzinfo=UTC)
    assert version_name(time, "created", "memver_01ab", "coffee.md") == "20260825T055219.185042Z-created-memver_01ab.md"
    assert version_name(time, "deleted", "memver_01ab", "Makefile") == "20260825T055219.185042Z-deleted-memver_01ab"
    assert version_name(time, "created", "memver_01ab", ".env") == "20260825T055219.185042Z-created-memver_01ab"
    long = version_name(time, "modified", "memver_01ab", "a." + "語" * 80)
    assert long == "20260825T055219.185042Z-modified-memver_01ab"


_SEGMENTS = st.one_of(
    st.text(alphabet="@ab.-", min_size=1, max_size=6),
    st.builds(
        lambda marks, end: f"{marks}20260825T055219.185042Z-created-memver_01ab{end}", st.text("@", max_size=3), st.text("x.")
    ),
    st.text(min_size=1, max_size=60).filter(lambda text: "/" not in text),
)


@settings(deadline=None)
@given(_SEGMENTS, _SEGMENTS, st.booleans())
def test_shown_names_are_clear(one: str, other: str, in_root: bool) -> None:
    shown = shown_name(one, in_root=in_root)
    assert segment_of(shown, in_root=in_root) == one
    assert not is_version_name(shown)
    assert (shown_name(other, in_root=in_root) == shown) == (one == other)
    if in_root:
        assert not shown.startswith("@") or parse_instant(shown[1:], _NOW) is None
        assert shown not in ("@log", "@log.jsonl")


def test_only_the_root_marks_an_at() -> None:
    assert shown_name("@home.md", in_root=True) == "@@home.md"
    assert shown_name("@home.md", in_root=False) == "@home.md"
    assert segment_of("@home.md", in_root=True) is None


def test_a_name_that_is_too_long_is_cut() -> None:
    shown = shown_name("語" * 100, in_root=False)
    assert len(shown.encode()) <= NAME_MAX
    assert shown != shown_name("語" * 101, in_root=False)


@settings(deadline=None)
@given(
    directory=_SEGMENTS,
    operation=st.sampled_from(["created", "modified", "deleted"]),
    version_id=st.from_regex(r"[A-Za-z0-9_]{1,40}", fullmatch=True),
    time=st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)),
)
def test_a_version_is_known_by_its_name(directory: str, operation: str, version_id: str, time: datetime) -> None:
    name = version_name(time, operation, version_id, directory)
    assert id_in_version_name(name, directory) == version_id
    assert operation_in_version_name(name) == operation
    assert id_in_version_name(directory, directory) is None or is_version_name(directory)
