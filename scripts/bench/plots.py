"""Plots of the results: `python -m scripts.bench.plots RESULTS.json FOLDER`, by the Python that has matplotlib."""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

COLOURS = {
    "memfs": "#1b6ca8",
    "floor": "#9aa5b1",
    "passthrough_ll": "#c8b273",
    "sshfs": "#c8553d",
    "s3fs": "#8f6bb3",
    "rclone": "#5b8e7d",
}
LEAST_MS = 0.1
"""What took less is drawn as this, so that a logarithm can show it."""


def bars(axes: Axes, groups: list[str], series: dict[str, list[float]]) -> None:
    """One group of bars for each name in `groups`, in it one bar for each of `series`."""
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        places = [group + (number - (len(series) - 1) / 2) * width for group in range(len(groups))]
        shown = "rclone (uploads later)" if name == "rclone" else name
        axes.bar(places, values, width, label=shown, color=COLOURS[name])
    axes.set_xticks(range(len(groups)), groups)
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def local(part: dict[str, Any], folder: Path) -> None:
    figure, axes = plt.subplots(figsize=(10, 4))
    walks = ["find", "ls -lR", "grep -r", "cat all"]
    calls = ["stat", "read", "create", "save", "append", "atomic", "rename", "unlink", "mkdir"]
    series: dict[str, list[float]] = {}
    for name in ("passthrough_ll", "floor", "memfs"):
        ratios = [
            statistics.median(a / b for a, b in zip(part["warm_ms"][name][w], part["warm_ms"]["floor"][w], strict=True))
            for w in walks
        ]
        for call in calls:
            pairs = zip(part["calls_us"][name][call], part["calls_us"]["floor"][call], strict=True)
            ratios.append(statistics.median(a[0] / b[0] for a, b in pairs))
        series[name] = ratios
    bars(axes, [*walks, *calls], series)
    axes.axhline(1.25, color="black", linewidth=0.6, linestyle=":")
    axes.set_ylabel("time, the pyfuse3 floor = 1")
    axes.set_title(f"Warm, on this machine: {part['notes']:,} notes; dotted: the budget of reads, 1.25")
    save(figure, folder / "local.png")


def remote(parts: dict[str, Any], folder: Path) -> None:
    figure, all_axes = plt.subplots(len(parts), 1, figsize=(10, 4 * len(parts)), squeeze=False)
    for axes, (trip, part) in zip(all_axes[:, 0], parts.items(), strict=True):
        walks = ["find", "ls -lR", "grep -r", "cat all"]
        calls = ["create", "save", "append", "atomic", "rename", "unlink", "mkdir", "missing"]
        series = {
            name: [cold(subject["walks"].get(walk)) for walk in walks]
            + [max(LEAST_MS, subject["calls"][call]["p50_ms"]) for call in calls]
            for name, subject in part["subjects"].items()
        }
        bars(axes, [f"{walk},\ncold" for walk in walks] + calls, series)
        axes.set_yscale("log")
        axes.axhline(part["round_trip_ms"], color="black", linewidth=0.6, linestyle=":")
        axes.set_ylabel("milliseconds")
        axes.set_title(f"Over a round trip of {trip} ms (dotted): {part['notes']} notes in {part['directories']} directories")
    save(figure, folder / "remote.png")


def cold(walk: dict[str, Any] | None) -> float:
    """The median of a cold walk; nothing to draw where it was not made."""
    return statistics.median(walk["cold_ms"]) if walk else float("nan")


def growth(part: dict[str, Any], folder: Path) -> None:
    figure, (times, memory) = plt.subplots(1, 2, figsize=(10, 4))
    sizes = sorted(part["sizes"], key=int)
    numbers = [int(size) for size in sizes]
    for kind, line in (("embedded", "-"), ("serve", "--")):
        for name, colour in (("ls", "#1b6ca8"), ("cat", "#c8553d"), ("save", "#5b8e7d")):
            values = [part["sizes"][size][kind][f"{name}_ms"] for size in sizes]
            times.plot(numbers, values, line, marker="o", color=colour, label=f"{name}, {kind}")
        values = [part["sizes"][size][kind]["resident_mb"] for size in sizes]
        memory.plot(numbers, values, line, marker="o", color="#1b6ca8", label=f"mount, {kind}")
    memory.plot(
        numbers, [part["sizes"][size]["server_mb"] for size in sizes], ":", marker="o", color="#9aa5b1", label="memfs serve"
    )
    for axes, title, unit in ((times, "First look at a place, and a save", "milliseconds"), (memory, "Resident memory", "MB")):
        axes.set_xscale("log")
        axes.set_ylim(0, axes.get_ylim()[1] * 1.5)  # room for the legend
        axes.set_xlabel("memories in the store")
        axes.set_ylabel(unit)
        axes.set_title(title)
        axes.legend(frameon=False, ncols=2, loc="upper left", fontsize="small")
    save(figure, folder / "growth.png")


def save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    results, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    for name, draw in (("local", local), ("remote", remote), ("growth", growth)):
        if name in results:
            draw(results[name], folder)


if __name__ == "__main__":
    main()
