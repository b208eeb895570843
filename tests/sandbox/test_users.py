"""A user without privileges mounts through fusermount3, or in a namespace of his own."""

import os
from pathlib import Path

import pytest

from tests.harness.mounts import mounted
from tests.sandbox.inside import AS_USER, USER, ok, run_inside, user_python

# A machine may keep /dev/fuse for root; the test then has one of its own, in a mount namespace of its own.
OWN_DEVICE = """
mknod "$ROOT/fuse" c 10 229; chmod 666 "$ROOT/fuse"; mount --bind "$ROOT/fuse" /dev/fuse
"""

WAIT = """
for _ in $(seq 100); do grep -q " $ROOT/m " /proc/self/mountinfo && break; sleep 0.1; done
sleep 0.2; grep -q " $ROOT/m " /proc/self/mountinfo
"""

WORK = """
cd "$ROOT/m/memory"; echo one > a.md; mkdir d; echo two > d/b.md; sed -i s/one/ONE/ a.md; cat a.md d/b.md
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory that belongs to the user."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    (tmp_path / "home").mkdir()
    (tmp_path / "m").mkdir()
    for path in (tmp_path, tmp_path / "home", tmp_path / "m"):
        os.chown(path, USER, USER)
    return tmp_path


def test_fusermount3_mounts_for_a_user(home: Path) -> None:
    script = f"""
    {OWN_DEVICE}
    as_user() {{ {" ".join(AS_USER)} "$@"; }}
    as_user "$PYTHON" -m memfs mount --foreground "$ROOT/m" --url "sqlite:///$ROOT/home/x.db" > "$ROOT/out" 2>&1 &
    daemon=$!
    trap 'umount -l "$ROOT/m" 2>/dev/null || true' EXIT
    {WAIT}
    as_user bash -euc '{WORK}'
    as_user stat -c '%u %g' "$ROOT/m/memory/a.md"
    if ls "$ROOT/m" 2> "$ROOT/refused"; then echo "root was let in"; else cat "$ROOT/refused"; fi
    as_user fusermount3 -u "$ROOT/m"
    wait $daemon
    cat "$ROOT/out"
    """
    # fusermount3 is the one that mounts: nobody else may here.
    output = ok(run_inside(["unshare", "-m", "--propagation", "private"], script, root=home, PYTHON=user_python())).splitlines()
    assert output[:3] == ["ONE", "two", f"{USER} {USER}"]
    assert "Permission denied" in output[3]
    assert not mounted(home / "m")
    assert (home / "home/x.db").stat().st_uid == USER


def test_a_user_namespace_mounts_without_any_helper(home: Path) -> None:
    """Inside, its user is root and mounts by himself; nothing of it is seen outside."""
    script = f"""
    test "$(id -u)" = 0
    "$PYTHON" -m memfs mount --foreground "$ROOT/m" --url "sqlite:///$ROOT/home/x.db" > "$ROOT/out" 2>&1 &
    daemon=$!
    {WAIT}
    {WORK}
    stat -c '%u %g' a.md
    cd /
    kill -TERM $daemon
    wait $daemon
    """
    prefix = ["unshare", "-m", "--propagation", "private", "bash", "-euc", f'{OWN_DEVICE} exec "$@"', "-"]
    prefix += [*AS_USER, "unshare", "--user", "--map-root-user", "--mount"]
    output = ok(run_inside(prefix, script, root=home, PYTHON=user_python())).splitlines()
    assert output == ["ONE", "two", "0 0"]
    assert not mounted(home / "m")
    # What was made inside belongs to the user outside.
    assert (home / "home/x.db").stat().st_uid == USER
