"""The times that people and programs write behind an ``@``; pure."""

import re
from datetime import UTC, datetime, time, timedelta, timezone

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt_ ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_AGO = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MICROSECOND = timedelta(microseconds=1)


def parse_instant(text: str, now: datetime) -> datetime | None:
    """The last microsecond of the time that `text` names, in UTC; None when it names none.

    A time is as long as its last unit: ``2026-08-26`` ends with that day, ``2026-08-26T12:00:00Z`` with that second and
    ``...T12:00:00.5Z`` with that tenth of one, so that what happened in it had happened. Without a zone it is in UTC.
    ``90s``, ``15m``, ``2h``, ``3d`` and ``1w`` lie so far before `now`, and ``yesterday`` ended with the last midnight in UTC.
    """
    span = parse_span(text, now)
    return None if span is None else span[1]


def parse_span(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    """The first and the last microsecond of the time that `text` names, as `parse_instant` has it."""
    try:
        if text == "yesterday":
            today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
            return today - timedelta(days=1), today - _MICROSECOND
        if match := _AGO.fullmatch(text):
            moment = now.astimezone(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])})
            return moment, moment
        if match := _DATE.fullmatch(text):
            day = datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=UTC)
            return _span(day, timedelta(days=1))
        if match := _DATE_TIME.fullmatch(text):
            return _date_time(match)
    except (ValueError, OverflowError):
        return None  # no such day or hour, or before the year 1
    return None


def _date_time(match: re.Match[str]) -> tuple[datetime, datetime]:
    year, month, day, hour, minute = (int(match[group]) for group in range(1, 6))
    zone = UTC
    if match[9]:
        offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
        zone = timezone(-offset if match[9] == "-" else offset)
    second = int(match[6] or 0)
    leap = second == 60  # RFC 3339 allows a leap second; here it ends one second after the 59th
    start = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=zone)
    if leap:
        return _span(start, timedelta(seconds=2))
    if match[6] is None:
        return _span(start, timedelta(minutes=1))
    if match[7] is None:
        return _span(start, timedelta(seconds=1))
    digits = match[7][:6]
    start += timedelta(microseconds=int(digits.ljust(6, "0")))
    return _span(start, timedelta(microseconds=10 ** (6 - len(digits))))


def _span(start: datetime, length: timedelta) -> tuple[datetime, datetime]:
    start = start.astimezone(UTC)
    return start, start + (length - _MICROSECOND)
