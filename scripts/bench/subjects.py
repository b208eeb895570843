"""What memfs is compared with. Each is started here, with the settings that its own documentation begins with."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.bench import running
from scripts.bench.running import BUILD, SERVER_CPU, Command, Failed, Mounted
from scripts.bench.tree import Tree

PASSTHROUGH = BUILD / "passthrough_ll"
BUCKET = "bench"
KEY = "bench"


@contextlib.contextmanager
def memory_directory() -> Iterator[Path]:
    """A directory of a tmpfs."""
    with tempfile.TemporaryDirectory(prefix="memfs-bench-", dir="/dev/shm") as directory:
        yield Path(directory)


@contextlib.contextmanager
def floor(work: Path, tree: Tree, *, xattr: bool) -> Iterator[Mounted]:
    mountpoint = _place(work, "floor" if xattr else "floor-no-xattr")
    command = running.module(
        "floor",
        mountpoint,
        "--notes",
        str(tree.notes),
        "--directories",
        str(tree.directories),
        *([] if xattr else ["--no-xattr"]),
    )
    with running.mount(command, mountpoint, work / "floor.log", variables=running.environment(work / "home")) as mounted:
        yield mounted


@contextlib.contextmanager
def passthrough(work: Path, source: Path) -> Iterator[Mounted]:
    """libfuse's C example over `source`, with the kernel's caches on."""
    mountpoint = _place(work, "passthrough")
    command: Command = [PASSTHROUGH, "-f", "-o", f"source={source}", "-o", "cache=always,timeout=1.0", mountpoint]
    with running.mount(command, mountpoint, work / "passthrough.log") as mounted:
        yield mounted


# sshfs


@dataclass
class Shell:
    """A private sshd of this user on loopback."""

    port: int
    folder: Path
    user: str


@contextlib.contextmanager
def sshd(work: Path) -> Iterator[Shell]:
    folder = work / "sshd"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        running.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name])
    shutil.copy(folder / "user.pub", folder / "authorized_keys")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd locks itself in before a log-in
    port = running.free_port()
    settings = {
        "ListenAddress": "127.0.0.1",
        "Port": str(port),
        "HostKey": str(folder / "host"),
        "PidFile": "none",
        "AuthorizedKeysFile": str(folder / "authorized_keys"),
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "Subsystem": "sftp internal-sftp",
    }
    (folder / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    log = folder / "log"
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise Failed("sshd is not installed")
    with running.program([program, "-D", "-e", "-f", folder / "config"], log, cpu=SERVER_CPU) as process:
        running.await_port(port, process, log)
        yield Shell(port, folder, running.run(["id", "-un"]).strip())


@contextlib.contextmanager
def sshfs(work: Path, shell: Shell, port: int, remote: Path) -> Iterator[Mounted]:
    """`remote` through `port`, which leads to `shell`."""
    mountpoint = _place(work, "sshfs")
    options = f"port={port},IdentityFile={shell.folder / 'user'},StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null"
    command: Command = ["sshfs", "-f", "-o", options, f"{shell.user}@127.0.0.1:{remote}", mountpoint]
    with running.mount(command, mountpoint, work / "sshfs.log", variables=running.environment(work / "home")) as mounted:
        yield mounted


# S3


@contextlib.contextmanager
def s3(work: Path, tree: Tree) -> Iterator[int]:
    """The port of a moto server with a bucket that holds `tree`; it checks no credentials."""
    port = running.free_port()
    log = work / "moto.log"
    command: Command = [running.PEERS_PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running.program(command, log, cpu=SERVER_CPU, variables=running.environment(work / "home")) as process:
        running.await_port(port, process, log)
        _put(port, BUCKET, b"")
        directories = {path.rpartition("/")[0] for path in tree.paths()}
        for directory in sorted(directories):
            _put(port, f"{BUCKET}/{directory}/", b"", "application/x-directory")
        for number in range(tree.notes):
            _put(port, f"{BUCKET}/{tree.path(number)}", tree.text(number).encode())
        yield port


def _put(port: int, path: str, content: bytes, kind: str = "text/markdown") -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", content, {"content-type": kind}, method="PUT")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        answer.read()


@contextlib.contextmanager
def s3fs(work: Path, port: int) -> Iterator[Mounted]:
    mountpoint = _place(work, "s3fs")
    options = f"url=http://127.0.0.1:{port},use_path_request_style"
    command: Command = ["s3fs", BUCKET, mountpoint, "-f", "-o", options]
    variables = {**running.environment(work / "home"), "AWSACCESSKEYID": KEY, "AWSSECRETACCESSKEY": KEY}
    with running.mount(command, mountpoint, work / "s3fs.log", variables=variables) as mounted:
        yield mounted


@contextlib.contextmanager
def rclone(work: Path, port: int) -> Iterator[Mounted]:
    """With the cache that writing needs (`--vfs-cache-mode writes`): a close returns seconds before the upload begins."""
    mountpoint = _place(work, "rclone")
    settings = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": f"http://127.0.0.1:{port}",
        "ACCESS_KEY_ID": KEY,
        "SECRET_ACCESS_KEY": KEY,
        "FORCE_PATH_STYLE": "true",
    }
    variables = running.environment(mountpoint.with_suffix(".home"))  # its cache is on disk, and must be cold
    variables |= {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in settings.items()}
    command: Command = ["rclone", "mount", f"bench:{BUCKET}", mountpoint, "--vfs-cache-mode", "writes"]
    with running.mount(command, mountpoint, work / "rclone.log", variables=variables) as mounted:
        yield mounted


def _place(work: Path, name: str) -> Path:
    number = 0
    while (work / f"{name}-{number}").exists():
        number += 1
    place = work / f"{name}-{number}"
    place.mkdir(parents=True)
    return place


def versions() -> dict[str, str]:
    """What was compared."""
    lines = {
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
        "sshfs": _line(["sshfs", "--version"], "SSHFS"),
        "s3fs": _line(["s3fs", "--version"], "Amazon"),
        "rclone": _line(["rclone", "version"], "rclone"),
    }
    pip: Command = [running.PEERS_PYTHON, "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check"]
    for line in running.run(pip).splitlines():
        name, _, version = line.partition("==")
        if name in ("anthropic", "moto"):
            lines[name] = version
    return lines


def _line(command: list[str], start: str) -> str:
    """The number in the line of a command's output that begins so."""
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    line = next(line for line in (printed.stdout + printed.stderr).splitlines() if line.startswith(start))
    return next(word.lstrip("vV") for word in line.split() if word.lstrip("vV")[:1].isdigit())
