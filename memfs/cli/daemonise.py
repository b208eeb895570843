"""A mount's process and the command that started it: how the one tells the other that it is ready, or why not.

`memfs mount` starts itself again as a new process in a session of its own (nothing of a fork is inherited: no threads, no
locks, no terminal). The two share one pipe with lines of text: ``note TEXT`` for the terminal, and at last ``ready TEXT``, the
mount point, or ``error TEXT``. The pipe closes when the daemon has said one of the two, or has died.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TextIO

from memfs.cli.notify import notify
from memfs.cli.output import say
from memfs.model.errors import MemfsError

LOG_BYTES = 1024 * 1024
"""A log larger than this is set aside when the next mount begins; one old log is kept."""
LOG_TAIL_LINES = 3


class Reporter(Protocol):
    """Where a mount's process reports on its start."""

    def note(self, text: str) -> None: ...
    def ready(self, mountpoint: str) -> None: ...
    def error(self, text: str) -> None: ...


class TerminalReporter:
    """For a mount that stays in the foreground: the mount point on standard output, all else on standard error."""

    def note(self, text: str) -> None:
        say(text)

    def ready(self, mountpoint: str) -> None:
        print(mountpoint, flush=True)
        notify("READY=1")

    def error(self, text: str) -> None:
        say(text)


class PipeReporter:
    """For a daemon: to the command that started it, which may be gone already."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._pipe: TextIO | None = open(descriptor, "w", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115

    def _send(self, kind: str, text: str, *, last: bool) -> None:
        if self._pipe is None:
            return
        pipe = self._pipe
        try:
            print(kind, " ".join(text.splitlines()), file=pipe, flush=True)
            if last:
                pipe.close()
        except BrokenPipeError:
            last = True
        if last:
            self._pipe = None

    def note(self, text: str) -> None:
        self._send("note", text, last=False)

    def ready(self, mountpoint: str) -> None:
        self._send("ready", mountpoint, last=True)

    def error(self, text: str) -> None:
        self._send("error", text, last=True)


def open_log(path: Path) -> TextIO:
    """The log of a mount, for appending; nobody else can read it."""
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_suffix(".log.old"))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return open(descriptor, "a", encoding="utf-8")


def start(command: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> str:
    """Start `python -m memfs COMMAND --ready-fd N ARGUMENTS` as a daemon and return its mount point once it is ready.

    Its notes are shown meanwhile. Raises `MemfsError` with its reason when it does not get ready. When this process is
    interrupted, the daemon is ended too.
    """
    reading, writing = os.pipe()
    with open_log(log) as errors:
        try:
            process = subprocess.Popen(
                # -P: the current directory may be a mount, and a memory called memfs.py is no part of the program.
                [sys.executable, "-P", "-m", "memfs", *command, "--ready-fd", str(writing), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
    try:
        with open(reading, encoding="utf-8", errors="surrogateescape") as pipe:
            for line in pipe:
                kind, _, text = line.rstrip("\n").partition(" ")
                if kind == "note":
                    say(text)
                elif kind == "ready":
                    return text
                else:
                    process.wait()
                    raise MemfsError(text)
    except KeyboardInterrupt:
        process.terminate()
        raise
    status = process.wait()
    how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    raise MemfsError(f"the mount's process ended before it was ready ({how}): `memfs doctor` says what is missing{_tail(log)}")


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    return f"; it said {' / '.join(lines[-LOG_TAIL_LINES:])} (all of it in {log})" if lines else ""
