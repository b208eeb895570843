"""`memfs setup-system`: what it writes, that mount(8), fstab and systemd take it, and that it touches nothing else."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Program

UNITS = {"memfs@.service": "system", "memfs-serve.service": "system", "memfs-user@.service": "user"}

# In a mount namespace of its own: the machine's /sbin and /etc/fstab stay as they are.
FSTAB_SCRIPT = """
set -e
mkdir "$ROOT/upper" "$ROOT/work" "$ROOT/place"
mount -t tmpfs none "$ROOT/upper" && mkdir "$ROOT/upper/files" "$ROOT/upper/work"
real=$(readlink -f /sbin)
mount -t overlay none -o "lowerdir=$real,upperdir=$ROOT/upper/files,workdir=$ROOT/upper/work" "$real"
ln -s "$HELPER" /sbin/mount.memfs
mount --bind "$ROOT/fstab" /etc/fstab
mount "$ROOT/place"
findmnt -n -o FSTYPE,SOURCE "$ROOT/place"
echo 'by mount(8)' > "$ROOT/place/memory/a.md"
umount "$ROOT/place"
for _ in $(seq 100); do
    [ -z "$("$MEMFS" status --json 2>/dev/null)" ] && break
    sleep 0.1
done
mount -t memfs "sqlite:///$ROOT/fstab.db" "$ROOT/place" -o ro
cat "$ROOT/place/memory/a.md"
! echo x 2>/dev/null > "$ROOT/place/memory/b.md"
umount "$ROOT/place"
for _ in $(seq 100); do
    [ -z "$("$MEMFS" status --json 2>/dev/null)" ] && break
    sleep 0.1
done
mount -t memfs memfs "$ROOT/place" -o nonsense || echo "refused with $?"
"""


def in_namespace() -> list[str]:
    """A command line that gives its command a mount namespace of its own."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *as_root, "--mount", "--propagation", "private"]


def test_mount8_and_fstab(program: Program) -> None:
    place = program.root / "place"
    (program.root / "fstab").write_text(
        f"sqlite:///{program.root}/fstab.db {place} memfs noauto,nofail,_netdev,noindex,session=sesn_boot 0 0\n"
    )
    helper = Path(sys.executable).with_name("mount.memfs")
    done = subprocess.run(
        [*in_namespace(), "bash", "-c", FSTAB_SCRIPT],
        env={
            **program.environment,
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
            "ROOT": str(program.root),
            "HELPER": str(helper),
            "MEMFS": str(helper.with_name("memfs")),
        },
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kind, content, refused = done.stdout.splitlines()
    assert kind.split() == ["fuse.memfs", "memfs"]
    assert content == "by mount(8)"
    assert refused == "refused with 1"
    assert "there is no option 'nonsense'" in done.stderr
    assert not Path("/sbin/mount.memfs").exists() or os.readlink("/sbin/mount.memfs") != str(helper)


def test_what_it_writes_and_takes_away_again(program: Program) -> None:
    root = program.root / "image"
    dry = program.ok("setup-system", "--root", root, "--dry-run").splitlines()
    assert not root.exists()
    written = program.ok("setup-system", "--root", root).splitlines()
    assert written == dry
    assert all(os.path.lexists(path) for path in written)
    assert (root / "sbin/mount.memfs").is_symlink()
    assert "ExecStart=/" in (root / "etc/systemd/system/memfs@.service").read_text()
    program.ok("setup-system", "--root", root)  # again, as after an update
    program.ok("setup-system", "--root", root, "--remove")
    assert [path for path in written if os.path.lexists(path)] == []


def test_it_overwrites_nothing_of_others(program: Program) -> None:
    root = program.root / "image"
    (root / "sbin").mkdir(parents=True)
    (root / "sbin/mount.memfs").write_text("#!/bin/sh\n")
    assert "move it away" in program.refused("setup-system", "--root", root)
    assert (root / "sbin/mount.memfs").read_text() == "#!/bin/sh\n"


def test_systemd_accepts_the_units(program: Program) -> None:
    root = program.root / "image"
    program.ok("setup-system", "--root", root)
    runtime = program.root / "run"
    runtime.mkdir(mode=0o700)
    for unit, manager in UNITS.items():
        source = root / "etc/systemd" / manager / unit
        instance = program.root / unit.replace("@.", "@mnt-memory.")
        instance.write_text(source.read_text())
        done = subprocess.run(
            ["systemd-analyze", f"--{manager}", "--man=no", "verify", instance],
            env={**program.environment, "XDG_RUNTIME_DIR": str(runtime)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        complaints = [line for line in done.stderr.splitlines() if "memfs" in line]
        assert (done.returncode, complaints) == (0, []), done.stderr


@pytest.mark.parametrize("command", ["mount", "shadow"])
def test_a_service_is_ready_when_it_says_so_and_stores_what_waits_when_stopped(program: Program, command: str) -> None:
    """What systemd does with a unit of Type=notify, without systemd."""
    program.mountpoint.mkdir()
    address = program.root / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(address))
        listener.settimeout(30)
        process = subprocess.Popen(
            [sys.executable, "-m", "memfs", command, "--foreground", program.mountpoint],
            env={**program.environment, "NOTIFY_SOCKET": str(address)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert listener.recv(100) == b"READY=1"
            (program.mountpoint / "memory/a.md").write_text("x")
            process.terminate()
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, said
    out = program.root / "out"
    program.ok("export", "Memory", out)
    assert (out / "a.md").read_text() == "x"
