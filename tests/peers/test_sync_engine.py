"""The official SDK's sync engine, as its worker runs it, against `memfs serve`: both sides end with one tree."""

import hashlib
import json
import threading
from pathlib import Path

import pytest

from tests.harness.api import Api
from tests.harness.serving import ServerProcess
from tests.harness.session_mounts import session_mount
from tests.harness.waiting import eventually
from tests.peers.conftest import PYTHON_SDKS, Driver


@pytest.mark.parametrize("sdk", PYTHON_SDKS)
def test_download_edit_sync_finish(server: ServerProcess, drive: Driver, sdk: str, tmp_path: Path) -> None:
    _, key = server.create_key(sdk)
    api = Api(server.url, key)
    store = api.create_store(f"Synced by {sdk}")
    for number in range(45):
        api.create_memory(store, f"/d/{number:02}.md", f"content {number} é\r\n")
    session = server.create_session(store)
    told = json.loads(
        drive(
            "sync_engine.py",
            server.url,
            session["id"],
            str(tmp_path),
            sdk=sdk,
            PEER_SECRET=session["token"],
            PEER_KEY=key,
        )
    )
    assert told["downloaded"] == 45
    assert told["messages"] == []
    heads = api.ok(api.get(f"memory_stores/{store}/memories", limit=100))["data"]
    assert told["tree"] == {head["path"]: head["content_sha256"] for head in heads}
    assert "/d/01.md" not in told["tree"]
    versions = api.ok(api.get(f"memory_stores/{store}/memory_versions", limit=100, session_id=session["id"]))["data"]
    assert sorted((v["operation"], v["path"]) for v in versions) == [
        ("created", "/empty.md"),
        ("created", "/new/deep/file.md"),
        ("deleted", "/d/01.md"),
        ("modified", "/d/00.md"),
        ("modified", "/d/00.md"),
    ]
    api.close()


def tree(root: Path) -> dict[str, str]:
    """Path and hash of every memory that a mounted store shows."""
    found = {}
    for path in root.rglob("*"):
        if path.is_file():
            found["/" + str(path.relative_to(root))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def test_the_engine_beside_a_mount_in_use(server: ServerProcess, drive: Driver, tmp_path: Path) -> None:
    _, key = server.create_key("beside")
    api = Api(server.url, key)
    store = api.create_store("Beside")
    for number in range(30):
        api.create_memory(store, f"/d/{number:02}.md", f"content {number}")
    on_mount, on_engine = server.create_session(store), server.create_session(store)
    failures: list[BaseException] = []
    stop = threading.Event()
    with session_mount(server.url, on_mount, tmp_path) as mountpoint:
        root = mountpoint / "beside"

        def use() -> None:
            try:
                (root / "m").mkdir()
                turn = 0
                while not stop.wait(0.1):
                    turn += 1
                    with (root / "m" / "log.md").open("a") as log:
                        log.write(f"turn {turn}\n")
                    (root / "m" / f"{turn % 5}.md").write_text(f"turn {turn}")
            except BaseException as error:  # noqa: BLE001  it belongs to the test's own thread
                failures.append(error)

        def end_use() -> None:
            try:
                eventually((tmp_path / "waiting").exists, True, within=90)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)
            stop.set()
            user.join()
            (tmp_path / "go").touch()

        user, ender = threading.Thread(target=use), threading.Thread(target=end_use)
        user.start()
        ender.start()
        environment = {"PEER_SECRET": on_engine["token"], "PEER_KEY": key, "PEER_WAIT": "1"}
        told = json.loads(drive("sync_engine.py", server.url, on_engine["id"], str(tmp_path), sdk="anthropic-2", **environment))
        ender.join()
        assert failures == []
        assert told["messages"] == []
        heads = api.ok(api.get(f"memory_stores/{store}/memories", limit=100))["data"]
        stored = {head["path"]: head["content_sha256"] for head in heads}
        assert "/m/log.md" in stored
        assert told["tree"] == stored
        eventually(lambda: tree(root), stored, within=10)
    log = api.ok(api.get(f"memory_stores/{store}/memories", path_prefix="/m/", view="full"))["data"]
    lines = next(head["content"] for head in log if head["path"] == "/m/log.md").splitlines()
    assert lines == [f"turn {number + 1}" for number in range(len(lines))]
    assert len(lines) > 5
    api.close()
