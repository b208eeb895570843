"""`make bench`: run the parts, write bench/results.json, bench/results.md and the plots, and print the tables."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from scripts.bench import growth, local, remote, report, running, subjects
from scripts.bench.tree import AGENTS, SMALL

PARTS = ("local", "remote", "agents", "growth", "sdk")


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
    parser = argparse.ArgumentParser(prog="make bench", description="Measure memfs and its peers, side by side.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller stores, one round trip: about four minutes")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {','.join(PARTS)}; the others' results stay")
    parser.add_argument("--out", type=Path, default=report.RESULTS.parent, help="where the results go")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"{unknown[0]}: not one of {','.join(PARTS)}")
    signal.signal(signal.SIGTERM, _interrupt)  # so that everything that was started ends here too
    kept = arguments.out / "results.json"
    earlier = json.loads(kept.read_text()) if kept.exists() and set(parts) != set(PARTS) else {}
    with tempfile.TemporaryDirectory(prefix="memfs-bench-") as directory:
        results = {**earlier, **measure(Path(directory), parts, quick=arguments.quick)}
    arguments.out.mkdir(exist_ok=True)
    kept.write_text(json.dumps(results, indent=1) + "\n")
    text = _heading(results) + "\n".join(report.lines(results)) + "\n"
    (arguments.out / "results.md").write_text(f"# Results of `make bench`\n{text}")
    running.run(running.module("plots", kept, arguments.out, python=running.PEERS_PYTHON))
    print(text)


def _heading(results: dict[str, Any]) -> str:
    """On what the figures were measured: they mean nothing without it."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    load = f"{results['load_average']:.1f} before and {results['load_average_after']:.1f} after"
    mode = "quick, " if results["quick"] else ""
    return (
        f"\n{results['began']}, {mode}{results['processors']} processors; load average {load} (the bench itself makes about 1)."
        f"\n\n{versions}\n"
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def measure(work: Path, parts: list[str], *, quick: bool) -> dict[str, Any]:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"bench: {time.monotonic() - began:4.0f} s  {text}", file=sys.stderr, flush=True)

    results: dict[str, Any] = {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "load_average": os.getloadavg()[0],
        "processors": len(os.sched_getaffinity(0)),
        "versions": subjects.versions(),
    }
    trips = (0.02,) if quick else (0.02, 0.05)
    if "local" in parts:
        rounds, count = (3, 200) if quick else (7, 400)
        results["local"] = local.compare(place(work, "local"), AGENTS, rounds=rounds, count=count, say=say)
    if "remote" in parts:
        results["remote"] = {}
        for trip in trips:
            here = place(work, f"remote-{trip}")
            results["remote"][f"{trip * 1000:g}"] = remote.compare(here, trip, quick=quick, say=say)
    if "agents" in parts:
        results["agents"] = remote.economy(place(work, "agents"), AGENTS, 0.02, say)
    if "growth" in parts:
        sizes = (1_000, 10_000) if quick else (2_000, 10_000, 100_000)
        results["growth"] = growth.compare(place(work, "growth"), sizes, 0.05, seconds=5 if quick else 20, say=say)
    if "sdk" in parts:
        results["sdk"] = []
        shapes = [(SMALL, 0.02, 1)] if quick else [(SMALL, 0.02, 4), (growth.tree_of(10_000), 0.05, 0)]
        for tree, trip, saves in shapes:
            told = remote.sdk(place(work, f"sdk-{tree.notes}"), tree, trip, saves, say)
            results["sdk"].append({"round_trip_ms": trip * 1000, **told})
    results["seconds"] = time.monotonic() - began
    results["load_average_after"] = os.getloadavg()[0]
    return results


def place(work: Path, name: str) -> Path:
    """A new directory for one part."""
    directory = work / name
    directory.mkdir()
    return directory


if __name__ == "__main__":
    main()
