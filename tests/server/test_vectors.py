"""The test vectors of contract section 13, in raw HTTP; each test names its vectors."""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memfs.model.objects import ApiActor
from tests.harness.api import MEMORY_BETA, SESSIONS_BETA, Api
from tests.harness.serving import ServerThread


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def everything(api: Api, path: str, **query: Any) -> list[dict[str, Any]]:
    """All items of a listing, page after page."""
    items: list[dict[str, Any]] = []
    page: dict[str, Any] = api.ok(api.get(path, **query))
    items += page["data"]
    while page["next_page"] is not None:
        page = api.ok(api.get(path, **query, page=page["next_page"]))
        items += page["data"]
    return items


@pytest.fixture
def store(api: Api) -> str:
    return api.create_store()


@pytest.fixture
def memories(store: str) -> str:
    return f"memory_stores/{store}/memories"


@pytest.fixture
def versions(store: str) -> str:
    return f"memory_stores/{store}/memory_versions"


# Headers and credentials


@pytest.mark.parametrize("beta", [MEMORY_BETA, SESSIONS_BETA, f"message-batches-2024-09-24,{MEMORY_BETA}"])
def test_v01_either_beta_is_accepted(api: Api, beta: str) -> None:
    assert api.client.get("/v1/memory_stores", headers={"anthropic-beta": beta}).status_code == 200


def test_v02_both_betas_are_refused(api: Api) -> None:
    api.bad(api.client.get("/v1/memory_stores", headers={"anthropic-beta": f"{MEMORY_BETA},{SESSIONS_BETA}"}))
    api.bad(api.client.get("/v1/memory_stores", headers=[("anthropic-beta", MEMORY_BETA), ("anthropic-beta", SESSIONS_BETA)]))


def test_v03_an_unknown_beta_is_named(api: Api) -> None:
    answer = api.client.get("/v1/memory_stores", headers={"anthropic-beta": f"nope-2026-01-01,{MEMORY_BETA}"})
    assert "nope-2026-01-01" in api.bad(answer)["message"]


def test_v03_no_beta_is_accepted_unless_strict(api: Api, tmp_path: Any) -> None:
    del api.client.headers["anthropic-beta"]
    assert api.get("memory_stores").status_code == 200
    from tests.harness.serving import serving_in_thread

    with serving_in_thread(f"sqlite:///{tmp_path}/strict.db", strict=True) as strict:
        client = Api(strict.url)
        assert client.get("memory_stores").status_code == 200
        del client.client.headers["anthropic-beta"]
        client.bad(client.get("memory_stores"))
        client.close()


def test_v04_a_key_works_in_both_headers(quick_server: ServerThread) -> None:
    key, minted = quick_server.keyring.create_key("both")
    actors = []
    for header in ("x-api-key", "authorization"):
        client = Api(quick_server.url, minted.secret, header=header)
        store = client.create_store()
        client.create_memory(store, "/a.md")
        actors.append(client.ok(client.get(f"memory_stores/{store}/memory_versions"))["data"][0]["created_by"])
        client.close()
    assert actors == [{"type": "api_actor", "api_key_id": key.id}] * 2


def test_v05_the_beta_parameter_changes_nothing(api: Api, store: str) -> None:
    assert api.get("memory_stores", beta="true").json() == api.get("memory_stores").json()


def test_v06_no_credential(api: Api, quick_server: ServerThread) -> None:
    stranger = Api(quick_server.url)
    stranger.refused(stranger.get("memory_stores"), 401, "authentication_error")
    wrong = Api(quick_server.url, "sk-memfs-api01-wrong")
    wrong.refused(wrong.get("memory_stores"), 401, "authentication_error")
    stranger.close()
    wrong.close()


# Stores


