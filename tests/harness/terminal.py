"""Types into a program that wants a terminal."""

import os
import pty
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_QUIET_SECONDS = 0.3
"""A program that has drawn its screen and says nothing for so long waits for a key."""


def type_into(
    arguments: Sequence[str], keys: Sequence[bytes], *, cwd: Path, environment: Mapping[str, str], timeout: float = 20
) -> int:
    """Run a program in a terminal, send each of `keys` once it waits for input, and return its exit status.

    Raises `AssertionError` with its last screen when it has not ended after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(arguments[0], list(arguments), dict(environment))
    screen = b""
    ended = False
    try:
        for key in keys:
            screen += _read_until_quiet(terminal, deadline)
            os.write(terminal, key)
        while not ended and time.monotonic() < deadline:
            screen += _read_until_quiet(terminal, min(deadline, time.monotonic() + _QUIET_SECONDS))
            found, status = os.waitpid(pid, os.WNOHANG)
            ended = found == pid
        assert ended, f"{arguments[0]} waits for more:\n{screen[-2000:].decode(errors='replace')}"
        return os.waitstatus_to_exitcode(status)
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)


def _read_until_quiet(terminal: int, deadline: float) -> bytes:
    read = b""
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], _QUIET_SECONDS)
        if not ready:
            break
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # EIO: the program has closed its side
            break
        if not chunk:
            break
        read += chunk
    return read
