// Drives Tablestore's own SDK for Node against a server with TLS; prints what it saw as one JSON object.
// Arguments: endpoint, instance, key.
import { AgentStorageClient } from "@tablestore/agent-storage";

const [endpoint, instanceName, apiKey] = process.argv.slice(2);
const client = new AgentStorageClient({ endpoint, instanceName, apiKey });
const scope = { appId: "app", tenantId: "tenant", agentId: "agent", runId: "run" };
const base = { memoryStoreName: "sdk_files", scope };
const seen = {};

async function refused(work) {
  try {
    await work();
  } catch (error) {
    return [error.httpStatus ?? error.statusCode ?? error.status ?? null, error.code ?? null];
  }
  return ["not refused", null];
}

await client.createMemoryStore({ memoryStoreName: "sdk_files", storageMode: "filemem" });
seen.mode = (await client.getMemoryStore({ memoryStoreName: "sdk_files" })).storageMode;
const item = await client.addItem({ ...base, path: "/notes/a.md", content: "one\n", sessionId: "s1" });
seen.added = [item.path, item.contentSizeBytes, "content" in item];
seen.got = (await client.getItem({ ...base, path: "/notes/a.md", view: "full" })).content;
const precondition = { expectedVersionId: item.latestVersionId };
const changed = await client.updateItem({ ...base, itemId: item.itemId, content: "two\n", path: "/b.md", precondition });
seen.updated = [changed.path, changed.latestVersionId !== item.latestVersionId];
seen.stale = await refused(() => client.updateItem({ ...base, itemId: item.itemId, content: "x", precondition }));
seen.taken = await refused(() => client.addItem({ ...base, path: "/b.md", content: "x" }));
seen.missing = await refused(() => client.getItem({ ...base, path: "/none.md" }));
for (let number = 0; number < 5; number++) {
  await client.addItem({ ...base, path: `/many/${number}.md`, content: String(number) });
}
seen.listed = [];
for (let nextToken; ; ) {
  const page = await client.listItems({ ...base, limit: 2, ...(nextToken ? { nextToken } : {}) });
  seen.listed.push(...page.items.map((one) => one.path));
  nextToken = page.nextToken;
  if (!nextToken) break;
}
seen.directory = (await client.listItems({ ...base, depth: 1 })).items.map((one) => [one.type, one.path]);
const { versions } = await client.listItemVersions({ ...base, itemId: item.itemId });
seen.history = versions.map((version) => version.operation);
seen.actor = versions.at(-1).createdBy;
seen["old content"] = (
  await client.getItemVersion({ ...base, versionId: item.latestVersionId, view: "full" })
).content;
seen.redacted = (await client.redactItemVersion({ ...base, versionId: item.latestVersionId })).redacted;
seen.deleted = (await client.deleteItem({ ...base, itemId: item.itemId })).deleted;
await client.createMemoryStore({ memoryStoreName: "sdk_chats" });
const chats = { memoryStoreName: "sdk_chats", scope };
await client.addMemories({ ...chats, messages: [{ role: "user", content: "the user likes oolong tea" }] });
seen.memories = (await client.listMemories(chats)).memories.map((memory) => memory.text);
const found = await client.searchMemories({ ...chats, query: "oolong tea", topK: 3 });
seen.search = [found.results.map((hit) => hit.unit.text), found.fileResults];
seen["no files"] = await refused(() => client.listItems({ memoryStoreName: "sdk_chats", scope }));
seen.stores = (await client.listMemoryStores({})).stores.map((store) => store.memoryStoreName).sort();
const wrong = new AgentStorageClient({ endpoint, instanceName, apiKey: "wrong" });
seen["wrong key"] = await refused(() => wrong.listMemoryStores({}));
console.log(JSON.stringify(seen));
