"""Runs commands with an end in sight: a command that hangs is killed and reported, it never hangs the tests."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

Completed = subprocess.CompletedProcess[str]


class CommandHung(AssertionError):
    """A command did not end in its time and was killed."""


def run_bash(
    command: str,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout: float,
    stdin: str = "",
    unblock: Callable[[], None] | None = None,
) -> Completed:
    """Run `command` with bash and return its exit status and output (bytes that are no UTF-8 come as surrogates).

    After `timeout` seconds the command and its children are killed; where even that does not end them, because they wait inside
    the kernel for a file system that does not answer, `unblock` is called to take that file system away. Then raises
    `CommandHung`.
    """
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            stdout, stderr = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            if unblock is None:
                raise
            unblock()
            stdout, stderr = process.communicate(timeout=5)
        raise CommandHung(f"not done after {timeout:g} s: {command}\n{stdout}{stderr}") from None
    return Completed(command, process.returncode, stdout, stderr)


def checked(completed: Completed) -> str:
    """What the command printed; raises `AssertionError` with everything it said unless it ended with 0."""
    said = f"{completed.args}\nexit {completed.returncode}\n{completed.stdout}{completed.stderr}"
    assert completed.returncode == 0, said
    return completed.stdout
