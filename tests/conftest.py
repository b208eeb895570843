"""What every test run is held to, and the world it runs in.

A run lives in one temporary directory: temporary files, the home directory and the XDG directories of everything it starts are
below it. A run passes only when every test that was selected ran to a pass: a skipped or expectedly failing test fails the
run. It also fails when it leaves something behind: a process, a FUSE mount or a temporary file.

A test that failed may be repeated, and its second run counts. The end of the run names it, with what it complained of; what
is then left behind is ended and named as ever, but may be the first run's, and does not fail the others.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

HOME_VARIABLES = {
    "HOME": "home",
    "XDG_DATA_HOME": "home/data",
    "XDG_STATE_HOME": "home/state",
    "XDG_CACHE_HOME": "home/cache",
    "XDG_CONFIG_HOME": "home/config",
    "XDG_RUNTIME_DIR": "home/run",
}

TASTE = ("SHELL", "TERM", "COLUMNS", "LINES", "EDITOR", "VISUAL", "PAGER", "LESS", "LANGUAGE", "TZ", "PYTHONDONTWRITEBYTECODE")
"""What a terminal or a person sets, and tools heed. Tests start where nothing of it is set, as on a machine for CI."""


def processes_of(root: Path) -> dict[int, str]:
    """Process id and command line of every live process that names `root` in its environment or arguments, but for this one.

    Whatever a run starts has its temporary directory or its home there.
    """
    found = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal() or int(directory.name) == os.getpid():
            continue
        try:
            environment = (directory / "environ").read_bytes()
            command = (directory / "cmdline").read_bytes()
            name = (directory / "comm").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if os.fsencode(root) in environment + command:
            # A process that is just being started has no command line yet.
            found[int(directory.name)] = (command.replace(b"\0", b" ") or name).decode(errors="replace").strip()
    return found


def mounts_below(root: Path) -> list[str]:
    """Mount points below `root`, deepest first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return sorted((point for line in lines if (point := line.split(" ")[4]).startswith(f"{root}/")), reverse=True)


class RunGuard:
    """Counts outcomes, and looks for what was left behind."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.root = Path(tempfile.mkdtemp(prefix="memfs-tests-"))
        # Servers that refuse to run as root, and other users on a shared mount, need to pass through.
        self.root.chmod(0o711)
        self.tests = self.root / "t"
        self.temporary = self.root / "tmp"
        self.temporary.mkdir()
        self.temporary.chmod(0o1777)
        os.environ["TMPDIR"] = str(self.temporary)
        for variable, folder in HOME_VARIABLES.items():
            directory = self.root / folder
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.environ[variable] = str(directory)
        for variable in [name for name in os.environ if name in TASTE or name.startswith(("MEMFS_", "ANTHROPIC_", "LC_"))]:
            del os.environ[variable]
        os.environ["LANG"] = "C.UTF-8"
        os.environ["NODE_PATH"] = str(config.rootpath / "build/node/node_modules")
        tempfile.tempdir = None
        config.option.basetemp = str(self.tests)
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.not_run: dict[str, str] = {}
        self.complaints: list[str] = []
        self.notes: list[str] = []
        self.repeated: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "rerun":  # type: ignore[comparison-overlap]
            self.repeated.append(report)
        if report.skipped or hasattr(report, "wasxfail"):
            self.not_run[report.nodeid] = "expected to fail" if hasattr(report, "wasxfail") else "skipped"
        elif report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.not_run[report.nodeid or "collection"] = "skipped"

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield  # fixtures are torn down
        self.complaints += [f"{nodeid} was {why}" for nodeid, why in sorted(self.not_run.items())]
        if not session.config.option.collectonly and not self.failed:
            missing = {item.nodeid for item in session.items} - self.passed - set(self.not_run)
            self.complaints += [f"{nodeid} was collected but did not run" for nodeid in sorted(missing)]
        left = self.clear_up()
        (self.notes if self.repeated else self.complaints).extend(left)
        if self.complaints and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR):
            shutil.rmtree(self.root, ignore_errors=True)

    def clear_up(self) -> list[str]:
        """End and unmount what is left; says what."""
        left = processes_of(self.root)
        said = [f"process {pid} was left running: {command}" for pid, command in sorted(left.items())]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for point in mounts_below(self.root):
            said.append(f"{point} was left mounted")
            subprocess.run(["umount", "-l", point], check=False, capture_output=True)
        left_files = sorted(self.temporary.iterdir()) if self.temporary.is_dir() else []
        return said + [f"{path} was left behind" for path in left_files]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for report in self.repeated:
            terminalreporter.write_sep("_", f"{report.nodeid} failed at first ({report.when})")
            report.toterminal(terminalreporter._tw)
        for sentence in self.notes + self.complaints:
            terminalreporter.write_line(f"memfs: {sentence}", red=True)
        if self.root.exists():
            terminalreporter.write_line(f"memfs: the run's files are kept in {self.root}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts this run in the background has it ignore interrupts, and with it all that it starts: Ctrl-C on the
    # terminal of a test would do nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(RunGuard(config), "memfs-run-guard")


@pytest.fixture(scope="session", autouse=True)
def _passable_base_directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path_factory.getbasetemp().chmod(0o711)


@pytest.fixture(scope="session", autouse=True)
def _fork_server() -> Generator[None, None, None]:
    yield
    if (forks := sys.modules.get("tests.harness.forks")) is not None:
        forks.commands.close()
