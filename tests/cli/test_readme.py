"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Program

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```(?:sh)?\n(.*?)```", README, re.DOTALL)
(SESSION,) = [block for block in BLOCKS if "cd /mnt/memory/memory" in block]
(HISTORY,) = [block for block in BLOCKS if "memver_" in block]


def test_the_session_gives_the_history_that_is_shown(program: Program) -> None:
    program.ok("mount", program.mountpoint)
    script = SESSION.replace("/mnt/memory", str(program.mountpoint)).replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        env=program.environment,
        cwd=program.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    found, *history = done.stdout.splitlines()
    assert found == "./trips/lisbon.md:Lisbon in May"
    seen = [[*line.split("\t")[1:2], *line.split("\t")[3:5]] for line in history]
    shown = [re.split(r"\s+", line) for line in HISTORY.splitlines()]
    assert seen == [[fields[1], fields[3] if len(fields) == 6 else "", fields[-2]] for fields in shown]
    assert len({line.split("\t")[2] for line in history}) == 1


def test_every_command_is_in_the_table(program: Program) -> None:
    listed = program.ok("--help").partition("Commands:\n")[2].splitlines()
    missing = [line.split()[0] for line in listed if line.strip() and f"`memfs {line.split()[0]}" not in README]
    assert missing == []
