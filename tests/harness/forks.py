"""Runs `memfs` again and again without loading it anew: a process that has imported it forks for each command.

A command is a process of its own, with arguments, environment, directory and descriptors of its own, and runs what
`python -m memfs` runs. Only the imports are saved: over half a second each, which was most of what the tests of the command
line took.
"""

import array
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

_PACKAGES = ("memfs.cli", "memfs.transfer", "memfs.stores.sql", "memfs.stores.managed", "rich")


class ForkServer:
    """Starts at the first command; `close` ends it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.forks", str(theirs.fileno())],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        self._socket = ours
        return ours

    def close(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
            self._socket = self._process = None

    def run(
        self, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` does for text that is captured, with nothing on standard input."""
        server = self._socket or self._start()
        request = json.dumps({"arguments": arguments, "cwd": str(cwd), "environment": environment}).encode()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, open(os.devnull) as nothing:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours:
                with theirs:
                    descriptors = [nothing.fileno(), out.fileno(), err.fileno(), theirs.fileno()]
                    socket.send_fds(server, [request], descriptors)
                ours.settimeout(timeout)
                pid = int(ours.recv(64))
                try:
                    status = ours.recv(64)
                    ours.recv(64)  # the end of the process closes it
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(["memfs", *arguments], timeout) from None
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, int(status or -signal.SIGKILL), out.read(), err.read())


commands = ForkServer()
"""That of this test run."""


def _serve(server: socket.socket) -> None:
    """Fork for each request until the other side closes."""
    from memfs.cli import main

    _import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks for them: they tell their status themselves
    while True:
        request, ancillary, _, _ = server.recvmsg(1 << 20, socket.CMSG_SPACE(4 * 4), socket.MSG_CMSG_CLOEXEC)
        if not request:
            return
        descriptors = array.array("i", ancillary[0][2]).tolist()
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    server.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    asked = json.loads(request)
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
