"""Programs that the bench starts, and their mounts: each ends with the `with` that began it, whatever happened."""

import contextlib
import ctypes
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "bench"
"""What the set-up step made: a virtual environment for the peers' Python packages, libfuse's example."""
PEERS_PYTHON = BUILD / "venv" / "bin" / "python"

Command = Sequence[str | Path]

START_SECONDS = 30.0
STOP_SECONDS = 30.0

_cpus = sorted(os.sched_getaffinity(0))
CLIENT_CPU = _cpus[0]
"""Of the workload and of the file system that it works on: a request that changes processors costs several times as much."""
SERVER_CPU = _cpus[-1]
"""Of whatever stands for the far side."""

_MNT_FORCE = 1
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """Something that the bench compares did not start, or did not do its work."""


def pin(pid: int, cpu: int) -> None:
    """Keep a process that was just started, and the threads that it will start, on one processor."""
    with contextlib.suppress(ProcessLookupError):
        os.sched_setaffinity(pid, {cpu})


def environment(home: Path) -> dict[str, str]:
    """Ours, with a home of its own and without anybody's credentials, so that a run leaves nothing behind and finds nothing."""
    folders = {name: home / name.lower() for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    folders |= {name: home / name.lower() for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    foreign = re.compile(r"(MEMFS|ANTHROPIC|AWS|RCLONE)_.*|.*_proxy", re.IGNORECASE)
    kept = {name: value for name, value in os.environ.items() if not foreign.fullmatch(name)}
    return {**kept, **{name: str(folder) for name, folder in folders.items()}, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}


@contextlib.contextmanager
def program(
    command: Command,
    log: Path,
    *,
    cpu: int,
    variables: Mapping[str, str] | None = None,
    stdout: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A running program on one processor; what it says goes to `log`. It is ended by SIGTERM, and by SIGKILL where it must."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output if stdout is None else stdout,
            stderr=output,
            env=dict(variables) if variables is not None else None,
            start_new_session=True,
        )
    pin(process.pid, cpu)
    try:
        yield process
    finally:
        end(process)
        if process.stdout is not None:
            process.stdout.close()


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(command: Command, *, cpu: int = CLIENT_CPU, seconds: float = 600, variables: Mapping[str, str] | None = None) -> str:
    """What a program prints that must end with 0; `variables` are added to its environment. Raises `Failed`."""
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **(variables or {})},
    )
    pin(process.pid, cpu)
    try:
        printed, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failed(f"{command[0]} did not end within {seconds:g} s") from None
    if process.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} ended with {process.returncode}: {said.strip()[-500:]}")
    return printed


def module(name: str, *arguments: str | Path, python: Path | None = None) -> list[str | Path]:
    """The command that runs one of the bench's own programs."""
    return [python or sys.executable, "-m", f"scripts.bench.{name}", *arguments]


# Mounts


@dataclass
class Mounted:
    """A file system that serves. `directory` is where the tree is."""

    mountpoint: Path
    directory: Path
    pid: int
    ready_ms: float
    """From the start of the program to the mount."""
    details: dict[str, float] = field(default_factory=dict)


def is_mounted(mountpoint: Path) -> bool:
    """By the kernel's table: nothing is asked of the file system."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split(" ")[4] == str(mountpoint) for line in lines)


def force_unmount(mountpoint: Path) -> None:
    """Abort the connection, so that whoever waits for it gets an error, and take the mount away."""
    while is_mounted(mountpoint):
        if _libc.umount2(os.fsencode(mountpoint), _MNT_FORCE | _MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), f"cannot unmount {mountpoint}")


@contextlib.contextmanager
def mount(
    command: Command,
    mountpoint: Path,
    log: Path,
    *,
    variables: Mapping[str, str] | None = None,
    ready_line: bool = False,
    ends_by_signal: bool = False,
) -> Iterator[Mounted]:
    """A file system whose program stays in the foreground.

    It is ready when the kernel has it, or with `ready_line` when the program prints a line. It ends by an unmount, or with
    `ends_by_signal` by SIGTERM, upon which it must end with 0.
    """
    mountpoint.mkdir(exist_ok=True)
    began = time.perf_counter()
    with program(command, log, cpu=CLIENT_CPU, variables=variables, stdout=subprocess.PIPE if ready_line else None) as process:
        try:
            if ready_line and not _first_line(process.stdout):
                raise Failed(f"{command[0]} did not mount: {log.read_text()[-500:]}")
            while not is_mounted(mountpoint):
                if process.poll() is not None or time.perf_counter() - began > START_SECONDS:
                    raise Failed(f"{command[0]} did not mount: {log.read_text()[-500:]}")
                time.sleep(0.002)
            ready_ms = (time.perf_counter() - began) * 1000
            yield Mounted(mountpoint, mountpoint, process.pid, ready_ms)
            if not ends_by_signal:
                subprocess.run(["fusermount3", "-u", str(mountpoint)], check=False, capture_output=True)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
            end(process)
            if ends_by_signal and process.returncode != 0:
                raise Failed(f"{command[0]} ended with {process.returncode}: {log.read_text()[-500:]}")
        finally:
            if process.poll() is None and is_mounted(mountpoint):
                process.kill()
            force_unmount(mountpoint)


def _first_line(stdout: IO[bytes] | None) -> bytes:
    assert stdout is not None
    return stdout.readline()


# Facts


def resident_mb(pid: int) -> float:
    """The memory that a process holds now, in MB of 10^6 bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise Failed(f"process {pid} is gone")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when somebody listens. Raises `Failed`."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise Failed(f"{process.args!r} does not listen: {log.read_text()[-500:]}")
