"""`memfs diff`: what changed between two versions of a file, or in a directory between two times."""

import difflib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from memfs.cli.output import print_json
from memfs.cli.past import Place, Version, files_at, find_place, find_version, parse_time, patiently, read_past, versions_of
from memfs.model.errors import NotFound

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True)
class Side:
    """One of the two contents that are compared."""

    label: str
    content: bytes | None
    """None where there was nothing."""


@click.command()
@click.argument("path")
@click.argument("a", metavar="[A", required=False)
@click.argument("b", metavar="[B]]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one object a file: path, from, to, diff.")
def diff(path: str, a: str | None, b: str | None, as_json: bool) -> None:
    """Show what changed in PATH, as a unified diff.

    A and B are versions (`memfs log PATH` lists them) or times: @2026-08-26, @2026-08-26T12:00:00Z, @15m, @yesterday. With A
    alone: from A to what is there now. With neither: what the last version changed. For a directory A must be a time.

    \b
    Examples:
      memfs diff /mnt/memory/user-preferences/coffee.md
      memfs diff /mnt/memory/user-preferences @yesterday
    """
    place = find_place(path)
    changes = list(_changes(place, a, b))
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for name, old, new in changes:
        text = unified(name, old, new)
        if as_json:
            print_json({"path": name, "from": old.label, "to": new.label, "diff": text})
        elif sys.stdout.isatty():
            _show(text, coloured)
        else:
            sys.stdout.write(text)


def _changes(place: Place, a: str | None, b: str | None) -> Iterator[tuple[str, Side, Side]]:
    """Every file that differs: its path below the mount's store, and both sides."""
    time_a = parse_time(a) if a is not None else None
    time_b = parse_time(b) if b is not None else datetime.now(UTC)
    if time_a is not None and time_b is not None and (b is not None or not place.path.is_file()):
        yield from _between(place, time_a, time_b)
        return
    if not place.segments or (place.path.is_dir() and not _was_file(place, a)):
        raise click.UsageError(f"{place.path} is a directory: say since when, such as @yesterday")
    old, new = _sides(place, a, b)
    if old.content != new.content:
        yield _name(place), old, new


def _was_file(place: Place, version: str | None) -> bool:
    """Whether `version` is one of a file that had this path before it became a directory."""
    return version is not None and not version.startswith("@") and any(version == v.id for v in versions_of(place))


def _between(place: Place, a: datetime, b: datetime) -> Iterator[tuple[str, Side, Side]]:
    before, after = files_at(place, a), files_at(place, b)
    if not before and not after:
        raise NotFound(f"{place.path} had nothing at either time: `memfs log {place.path}` shows its history")
    for name in sorted(before.keys() | after.keys()):
        old, new = (_side(files.get(name), time) for files, time in ((before, a), (after, b)))
        if old.content != new.content:
            yield "/".join(part for part in (_name(place), name) if part), old, new


def _side(file: Path | None, time: datetime) -> Side:
    from memfs.model.objects import format_time

    return Side(format_time(time), None if file is None else read_past(file))


def _sides(place: Place, a: str | None, b: str | None) -> tuple[Side, Side]:
    if a is None:
        versions = versions_of(place)
        return (_of_version(versions[-2]) if len(versions) > 1 else Side("nothing", None)), _of_version(versions[-1])
    return _of(place, a), _now(place) if b is None else _of(place, b)


def _of(place: Place, text: str) -> Side:
    instant = parse_time(text)
    if instant is None:
        return _of_version(find_version(place, text))
    file = place.at(instant)
    return _side(file if patiently(file.is_file) else None, instant)


def _of_version(version: Version) -> Side:
    return Side(version.label, None if version.operation == "deleted" else read_past(version.file))


def _now(place: Place) -> Side:
    try:
        return Side("now", place.path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return Side("now", None)


def _name(place: Place) -> str:
    return "/".join((place.store.name, *place.segments))


def unified(name: str, old: Side, new: Side) -> str:
    """A unified diff that patch(1) takes; a missing line break at an end is marked as diff(1) does."""
    names = ["/dev/null" if side.content is None else f"{top}/{name}" for top, side in (("a", old), ("b", new))]
    before, after = (_lines(side.content or b"") for side in (old, new))
    lines = list(difflib.unified_diff(before, after, names[0], names[1], old.label, new.label))
    if not lines:  # an empty file that came or went has no lines
        lines = [f"--- {names[0]}\t{old.label}\n", f"+++ {names[1]}\t{new.label}\n"]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(content: bytes) -> list[str]:
    """The lines with their ends; only a line feed ends one."""
    lines = content.decode("utf-8", "replace").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _show(text: str, coloured: bool) -> None:
    """Print a diff on a terminal; what could steer the terminal is shown as an escape."""
    for number, line in enumerate(text.split("\n")[:-1]):
        safe = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line)
        if coloured:
            safe = click.style(safe, bold=True) if number < 2 else click.style(safe, fg=_COLOURS.get(line[:1]))
        click.echo(safe, color=coloured)


COMMANDS = (diff,)
