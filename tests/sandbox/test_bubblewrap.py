"""An agent in a sandbox that holds the mount and nothing else: the daemon, its secrets and its journal stay outside."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.mounts import Mount, launch, new_database
from tests.harness.names import own_name
from tests.harness.shell import Completed
from tests.sandbox.inside import AS_USER, USER, ok, run_inside

SECRET = "sk-a-secret-that-must-not-be-seen"


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    root = tmp_path_factory.mktemp("bubble")
    root.chmod(0o711)
    database = new_database(root)
    store = database.create_store("Notes")
    credentials = {"MEMFS_API_KEY": SECRET}
    with launch(root, store, database=database, environment=credentials, options=["--allow-other"], module="memfs") as running:
        yield running


def in_bubble(mount: Mount, script: str, *options: str, user: bool = False) -> Completed:
    """Run `script` with /usr, a /proc of its own, and the store at /mnt/memory."""
    prefix = [
        *(AS_USER if user else ()),
        *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
        *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp"),
        *("--bind", str(mount.path), "/mnt/memory"),
        *("--chdir", "/mnt/memory/notes"),
        *options,
    ]
    home = mount.root / ("user" if user else "agent")
    home.mkdir(exist_ok=True)
    if user:
        os.chown(home, USER, USER)
    return run_inside(prefix, script, root=home)


def test_the_agent_works_on_the_store(mount: Mount, request: pytest.FixtureRequest) -> None:
    place = own_name(request)
    (mount.store / place).mkdir()
    (mount.store / place / "a.md").write_text("outside\n")
    script = f"""
    cd {place}
    cat a.md; echo inside > b.md; sed -i s/outside/edited/ a.md; mkdir d; mv b.md d/; cat d/b.md a.md
    git init -q . && git status --short | head -3; rm -rf .git
    ls -la .versions/a.md | wc -l
    """
    output = ok(in_bubble(mount, script)).splitlines()
    assert output[:3] == ["outside", "inside", "edited"]
    memories = mount.inspector.memories(f"/{place}/")
    assert memories == {f"/{place}/a.md": "edited\n", f"/{place}/d/b.md": "inside\n"}
    versions = mount.inspector.history(f"/{place}/")
    assert {getattr(version.created_by, "session_id", None) for version in versions} == {mount.session_id}


@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_secrets_and_state_stay_outside(mount: Mount, user: bool) -> None:
    state = next(Path(mount.environment["XDG_STATE_HOME"]).rglob("*.db*"))
    script = f"""
    echo "processes: $(ls /proc | grep -c '^[0-9]')"
    test ! -e /proc/{mount.pid}/environ || grep -qav memfs /proc/{mount.pid}/cmdline
    for file in {state} {mount.database.url.removeprefix("sqlite:///")} {mount.root} {mount.environment["HOME"]}; do
        test ! -e "$file" || echo "$file is visible"
    done
    secret() {{ printf '%s%s' {SECRET[:10]} {SECRET[10:]}; }}  # so that the search does not find itself
    grep -rals -f <(secret) /proc/*/environ /proc/*/cmdline /mnt /tmp /dev/shm /etc 2>/dev/null || true
    cat /mnt/memory/.memfs/status /mnt/memory/.memfs/status.json /mnt/memory/MEMORY.md | grep -c -f <(secret) || true
    """
    output = ok(in_bubble(mount, script, user=user)).splitlines()
    assert int(output[0].split()[1]) < 10
    assert output[1:] == ["0"]
    # The same search finds it where it may be found: the daemon's own environment, seen by its own user.
    assert SECRET.encode() in Path(f"/proc/{mount.pid}/environ").read_bytes()


def test_a_read_only_bind_is_read_only(mount: Mount) -> None:
    done = in_bubble(mount, "echo x > new.md", "--remount-ro", "/mnt/memory")
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr


def test_one_store_alone_can_be_given(mount: Mount) -> None:
    script = "cd /only; echo alone > c.md; cat c.md; ls -a; cat .versions/@log | wc -l"
    output = ok(in_bubble(mount, script, "--bind", str(mount.store), "/only")).splitlines()
    assert output[0] == "alone"
    assert ".memfs" not in output
    assert "c.md" in output
