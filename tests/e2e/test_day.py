"""The day of `tests/e2e/day`, with the program that is installed here. `.ci/run` has it from a clean checkout."""

import subprocess
import sys
from pathlib import Path


def test_a_day_from_the_first_mount_to_the_last_unmount() -> None:
    script = Path(__file__).with_name("day")
    program = Path(sys.executable).with_name("memfs")
    done = subprocess.run([script, program], capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("day: all as expected\n")
