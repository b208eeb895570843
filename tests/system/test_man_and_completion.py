"""Manual pages and completion come from the commands themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Program


def test_every_command_has_a_page_that_man_accepts(program: Program) -> None:
    folder = program.root / "man1"
    program.ok("man", "--write", folder)
    commands = [line.split()[0] for line in program.ok("--help").partition("Commands:\n")[2].splitlines() if line.strip()]
    assert {f"memfs-{command}.1" for command in commands} <= set(os.listdir(folder))
    for page in folder.iterdir():
        done = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", page],
            env={**program.environment, "MANWIDTH": "100", "MANPAGER": "cat"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), page
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"):
            assert f"\n{section}\n" in f"\n{done.stdout}", page
    assert "memfs import ~/notes Notes --create" in program.ok("man", "import")


def test_a_page_that_does_not_exist(program: Program) -> None:
    assert "memfs --help" in program.refused("man", "nothing", code=2)


def complete(program: Program, *words: str, cwd: Path | None = None) -> list[str]:
    """What bash would be offered for the last of `words`."""
    done = subprocess.run(
        ["memfs"],
        executable=Path(sys.executable).with_name("memfs"),
        env={
            **program.environment,
            "_MEMFS_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["memfs", *words]),
            "COMP_CWORD": str(len(words)),
        },
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_options_stores_mounts_and_versions_complete(program: Program) -> None:
    assert "export" in complete(program, "exp")
    assert complete(program, "export", "M") == []
    assert not program.database.exists()
    program.ok("stores", "create", "Memory")
    program.ok("mount", program.mountpoint)
    (program.mountpoint / "memory/a.md").write_text("x")
    program.ok("sync", program.mountpoint)
    assert "--versions" in complete(program, "export", "--v")
    assert complete(program, "export", "M") == ["Memory"]
    assert complete(program, "stores", "show", "Mem") == ["Memory"]
    assert complete(program, "umount", str(program.root)) == [str(program.mountpoint)]
    (version,) = program.objects("log", program.mountpoint / "memory/a.md")
    assert complete(program, "restore", f"{program.mountpoint}/memory/a.md", "memver") == [version["id"]]


def test_an_unreachable_service_completes_nothing_and_says_nothing(program: Program) -> None:
    program.environment["MEMFS_URL"] = "http://127.0.0.1:1"
    assert complete(program, "export", "M") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_script_asks_the_program(program: Program, shell: str) -> None:
    script = program.ok("completion", shell)
    assert f"_MEMFS_COMPLETE={shell}_complete" in script


def test_bash_takes_the_script(program: Program) -> None:
    script = program.ok("completion", "bash")
    command = "source /dev/stdin && complete -p memfs"
    done = subprocess.run(["bash", "-c", command], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "_memfs_completion" in done.stdout
