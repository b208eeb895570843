"""The results as tables of Markdown: `python -m scripts.bench.report [RESULTS.json]`."""

import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.budgets import budgets
from scripts.bench.local import FLOOR, SUBJECTS, median_of_ratios
from scripts.bench.running import ROOT
from scripts.bench.workloads import CALLS, WALKS

RESULTS = ROOT / "bench" / "results.json"


def lines(results: dict[str, Any]) -> Iterator[str]:
    if "local" in results:
        yield from _local(results["local"])
    for round_trip, part in results.get("remote", {}).items():
        yield from _remote(round_trip, part)
    if "agents" in results:
        yield from _economy(results["agents"])
    if "growth" in results:
        yield from _growth(results["growth"])
    if "sdk" in results:
        yield from _sdk(results["sdk"])
    yield from _budgets(results)


def _table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    columns = list(head)
    yield from ("", f"## {title}", "", f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1))
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _local(part: dict[str, Any]) -> Iterator[str]:
    shape = f"{part['notes']:,} notes of 2 KB in {part['directories']} directories"
    rows = []
    for walk in WALKS:
        base = part["warm_ms"][FLOOR][walk]
        ratios = [_number(median_of_ratios(part["warm_ms"][name][walk], base)) for name in SUBJECTS]
        rows.append([f"{walk}, warm", f"{statistics.median(base):.0f} ms", *ratios])
    for call in CALLS:
        base = [p50 for p50, _ in part["calls_us"][FLOOR][call]]
        ratios = [
            _number(median_of_ratios([p50 for p50, _ in part["calls_us"][name][call]], base))
            + f" ({_number(statistics.median(p99 for _, p99 in part['calls_us'][name][call]) / statistics.median(base))})"
            for name in SUBJECTS
        ]
        rows.append([call, f"{statistics.median(base):.0f} us", *ratios])
    for walk in WALKS:
        base = part["cold_ms"][FLOOR][walk]
        shown = [
            _number(statistics.median(part["cold_ms"][name][walk]) / statistics.median(base))
            if name in part["cold_ms"]
            else "-"
            for name in SUBJECTS
        ]
        rows.append([f"{walk}, cold", f"{statistics.median(base):.0f} ms", *shown])
    head = ["against the floor with attributes (p99 in brackets)", "floor", *SUBJECTS]
    yield from _table(f"On this machine: {shape}", head, rows)
    rows = []
    for work in (*WALKS, *CALLS):
        base = part["processor"][FLOOR][work]
        unit = "ms" if work in WALKS else "us"
        ratios = [_number(median_of_ratios(part["processor"][name][work], base)) for name in SUBJECTS]
        rows.append([work, f"{statistics.median(base):.0f} {unit}", *ratios])
    yield from _table("The same, warm, in processor time of client and file system", ["", "floor", *SUBJECTS], rows)


def _remote(round_trip: str, part: dict[str, Any]) -> Iterator[str]:
    subjects = part["subjects"]
    rows = []
    for walk in WALKS:
        done = [subject["walks"].get(walk, {}) for subject in subjects.values()]
        for warmth in ("cold", "warm"):
            rows.append([f"{walk}, {warmth}", *(_median(figures.get(f"{warmth}_ms", [])) for figures in done)])
        rows.append([f"{walk}, exchanges", *(_median(figures.get("exchanges", [])) for figures in done)])
    for call in CALLS:
        figures = [subject["calls"][call] for subject in subjects.values()]
        rows.append([call, *(f"{_number(f['p50_ms'])} ({_number(f['p99_ms'])})" for f in figures)])
        rows.append([f"{call}, exchanges", *(_number(f["exchanges"]) for f in figures)])
    rows.append(["program start to mount", *(_number(min(subject["ready_ms"])) for subject in subjects.values())])
    rows.append(["another's save shows, s", *(_spread(part["propagation_s"].get(name, [])) for name in subjects)])
    title = f"Over a round trip of {round_trip} ms (measured: {part['round_trip_ms']:.1f}): {part['notes']} notes, milliseconds"
    yield from _table(title, ["median (p99)", *subjects], rows)
    memfs = subjects["memfs"]
    rows = [[f"{walk}, cold", _requests(memfs["walks"][walk]["requests"][-1])] for walk in WALKS]
    rows += [[call, _requests(memfs["calls"][call]["requests"])] for call in CALLS]
    rows.append(["grep -r, second mount", _requests(memfs["second_mount"]["requests"])])
    yield from _table("What memfs asked", ["", "requests by endpoint"], rows)


