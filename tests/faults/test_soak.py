"""Two mounts under mixed load that meets at the same names: nothing waits without end, and both agree afterwards."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.proxy import APPLIED_500, LOST_ANSWER, TOO_MANY_FOR_A_WHILE, Fault, fine, sometimes
from tests.faults.worlds import World, drained, no_version_twice, rounds
from tests.harness.mounts import Mount

SECONDS = float(rounds("SECONDS", 10))
TIMEOUT = 2.0
LIMIT = 20.0
"""No operation takes longer: a rename asks for a few things one after the other, each of which ends at the time-out, and behind
others' operations on the same file it waits for theirs."""
LOADERS = 2
"""Processes on each mount."""


def files_of(mount: Mount) -> dict[str, str]:
    found = {}
    for folder, _, names in os.walk(mount.store):
        for name in names:
            path = Path(folder, name)
            if not name.endswith(".tmp") and "~" not in name:  # stays on the mount where it was made, or shows escaped there
                found[f"/{path.relative_to(mount.store)}"] = path.read_text()
    return found


@pytest.mark.parametrize("weather", ["fine", "bad"])
def test_two_mounts_under_mixed_load(bad: World, weather: str) -> None:
    options = ("--timeout", str(TIMEOUT), "--max-staleness", "1")
    with bad.mount("m", *options) as here, bad.mount("n", *options) as there:
        if weather == "bad":
            bad.proxy.script = sometimes(9, 0.05, LOST_ANSWER, APPLIED_500, TOO_MANY_FOR_A_WHILE, Fault(late=3 * TIMEOUT))
        arguments = [sys.executable, str(Path(__file__).with_name("soak.py"))]
        loaders = [
            subprocess.Popen(
                [*arguments, str(mount.store), str(number), str(SECONDS), str(LIMIT)],
                cwd=bad.root,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for number, mount in enumerate([here, there] * LOADERS)
        ]
        counts: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        longest: dict[str, float] = {}
        wrong: list[str] = []
        try:
            for loader in loaders:
                said, complaint = loader.communicate(timeout=SECONDS + 2 * LIMIT)
                assert loader.returncode == 0, complaint
                result = json.loads(said)
                counts.update(result["counts"])
                errors.update(result["errors"])
                wrong += result["wrong"]
                for name, took in result["longest"].items():
                    longest[name] = max(took, longest.get(name, 0.0))
        finally:
            for loader in loaders:
                loader.kill()
                loader.wait()
        print(f"{counts.total()} operations, errors {dict(errors)}, the longest took {max(longest.values()):.1f} s")
        assert wrong == []
        assert counts.total() > 20
        if weather == "fine":
            assert errors["EIO"] == 0
        bad.proxy.script = fine
        for mount in (here, there):
            drained(mount, within=60)
        time.sleep(4)  # past the bound, and past every park
        memories = {path: text for path, text in bad.store.memories().items() if "~" not in path}
        assert files_of(here) == memories
        assert files_of(there) == memories
        no_version_twice(bad.store.history())
        for mount in (here, there):
            log = (mount.path / ".memfs" / "errors").read_text()
            assert "defect" not in log, log
