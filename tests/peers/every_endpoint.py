"""Drives every endpoint with the official Python SDK, which checks each answer against its own types; prints JSON.

Arguments: URL, what the credential is for the SDK (api_key or auth_token). The credential itself is in PEER_SECRET.
"""

import json
import os
import sys

import anthropic
from anthropic import Anthropic

url, kind = sys.argv[1:]
secret = os.environ["PEER_SECRET"]
credential = {"api_key": secret} if kind == "api_key" else {"auth_token": secret, "api_key": None}
client = Anthropic(base_url=url, _strict_response_validation=True, max_retries=2, timeout=20, **credential)
stores = client.beta.memory_stores
memories, versions = stores.memories, stores.memory_versions
seen = {}


def refused(status, call, *arguments, **named):
    """The error's body of a call that the server must refuse, and how many requests the SDK made of it."""
    count = 0

    def hook(request):
        nonlocal count
        count += 1

    client._client.event_hooks["request"].append(hook)
    try:
        call(*arguments, **named)
    except anthropic.APIStatusError as caught:
        error = caught
    else:
        raise AssertionError("it was not refused")
    finally:
        client._client.event_hooks["request"].remove(hook)
    assert error.status_code == status, (error.status_code, error.body)
    assert str(error.request_id).startswith("req_")
    return error.body["error"]["type"], count


store = stores.create(name="Peer notes", description="d", metadata={"a": "1"})
seen["store"] = store.id
assert stores.retrieve(store.id).name == "Peer notes"
assert stores.update(store.id, metadata={"a": None, "b": "2"}).metadata == {"b": "2"}
others = [stores.create(name=f"other {number}").id for number in range(3)]
assert {item.id for item in stores.list(limit=2)} >= {store.id, *others}

made = memories.create(store.id, path="/a/one.md", content="one\n")
assert (made.content, made.content_size_bytes) == (None, 4)
for number in range(45):
    memories.create(store.id, path=f"/many/{number:02}.md", content=str(number), view="full")
assert len(list(memories.list(store.id, limit=20))) == 46
assert len(list(memories.list(store.id, view="full", limit=20))) == 46
top = list(memories.list(store.id, depth=1, path_prefix="/"))
assert [(item.type, item.path) for item in top] == [("memory_prefix", "/a/"), ("memory_prefix", "/many/")]
assert memories.retrieve(made.id, memory_store_id=store.id).content == "one\n"

guard = {"type": "content_sha256", "content_sha256": made.content_sha256}
two = memories.update(made.id, memory_store_id=store.id, content="two\n", precondition=guard)
assert two.memory_version_id != made.memory_version_id
seen["precondition"] = refused(409, memories.update, made.id, memory_store_id=store.id, content="three", precondition=guard)
seen["path conflict"] = refused(409, memories.create, store.id, path="/a/one.md", content="x")
seen["missing"] = refused(404, memories.retrieve, "mem_none", memory_store_id=store.id)
seen["wrong path"] = refused(400, memories.create, store.id, path="no-slash", content="x")
seen["wrong depth"] = refused(400, memories.list, store.id, extra_query={"depth": 3})
seen["delete guard"] = refused(
    409, memories.delete, made.id, memory_store_id=store.id, expected_content_sha256=made.content_sha256
)
renamed = memories.update(made.id, memory_store_id=store.id, path="/b.md")
assert (renamed.id, renamed.path) == (made.id, "/b.md")

history = list(versions.list(store.id, memory_id=made.id, limit=2))
assert [version.operation for version in history] == ["modified", "modified", "created"]
seen["actor"] = history[0].created_by.to_dict()
first = versions.retrieve(history[-1].id, memory_store_id=store.id)
assert first.content == "one\n"
since = list(versions.list(store.id, created_at_gte=history[1].created_at, memory_id=made.id))
assert [version.id for version in since] == [version.id for version in history[:2]]
seen["redact head"] = refused(400, versions.redact, history[0].id, memory_store_id=store.id)
redacted = versions.redact(first.id, memory_store_id=store.id)
assert redacted.redacted_at is not None
assert redacted.path is None

gone = memories.delete(made.id, memory_store_id=store.id, expected_content_sha256=two.content_sha256)
assert gone.type == "memory_deleted"

session = client.beta.sessions.with_raw_response.create(
    agent="agent_1", environment_id="env_1", resources=[{"type": "memory_store", "memory_store_id": store.id}]
)
seen["session"] = json.loads(session.http_response.content)["resources"]
session_id = json.loads(session.http_response.content)["id"]
lenient = Anthropic(base_url=url, timeout=20, **credential)
resource = lenient.beta.sessions.retrieve(session_id).resources[0]
assert (resource.mount_path, resource.access, resource.name) == ("/mnt/memory/peer-notes", "read_write", "Peer notes")

assert stores.archive(store.id).archived_at is not None
seen["archived"] = refused(400, memories.create, store.id, path="/x", content="x")
assert store.id not in {item.id for item in stores.list()}
assert store.id in {item.id for item in stores.list(include_archived=True)}
for identifier in (store.id, *others):
    assert stores.delete(identifier).type == "memory_store_deleted"
seen["deleted"] = refused(404, stores.retrieve, store.id)
print(json.dumps(seen))
