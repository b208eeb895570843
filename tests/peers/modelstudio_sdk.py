"""Drives Model Studio's own SDK against a server; prints what it saw as one JSON object. Arguments: base URL, key."""

import json
import sys
from typing import Any

from dashscope.agentstudio import Client

base_url, key = sys.argv[1:]
seen: dict[str, Any] = {}


def refused(work: Any) -> list[Any]:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises
        return [getattr(error, "status_code", None) or getattr(error, "http_status", None), getattr(error, "code", None)]
    return ["not refused", None]


with Client(api_key=key, base_url=base_url, max_retries=0) as client:
    stores, memories, versions = client.memory_stores, client.memory_stores.memories, client.memory_stores.memory_versions
    store = stores.create(name="SDK store", description="d", metadata={"team": "a"})
    seen["store"] = [store.name, store.description]
    memory = memories.create(store.id, path="/notes/a.md", content="one\n")
    seen["created"] = [memory.path, memory.content_size_bytes, memory.content_sha256]
    memories.create(store.id, path="/notes/sub/empty.md", content="")
    seen["retrieved"] = memories.retrieve(store.id, memory.id).content
    changed = memories.update(store.id, memory.id, content="two\n", content_sha256=memory.content_sha256)
    seen["version moved"] = changed.memory_version_id != memory.memory_version_id
    seen["stale"] = refused(lambda: memories.update(store.id, memory.id, content="x", content_sha256=memory.content_sha256))
    seen["renamed"] = memories.update(store.id, memory.id, path="/notes/b.md").path
    seen["taken"] = refused(lambda: memories.update(store.id, memory.id, path="/notes/sub/empty.md"))
    seen["relative"] = refused(lambda: memories.create(store.id, path="x.md", content="x"))
    page = memories.list(store.id, path_prefix="/notes/", depth=1)
    seen["directory"] = [[item.path for item in page.data], list(page.prefixes)]
    seen["full"] = [item.content for item in memories.list(store.id, view="full", limit=20)]
    seen["too many"] = refused(lambda: memories.list(store.id, view="full", limit=21))
    for number in range(5):
        memories.create(store.id, path=f"/many/{number}.md", content=str(number))
    seen["listed"] = [item.path for item in memories.list(store.id, path_prefix="/many/", limit=2)]
    history = list(versions.list(store.id, memory_id=memory.id))
    seen["history"] = [version.operation for version in history]
    redacted = versions.redact(store.id, history[-1].id)
    seen["redacted"] = redacted.redacted_at is not None
    seen["deleted"] = memories.delete(store.id, memory.id).type
    seen["missing"] = refused(lambda: memories.retrieve(store.id, memory.id))
    seen["metadata"] = stores.update(store.id, metadata={"only": "this", "gone": None}).metadata
    seen["archived"] = stores.archive(store.id).archived_at is not None
    seen["hidden"] = [one.id == store.id for one in stores.list()]
    seen["shown"] = [one.id == store.id for one in stores.list(include_archived=True)]
print(json.dumps(seen, default=str))