def test_v07_a_new_store_has_every_field(api: Api) -> None:
    store = api.ok(api.post("memory_stores", {"name": "User Preferences"}))
    assert store["id"].startswith("memstore_")
    assert store["type"] == "memory_store"
    assert (store["description"], store["metadata"], store["archived_at"]) == ("", {}, None)
    assert store["created_at"].endswith("Z")
    assert set(store) == {"id", "type", "name", "description", "metadata", "created_at", "updated_at", "archived_at"}


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": "x" * 256},
        {"name": "a\nb"},
        {"name": "a", "description": "x" * 1025},
        {"name": "a", "metadata": {str(n): "v" for n in range(17)}},
        {"name": "a", "metadata": {"k" * 65: "v"}},
        {"name": "a", "metadata": {"k": "v" * 513}},
        {"name": "a", "metadata": {"k": 1}},
        {"name": "a", "unknown": 1},
        {"name": 1},
        {},
    ],
)
def test_v08_wrong_stores_are_refused(api: Api, body: dict[str, Any]) -> None:
    api.bad(api.post("memory_stores", body))
    assert api.ok(api.get("memory_stores"))["data"] == []


def test_v08_the_longest_store_is_accepted(api: Api) -> None:
    body = {"name": "x" * 255, "description": "x" * 1024, "metadata": {"k" * 63 + chr(97 + n): "v" * 512 for n in range(16)}}
    assert api.ok(api.post("memory_stores", body))["metadata"] == body["metadata"]


def test_v09_names_need_not_be_unique(api: Api) -> None:
    assert api.create_store("Notes") != api.create_store("Notes")


def test_v10_metadata_is_patched(api: Api) -> None:
    made = api.ok(api.post("memory_stores", {"name": "a", "description": "d", "metadata": {"a": "1", "b": "2"}}))
    changed = api.ok(api.post(f"memory_stores/{made['id']}", {"metadata": {"a": None, "c": "3"}, "description": ""}))
    assert changed["metadata"] == {"b": "2", "c": "3"}
    assert changed["description"] == ""
    assert changed["updated_at"] > made["updated_at"]


def test_v11_archiving_is_one_way_and_hides(api: Api, store: str) -> None:
    archived = api.ok(api.client.post(f"/v1/memory_stores/{store}/archive", headers={"content-type": "application/json"}))
    assert archived["archived_at"]
    assert api.ok(api.post(f"memory_stores/{store}/archive"))["archived_at"] == archived["archived_at"]
    assert api.ok(api.get("memory_stores"))["data"] == []
    assert [s["id"] for s in api.ok(api.get("memory_stores", include_archived="true"))["data"]] == [store]
    assert api.ok(api.get(f"memory_stores/{store}"))["id"] == store


