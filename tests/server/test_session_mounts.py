"""Mounts of a session that `memfs serve` keeps: what it attaches, with its access, in its name."""

import base64
import errno
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.api import Api
from tests.harness.serving import ServerProcess, memfs, serving
from tests.harness.session_mounts import session_mount


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with serving(f"sqlite:///{tmp_path}/data/memfs.db", tmp_path) as process:
        yield process


@pytest.fixture
def owner(server: ServerProcess) -> Iterator[Api]:
    api = Api(server.url, server.create_key()[1])
    yield api
    api.close()


def newest(api: Api, store: str) -> dict[str, Any]:
    version: dict[str, Any] = api.ok(api.get(f"memory_stores/{store}/memory_versions", limit=1))["data"][0]
    return version


def test_a_session_is_mounted_as_it_attaches(server: ServerProcess, owner: Api, tmp_path: Path) -> None:
    notes = owner.ok(owner.post("memory_stores", {"name": "User Notes", "description": "What the user\nlikes"}))["id"]
    policy, foreign = owner.create_store("Policy"), owner.create_store("Foreign")
    rule = owner.create_memory(policy, "/rule.md", "be kind\n")
    options = ("--instructions", policy, "Obey these.")
    session = server.create_session(notes, f"{policy}:ro", options=options)
    owner.ok(owner.post(f"memory_stores/{notes}", {"name": "Renamed since"}))
    with session_mount(server.url, session, tmp_path) as mountpoint:
        assert sorted(path.name for path in mountpoint.iterdir() if path.is_dir()) == ["policy", "user-notes"]
        (mountpoint / "user-notes" / "tea.md").write_text("likes tea\n")
        assert newest(owner, notes)["created_by"] == {"type": "session_actor", "session_id": session["id"]}
        assert (mountpoint / "policy" / "rule.md").read_text() == "be kind\n"
        for write in (
            lambda: (mountpoint / "policy" / "rule.md").write_text("be rude"),
            lambda: (mountpoint / "policy" / "new.md").write_text("x"),
            lambda: (mountpoint / "policy" / "rule.md").unlink(),
        ):
            with pytest.raises(OSError) as refused:
                write()
            assert refused.value.errno == errno.EROFS
        assert newest(owner, policy)["id"] == rule["memory_version_id"]
        text = memfs("prompt", str(mountpoint)).stdout
        for told in (f"{mountpoint}/user-notes", "What the user\nlikes", f"{mountpoint}/policy", "Obey these.", "read only"):
            assert told in text
        resources = [json.loads(line) for line in memfs("prompt", "--json", str(mountpoint)).stdout.splitlines()]
        assert {(r["memory_store_id"], r["access"], r["mount_path"]) for r in resources} == {
            (notes, "read_write", f"{mountpoint}/user-notes"),
            (policy, "read_only", f"{mountpoint}/policy"),
        }
        table = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
        assert session["token"] not in table
    assert owner.ok(owner.get(f"memory_stores/{foreign}/memories"))["data"] == []
    assert session["token"] not in server.log.read_text()


def test_a_work_item_is_a_credential(server: ServerProcess, owner: Api, tmp_path: Path) -> None:
    store = owner.create_store("Notes")
    session = server.create_session(store)
    item = {"sessions_token": session["token"], "ingress_token": "of no use here"}
    secret = base64.urlsafe_b64encode(json.dumps(item).encode()).decode().rstrip("=")
    with session_mount(server.url, session, tmp_path, secret=secret) as mountpoint:
        (mountpoint / "notes" / "a.md").write_text("a")
    version = newest(owner, store)
    assert (version["path"], version["created_by"]["session_id"]) == ("/a.md", session["id"])


def test_wrong_sessions_are_told_before_anything_is_mounted(server: ServerProcess, owner: Api, tmp_path: Path) -> None:
    session, ended = server.create_session(owner.create_store("Notes")), server.create_session()
    memfs("sessions", "end", ended["id"], "--url", server.database)
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    for session_id, token in (
        (session["id"], "sk-memfs-sesn01-wrong"),
        ("sesn_unknown", session["token"]),
        (ended["id"], ended["token"]),
    ):
        arguments = ("mount", str(mountpoint), "--url", server.url, "--session", session_id)
        refused = memfs(*arguments, check=False, MEMFS_AUTH_TOKEN=token)
        assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (1, "", 1), refused.stderr
        assert token not in refused.stderr
