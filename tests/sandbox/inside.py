"""Runs scripts inside namespaces, and the daemon as a user without any privilege."""

import functools
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from tests.harness.mounts import PACKAGE_ROOT
from tests.harness.shell import Completed

SECONDS = 60
USER = 65_534

AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")


@functools.cache
def user_python() -> str:
    """An interpreter that a user without privileges may run: that of the tests, or the system's own of the same version."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}"):
        command = [*AS_USER, candidate, "-c", "import pyfuse3, sys; print(sys.executable)"]
        done = subprocess.run(
            command, env={"PYTHONPATH": python_path(), "PATH": os.environ["PATH"]}, capture_output=True, check=False, text=True
        )
        if done.returncode == 0 and done.stdout.strip() == candidate and os.path.realpath(candidate).startswith("/usr"):
            return candidate
        if done.returncode == 0 and candidate == sys.executable and _reachable(os.path.realpath(candidate)):
            return candidate
    raise AssertionError(f"users without privileges can run neither {sys.executable} nor the system's {version}")


def _reachable(path: str) -> bool:
    """Whether everybody may enter each directory above `path`."""
    return all(parent.stat().st_mode & 0o001 for parent in Path(path).parents)


def python_path() -> str:
    return f"{PACKAGE_ROOT}:{sysconfig.get_path('purelib')}"


def run_inside(prefix: list[str], script: str, *, root: Path, **variables: str) -> Completed:
    """Run a bash `script` below `prefix` (unshare and its options, say) with a home in `root`; it must end by itself."""
    environment: Mapping[str, str] = {
        "PATH": os.environ["PATH"],
        "HOME": str(root / "home"),
        "XDG_STATE_HOME": str(root / "home/state"),
        "XDG_DATA_HOME": str(root / "home/data"),
        "TMPDIR": str(root),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": python_path(),
        "ROOT": str(root),
        **variables,
    }
    return subprocess.run(
        [*prefix, "bash", "-eu", "-c", script],
        env=environment,
        cwd=root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def ok(done: Completed) -> str:
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
