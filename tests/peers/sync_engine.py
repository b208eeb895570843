"""Runs the official SDK's own sync of a session's stores: download, edit on both sides, sync, finish; prints JSON.

Arguments: URL, session id, folder to work in. The session's token is in PEER_SECRET, an API key in PEER_KEY. With PEER_WAIT
it makes a file `waiting` in the folder and goes on to the last sync when there is one called `go`.
"""

import hashlib
import json
import logging
import os
import sys
from pathlib import Path

import anyio
from anthropic import AsyncAnthropic
from anthropic.lib.tools._memories import MARKER_PATH, SessionMemoryStores

url, session_id, folder = sys.argv[1:]
root = Path(folder) / "store"
messages = []


class Collecting(logging.Handler):
    def emit(self, record):
        if record.levelno >= logging.WARNING:
            messages.append(record.getMessage())


logging.getLogger("anthropic").addHandler(Collecting())


def tree():
    return {
        "/" + str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and path.name != MARKER_PATH
    }


async def main():
    worker = AsyncAnthropic(base_url=url, auth_token=os.environ["PEER_SECRET"], api_key=None, timeout=20)
    other = AsyncAnthropic(base_url=url, api_key=os.environ["PEER_KEY"], timeout=20).beta.memory_stores.memories
    session = await worker.beta.sessions.retrieve(session_id)
    resource = session.resources[0]
    resource.mount_path = str(root)  # not below /mnt of this machine
    store = resource.memory_store_id
    engine = SessionMemoryStores(worker, workdir=folder, sync_interval=5)
    await engine.download(session)
    downloaded = tree()

    heads = {item.path: item async for item in other.list(store, limit=100)}
    (root / "d" / "00.md").write_text("edited here")
    (root / "new" / "deep").mkdir(parents=True)
    (root / "new" / "deep" / "file.md").write_text("created here")
    (root / "empty.md").write_text("")
    (root / "d" / "01.md").unlink()
    await other.update(heads["/d/02.md"].id, memory_store_id=store, content="edited there")
    await other.create(store, path="/there.md", content="created there")
    await other.delete(heads["/d/03.md"].id, memory_store_id=store)
    await engine._sync_all(final=False)
    assert (root / "d" / "02.md").read_text() == "edited there"
    assert (root / "there.md").read_text() == "created there"
    assert not (root / "d" / "03.md").exists()

    (root / "d" / "00.md").write_text("edited once more")
    await engine.flush_writes()
    if "PEER_WAIT" in os.environ:
        (Path(folder) / "waiting").touch()
        with anyio.fail_after(60):
            while not (Path(folder) / "go").exists():  # noqa: ASYNC110  another process makes it
                await anyio.sleep(0.05)
    await engine.finish()
    print(json.dumps({"downloaded": len(downloaded), "tree": tree(), "messages": messages}))
    await engine.dispose()


anyio.run(main)
