"""How commands speak: answers on standard output, everything else in single lines on standard error."""

import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


def open_streams() -> None:
    """What the caller closed of the standard streams leads to nowhere, and none of them fails on a character.

    Otherwise the next file that is opened, a pipe to a daemon or a database, would have the number of a standard stream. A
    terminal or file whose encoding lacks a character gets an escape in its place.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def say(message: str) -> None:
    """One line on standard error, whatever line breaks or control characters `message` has."""
    line = " ".join(message.split())
    print("memfs: " + "".join(c if c.isprintable() else "?" for c in line), file=sys.stderr, flush=True)


def print_object(item: "BaseModel") -> None:
    """An object of the contract as the wire shows it, in one line."""
    print(item.model_dump_json())


def print_json(value: Any) -> None:
    """A value of our own in one line of JSON."""
    import json

    print(json.dumps(value, ensure_ascii=False))


def printable(text: str) -> str:
    """`text` for a terminal: what could steer it is shown as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table: for a terminal laid out and cut to its width, otherwise whole, one line a row with tabs between."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
