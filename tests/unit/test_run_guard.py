"""A test run that did not do everything, or left something behind, does not pass."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tests.conftest as guard


def run(folder: Path, source: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a run of its own with the same guard, over one module."""
    shutil.copy(guard.__file__, folder / "conftest.py")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_run_that_did_everything_passes_and_leaves_nothing(tmp_path: Path) -> None:
    before = set(Path(os.environ["TMPDIR"]).iterdir())
    code, said = run(tmp_path, "def test_a(tmp_path): (tmp_path / 'x').touch()")
    assert (code, "1 passed" in said) == (0, True), said
    assert set(Path(os.environ["TMPDIR"]).iterdir()) == before


def test_a_run_without_tests_does_not_pass(tmp_path: Path) -> None:
    code, said = run(tmp_path, "")
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED, said


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import pytest\ndef test_a(): pytest.skip('x')", "test_a was skipped"),
        ("import pytest\n@pytest.mark.skip\ndef test_a(): pass", "test_a was skipped"),
        ("import pytest\npytest.importorskip('not_there_at_all')\ndef test_a(): pass", "was skipped"),
        ("import pytest\n@pytest.mark.xfail\ndef test_a(): assert 0", "test_a was expected to fail"),
        ("import pytest\n@pytest.mark.xfail\ndef test_a(): pass", "test_a was expected to fail"),
        ("import pytest\n@pytest.fixture\ndef f(): pytest.skip('x')\ndef test_a(f): pass", "test_a was skipped"),
        (
            "import pytest\ndef test_a(request): request.session.shouldstop = 'x'\ndef test_b(): pass",
            "test_b was collected but",
        ),
        ("import subprocess\ndef test_a(): subprocess.Popen(['sleep', '300'])", "was left running: sleep"),
        (
            "import os, subprocess\ndef test_a(): subprocess.Popen(['sleep', '300'], env={'X': os.environ['HOME']})",
            "was left running: sleep",
        ),
        ("import tempfile\ndef test_a(): tempfile.mkstemp(prefix='mine')", "/mine"),
        (
            "import subprocess\ndef test_a(tmp_path): subprocess.run(['mount', '-t', 'tmpfs', 'x', tmp_path], check=True)",
            "was left mounted",
        ),
    ],
)
def test_what_does_not_pass(tmp_path: Path, source: str, complaint: str) -> None:
    code, said = run(tmp_path, source)
    assert code != 0, said
    assert complaint in said
    temporary = Path(os.environ["TMPDIR"])
    assert guard.mounts_below(temporary) == []
    for kept in temporary.glob("memfs-tests-*"):
        shutil.rmtree(kept)


def test_what_a_repeated_test_left_of_its_first_run_is_ended_and_named(tmp_path: Path) -> None:
    source = """
    import subprocess, tempfile
    runs = []
    def test_a():
        runs.append(1)
        if len(runs) == 1:
            tempfile.mkdtemp()
            subprocess.Popen(["sleep", "300"])
            assert not "the first time"
    """
    code, said = run(tmp_path, source, "--reruns", "1")
    assert code == 0, said
    assert "1 passed, 1 rerun" in said
    assert "the first time" in said
    assert "was left running: sleep" in said
    assert "was left behind" in said
