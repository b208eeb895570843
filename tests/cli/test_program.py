"""The program as a whole: help, start-up, output that nobody reads."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import memfs
from tests.cli.conftest import Program

COMMANDS = ["doctor", "log", "mount", "serve", "status", "stores", "sync", "umount", "version"]


def test_help_names_every_command(program: Program) -> None:
    printed = program.ok("--help", COLUMNS="80")
    lines = printed.partition("Commands:\n")[2]
    assert "..." not in lines  # what each does is said whole
    listed = [line.split()[0] for line in lines.splitlines() if line.strip()]
    assert set(COMMANDS) <= set(listed)


@pytest.mark.parametrize("command", [*COMMANDS, "stores create", "stores delete"])
def test_every_command_has_a_help_with_an_example(program: Program, command: str) -> None:
    printed = program.ok(*command.split(), "--help")
    assert "Example" in printed
    assert f"memfs {command}" in printed.partition("Example")[2]


def test_no_command_shows_the_help_and_is_wrong_usage(program: Program) -> None:
    done = program.run()
    assert done.returncode == 2
    assert "Commands:" in done.stdout + done.stderr


def test_help_is_there_at_once() -> None:
    """Under 0.3 s of processor time, which says the same on a busy machine; the best of five."""
    times = []
    for _ in range(5):
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "memfs", "--help"], capture_output=True, check=True)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime)
    assert min(times) < 0.3


def test_start_up_imports_nothing_heavy() -> None:
    code = "import sys, memfs.cli.main as m; m.run(['version']); print(*sorted({n.partition('.')[0] for n in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pydantic", "trio", "sqlalchemy", "httpx", "rich", "pyfuse3"} & set(done.stdout.splitlines()[-1].split())


def test_version(program: Program) -> None:
    assert program.ok("--version").strip() == memfs.__version__
    (versions,) = program.objects("version")
    assert versions["memfs"] == memfs.__version__
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert memfs.__version__ in program.ok("version")


def test_a_reader_that_goes_away_is_no_error_on_the_terminal(program: Program) -> None:
    program.ok("stores", "create", "A")
    command = f"{sys.executable} -m memfs stores list | true"
    done = subprocess.run(["bash", "-c", command], env=program.environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_error(program: Program, closed: str) -> None:
    """Supervisors and scripts start programs so; a pipe or database of ours would take the number of a stream."""
    memfs_here = f"{sys.executable} -m memfs"
    for command, code in ((f"mount {program.mountpoint}", 0), ("log -n 1", 0), ("stores delete Memory", 1)):
        done = subprocess.run(
            ["bash", "-c", f"{memfs_here} {command} {closed}"],
            cwd=program.mountpoint if command.startswith("log") else program.root,
            env={**program.environment, "PYTHONPATH": str(Path(memfs.__file__).parents[1])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert "memfs:" not in done.stdout
        assert not (">&-" in closed.split() and done.stdout)
    program.ok("umount", program.mountpoint)


def test_an_encoding_without_a_name_s_characters_is_no_error(program: Program) -> None:
    environment = {**program.environment, "PYTHONIOENCODING": "ascii"}
    for command in (["stores", "create", "naïve"], ["stores", "list"]):
        run = subprocess.run(
            [sys.executable, "-m", "memfs", *command], env=environment, capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stderr) == (0, "")
    assert "na\\xefve" in run.stdout


def test_doctor_finds_nothing_missing_where_mounts_work(program: Program) -> None:
    findings = {finding["subject"]: finding for finding in program.objects("doctor")}
    for subject in ("/dev/fuse", "fusermount3", "pyfuse3", "state directory"):
        assert findings[subject]["ok"], findings[subject]
    assert "MISSING" not in program.ok("doctor")


def test_doctor_says_how_to_get_what_is_missing(program: Program, tmp_path: Path) -> None:
    done = program.run("doctor", "--json", PATH=str(tmp_path))
    assert done.returncode == 1
    findings = {finding["subject"]: finding for finding in map(json.loads, done.stdout.splitlines())}
    assert not findings["fusermount3"]["ok"]
    assert "fuse3" in findings["fusermount3"]["remedy"]


def test_doctor_names_a_state_directory_that_cannot_be(program: Program, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = program.run("doctor", XDG_STATE_HOME=str(tmp_path / "file"))
    assert done.returncode == 1
    assert f"{tmp_path}/file" in done.stdout


def test_without_a_mount(program: Program) -> None:
    for arguments in (("umount",), ("sync",), ("log",)):
        assert "nothing is mounted" in program.refused(*arguments)
    for command in ("umount", "sync", "log", "status"):
        assert str(program.root) in program.refused(command, program.root / "x")
    assert program.ok("status") == ""
    assert program.ok("status", "--json") == ""


def test_what_the_machine_refuses_is_one_line(program: Program) -> None:
    registry = program.registry.directory
    registry.mkdir(parents=True, mode=0o700)
    program.registry.file(str(program.mountpoint), ".lock").mkdir()
    program.mountpoint.mkdir()
    assert "Is a directory" in program.refused("mount", "-f", program.mountpoint)
