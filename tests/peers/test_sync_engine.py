"""The official SDK's sync engine, as its worker runs it, against `memfs serve`: both sides end with one tree."""

import json
from pathlib import Path

import pytest

from tests.harness.api import Api
from tests.harness.serving import ServerProcess
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