def _median(values: list[float]) -> str:
    return _number(statistics.median(values) if values else None)


def _spread(seen: list[float | None]) -> str:
    if not seen:
        return "-"
    known = [value for value in seen if value is not None]
    return _number(statistics.median(known)) if len(known) * 2 > len(seen) else "over 25"


def _requests(made: dict[str, float]) -> str:
    return ", ".join(f"{endpoint} {number:g}" for endpoint, number in sorted(made.items())) or "none"


def _economy(part: dict[str, Any]) -> Iterator[str]:
    rows = [
        [name, _number(walk["cold_ms"]), _number(walk["warm_ms"]), _requests(walk["requests"])]
        for name, walk in part["walks"].items()
    ]
    title = f"memfs over a round trip of {part['round_trip_ms']:g} ms: {part['notes']:,} notes"
    yield from _table(title, ["", "cold, ms", "warm, ms", "requests of the cold one"], rows)


def _growth(part: dict[str, Any]) -> Iterator[str]:
    sizes = sorted(part["sizes"], key=int)
    names = {
        "ready_ms": "program start to mount, ms",
        "ls_ms": "first ls of a directory, ms",
        "cat_ms": "first cat of a note, ms",
        "save_ms": "save, ms",
        "find_s": "find, s",
        "read_s": "read of 2,000 notes, s",
        "resident_mb": "resident memory, MB",
    }
    rows = []
    for kind in ("embedded", "serve"):
        for figure, shown in names.items():
            rows.append([f"{kind}: {shown}", *(_number(part["sizes"][size][kind][figure]) for size in sizes)])
    for figure, shown in {"command_ms": "memfs mount", "first_ls_ms": "then ls", "first_read_ms": "then cat"}.items():
        row = (_number(part["sizes"][size]["usable"][figure]) for size in sizes)
        rows.append([f"at {part['round_trip_ms']:g} ms: {shown}, ms", *row])
    rows.append(["server's resident memory, MB", *(_number(part["sizes"][size]["server_mb"]) for size in sizes)])
    yield from _table("Growth: memories in the store", ["", *(f"{int(size):,}" for size in sizes)], rows)
    load = part["load"]
    rows = [[kind, _number(times["p50_ms"]), _number(times["p99_ms"])] for kind, times in load["kinds"].items()]
    rows.append(["all", _number(load["p50_ms"]), _number(load["p99_ms"])])
    title = f"memfs serve under {load['asked_per_s']:g} requests a second, {load['notes']:,} memories"
    yield from _table(title, ["", "p50, ms", "p99, ms"], rows)


def _sdk(parts: list[dict[str, Any]]) -> Iterator[str]:
    rows = []
    for part in parts:
        waited, requests = _number(part["download_s"]), str(part["download_requests"])
        rows.append([f"{part['notes']:,}", f"{part['round_trip_ms']:g}", waited, requests, _spread(part["propagation_s"])])
    head = ["memories", "round trip, ms", "until the first read, s", "requests until then", "another's save shows, s"]
    yield from _table("The official SDK's own sync", head, rows)


def _budgets(results: dict[str, Any]) -> Iterator[str]:
    rows = [
        [
            budget.what,
            f"{_number(budget.measured)} {budget.unit}",
            f"{budget.limit:.4g} {budget.unit}",
            "" if budget.met else "MISSED",
        ]
        for budget in budgets(results)
    ]
    yield from _table("Budgets", ["", "measured", "at most", ""], rows)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    print("\n".join(lines(json.loads(path.read_text()))))


if __name__ == "__main__":
    main()
