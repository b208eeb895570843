"""Wrong URLs, scopes, keys and services: one clear line, nothing sent twice, nothing written."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.model.errors import InvalidRequest, Unauthenticated
from memfs.model.objects import UserActor
from memfs.stores.credentials import Credentials
from memfs.stores.open import open_service
from tests.emulators.qoder import Qoder
from tests.emulators.tablestore import Tablestore
from tests.harness.dialects import SCOPE, Dialect, dialect
from tests.harness.inspector import Database

ACTOR = UserActor(user_id="user_tests")
KEY = Credentials(environment={"MEMFS_API_KEY": "k"})
HOST = "tablestore+https://inst.cn-hangzhou.ots.aliyuncs.com"


def memfs(service: Dialect, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memfs", *arguments],
        env={**os.environ, **service.environment, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    assert (result.returncode, result.stdout) == (1, ""), result
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"{HOST}/agent_files", "must name whose memories"),
        (f"{HOST}/agent_files?scope=app/tenant/agent", "three parts|3 parts"),
        (f"{HOST}/agent_files?scope=app/tenant/agent/*", "wildcard"),
        (f"{HOST}/agent_files?scope=app/tenant/*/*", "wildcard"),
        (f"{HOST}/agent_files?scope=app//agent/run", "1 to 128 bytes"),
        (f"{HOST}/agent_files?scope=app/{'t' * 129}/agent/run", "1 to 128 bytes"),
        (f"{HOST}/agent_files?scope=app/t/a/r&region=x", "no setting 'region'"),
        (f"{HOST}/a/b?scope=app/t/a/r", "names one store"),
        ("tablestore+http://inst.cn-hangzhou.ots.aliyuncs.com/agent_files?scope=app/t/a/r", "TLS only"),
        ("tablestore+http://127.0.0.1:1/agent_files?scope=app/t/a/r", "TLS only"),
        ("qoder+http://api.qoder.com/api/v1/cloud", "TLS only"),
        ("qoder+https://api.qoder.com/api/v1/cloud?generation=third", "generation=entry"),
        ("qoder+https://me:secret@api.qoder.com/api/v1/cloud", "must not hold a credential"),
        ("modelstudio+http://ws.cn-beijing.maas.aliyuncs.com/api/v1/agentstudio", "TLS only"),
        ("modelstudio+https://ws.cn-beijing.maas.aliyuncs.com", "ends in the path of its API"),
        ("dropbox+https://x", "no kind of service"),
        ("qoder+ftp://x", "no kind of service"),
    ],
)
async def test_wrong_urls_are_refused_before_anything_is_sent(url: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await open_service(url, actor=ACTOR, credentials=KEY)
    assert any(one in refused.value.message for one in words.split("|"))
    assert "secret" not in refused.value.message


@pytest.fixture
def tablestore() -> Iterator[Dialect]:
    with dialect("tablestore") as running:
        assert isinstance(running.emulator, Tablestore)
        running.emulator.do_CreateMemoryStore({"memoryStoreName": "files", "storageMode": "filemem"})
        yield running


def test_a_wrong_instance(tablestore: Dialect) -> None:
    url = tablestore.url.replace("instance=inst", "instance=other")
    assert "MEMFS_API_KEY" in one_line(memfs(tablestore, "stores", "list", "--url", url))
    assert len(tablestore.emulator.requests) == 1


def test_a_store_that_is_not_there(tablestore: Dialect) -> None:
    said = one_line(memfs(tablestore, "stores", "list", "--url", tablestore.url.replace("?", "/nowhere?")))
    assert "does not exist" in said
    assert tablestore.emulator.requests == ["POST GetMemoryStore"]


def test_a_store_of_another_scope_is_not_found(tablestore: Dialect) -> None:
    own = memfs(tablestore, "stores", "list", "--url", tablestore.url)
    assert own.returncode == 0
    store_id = next(word for word in own.stdout.split() if word.startswith("memstore_"))
    other = tablestore.url.replace(SCOPE, "app-001/user-002/assistant/session-001")
    before = len(tablestore.emulator.requests)
    assert "there is no store" in one_line(memfs(tablestore, "stores", "show", store_id, "--url", other))
    assert len(tablestore.emulator.requests) == before


def test_a_service_of_an_older_generation(tablestore: Dialect) -> None:
    assert isinstance(tablestore.emulator, Tablestore)
    tablestore.emulator.guesses.old_generation = True
    said = one_line(memfs(tablestore, "stores", "list", "--url", tablestore.url.replace("?", "/files?")))
    assert "older generation" in said
    assert len(tablestore.emulator.requests) == 1


each_kind = pytest.mark.parametrize("kind", ["qoder-memory", "tablestore", "modelstudio"], indirect=True)


def told_to_mount(service: Dialect, place: Path, url: str, **environment: str) -> str:
    """The one line with which a mount ends."""
    return one_line(memfs(service, "mount", str(place), "--timeout", "1", "--url", url, **environment))


@each_kind
@pytest.mark.parametrize(("secret", "sent"), [("hush-hush", 1), ("", 0)])
def test_a_credential_that_is_refused_or_missing(running: Dialect, tmp_path: Path, secret: str, sent: int) -> None:
    said = told_to_mount(running, tmp_path, running.url, MEMFS_API_KEY=secret)
    assert "MEMFS_API_KEY" in said
    assert "--credentials-file" in said
    assert "hush" not in said
    assert len(running.emulator.requests) == sent


async def test_a_credential_that_has_expired(running: Dialect) -> None:
    service = await open_service(running.url, actor=ACTOR, credentials=Credentials(environment=running.environment))
    running.emulator.faults.expired = True
    for _ in range(2):
        before = len(running.emulator.requests)
        with pytest.raises(Unauthenticated, match="MEMFS_API_KEY"):
            await service.create_store("Notes")
        assert len(running.emulator.requests) - before == 1
    await service.aclose()


@each_kind
def test_a_wrong_address(running: Dialect, tmp_path: Path) -> None:
    wrong, words = running.url.replace("/api/", "/nothing/"), "404: there is no such route"
    if running.name == "tablestore":
        wrong, words = running.url.replace("?", "/api/v1?"), "names one store"
    assert words in told_to_mount(running, tmp_path, wrong)
    assert running.mutations() == 0
    assert len(running.emulator.requests) <= 1


@each_kind
def test_a_service_that_speaks_no_tls(running: Dialect, tmp_path: Path) -> None:
    if running.name == "tablestore":
        said = told_to_mount(running, tmp_path, running.url.replace("+https:", "+http:"))
        assert "TLS only" in said
    else:
        said = told_to_mount(running, tmp_path, running.url.replace("+http:", "+https:"))
        assert "nothing there speaks TLS" in said
    assert running.emulator.requests == []


@pytest.mark.parametrize(
    ("kind", "scheme", "words"),
    [
        ("qoder-entry", "modelstudio", "is it Qoder"),
        ("qoder-memory", "modelstudio", "is it Qoder"),
        ("modelstudio", "qoder", "paths are relative"),
        ("modelstudio", "", "the service answered 401"),
    ],
    indirect=["kind"],
)
def test_another_service_behind_the_url(running: Dialect, database: Database, scheme: str, words: str, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    store.put("/a.md", "one")
    before = running.mutations()
    url = "+".join(filter(None, (scheme, running.url.partition("+")[2])))
    if scheme == "qoder":
        said = one_line(memfs(running, "export", store.id, str(tmp_path / "out"), "--url", url))
    else:
        said = told_to_mount(running, tmp_path, url)
    assert words in said
    assert running.mutations() == before


@pytest.mark.parametrize(("generation", "said"), [("entry", "memory"), ("memory", "entry")])
async def test_a_generation_that_was_named_wrongly_writes_nothing(generation: str, said: str) -> None:
    with dialect(f"qoder-{generation}") as running:
        assert isinstance(running.emulator, Qoder)
        right = await open_service(running.url, actor=ACTOR, credentials=Credentials(environment=running.environment))
        store = await right.create_store("Notes")
        memory = await right.create_memory(store.id, "/a", "one")
        wrong = await open_service(
            f"{running.url}?generation={said}", actor=ACTOR, credentials=Credentials(environment=running.environment)
        )
        with pytest.raises(Exception, match="404"):
            await wrong.update_memory(store.id, memory.id, content="two", precondition=memory.content_sha256)
        assert (await right.retrieve_memory(store.id, memory.id)).content == "one"
        await right.aclose()
        await wrong.aclose()


def test_no_command_line_shows_a_credential(tablestore: Dialect) -> None:
    result = memfs(tablestore, "--debug", "stores", "list", "--url", tablestore.url.replace("?", "/nowhere?"))
    assert result.returncode != 0
    assert tablestore.environment["MEMFS_API_KEY"] not in result.stderr
