"""`scripts/setup` asks each distribution's package manager in its own words. The managers are stand-ins that write down."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/setup"
NEEDED = ("bash", "dirname", "id", "sed", "cut", "sha256sum", "cat", "env", "sudo")
MANAGERS = {
    "apt-get": "install -y -qq --no-install-recommends fuse3 gcc libc6-dev pkg-config libfuse3-dev",
    "dnf": "install -y -q --setopt=install_weak_deps=False fuse3 gcc glibc-devel pkgconf-pkg-config fuse3-devel",
    "apk": "add -q fuse3 gcc musl-dev pkgconf fuse3-dev",
}


def setup_with(tmp_path: Path, manager: str | None) -> subprocess.CompletedProcess[str]:
    """Run it on a machine that has Python and the manager, but nothing else of what memfs needs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in NEEDED:
        if (found := shutil.which(name)) is not None:
            (programs / name).symlink_to(found)
    if manager is not None:
        stand_in = programs / manager
        # It fails after an installation: nothing after that may happen on this machine.
        stand_in.write_text('#!/bin/bash\nif [[ "$1" != update ]]; then echo "asked: $*" >&2; exit 7; fi\n')
        stand_in.chmod(0o755)
    return subprocess.run(
        ["bash", SCRIPT],
        env={"PATH": str(programs), "PYTHON": sys.executable, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("manager", MANAGERS)
def test_each_manager_is_asked_in_its_own_words(tmp_path: Path, manager: str) -> None:
    done = setup_with(tmp_path, manager)
    assert done.returncode != 0
    (asked,) = [line for line in done.stderr.splitlines() if line.startswith("asked: ")]
    assert asked == f"asked: {MANAGERS[manager]}"


def test_without_any_the_packages_are_named(tmp_path: Path) -> None:
    done = setup_with(tmp_path, None)
    assert done.returncode == 1
    assert "fuse3 gcc libc6-dev pkg-config libfuse3-dev" in done.stderr
    assert not (tmp_path / ".venv").exists()