def test_v12_what_an_archived_store_allows(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a.md", "one")
    api.ok(api.post(f"{memories}/{memory['id']}", {"content": "two"}))
    api.ok(api.post(f"memory_stores/{store}/archive"))
    api.bad(api.post(f"memory_stores/{store}", {"name": "b"}))
    api.bad(api.post(memories, {"path": "/b", "content": ""}))
    api.bad(api.post(f"{memories}/{memory['id']}", {"content": "three"}))
    api.ok(api.post(f"{versions}/{memory['memory_version_id']}/redact"))
    api.ok(api.delete(f"{memories}/{memory['id']}"))
    api.ok(api.delete(f"memory_stores/{store}"))


def test_v13_v44_deleting_a_store_deletes_all_of_it(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a.md")
    assert api.ok(api.delete(f"memory_stores/{store}")) == {"id": store, "type": "memory_store_deleted"}
    version = f"{versions}/{memory['memory_version_id']}"
    for path in (f"memory_stores/{store}", memories, f"{memories}/{memory['id']}", versions, version):
        api.refused(api.get(path), 404, "not_found_error")


def test_v14_stores_are_listed_newest_first(api: Api) -> None:
    first, second = api.create_store("a"), api.create_store("b")
    page = api.ok(api.get("memory_stores", limit=1))
    assert [s["id"] for s in page["data"]] == [second]
    page = api.ok(api.get("memory_stores", limit=1, page=page["next_page"]))
    assert ([s["id"] for s in page["data"]], page["next_page"]) == ([first], None)
    for limit in ("0", "101", "-1", "x", "1.5", "99999999999999999999"):
        api.bad(api.get("memory_stores", limit=limit))


# Create


def test_v15_create(api: Api, store: str, memories: str) -> None:
    memory = api.create_memory(store, "/a.md", "hello\n")
    assert memory["content"] is None
    assert memory["content_size_bytes"] == 6
    assert memory["content_sha256"] == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert memory["memory_version_id"].startswith("memver_")
    assert memory["created_at"] == memory["updated_at"]
    full = api.ok(api.post(memories, {"path": "/b.md", "content": "hello\n"}, view="full"))
    assert full["content"] == "hello\n"


def test_v16_content_may_be_empty_but_not_absent(api: Api, memories: str) -> None:
    memory = api.ok(api.post(memories, {"path": "/e", "content": ""}))
    assert (memory["content_size_bytes"], memory["content_sha256"]) == (0, sha(""))
    api.bad(api.post(memories, {"path": "/f"}))
    api.bad(api.post(memories, {"path": "/f", "content": None}))
    api.bad(api.post(memories, {"content": ""}))
    api.bad(api.post(memories, {"path": "/f", "content": "", "more": 1}))


@pytest.mark.parametrize(
    "path",
    [
        "a.md",
        "/",
        "/a/",
        "//a",
        "/a//b",
        "/./a",
        "/a/..",
        "/a\u0000b",
        "/a\u200db",
        "/a\u2028b",
        "/e\u0301",
        "/" + "/".join(str(n) for n in range(1, 22)),
        "/" + "x" * 1024,
    ],
)
def test_v17_wrong_paths_are_refused(api: Api, memories: str, path: str) -> None:
    api.bad(api.post(memories, {"path": path, "content": ""}))


def test_v18_odd_paths_are_accepted(api: Api, store: str, memories: str) -> None:
    wanted = ["/" + "/".join(str(n) for n in range(1, 21)), "/" + "x" * 1023, "/.hidden", "/a b", "/a\\b", "/é", "/A", "/a"]
    for path in wanted:
        api.create_memory(store, path)
    assert sorted(m["path"] for m in everything(api, memories)) == sorted(wanted)


def test_v19_the_largest_content(api: Api, store: str, memories: str) -> None:
    memory = api.create_memory(store, "/x", "x" * 102_400)
    assert memory["content_sha256"] == "8b77ec70310a4f694fff9ad0bf5f1e9da39b97ec5ccb3ced6a6261ac4effee4c"
    api.bad(api.post(memories, {"path": "/y", "content": "x" * 102_401}))
    api.bad(api.post(memories, {"path": "/y", "content": "é" * 51_201}))
    # The longest JSON that a legal content can be written as.
    escaped = '{"path": "/z", "content": "' + "\\u0001" * 102_400 + '"}'
    api.ok(api.client.post("/v1/" + memories, content=escaped))


def test_v20_create_never_overwrites(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a.md", "one")
    answer = api.post(memories, {"path": "/a.md", "content": "two"})
    error = api.refused(answer, 409, "memory_path_conflict_error")
    assert (error["conflicting_path"], error["conflicting_memory_id"]) == ("/a.md", memory["id"])
    assert answer.headers["x-should-retry"] == "false"
    assert api.ok(api.get(f"{memories}/{memory['id']}"))["content"] == "one"
    assert len(everything(api, versions)) == 1


def test_v21_a_memory_is_no_directory(api: Api, store: str, memories: str) -> None:
    below = api.create_memory(store, "/a/b")
    above = api.create_memory(store, "/c")
    error = api.refused(api.post(memories, {"path": "/a", "content": ""}), 409, "memory_path_conflict_error")
    assert (error["conflicting_path"], error["conflicting_memory_id"]) == ("/a/b", below["id"])
    error = api.refused(api.post(memories, {"path": "/c/d/e", "content": ""}), 409, "memory_path_conflict_error")
    assert (error["conflicting_path"], error["conflicting_memory_id"]) == ("/c", above["id"])
    for path in ("/ab", "/acb/x", "/a_b"):
        api.create_memory(store, path)


def test_v22_a_full_store_still_edits(tmp_path: Any) -> None:
    from tests.harness.serving import serving_in_thread

    with serving_in_thread(f"sqlite:///{tmp_path}/full.db", max_memories=3) as server:
        api = Api(server.url)
        store = api.create_store()
        kept = [api.create_memory(store, f"/{n}") for n in range(3)]
        assert "3" in api.bad(api.post(f"memory_stores/{store}/memories", {"path": "/3", "content": ""}))["message"]
        api.ok(api.post(f"memory_stores/{store}/memories/{kept[0]['id']}", {"content": "edited"}))
        api.ok(api.delete(f"memory_stores/{store}/memories/{kept[1]['id']}"))
        api.create_memory(store, "/3")
        api.close()


# Retrieve and list


def test_v23_views_and_foreign_stores(api: Api, store: str, memories: str) -> None:
    memory = api.create_memory(store, "/a", "text")
    assert api.ok(api.get(f"{memories}/{memory['id']}"))["content"] == "text"
    basic = api.ok(api.get(f"{memories}/{memory['id']}", view="basic"))
    assert (basic["content"], basic["content_size_bytes"]) == (None, 4)
    api.bad(api.get(f"{memories}/{memory['id']}", view="half"))
    other = api.create_store()
    api.refused(api.get(f"memory_stores/{other}/memories/{memory['id']}"), 404, "not_found_error")


def test_v24_prefix_and_depth(api: Api, store: str, memories: str) -> None:
    for path in ("/n/t.md", "/n/d/x", "/n-a/z"):
        api.create_memory(store, path)

    def listed(**query: Any) -> list[tuple[str, str]]:
        return [(item["type"], item["path"]) for item in everything(api, memories, **query)]

    assert len(listed(path_prefix="/n/")) == 2
    assert sorted(listed(path_prefix="/n/", depth=1)) == [("memory", "/n/t.md"), ("memory_prefix", "/n/d/")]
    assert listed(depth=1) == [("memory_prefix", "/n-a/"), ("memory_prefix", "/n/")]
    assert len(listed(depth=0)) == len(listed(path_prefix="/")) == len(listed(path_prefix="")) == 3
    assert listed(path_prefix="/nothing/") == []
    for query in ({"path_prefix": "/n"}, {"path_prefix": "n/"}, {"depth": 2}, {"depth": -1}, {"depth": "one"}):
        api.bad(api.get(memories, **query))


def test_v25_a_prefix_counts_once(api: Api, store: str, memories: str) -> None:
    for number in range(25):
        api.create_memory(store, f"/p/{number}")
    api.create_memory(store, "/z")
    assert [item["path"] for item in everything(api, memories, depth=1, limit=1)] == ["/p/", "/z"]


def test_v26_full_pages_hold_twenty(api: Api, store: str, memories: str) -> None:
    for number in range(30):
        api.create_memory(store, f"/{number:02}", str(number))
    full = api.ok(api.get(memories, view="full", limit=100))
    assert len(full["data"]) == 20
    assert full["next_page"]
    assert full["data"][3]["content"] == "3"
    basic = api.ok(api.get(memories, limit=100))
    assert (len(basic["data"]), basic["next_page"]) == (30, None)


def test_v27_old_orders_are_ignored(api: Api, store: str, memories: str) -> None:
    for path in ("/b", "/a", "/c"):
        api.create_memory(store, path)
    assert api.get(memories, order_by="created_at", order="desc").json() == api.get(memories).json()


def test_v28_wrong_cursors(api: Api, store: str, memories: str, versions: str) -> None:
    for number in range(3):
        api.create_memory(store, f"/{number}")
    for path in ("memory_stores", memories, versions):
        api.bad(api.get(path, page="garbage"))
        api.bad(api.get(path, page="page_" + "A" * 40))
    cursor = api.ok(api.get(memories, limit=1))["next_page"]
    api.bad(api.get(memories, limit=1, page=cursor, path_prefix="/x/"))
    api.bad(api.get(versions, limit=1, page=cursor))


# Update


def precondition(text: str) -> dict[str, str]:
    return {"type": "content_sha256", "content_sha256": sha(text)}


def test_v29_v30_preconditions(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a", "one")
    url = f"{memories}/{memory['id']}"
    changed = api.ok(api.post(url, {"content": "two", "precondition": precondition("one")}))
    assert changed["memory_version_id"] != memory["memory_version_id"]
    refusal = api.post(url, {"content": "three", "precondition": precondition("one")})
    assert set(api.refused(refusal, 409, "memory_precondition_failed_error")) == {"type", "message"}
    assert refusal.headers["x-should-retry"] == "false"
    assert api.ok(api.get(url))["content"] == "two"
    assert [v["operation"] for v in everything(api, versions)] == ["modified", "created"]


def test_v31_v32_nothing_changes(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a", "one")
    url = f"{memories}/{memory['id']}"
    for body in (
        {"content": "one", "precondition": precondition("else")},
        {"content": "one", "path": "/a", "precondition": precondition("else")},
        {"content": "one"},
        {"path": "/a"},
    ):
        assert api.ok(api.post(url, body)) == memory
    assert len(everything(api, versions)) == 1


def test_v33_a_rename_keeps_the_id(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a.md", "one")
    renamed = api.ok(api.post(f"{memories}/{memory['id']}", {"path": "/b.md"}))
    assert (renamed["id"], renamed["path"]) == (memory["id"], "/b.md")
    newest = everything(api, versions)[0]
    assert (newest["operation"], newest["path"]) == ("modified", "/b.md")
    assert [m["path"] for m in everything(api, memories)] == ["/b.md"]


def test_v34_a_rename_never_overwrites(api: Api, store: str, memories: str) -> None:
    memory, other = api.create_memory(store, "/a"), api.create_memory(store, "/d/e")
    for path in ("/d/e", "/d", "/d/e/f"):
        error = api.refused(api.post(f"{memories}/{memory['id']}", {"path": path}), 409, "memory_path_conflict_error")
        assert error["conflicting_memory_id"] == other["id"]
    assert api.ok(api.post(f"{memories}/{memory['id']}", {"path": "/a/b"}))["path"] == "/a/b"


def test_v35_content_and_path_make_one_version(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a", "one")
    body = {"content": "n", "path": "/c", "precondition": precondition("one")}
    assert api.ok(api.post(f"{memories}/{memory['id']}", body, view="full"))["content"] == "n"
    assert len(everything(api, versions)) == 2


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"precondition": precondition("one")},
        {"content": None, "path": None},
        {"content": "x", "unknown": 1},
        {"content": "x", "precondition": {"type": "version", "content_sha256": sha("one")}},
        {"content": "x", "precondition": {"type": "content_sha256"}},
        {"content": "x", "precondition": {"type": "content_sha256", "content_sha256": sha("one").upper()}},
        {"content": "x", "precondition": {"type": "content_sha256", "content_sha256": "abc"}},
        {"content": 1},
        {"path": "relative"},
    ],
)
def test_v36_wrong_updates(api: Api, store: str, memories: str, body: dict[str, Any]) -> None:
    memory = api.create_memory(store, "/a", "one")
    api.bad(api.post(f"{memories}/{memory['id']}", body))
    assert api.ok(api.get(f"{memories}/{memory['id']}"))["content"] == "one"


def test_v37_v38_deletes(api: Api, store: str, memories: str) -> None:
    memory = api.create_memory(store, "/a", "one")
    url = f"{memories}/{memory['id']}"
    refusal = api.delete(url, expected_content_sha256=sha("else"))
    api.refused(refusal, 409, "memory_precondition_failed_error")
    assert refusal.headers["x-should-retry"] == "false"
    api.bad(api.delete(url, expected_content_sha256="short"))
    api.bad(api.delete(url, expected_content_sha256=sha("one").upper()))
    assert len(everything(api, memories)) == 1
    assert api.ok(api.delete(url, expected_content_sha256=sha("one"))) == {"id": memory["id"], "type": "memory_deleted"}
    api.refused(api.delete(url), 404, "not_found_error")
    api.refused(api.post(url, {"content": "x"}), 404, "not_found_error")
    api.refused(api.post(f"{memories}/mem_unknown", {"content": "x"}), 404, "not_found_error")


def test_v39_a_path_used_again_is_a_new_memory(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a")
    api.ok(api.delete(f"{memories}/{memory['id']}"))
    again = api.create_memory(store, "/a")
    assert again["id"] != memory["id"]
    assert [v["operation"] for v in everything(api, versions, memory_id=again["id"])] == ["created"]


# Versions


def test_v40_history(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a", "one")
    url = f"{memories}/{memory['id']}"
    api.ok(api.post(url, {"content": "two"}))
    api.ok(api.post(url, {"path": "/b"}))
    api.ok(api.delete(url))
    history = everything(api, versions, memory_id=memory["id"])
    assert [v["operation"] for v in history] == ["deleted", "modified", "modified", "created"]
    gone = history[0]
    assert (gone["path"], gone["content"], gone["content_sha256"], gone["content_size_bytes"]) == ("/b", None, None, None)
    full = everything(api, versions, memory_id=memory["id"], view="full")
    assert [v["content"] for v in full] == [None, "two", "two", "one"]
    assert api.ok(api.get(f"{versions}/{history[3]['id']}"))["content"] == "one"
    assert api.ok(api.get(f"{versions}/{history[3]['id']}", view="basic"))["content"] is None


def test_v41_version_filters(api: Api, quick_server: ServerThread, store: str, memories: str, versions: str) -> None:
    key, minted = quick_server.keyring.create_key("second")
    assert ApiActor(api_key_id=key.id).type == "api_actor"
    second = Api(quick_server.url, minted.secret)
    first = api.create_memory(store, "/a", "one")
    second.ok(second.post(f"{memories}/{first['id']}", {"content": "two"}))
    api.ok(api.delete(f"{memories}/{first['id']}"))
    history = everything(api, versions)
    assert [v["operation"] for v in everything(api, versions, operation="modified")] == ["modified"]
    assert [v["id"] for v in everything(api, versions, api_key_id=key.id)] == [history[1]["id"]]
    assert everything(api, versions, session_id="sesn_none") == []
    assert everything(api, versions, service_account_id="svac_none") == []
    assert everything(api, versions, **{"created_at[gte]": history[1]["created_at"]}) == history[:2]
    assert everything(api, versions, **{"created_at[lte]": history[1]["created_at"]}) == history[1:]
    for query in ({"operation": "renamed"}, {"created_at[gte]": "yesterday"}, {"created_at[lte]": "2026-01-01T00:00:00"}):
        api.bad(api.get(versions, **query))
    second.close()


def test_v42_v43_redaction(api: Api, store: str, memories: str, versions: str) -> None:
    memory = api.create_memory(store, "/a", "secret")
    first = f"{versions}/{memory['memory_version_id']}"
    before = api.ok(api.get(first))
    api.bad(api.post(f"{first}/redact"))
    assert api.ok(api.get(first)) == before
    api.ok(api.post(f"{memories}/{memory['id']}", {"content": "public"}))
    redacted = api.ok(api.post(f"{first}/redact"))
    for field in ("content", "content_sha256", "content_size_bytes", "path"):
        assert redacted[field] is None
    assert redacted["redacted_at"]
    assert redacted["redacted_by"] == redacted["created_by"] == before["created_by"]
    assert api.ok(api.get(first)) == redacted == api.ok(api.post(f"{first}/redact"))
    api.ok(api.delete(f"{memories}/{memory['id']}"))
    for version in everything(api, versions):
        api.ok(api.post(f"{versions}/{version['id']}/redact"))


# Sessions


def attach(store: str, **more: Any) -> dict[str, Any]:
    return {"type": "memory_store", "memory_store_id": store, **more}


def test_v45_a_session_takes_a_snapshot(api: Api) -> None:
    made = api.ok(api.post("memory_stores", {"name": "User Preferences", "description": "What they like"}))
    body = {"agent": "agent_1", "environment_id": "env_1", "resources": [attach(made["id"], instructions="Be brief.")]}
    session = api.ok(api.client.post("/v1/sessions", json=body, headers={"anthropic-beta": SESSIONS_BETA}))
    element = {
        "type": "memory_store",
        "memory_store_id": made["id"],
        "access": "read_write",
        "instructions": "Be brief.",
        "name": "User Preferences",
        "description": "What they like",
        "mount_path": "/mnt/memory/user-preferences",
    }
    assert session["resources"] == [element]
    assert session["id"].startswith("sesn_")
    api.ok(api.post(f"memory_stores/{made['id']}", {"name": "Else", "description": ""}))
    assert api.ok(api.get(f"sessions/{session['id']}")) == session


def test_v46_what_a_session_cannot_attach(api: Api, store: str) -> None:
    nine = [attach(api.create_store(f"s{number}")) for number in range(9)]
    assert "8" in api.bad(api.post("sessions", {"resources": nine}))["message"]
    api.ok(api.post("sessions", {"resources": nine[:8]}))
    api.refused(api.post("sessions", {"resources": [attach("memstore_none")]}), 404, "not_found_error")
    for wrong in (
        [attach(store, instructions="x" * 4097)],
        [attach(store, mount_path="/mnt/memory/x")],
        [attach(store, access="write")],
        [attach(store), attach(store)],
        [attach(api.create_store("A b")), attach(api.create_store("a-B"))],
        [{"type": "file", "file_id": "file_1"}],
        [{"type": "memory_store"}],
    ):
        api.bad(api.post("sessions", {"resources": wrong}))
    api.ok(api.post("sessions", {"resources": [attach(store, instructions="x" * 4096, access=None)]}))
    api.ok(api.post(f"memory_stores/{store}/archive"))
    api.bad(api.post("sessions", {"resources": [attach(store)]}))


@pytest.fixture
def agent(api: Api, quick_server: ServerThread, store: str) -> Iterator[tuple[Api, dict[str, Any], str]]:
    """A session's token at work, the session, and the id of a store that it attaches read_only beside `store`."""
    policy = api.create_store("Policy")
    api.create_memory(policy, "/rules.md", "be kind")
    session = api.ok(api.post("sessions", {"resources": [attach(store), attach(policy, access="read_only")]}))
    client = Api(quick_server.url, quick_server.keyring.create_token(session["id"]).secret, header="authorization")
    yield client, session, policy
    client.close()


def test_v47_who_wrote(api: Api, agent: tuple[Api, dict[str, Any], str], store: str, versions: str) -> None:
    client, session, _ = agent
    client.create_memory(store, "/s")
    api.create_memory(store, "/k")
    by_key, by_session = (v["created_by"] for v in everything(client, versions))
    assert by_session == {"type": "session_actor", "session_id": session["id"]}
    assert by_key["type"] == "api_actor"
    assert [v["path"] for v in everything(api, versions, session_id=session["id"])] == ["/s"]


def test_v48_what_a_session_may(api: Api, agent: tuple[Api, dict[str, Any], str], store: str, memories: str) -> None:
    client, session, policy = agent
    rules = f"memory_stores/{policy}/memories"
    memory = client.ok(client.get(rules))["data"][0]
    assert client.ok(client.get(f"{rules}/{memory['id']}"))["content"] == "be kind"
    for answer in (
        client.post(rules, {"path": "/x", "content": ""}),
        client.post(f"{rules}/{memory['id']}", {"content": "be rude"}),
        client.delete(f"{rules}/{memory['id']}"),
        client.post(f"memory_stores/{policy}/memory_versions/{memory['memory_version_id']}/redact"),
        client.post(f"memory_stores/{store}", {"name": "mine"}),
        client.post(f"memory_stores/{store}/archive"),
        client.delete(f"memory_stores/{store}"),
        client.post("memory_stores", {"name": "new"}),
        client.post("sessions", {"resources": [attach(store)]}),
    ):
        client.refused(answer, 403, "permission_error")
    own = client.create_memory(store, "/own", "one")
    client.ok(client.post(f"{memories}/{own['id']}", {"content": "two"}))
    old = own["memory_version_id"]
    client.refused(client.post(f"memory_stores/{store}/memory_versions/{old}/redact"), 403, "permission_error")
    client.ok(client.delete(f"{memories}/{own['id']}"))
    foreign = api.create_store("Foreign")
    api.create_memory(foreign, "/f")
    for path in ("", "/memories", "/memory_versions"):
        client.refused(client.get(f"memory_stores/{foreign}{path}"), 404, "not_found_error")
    client.refused(client.post(f"memory_stores/{foreign}/memories", {"path": "/x", "content": ""}), 404, "not_found_error")
    assert {s["id"] for s in client.ok(client.get("memory_stores"))["data"]} == {store, policy}
    assert {s["id"] for s in everything(client, "memory_stores", limit=1)} == {store, policy}
    assert len(client.ok(client.get("memory_stores", limit=1))["data"]) == 1
    client.bad(client.get("memory_stores", page="page_x"))
    assert client.ok(client.get(f"sessions/{session['id']}"))["id"] == session["id"]
    other = api.ok(api.post("sessions", {"resources": []}))
    client.refused(client.get(f"sessions/{other['id']}"), 404, "not_found_error")


def test_v48_an_unknown_token_is_refused(api: Api, quick_server: ServerThread) -> None:
    environment_key = Api(quick_server.url, "sk-ant-oat01-environment", header="authorization")
    environment_key.refused(environment_key.get("memory_stores"), 401, "authentication_error")
    environment_key.close()


# Races


def test_v50_one_of_two_wins(api: Api, store: str, memories: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(10):
            path = f"/race/{number}"
            made = list(pool.map(lambda text, path=path: api.post(memories, {"path": path, "content": text}), "abcdefgh"))
            assert sorted(answer.status_code for answer in made) == [200] + [409] * 7
            memory = next(answer.json() for answer in made if answer.status_code == 200)
            head = api.ok(api.get(f"{memories}/{memory['id']}"))["content"]
            body = {"precondition": precondition(head)}
            url = f"{memories}/{memory['id']}"
            changed = list(pool.map(lambda text, url=url, body=body: api.post(url, {**body, "content": text}), "ijklmnop"))
            assert sorted(answer.status_code for answer in changed) == [200] + [409] * 7


def test_the_wire_is_what_the_contract_shows(api: Api, store: str, memories: str) -> None:
    api.create_memory(store, "/é\u4e2d", "\u0000\r\ne\u0301\ufeff\U0001f600")
    raw = api.get(memories, view="full")
    assert raw.headers["content-type"] == "application/json"
    assert raw.headers["server"].startswith("memfs/")
    assert raw.headers["request-id"].startswith("req_")
    item = json.loads(raw.content)["data"][0]
    assert item["content"] == "\u0000\r\ne\u0301\ufeff\U0001f600"
    assert item["content_sha256"] == sha(item["content"])
