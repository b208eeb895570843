"""/sbin/mount.memfs, called as mount(8) calls it."""

import subprocess
import sys

import pytest

from memfs.cli.mount_helper import arguments_of
from memfs.cli.mountpoints import mounted_at
from tests.cli.conftest import Program


def helper(program: Program, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memfs.cli.mount_helper", *arguments],
        env=program.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["memfs", "/m"], ["mount", "--", "/m"]),
        (["none", "/m", "-o", "rw,noauto"], ["mount", "-o", "rw,noauto", "--", "/m"]),
        (["sqlite:////a.db", "/m", "-o", "ro"], ["mount", "--url", "sqlite:////a.db", "-o", "ro", "--", "/m"]),
        (["memfs", "/m", "-s", "-nv", "-r", "-t", "memfs"], ["mount", "-o", "ro", "--", "/m"]),
        (["memfs", "/m", "-f"], None),
    ],
)
def test_what_mount8_sends(given: list[str], meant: list[str] | None) -> None:
    assert arguments_of(given) == meant


@pytest.mark.parametrize(
    "given", [[], ["memfs"], ["a", "b", "c"], ["memfs", "/m", "-o"], ["memfs", "/m", "-x"], ["-N", "1", "a", "b"]]
)
def test_what_it_would_not_send(given: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        arguments_of(given)


def test_it_mounts_and_answers_with_the_codes_of_mount8(program: Program) -> None:
    program.mountpoint.mkdir()
    place = str(program.mountpoint)
    done = helper(program, f"sqlite:///{program.root / 'other.db'}", place, "-o", "rw,session=sesn_01boot,noindex")
    said = f"memfs: created the database {program.root}/other.db\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", said)
    (program.mountpoint / "memory/a.md").write_text("x")
    assert program.objects("log", place)[0]["created_by"]["session_id"] == "sesn_01boot"
    assert helper(program, "memfs", place).returncode == 32
    assert helper(program, "memfs", place, "-o", "nonsense").returncode == 1
    program.ok("umount", place)
    assert helper(program, "memfs", place, "-f").returncode == 0
    assert mounted_at(place) is None
