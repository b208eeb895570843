"""CPython's own tests of files, with their temporary directory on a mount.

Among memories a test may fail for what a store cannot hold, and for nothing else; a scratch directory holds anything but links.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.harness.mounts import Mount

MODULES = (
    "test_os",
    "test_shutil",
    "test_pathlib",
    "test_tempfile",
    "test_glob",
    "test_mmap",
    "test_posix",
    "test_fileio",
    "test_io",
    "test_file",
    "test_fcntl",
    "test_filecmp",
    "test_fileinput",
    "test_genericpath",
    "test_posixpath",
    "test_mailbox",
    "test_dbm_dumb",
    "test_univnewlines",
    "test_tarfile",
    "test_zipimport",
)
SECONDS = 600

DOCUMENTED = re.compile(
    r"\[Errno 84\]"  # EILSEQ: bytes that are no text, names that are none
    r"|\[Errno 27\]"  # EFBIG: more than a memory holds
    r"|\[Errno 36\]"  # ENAMETOOLONG: deeper than twenty segments, longer than 1,024 bytes
    r"|\[Errno 1\]"  # EPERM: links
    r"|\[Errno (17|20)\][^\n]*@test_\d+_tmp"  # a file that a class left, whose set-up was refused, is in the way of the next
)
FOLLOWING = {
    "test_chmod_follow_symlinks_true": "its link could not be made",
    "test_touch_common": "compares the clock of a version with the kernel's, which ticks every few milliseconds",
}
FAILURE = re.compile(r"^(?:ERROR|FAIL): (\S+)[^\n]*\n-+\n(.*?)(?=^={20,}$|^-{20,}\nRan )", re.MULTILINE | re.DOTALL)


def interpreter() -> str:
    """One that has CPython's test package (Debian: libpython3-testsuite)."""
    base = getattr(sys, "_base_executable", sys.executable)
    for candidate in (base, shutil.which("python3") or base, "/usr/bin/python3"):
        done = subprocess.run([candidate, "-c", "import test.test_os"], capture_output=True, check=False)
        if done.returncode == 0:
            return candidate
    raise AssertionError("no interpreter has CPython's test package: apt-get install libpython3-testsuite")


def failures(mount: Mount, module: str, folder: str) -> dict[str, str]:
    """Each test of `module` that fails below `folder`, and its last words."""
    place = mount.store / folder
    place.mkdir(parents=True)
    done = subprocess.run(
        [interpreter(), "-m", "test", "-v", "--tempdir", str(place), module],
        cwd=mount.plain,
        env={**mount.environment, "PYTHONPATH": "", "TMPDIR": str(place), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    said = done.stdout + done.stderr
    assert re.search(r"^Ran \d+ tests?", said, re.MULTILINE), said[-3000:]
    found = {}
    for match in FAILURE.finditer(said):
        name, trace = match[1], match[2]
        if not DOCUMENTED.search(trace):
            found[name] = trace[-800:]
    return {name: words for name, words in found.items() if name not in FOLLOWING and "GeneratorExit" not in words}


@pytest.mark.parametrize("module", MODULES)
def test_among_memories(mount: Mount, module: str) -> None:
    assert failures(mount, module, "cpython") == {}


@pytest.mark.parametrize("module", MODULES)
def test_in_a_scratch_directory(mount: Mount, module: str) -> None:
    assert failures(mount, module, "node_modules/cpython") == {}
