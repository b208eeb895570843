"""What the bench has to show: each budget with the figure that was measured.

Times hold on a quiet machine only; ratios of one run and numbers of requests hold on any.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from scripts.bench.local import BARE_FLOOR, BARE_MEMFS, FLOOR, MEMFS, median_of_ratios

FRESHNESS_BOUND = 2.0
"""Of a mount with the default options, in seconds."""


@dataclass(frozen=True)
class Budget:
    what: str
    measured: float
    limit: float
    unit: str

    @property
    def met(self) -> bool:
        return self.measured <= self.limit


def budgets(results: dict[str, Any]) -> Iterator[Budget]:
    """All that the parts in `results` tell about."""
    if "local" in results:
        yield from _local(results["local"])
    for round_trip, part in results.get("remote", {}).items():
        yield from _remote(part, tight=round_trip == "20")
    if "agents" in results:
        yield from _economy(results["agents"])
    if "growth" in results:
        yield from _growth(results["growth"])


def _local(part: dict[str, Any]) -> Iterator[Budget]:
    for memfs, floor in ((MEMFS, FLOOR), (BARE_MEMFS, BARE_FLOOR)):
        note = " without attributes" if memfs == BARE_MEMFS else ""
        for call, shown in (("stat", "stat"), ("read", "open+read+close")):
            yield Budget(f"warm {shown} against the floor{note}", _calls(part, call, memfs, floor), 1.25, "x")
        for walk in ("ls -lR", "grep -r", "find"):
            ratio = median_of_ratios(part["warm_ms"][memfs][walk], part["warm_ms"][floor][walk])
            yield Budget(f"warm {walk} against the floor{note}", ratio, 1.25, "x")
        yield Budget(f"create+write+close against the floor{note}", _calls(part, "create", memfs, floor), 4, "x")
        for work, limit in (("stat", 1.25), ("read", 1.25), ("ls -lR", 1.25), ("grep -r", 1.25), ("find", 1.25), ("create", 4)):
            ratio = median_of_ratios(part["processor"][memfs][work], part["processor"][floor][work])
            yield Budget(f"the same in processor time: {work}{note}", ratio, limit, "x")


def _calls(part: dict[str, Any], call: str, subject: str, base: str) -> float:
    medians = [[p50 for p50, _ in part["calls_us"][name][call]] for name in (subject, base)]
    return median_of_ratios(medians[0], medians[1])


def _remote(part: dict[str, Any], *, tight: bool) -> Iterator[Budget]:
    memfs, trip = part["subjects"]["memfs"], part["round_trip_ms"]
    at = f"{trip:.0f} ms"
    if tight:
        for walk, limit in (("ls -lR", 120), ("grep -r", 600)):
            yield Budget(
                f"cold {walk} of {part['notes']} at {at}", statistics.median(memfs["walks"][walk]["cold_ms"]), limit, "ms"
            )
    for call in ("save", "append", "atomic", "rename", "unlink"):
        yield Budget(f"{call} at {at}", memfs["calls"][call]["p50_ms"], trip + 5, "ms")
    for call in ("save", "append", "atomic", "rename"):
        yield Budget(f"requests of {call}", _requests(memfs["calls"][call]["requests"]), 1, "")
    for call in ("mkdir", "missing", "rmdir"):
        yield Budget(f"requests of {call}", _requests(memfs["calls"][call]["requests"]), 0, "")
    for walk, limit in (("find", _names(part)), ("ls -lR", _names(part)), ("grep -r", _contents(part))):
        most = max(_requests(requests) for requests in memfs["walks"][walk]["requests"])
        yield Budget(f"requests of a cold {walk} of {part['notes']}", most, limit, "")
    yield Budget("content requests of a second mount", _content_requests(memfs["second_mount"]["requests"]), 0, "")
    seen = [FRESHNESS_BOUND * 10 if value is None else value for value in part["propagation_s"]["memfs"]]
    yield Budget(f"another session's save shows, median, at {at}", statistics.median(seen), FRESHNESS_BOUND, "s")


def _economy(part: dict[str, Any]) -> Iterator[Budget]:
    walks, notes = part["walks"], part["notes"]
    for walk, limit in (
        ("find", _names(part)),
        ("ls -lR", _names(part)),
        ("grep -r", _contents(part)),
        ("cat all", _contents(part)),
    ):
        yield Budget(f"requests of a cold {walk} of {notes:,}", _requests(walks[walk]["requests"]), limit, "")
    again = walks["grep -r, second mount"]["requests"]
    yield Budget(f"content requests of a second mount of {notes:,}", _content_requests(again), 0, "")


def _names(part: dict[str, Any]) -> int:
    return ceil(int(part["notes"]) / 100) + 2


def _contents(part: dict[str, Any]) -> int:
    return ceil(int(part["notes"]) / 20) + _names(part)


def _requests(made: dict[str, float]) -> float:
    """All but the polls of the change feed."""
    return sum(number for endpoint, number in made.items() if endpoint != "polls")


def _content_requests(made: dict[str, int]) -> float:
    """Those that bring what a memory holds; a listing of a second mount brings names only."""
    return sum(number for endpoint, number in made.items() if endpoint in ("retrieve_memory", "retrieve_version"))


def _growth(part: dict[str, Any]) -> Iterator[Budget]:
    sizes = sorted(part["sizes"], key=int)
    least, most = part["sizes"][sizes[0]], part["sizes"][sizes[-1]]
    for size in sizes:
        usable = part["sizes"][size]["usable"]
        total = usable["command_ms"] + usable["first_ls_ms"] + usable["first_read_ms"]
        yield Budget(f"mount to first read, {int(size):,} at {part['round_trip_ms']:.0f} ms", total, 300, "ms")
    for kind in ("embedded", "serve"):
        for figure in ("ls", "cat", "save"):
            ratio = most[kind][f"{figure}_ms"] / least[kind][f"{figure}_ms"]
            yield Budget(f"{figure}, {int(sizes[-1]):,} against {int(sizes[0]):,}, {kind}", ratio, 1.25, "x")
        yield Budget(f"resident memory with {int(sizes[-1]):,}, {kind}", most[kind]["resident_mb"], 200, "MB")
    yield Budget(f"mount of {int(sizes[-1]):,} is ready, embedded", most["embedded"]["ready_ms"], 1000, "ms")
    yield Budget(f"serve, p99 at 200 requests/s of {part['load']['notes']:,}", part["load"]["p99_ms"], 50, "ms")
