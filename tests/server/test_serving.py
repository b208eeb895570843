"""`memfs serve` as users start it: who may connect, in whose name changes are recorded, several servers on one database."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.harness.api import Api
from tests.harness.postgres import Cluster
from tests.harness.serving import ServerProcess, memfs, serving


def versions(api: Api, store: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.ok(api.get(f"memory_stores/{store}/memory_versions", limit=100))["data"]
    return found


def test_without_keys_local_programs_need_no_credential(server: ServerProcess) -> None:
    api = Api(server.url)
    store = api.create_store()
    api.create_memory(store, "/a.md")
    assert versions(api, store)[0]["created_by"] == {"type": "api_actor", "api_key_id": "apikey_local"}
    any_key = Api(server.url, "whatever the SDK was given")
    any_key.create_memory(store, "/b.md")
    made_up = Api(server.url, "sk-memfs-sesn01-madeup", header="authorization")
    made_up.refused(made_up.get("memory_stores"), 401, "authentication_error")
    key_id, secret = server.create_key()
    for stranger in (api, any_key):
        stranger.refused(stranger.get("memory_stores"), 401, "authentication_error")
    owner = Api(server.url, secret)
    owner.create_memory(store, "/c.md")
    assert versions(owner, store)[0]["created_by"] == {"type": "api_actor", "api_key_id": key_id}
    memfs("keys", "revoke", key_id, "--url", server.database)
    api.refused(api.get("memory_stores"), 401, "authentication_error")
    for client in (api, any_key, made_up, owner):
        client.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"host": "evil.example"},
        {"host": "evil.example:38080"},
        {"origin": "null"},
        {"x-forwarded-for": "10.0.0.1"},
    ],
)
def test_without_keys_web_pages_and_proxies_are_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    with serving(f"sqlite:///{tmp_path}/memfs.db", tmp_path) as server:
        api = Api(server.url)
        answer = api.client.post("/v1/memory_stores", json={"name": "x"}, headers=headers)
        api.refused(answer, 403, "permission_error")
        assert api.ok(api.get("memory_stores"))["data"] == []
        api.close()


def test_a_reachable_server_does_not_start_without_a_key(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/memfs.db"
    refused = memfs("serve", "--listen", "0.0.0.0:0", "--url", database, check=False)
    assert refused.returncode == 1
    assert "memfs keys create" in refused.stderr
    key = json.loads(memfs("keys", "create", "expired", "--json", "--expires", "0.0000001", "--url", database).stdout)
    assert memfs("serve", "--listen", "0.0.0.0:0", "--url", database, check=False).returncode == 1
    memfs("keys", "create", "works", "--url", database)
    assert key["expires_at"] is not None
    with serving(database, tmp_path, listen="0.0.0.0:0") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(url + "/v1/memory_stores", trust_env=False).status_code == 401
        assert httpx.get(url + "/healthz", trust_env=False).json() == {"status": "ok"}


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x"])
def test_a_wrong_address(tmp_path: Path, listen: str) -> None:
    refused = memfs("serve", "--listen", listen, "--url", f"sqlite:///{tmp_path}/memfs.db", check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert listen in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_taken_address_and_a_wrong_database(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/memfs.db", tmp_path) as server:
        taken = memfs("serve", "--listen", server.url.removeprefix("http://"), "--url", server.database, check=False)
        assert taken.returncode == 1
        assert "cannot listen" in taken.stderr
    (tmp_path / "text").write_text("no database")
    for url in (f"sqlite:///{tmp_path}/text", "https://example.invalid", "postgresql://nobody@127.0.0.1:9/none"):
        wrong = memfs("serve", "--listen", "127.0.0.1:0", "--url", url, check=False)
        assert wrong.returncode == 1
        assert len(wrong.stderr.strip().splitlines()) == 1
        assert "Traceback" not in wrong.stderr


def test_ipv6(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/memfs.db", tmp_path, listen="[::1]:0") as server:
        assert server.url.startswith("http://[::1]:")
        api = Api(server.url)
        assert api.create_store().startswith("memstore_")
        api.close()


def test_secrets_are_stored_as_hashes(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/memfs.db"
    key = json.loads(memfs("keys", "create", "laptop", "--json", "--url", database).stdout)
    memfs("stores", "create", "Notes", "--url", database)
    session = json.loads(memfs("sessions", "create", "--store", "notes:ro", "--json", "--url", database).stdout)
    token = memfs("sessions", "token", session["id"], "--url", database).stdout.strip()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("memfs.db*"))
    assert key["id"].encode() in stored
    assert session["id"].encode() in stored
    for secret in (key["key"], session["token"], token):
        assert secret.encode() not in stored
    shown = memfs("keys", "list", "--json", "--url", database).stdout + memfs("keys", "list", "--url", database).stdout
    shown += memfs("sessions", "show", session["id"], "--json", "--url", database).stdout
    assert key["id"] in shown
    assert key["key"] not in shown
    assert session["token"] not in shown
    assert session["resources"][0]["access"] == "read_only"
    assert (tmp_path / "memfs.db").stat().st_mode & 0o777 == 0o600


def test_commands_print_secrets_alone(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/memfs.db"
    memfs("stores", "create", "Notes", "--url", database)
    assert memfs("keys", "create", "k", "--url", database).stdout.startswith("sk-memfs-api01-")
    made = memfs("sessions", "create", "--store", "Notes", "--instructions", "notes", "Be brief.", "--url", database)
    assert made.stdout.startswith("sk-memfs-sesn01-")
    assert len(made.stdout.splitlines()) == 1
    for wrong in (["--store", "nothing"], ["--store", "Notes", "--store", "notes:ro"], ["--instructions", "Notes", "x"]):
        assert memfs("sessions", "create", *wrong, "--url", database, check=False).returncode == 1
    for unknown in (["keys", "revoke", "apikey_x"], ["sessions", "end", "sesn_x"], ["sessions", "show", "sesn_x"]):
        result = memfs(*unknown, "--url", database, check=False)
        assert (result.returncode, len(result.stderr.splitlines())) == (1, 1)


def test_attribution_and_access_end_to_end(server: ServerProcess) -> None:
    key_id, secret = server.create_key("owner")
    owner = Api(server.url, secret)
    notes, policy, foreign = (owner.create_store(name) for name in ("Notes", "Policy", "Foreign"))
    rule = owner.create_memory(policy, "/rule.md", "be kind")
    session = server.create_session(notes, f"{policy}:ro")
    agent = Api(server.url, session["token"], header="authorization")
    agent.create_memory(notes, "/by-agent.md", "one")
    rules = f"memory_stores/{policy}/memories"
    agent.refused(agent.post(rules, {"path": "/x", "content": ""}), 403, "permission_error")
    agent.refused(agent.post(f"{rules}/{rule['id']}", {"content": "be rude"}), 403, "permission_error")
    agent.refused(agent.delete(f"{rules}/{rule['id']}"), 403, "permission_error")
    assert agent.ok(agent.get(f"{rules}/{rule['id']}"))["content"] == "be kind"
    agent.refused(agent.get(f"memory_stores/{foreign}/memories"), 404, "not_found_error")
    assert versions(owner, notes)[0]["created_by"] == {"type": "session_actor", "session_id": session["id"]}
    assert versions(owner, policy)[0]["created_by"] == {"type": "api_actor", "api_key_id": key_id}
    shown = agent.ok(agent.get(f"sessions/{session['id']}"))
    assert [(r["mount_path"], r["access"]) for r in shown["resources"]] == [
        ("/mnt/memory/notes", "read_write"),
        ("/mnt/memory/policy", "read_only"),
    ]
    memfs("sessions", "end", session["id"], "--url", server.database)
    agent.refused(agent.get(f"memory_stores/{notes}/memories"), 401, "authentication_error")
    assert owner.ok(owner.get(f"sessions/{session['id']}"))["status"] == "terminated"
    assert memfs("sessions", "token", session["id"], "--url", server.database, check=False).returncode == 1
    agent.close()
    owner.close()


def test_odd_ids_are_unknown_on_any_database(server: ServerProcess) -> None:
    api = Api(server.url)
    for identifier in ("%00", "sesn_%00", "%ff", "%F0%9F%98%80", "'--", "a" * 3_000):
        for path in (f"sessions/{identifier}", f"memory_stores/{identifier}", f"memory_stores/{identifier}/memory_versions"):
            api.refused(api.client.get("/v1/" + path), 404, "not_found_error")
    store = api.create_store()
    for query in ({"memory_id": "\0"}, {"session_id": "\0"}, {"api_key_id": "\0"}, {"service_account_id": "\0"}):
        assert api.ok(api.get(f"memory_stores/{store}/memory_versions", **query))["data"] == []
    title = "NUL \0 in a title"
    session = api.ok(api.post("sessions", {"title": title, "metadata": {"k": "\0"}}))
    assert api.ok(api.get(f"sessions/{session['id']}"))["title"] == title
    for metadata in ({str(n): "" for n in range(17)}, {"k" * 65: ""}, {"k": "v" * 513}):
        api.bad(api.post("sessions", {"metadata": metadata}))
    api.close()


def test_several_servers_on_one_database(database: str, tmp_path: Path) -> None:
    with serving(database, tmp_path) as first, serving(database, tmp_path) as second:
        here, there = Api(first.url), Api(second.url)
        store = here.create_store()
        memory = here.create_memory(store, "/a.md", "one")
        there.ok(there.post(f"memory_stores/{store}/memories/{memory['id']}", {"content": "two"}))
        assert here.ok(here.get(f"memory_stores/{store}/memories/{memory['id']}"))["content"] == "two"
        answer = here.post(f"memory_stores/{store}/memories", {"path": "/a.md/b", "content": ""})
        here.refused(answer, 409, "memory_path_conflict_error")
        first.create_key()
        there.refused(there.get("memory_stores"), 401, "authentication_error")
        here.close()
        there.close()


def test_a_database_that_drops_its_connections(postgres_cluster: Cluster, tmp_path: Path) -> None:
    database = postgres_cluster.new_database()
    with serving(database, tmp_path) as server:
        _, secret = server.create_key()
        api = Api(server.url, secret)
        store = api.create_store()
        with psycopg.connect(database, autocommit=True) as administrator:
            administrator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        answers = [api.post(f"memory_stores/{store}/memories", {"path": f"/{number}", "content": ""}) for number in range(20)]
        assert {answer.status_code for answer in answers} <= {200, 503}
        for refused in (answer for answer in answers if answer.status_code == 503):
            assert refused.headers["retry-after"] == "1"
            assert "127.0.0.1" not in api.refused(refused, 503, "api_error")["message"]
        assert answers[-1].status_code == 200
        listed = api.ok(api.get(f"memory_stores/{store}/memories", limit=100))["data"]
        assert len(listed) == sum(1 for answer in answers if answer.status_code == 200)
        api.close()


def test_a_surprise_is_an_envelope_too(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/memfs.db", tmp_path) as server:
        api = Api(server.url)
        session = api.ok(api.post("sessions", {}))
        with contextlib.closing(sqlite3.connect(tmp_path / "memfs.db")) as database:
            database.execute("UPDATE memfs_sessions SET body = 'damaged: hush'")
            database.commit()
        error = api.refused(api.get(f"sessions/{session['id']}"), 500, "api_error")
        assert error["message"] == "internal error"
        assert api.ok(api.get("memory_stores"))["data"] == []
        api.close()
        log = server.log.read_text()
        assert "ValidationError" in log
        assert "hush" not in log
