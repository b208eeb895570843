"""Runs `memfs` again and again without loading it anew: a process that has imported it forks for each command.

A command is a process of its own, with arguments, environment, directory and descriptors of its own, and runs what
`python -m memfs` runs. Only the imports are saved: about a second of processor time each, most of what many tests took.
"""

import array
import contextlib
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from memfs.cli.registry import Process
from tests.harness.waiting import eventually

_PACKAGES = (
    *("memfs.cli", "memfs.fuse", "memfs.views", "memfs.replica", "memfs.shadow", "memfs.transfer"),
    *("memfs.stores.sql", "memfs.stores.managed", "rich"),
)
_KILLED = -signal.SIGKILL


class Running:
    """One command, with as much of `subprocess.Popen` as the tests need. Its process is nobody's child."""

    def __init__(self, pid: int, report: socket.socket, stdout: IO[str] | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._report = report
        """The command writes its exit status to it, and it closes when the process has ended."""
        self._told = ""

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float) -> int:
        """The exit status. Raises `subprocess.TimeoutExpired`."""
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("memfs", timeout)
        return status

    def _look(self, timeout: float) -> int | None:
        while self.returncode is None and select.select([self._report], [], [], timeout)[0]:
            said = self._report.recv(64).decode()
            self._told = said or self._told
            if not said:
                self._report.close()
                # The descriptors of a process are closed a moment before it has ended.
                eventually(self._is_there, False, within=5)
                self.returncode = int(self._told or _KILLED)
        return self.returncode

    def _is_there(self) -> bool:
        try:
            Process.of(self.pid)
        except ProcessLookupError:
            return False
        return True

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """Starts at the first command; `close` ends it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.harness.forks", str(theirs.fileno())],
                    cwd=Path(__file__).parents[2],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
        return self._socket

    def close(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
            self._socket = self._process = None

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stderr: IO[str],
        stdout: IO[str] | None = None,
    ) -> Running:
        """Start a command, a session of its own, with nothing on its standard input; without `stdout` that is a pipe to us."""
        request = json.dumps({"arguments": arguments, "cwd": str(cwd), "environment": dict(environment)}).encode()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        printed: IO[str] | None = None
        with contextlib.ExitStack() as passed:
            passed.enter_context(theirs)
            nothing = passed.enter_context(open(os.devnull))
            if stdout is None:
                reading, writing = os.pipe()
                printed = open(reading)  # noqa: SIM115  the caller closes it
                stdout = passed.enter_context(open(writing, "w"))
            descriptors = [file.fileno() for file in (nothing, stdout, stderr, theirs)]
            socket.send_fds(self._started(), [request], descriptors)
        return Running(int(ours.recv(64)), ours, printed)

    def run(
        self, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` does for text that is captured, with nothing on standard input."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            command = self.start(arguments, cwd=cwd, environment=environment, stdout=out, stderr=err)
            try:
                status = command.wait(timeout)
            finally:
                command.kill()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, status, out.read(), err.read())


commands = ForkServer()
"""That of this test run."""


def _serve(server: socket.socket) -> None:
    """Fork for each request until the other side closes."""
    _import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks for them: they tell their status themselves
    while True:
        request, ancillary, _, _ = server.recvmsg(1 << 20, socket.CMSG_SPACE(4 * 4), socket.MSG_CMSG_CLOEXEC)
        if not request:
            return
        descriptors = array.array("i", ancillary[0][2]).tolist()
        if os.fork() == 0:
            server.close()
            _be(json.loads(request), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _be(asked: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Become the command."""
    from memfs.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    report = socket.socket(fileno=descriptors[3])
    report.send(str(os.getpid()).encode())
    status = 1
    try:
        status = main.run(asked["arguments"])
    except BaseException:  # noqa: BLE001  Python prints it and ends with 1
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        report.send(str(status).encode())
        os._exit(0)  # what Python does at its end takes longer than most commands


def _import_all() -> None:
    for package in map(importlib.import_module, _PACKAGES):
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{package.__name__}.{module.name}")


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
