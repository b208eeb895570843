"""What a move shows while it goes on, and what it says at the end."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memfs.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from rich.progress import Progress

    from memfs.transfer.steps import Step

DONE = ("created", "updated", "deleted", "unchanged")


class MoveReport:
    """Hears of every step: a bar on the terminal meanwhile, then the table of what was left out, and the sums."""

    def __init__(self, bar: "Progress | None", *, as_json: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.left_out: list[Step] = []
        self._as_json = as_json
        self._bar = bar
        self._task = bar.add_task("", total=0) if bar is not None else None
        self._total = 0

    def expect(self, steps: int) -> None:
        self._total += steps
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=self._total)

    def step(self, step: "Step") -> None:
        self.counts[step.action] += 1
        if step.action in ("skipped", "refused"):
            self.left_out.append(step)
        if self._as_json:
            print_json(step.as_object())
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task)

    def conclude(self, *, dry_run: bool) -> int:
        """Print the table and the sums; the command's exit code: 1 when something was refused."""
        if not self._as_json and self.left_out:
            rows = [(step.path, step.action, step.reason) for step in sorted(self.left_out, key=lambda step: step.path)]
            print_table(("PATH", "WHAT", "WHY"), rows)
        parts = [f"{self.counts[action]:,} {action}" for action in (*DONE, "skipped", "refused") if self.counts[action]]
        would = "would be: " if dry_run else ""
        say(f"{would}{', '.join(parts) or 'nothing to do'}")
        return 1 if self.counts["refused"] else 0


@contextmanager
def move_report(what: str, *, as_json: bool) -> Iterator[MoveReport]:
    """A report with a bar where standard error is a terminal."""
    if not sys.stderr.isatty():
        yield MoveReport(None, as_json=as_json)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield MoveReport(bar, as_json=as_json)
