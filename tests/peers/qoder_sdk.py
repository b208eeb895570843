"""Drives Qoder's own SDK against a server; prints what it saw as one JSON object. Arguments: base URL, token."""

import json
import sys
from typing import Any

from qca import Managed

base_url, token = sys.argv[1:]
seen: dict[str, Any] = {}


def refused(work: Any) -> list[Any]:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises
        return [type(error).__name__, getattr(error, "status_code", None)]
    return ["not refused", None]


with Managed(pat=token, base_url=base_url, max_retries=0) as client:
    stores, memories, versions = client.memory_stores, client.memory_stores.memories, client.memory_stores.memory_versions
    store = stores.create(name="  SDK store ", description="d", metadata={"team": "a"})
    seen["store"] = [store.name, store.status, store.metadata]
    memory = memories.create(store.id, path="notes/a.md", content="one\n", metadata={"k": "v"})
    seen["created"] = [memory.path, memory.content, memory.content_size_bytes, memory.metadata]
    seen["retrieved"] = memories.retrieve(memory.id, memory_store_id=store.id).content
    changed = memories.update(
        memory.id,
        memory_store_id=store.id,
        content="two\n",
        precondition={"type": "content_sha256", "content_sha256": memory.content_sha256},
    )
    seen["updated"] = changed.content
    replaced = memories.update(memory.id, memory_store_id=store.id, content="two\n", metadata={"m": "w"})
    seen["metadata"] = [changed.metadata, replaced.metadata]
    stale = lambda: memories.update(memory.id, memory_store_id=store.id, content="x", content_sha256=memory.content_sha256)  # noqa: E731
    seen["stale"] = refused(stale)
    seen["taken"] = refused(lambda: memories.create(store.id, path="notes/a.md", content="x"))
    seen["blank"] = refused(lambda: memories.create(store.id, path="b.md", content=" \n"))
    seen["absolute"] = refused(lambda: memories.create(store.id, path="/b.md", content="x"))
    seen["missing"] = refused(lambda: memories.retrieve("mem_none", memory_store_id=store.id))
    for number in range(5):
        memories.create(store.id, path=f"many/{number}.md", content=str(number))
    seen["listed"] = sorted(item.path for item in memories.list(store.id, limit=2))
    history = list(versions.list(store.id, memory_id=memory.id, limit=10))
    seen["history"] = [version.operation for version in history]
    seen["old content"] = versions.retrieve(history[-1].id, memory_store_id=store.id).content
    versions.redact(history[-1].id, memory_store_id=store.id)
    seen["redacted"] = versions.retrieve(history[-1].id, memory_store_id=store.id).content
    gone = memories.delete(memory.id, memory_store_id=store.id)
    seen["deleted"] = [gone.id == memory.id, gone.type]
    seen["renamed store"] = stores.update(store.id, name="Other").name
    archived = stores.archive(store.id)
    seen["archived"] = [archived.status, archived.archived_at is not None]
    seen["write to archived"] = refused(lambda: memories.create(store.id, path="c.md", content="x"))
    seen["stores"] = [one.name for one in stores.list(limit=10)]
    seen["store id"] = store.id
print(json.dumps(seen))
