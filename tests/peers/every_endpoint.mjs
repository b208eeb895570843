// Drives every endpoint with the official TypeScript SDK; prints JSON. Arguments as for every_endpoint.py.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const [url, kind] = process.argv.slice(2);
const secret = process.env.PEER_SECRET;
let requests = 0;
const counting = (input, init) => {
  requests += 1;
  return fetch(input, init);
};
const credential = kind === "api_key" ? { apiKey: secret } : { authToken: secret, apiKey: null };
const client = new Anthropic({ baseURL: url, maxRetries: 2, timeout: 20_000, fetch: counting, ...credential });
const stores = client.beta.memoryStores;
const { memories, memoryVersions: versions } = stores;
const seen = {};

async function refused(status, call) {
  const before = requests;
  try {
    await call();
  } catch (error) {
    assert.equal(error.status, status, String(error));
    assert.match(error.requestID, /^req_/);
    return [error.error.error.type, requests - before];
  }
  throw new Error("it was not refused");
}

async function everything(list) {
  const items = [];
  for await (const item of list) items.push(item);
  return items;
}

const store = await stores.create({ name: "Peer notes", description: "d", metadata: { a: "1" } });
seen.store = store.id;
const in_store = { memory_store_id: store.id };
assert.equal((await stores.retrieve(store.id)).name, "Peer notes");
assert.deepEqual((await stores.update(store.id, { metadata: { a: null, b: "2" } })).metadata, { b: "2" });
const other = await stores.create({ name: "other" });
const listed = (await everything(stores.list({ limit: 1 }))).map((item) => item.id);
assert.ok(listed.includes(store.id) && listed.includes(other.id));

const made = await memories.create(store.id, { path: "/a/one.md", content: "one\n" });
assert.equal(made.content, null);
for (let number = 0; number < 25; number++) {
  await memories.create(store.id, { path: `/many/${number}.md`, content: String(number), view: "full" });
}
assert.equal((await everything(memories.list(store.id, { limit: 20 }))).length, 26);
assert.equal((await everything(memories.list(store.id, { view: "full" }))).length, 26);
const top = await everything(memories.list(store.id, { depth: 1, path_prefix: "/" }));
assert.deepEqual(top.map((item) => [item.type, item.path]), [["memory_prefix", "/a/"], ["memory_prefix", "/many/"]]);
assert.equal((await memories.retrieve(made.id, in_store)).content, "one\n");

const precondition = { type: "content_sha256", content_sha256: made.content_sha256 };
const two = await memories.update(made.id, { ...in_store, content: "two\n", precondition });
seen.precondition = await refused(409, () => memories.update(made.id, { ...in_store, content: "three", precondition }));
seen["path conflict"] = await refused(409, () => memories.create(store.id, { path: "/a/one.md", content: "x" }));
seen.missing = await refused(404, () => memories.retrieve("mem_none", in_store));
seen["wrong path"] = await refused(400, () => memories.create(store.id, { path: "no-slash", content: "x" }));
const stale = { ...in_store, expected_content_sha256: made.content_sha256 };
seen["delete guard"] = await refused(409, () => memories.delete(made.id, stale));
assert.equal((await memories.update(made.id, { ...in_store, path: "/b.md" })).id, made.id);

const history = await everything(versions.list(store.id, { memory_id: made.id, limit: 2 }));
assert.deepEqual(history.map((version) => version.operation), ["modified", "modified", "created"]);
seen.actor = history[0].created_by;
const since = await everything(
  versions.list(store.id, { memory_id: made.id, "created_at[gte]": history[1].created_at }),
);
assert.deepEqual(since.map((version) => version.id), history.slice(0, 2).map((version) => version.id));
assert.equal((await versions.retrieve(history[2].id, in_store)).content, "one\n");
seen["redact head"] = await refused(400, () => versions.redact(history[0].id, in_store));
assert.equal((await versions.redact(history[2].id, in_store)).path, null);
const fresh = { ...in_store, expected_content_sha256: two.content_sha256 };
assert.equal((await memories.delete(made.id, fresh)).type, "memory_deleted");

const resources = [{ type: "memory_store", memory_store_id: store.id }];
const session = await client.beta.sessions.create({ agent: "agent_1", environment_id: "env_1", resources });
const [resource] = (await client.beta.sessions.retrieve(session.id)).resources;
assert.equal(resource.mount_path, "/mnt/memory/peer-notes");

assert.notEqual((await stores.archive(store.id)).archived_at, null);
seen.archived = await refused(400, () => memories.create(store.id, { path: "/x", content: "x" }));
for (const id of [store.id, other.id]) assert.equal((await stores.delete(id)).type, "memory_store_deleted");
seen.deleted = await refused(404, () => stores.retrieve(store.id));
console.log(JSON.stringify(seen));
