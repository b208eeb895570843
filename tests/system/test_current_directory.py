"""Where a command is typed decides nothing about what is run."""

import subprocess
from pathlib import Path
from sys import executable

from tests.cli.conftest import Program

INTRUDER = "raise SystemExit('the files of the current directory were run')\n"


def test_a_daemon_runs_nothing_of_the_current_directory(program: Program) -> None:
    here = program.root / "here"
    (here / "memfs").mkdir(parents=True)
    (here / "memfs/__init__.py").write_text(INTRUDER)
    (here / "trio.py").write_text(INTRUDER)
    installed = Path(executable).with_name("memfs")
    for command in ("mount", "shadow"):
        done = subprocess.run(
            [installed, command, program.root / command],
            cwd=here,
            env=program.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        program.ok("umount", program.root / command)
