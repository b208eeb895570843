"""Mount namespaces and user namespaces around one daemon: what is seen where, and as whose."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.mounts import Mount, mounted, new_database
from tests.harness.waiting import eventually
from tests.sandbox.inside import ok, run_inside


@pytest.fixture
def shared_place(tmp_path: Path) -> Iterator[Path]:
    """A directory whose mounts propagate."""
    place = tmp_path / "shared"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    subprocess.run(["mount", "--make-shared", place], check=True)
    place.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    yield place
    subprocess.run(["umount", "-R", "-l", place], check=True)


@pytest.fixture
def mount(shared_place: Path) -> Iterator[Mount]:
    """A mount below it, not started yet."""
    database = new_database(shared_place)
    store = database.create_store("Notes")
    store.put("/a.md", "text\n")
    mount = Mount(shared_place, [store], database=database, options=["--allow-other"])
    mount.path.mkdir()
    try:
        yield mount
    finally:
        mount.abort()


class Namespace:
    """A process that stays in a mount namespace of its own."""

    def __init__(self, propagation: str, *options: str) -> None:
        command = ["unshare", "--mount", "--propagation", propagation, *options, "bash", "-c", "echo ready; read"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["nsenter", "-t", str(self.process.pid), "-m", "bash", "-c", command],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.stdout + done.stderr

    def end(self) -> None:
        self.process.communicate("\n", timeout=10)


@pytest.mark.parametrize(("propagation", "seen"), [("slave", True), ("shared", True), ("private", False)])
def test_a_mount_made_after_the_namespace(mount: Mount, propagation: str, seen: bool) -> None:
    """With rslave or rshared propagation (Docker's bind-propagation) a sandbox sees what is mounted later; else it does not."""
    namespace = Namespace(propagation)
    try:
        mount.start()
        inside = namespace.run(f"cat {mount.store}/a.md")
        assert inside == "text\n" if seen else "No such file" in inside
        if seen:
            namespace.run(f"echo inside > {mount.store}/b.md")
            assert (mount.store / "b.md").read_text() == "inside\n"
        assert mount.stop() == 0
        eventually(lambda: "No such file" in namespace.run(f"cat {mount.store}/a.md"), True, within=5)
    finally:
        namespace.end()


@pytest.mark.parametrize("propagation", ["slave", "private"])
def test_a_mount_made_before_the_namespace(mount: Mount, propagation: str) -> None:
    mount.start()
    namespace = Namespace(propagation)
    try:
        assert namespace.run(f"cat {mount.store}/a.md") == "text\n"
        namespace.run(f"echo inside > {mount.store}/b.md; mv {mount.store}/b.md {mount.store}/c.md")
        assert mount.inspector.memories() == {"/a.md": "text\n", "/c.md": "inside\n"}
        (mount.store / "a.md").write_text("outside\n")
        assert namespace.run(f"cat {mount.store}/a.md") == "outside\n"
    finally:
        namespace.end()
    assert mount.stop() == 0


def test_a_daemon_that_ends_leaves_no_live_mount_in_a_namespace(mount: Mount) -> None:
    """A private copy of the mount outlives the unmount outside, and then answers with an error, not with old words."""
    mount.start()
    namespace = Namespace("private")
    try:
        assert namespace.run(f"cat {mount.store}/a.md") == "text\n"
        mount.kill9()
        mount.abort()
        said = namespace.run(f"timeout 5 cat {mount.store}/a.md")
        assert "text" not in said
        assert "not connected" in said
    finally:
        namespace.end()
    assert not mounted(mount.path)


def test_users_of_a_user_namespace_are_who_they_are_outside(mount: Mount) -> None:
    """Owners pass through the mapping: what root of a namespace makes belongs to the user it stands for."""
    mount.start()
    (mount.store / "theirs").mkdir()
    (mount.store / "theirs").chmod(0o777)
    agent = mount.root / "agent"
    agent.mkdir()
    os.chown(agent, 4001, 4001)
    prefix = ["setpriv", "--reuid=4001", "--regid=4001", "--clear-groups", "unshare", "--user", "--map-root-user"]
    script = f"""
    cd {mount.store}/theirs
    test "$(id -u)" = 0
    echo mine > f; chmod 640 f; stat -c '%u %g %a' f; stat -c '%U' ../a.md
    if echo x >> ../a.md; then echo allowed; fi
    """
    done = run_inside(prefix, script, root=agent)
    assert ok(done).splitlines() == ["0 0 640", "nobody"]
    assert "Permission denied" in done.stderr
    found = (mount.store / "theirs/f").stat()
    assert (found.st_uid, found.st_gid) == (4001, 4001)
    assert mount.stop() == 0


def test_everything_can_be_given_to_one_user(mount: Mount) -> None:
    """--uid and --gid: the daemon is root's, the memories are the agent's."""
    mount.options += ["--uid", "4001", "--gid", "4002", "--umask", "077"]
    mount.start()
    agent = mount.root / "agent"
    agent.mkdir()
    os.chown(agent, 4001, 4002)
    as_agent = ["setpriv", "--reuid=4001", "--regid=4002", "--clear-groups"]
    script = f"""
    cd {mount.store}; stat -c '%u %g %a' a.md; echo agent >> a.md; echo new > b.md; mkdir d; stat -c '%u %g' b.md d; cat a.md
    """
    output = ok(run_inside(as_agent, script, root=agent)).splitlines()
    assert output == ["4001 4002 600", "4001 4002", "4001 4002", "text", "agent"]
    stranger = run_inside(["setpriv", "--reuid=4003", "--regid=4003", "--clear-groups"], f"cat {mount.store}/a.md", root=agent)
    assert stranger.returncode != 0
    assert "Permission denied" in stranger.stderr
    assert mount.stop() == 0
