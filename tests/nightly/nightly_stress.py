"""stress-ng and fio, each verifying what it does, and the longest runs of our own tests."""

import os
import subprocess

import pytest

from tests.harness.mounts import Mount
from tests.mount.posix.fsx import Exerciser

STRESSORS = (
    "access",
    "chdir",
    "chmod",
    "chown",
    "dentry",
    "dir",
    "dirdeep",
    "dirmany",
    "dup",
    "fcntl",
    "file-ioctl",
    "filename",
    "flock",
    "fstat",
    "getdent",
    "io",
    "lease",
    "lockf",
    "mmap",
    "mmapfork",
    "open",
    "rename",
    "sync-file",
    "touch",
    "utime",
)
"""Those that write text or nothing; the others need links, or files of megabytes."""
STRESS_SECONDS = int(os.environ.get("STRESS_SECONDS", "10"))
FSX_OPERATIONS = int(os.environ.get("FSX_OPERATIONS", "60000"))
TEXT = "some text that is checked "


def run(command: list[str], mount: Mount) -> str:
    done = subprocess.run(
        command,
        cwd=mount.plain,
        env=mount.environment,
        capture_output=True,
        text=True,
        timeout=STRESS_SECONDS * 10 + 120,
        check=False,
    )
    assert done.returncode == 0, f"{command}\nexit {done.returncode}\n{done.stdout}{done.stderr}\n{mount.log()}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("stressor", STRESSORS)
def test_stress_ng(mount: Mount, stressor: str) -> None:
    said = run(
        [
            "stress-ng",
            f"--{stressor}",
            "2",
            "--temp-path",
            str(mount.store),
            "-t",
            str(STRESS_SECONDS),
            "--verify",
            "--metrics",
        ],
        mount,
    )
    assert "skip" not in said, said
    assert "successful run completed" in said, said
    assert os.listdir(mount.store) == []


@pytest.mark.parametrize("engine", ["psync", "sync", "mmap", "pvsync"])
@pytest.mark.parametrize("pattern", ["write", "randwrite", "randrw"])
def test_fio_verifies_text(mount: Mount, engine: str, pattern: str) -> None:
    run(
        [
            *("fio", "--name=text", f"--directory={mount.store}", f"--rw={pattern}", f"--ioengine={engine}"),
            *("--bsrange=4k-8k", "--size=96k", "--numjobs=4", "--fallocate=none", "--loops=10", "--fsync=5"),
            f'--buffer_pattern="{TEXT}"',  # also for what it fills the file with before it begins
            *("--verify=pattern", f'--verify_pattern="{TEXT}"', "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0"),
        ],
        mount,
    )
    for path in mount.store.iterdir():
        assert TEXT in path.read_text()
    assert sorted(mount.inspector.memories()) == sorted(f"/{name}" for name in os.listdir(mount.store))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["fsx.md", "fsx.tmp"])
def test_fsx(mount: Mount, name: str, seed: int) -> None:
    exerciser = Exerciser(mount.store / name, seed)
    exerciser.run(FSX_OPERATIONS)
    assert exerciser.path.read_bytes() == exerciser.model
