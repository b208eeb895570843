"""Random operations on one file; `FSX_OPERATIONS` sets how many, `FSX_SEED` which."""

import os
from pathlib import Path

import pytest

from tests.harness.mounts import Mount
from tests.mount.posix.fsx import Exerciser

OPERATIONS = int(os.environ.get("FSX_OPERATIONS", "1500"))
SEED = int(os.environ.get("FSX_SEED", "1"))


def test_the_exerciser_agrees_with_an_ordinary_file_system(open_mount: Mount) -> None:
    path = open_mount.plain / "fsx"
    exerciser = Exerciser(path, SEED)
    exerciser.run(OPERATIONS)
    assert exerciser.path.read_bytes() == exerciser.model


@pytest.mark.parametrize("kind", ["memory", "scratch", "scratch directory"])
def test_random_operations_on_one_file(there: Path, open_mount: Mount, kind: str) -> None:
    name = {"memory": "fsx.md", "scratch": "fsx.swp.tmp", "scratch directory": "node_modules/fsx"}[kind]
    path = there / name
    path.parent.mkdir(exist_ok=True)
    exerciser = Exerciser(path, SEED)
    exerciser.run(OPERATIONS)
    assert exerciser.path.read_bytes() == exerciser.model
    if kind == "memory":
        stored = open_mount.inspector.content("/" + str(exerciser.path.relative_to(open_mount.store)))
        assert stored.encode() == exerciser.model
