"""Drives Tablestore's own SDK against a server with TLS; prints what it saw as JSON. Arguments: endpoint, instance, key."""

import json
import sys
from typing import Any

from tablestore_agent_storage import AgentStorageClient

endpoint, instance, key = sys.argv[1:]
client = AgentStorageClient(ots_endpoint=endpoint, ots_instance_name=instance, api_key=key)
seen: dict[str, Any] = {}
scope = {"appId": "app", "tenantId": "tenant", "agentId": "agent", "runId": "run"}
base: dict[str, Any] = {"memoryStoreName": "sdk_files", "scope": scope}


def refused(work: Any) -> list[Any]:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises
        return [getattr(error, "http_status", None), getattr(error, "code", None)]
    return ["not refused", None]


client.create_memory_store({"memoryStoreName": "sdk_files", "storageMode": "filemem"})
seen["mode"] = client.get_memory_store({"memoryStoreName": "sdk_files"})["storageMode"]
item = client.add_item({**base, "path": "/notes/a.md", "content": "one\n", "sessionId": "s1"})
seen["added"] = [item["path"], item["contentSizeBytes"], "content" in item]
seen["got"] = client.get_item({**base, "path": "/notes/a.md", "view": "full"})["content"]
guard = {"expectedVersionId": item["latestVersionId"]}
changed = client.update_item({**base, "itemId": item["itemId"], "content": "two\n", "path": "/b.md", "precondition": guard})
seen["updated"] = [changed["path"], changed["latestVersionId"] != item["latestVersionId"]]
seen["stale"] = refused(lambda: client.update_item({**base, "itemId": item["itemId"], "content": "x", "precondition": guard}))
seen["taken"] = refused(lambda: client.add_item({**base, "path": "/b.md", "content": "x"}))
seen["missing"] = refused(lambda: client.get_item({**base, "path": "/none.md"}))
seen["wildcard"] = refused(lambda: client.add_item({**base, "scope": {**scope, "runId": "*"}, "path": "/w", "content": ""}))
for number in range(5):
    client.add_item({**base, "path": f"/many/{number}.md", "content": str(number)})
paths: list[str] = []
token = None
while True:
    page = client.list_items({**base, "limit": 2, **({"nextToken": token} if token else {})})
    paths += [one["path"] for one in page["items"]]
    token = page.get("nextToken")
    if not token:
        break
seen["listed"] = paths
listed = client.list_items({**base, "depth": 1})["items"]
seen["directory"] = [[one["type"], one["path"]] for one in listed]
versions = client.list_item_versions({**base, "itemId": item["itemId"]})["versions"]
seen["history"] = [version["operation"] for version in versions]
seen["actor"] = versions[-1]["createdBy"]
old = client.get_item_version({**base, "versionId": item["latestVersionId"], "view": "full"})
seen["old content"] = old["content"]
seen["redacted"] = client.redact_item_version({**base, "versionId": item["latestVersionId"]})["redacted"]
seen["deleted"] = client.delete_item({**base, "itemId": item["itemId"]})["deleted"]
client.create_memory_store({"memoryStoreName": "sdk_chats"})
chats = {"memoryStoreName": "sdk_chats", "scope": scope}
client.add_memories({**chats, "messages": [{"role": "user", "content": "the user likes oolong tea"}]})
seen["memories"] = [memory["text"] for memory in client.list_memories(chats)["memories"]]
found = client.search_memories({**chats, "query": "oolong tea", "topK": 3})
seen["search"] = [[hit["unit"]["text"] for hit in found["results"]], found["fileResults"]]
seen["no files"] = refused(lambda: client.list_items({"memoryStoreName": "sdk_chats", "scope": scope}))
seen["stores"] = sorted(store["memoryStoreName"] for store in client.list_memory_stores()["stores"])
wrong = AgentStorageClient(ots_endpoint=endpoint, ots_instance_name=instance, api_key="wrong")
seen["wrong key"] = refused(lambda: wrong.list_memory_stores())
print(json.dumps(seen))
