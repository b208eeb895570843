"""The official SDK's own sync of a session's store, timed: until the first file can be read, and until another's save shows.

    python scripts/bench/sdk_sync.py URL SESSION FOLDER SAVES

To be run by the Python that has the SDK. The session's token is in PEER_SECRET, an API key in PEER_KEY. Prints JSON.
"""

import json
import logging
import os
import random
import sys
import time
from pathlib import Path

import anyio
from anthropic import AsyncAnthropic
from anthropic.lib.tools._memories import SessionMemoryStores

LOOK_SECONDS = 0.02


async def main() -> None:
    url, session_id, folder, saves = sys.argv[1:]
    logging.getLogger("anthropic").setLevel(logging.ERROR)
    requests = 0

    async def count(request: object) -> None:
        nonlocal requests
        requests += 1

    worker = AsyncAnthropic(base_url=url, auth_token=os.environ["PEER_SECRET"], api_key=None, timeout=60)
    worker._client.event_hooks["request"].append(count)
    session = await worker.beta.sessions.retrieve(session_id)
    resource = session.resources[0]
    assert resource.type == "memory_store"
    root = Path(folder) / "store"
    resource.mount_path = str(root)  # not below /mnt of this machine
    engine = SessionMemoryStores(worker, workdir=folder)
    requests = 0
    began = time.monotonic()
    await engine.download(session)
    seconds = time.monotonic() - began
    told = {"files": sum(1 for path in root.rglob("note-*")), "download_s": seconds, "download_requests": requests}

    other = AsyncAnthropic(base_url=url, api_key=os.environ["PEER_KEY"], timeout=60).beta.memory_stores.memories
    page = await other.list(resource.memory_store_id, limit=1)
    memory = page.data[0]
    assert memory.type == "memory"
    file = root / memory.path[1:]
    seen = []
    for turn in range(int(saves)):
        with anyio.move_on_after(random.uniform(0, engine._sync_interval)):  # others do not wait for the engine's turn
            while True:
                await engine.sync_if_due()
                await anyio.sleep(LOOK_SECONDS)
        content = f"saved by another session, turn {turn}\n"
        await other.update(memory.id, memory_store_id=resource.memory_store_id, content=content)
        began = time.monotonic()
        while file.read_text() != content:
            await engine.sync_if_due()
            await anyio.sleep(LOOK_SECONDS)
        seen.append(time.monotonic() - began)
    print(json.dumps({**told, "propagation_s": seen, "interval_s": engine._sync_interval}))
    await engine.finish()
    await engine.dispose()


if __name__ == "__main__":
    anyio.run(main)
