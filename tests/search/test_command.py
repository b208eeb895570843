"""`memfs search` and the file form, on an ordinary store and on Tablestore with every field of its request."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from memfs.model.objects import UserActor
from memfs.stores.sql import SqlDatabase
from tests.emulators.tablestore import Tablestore
from tests.harness.dialects import SCOPE, Dialect, dialect
from tests.harness.errnos import refuses
from tests.harness.inspector import Database, Inspector
from tests.harness.mounts import Mount, launch, new_database
from tests.harness.waiting import eventually

TEA = "# Tea\n\nDrinks oolong in the afternoon.\n"


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    root = tmp_path_factory.mktemp("search")
    database = new_database(root)
    notes, handbook = database.create_store("Notes"), database.create_store("Handbook")
    notes.put_all([("/tea.md", TEA), ("/work/vpn.md", "Use WireGuard.\n"), ("/用户.md", "喜欢美式咖啡。\n")])
    handbook.put_all([("/tea-room.md", "The tea room closes at six; no oolong.\n")])
    with launch(root, notes, handbook, database=database) as running:
        yield running


def memfs(mount: Mount, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memfs", *arguments],
        env=mount.environment,
        cwd=mount.path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_file_is_named_after_the_question(mount: Mount) -> None:
    lines = mount.sh("cat '.search/afternoon oolong'").splitlines()
    path, score, text = lines[0].split("\t")
    assert (path, text) == ("tea.md", "Drinks oolong in the afternoon.")
    assert float(score) > 0
    assert mount.sh('cat ".search/\\"美式咖啡\\""').startswith("用户.md\t")
    assert mount.sh("cat .search/wire*").startswith("work/vpn.md\t")
    assert mount.sh("cat .search/nothingness") == "# nothing was found\n"
    assert mount.sh("cat '.search/!!'") == "# incomplete: there is no word in the query\n"


def test_the_same_as_json(mount: Mount) -> None:
    answer = json.loads(mount.sh("cat .search/oolong.json"))
    assert (answer["query"], answer["store"], answer["searched"]) == ("oolong", "notes", 3)
    (hit,) = answer["memories"]
    assert hit["path"] == "/tea.md"
    assert hit["id"] == mount.inspector.memory_id("/tea.md")


def test_search_is_hidden_and_cannot_be_written(mount: Mount) -> None:
    assert ".search" not in os.listdir(mount.store)
    assert os.listdir(mount.store / ".search") == []
    with refuses(errno.EROFS):
        (mount.store / ".search" / "x").write_text("x")
    with refuses(errno.EEXIST, errno.EROFS):
        (mount.store / ".search").mkdir()
    assert mount.sh("grep -rl oolong . | sort") == "./tea.md\n"


def test_the_command_searches_all_stores_or_one(mount: Mount) -> None:
    both = memfs(mount, "search", "oolong")
    assert both.returncode == 0, both.stderr
    assert {line.split("\t")[0] for line in both.stdout.splitlines()} == {"notes/tea.md", "handbook/tea-room.md"}
    one = memfs(mount, "search", "oolong", "handbook", "--json")
    assert [row["path"] for row in json.loads(one.stdout)["memories"]] == ["/tea-room.md"]
    assert memfs(mount, "search", "oolong", "-n", "1").stdout.count("\n") == 1
    none = memfs(mount, "search", "nothingness")
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "memfs: nothing was found\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("oolong", "nowhere"), "is no store of"),
        (("",), "has 1 to"),
        (("x" * 300,), "has 1 to"),
        (("oolong", "--top-k", "3"), "a search of its own"),
        (("oolong", "--filter", "nonsense"), "no JSON object"),
        (("oolong", "--metadata", "nonsense"), "not KEY=VALUE"),
    ],
)
def test_wrong_questions_get_one_line(mount: Mount, arguments: tuple[str, ...], words: str) -> None:
    result = memfs(mount, "search", *arguments)
    assert result.returncode in (1, 2)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_no_redacted_word_is_found_or_kept(mount: Mount) -> None:
    (mount.store / "secret.md").write_text("The password is xyzzyplugh.\n")
    assert mount.sh("cat .search/xyzzyplugh").startswith("secret.md\t")
    (mount.store / "secret.md").write_text("Nothing to see.\n")
    old = mount.inspector.versions("/secret.md")[0]

    async def redact() -> None:
        database = await SqlDatabase.open(mount.database.url)
        try:
            await database.store_service(UserActor(user_id="user_admin")).redact_version(mount.inspector.id, old.id)
        finally:
            await database.aclose()

    trio.run(redact)
    assert mount.sh("cat .search/xyzzyplugh") == "# nothing was found\n"


# Tablestore


@pytest.fixture(scope="module")
def service() -> Iterator[Dialect]:
    with dialect("tablestore") as running:
        yield running


@pytest.fixture(scope="module")
def tablestore(service: Dialect, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    """A mount of a store of messages, which has structured memories and files that the service makes, and of one of files."""
    emulator = service.emulator
    assert isinstance(emulator, Tablestore)
    emulator.do_CreateMemoryStore({"memoryStoreName": "chats", "storageMode": "file+ots"})
    scope = dict(zip(("appId", "tenantId", "agentId", "runId"), SCOPE.split("/"), strict=True))
    emulator.do_AddMemories(
        {
            "memoryStoreName": "chats",
            "scope": scope,
            "messages": [{"role": "user", "content": "用户喜欢喝乌龙茶"}, {"role": "user", "content": "I live in Hangzhou"}],
            "metadata": {"source": "chat"},
        }
    )
    emulator.project("chats", tuple(SCOPE.split("/")), "/profile/drinks.md", "# 饮品\n\n乌龙茶\n")  # type: ignore[arg-type]
    root = tmp_path_factory.mktemp("tablestore")
    url = service.url.replace("?", "/chats?")
    database = Database(url, kind="tablestore", environment=service.environment)
    store = database.call(lambda opened: opened.list_stores()).data[0]
    with launch(root, Inspector(database, store), database=database) as running:
        yield running


def test_tablestore_answers_by_itself(tablestore: Mount) -> None:
    lines = tablestore.sh("cat .search/乌龙茶").splitlines()
    paths = [line.split("\t")[0] for line in lines]
    assert paths[0] == "profile/drinks.md"
    assert paths[1].startswith(".memories/atomic_fact/用户喜欢喝乌龙茶-")
    assert "乌龙茶" in (tablestore.store / paths[1]).read_text()
    answer = json.loads(tablestore.sh("cat .search/乌龙茶.json"))
    assert answer["fileResults"][0]["path"] == "/profile/drinks.md"
    assert answer["results"][0]["unit"]["text"] == "用户喜欢喝乌龙茶"


def test_every_field_of_the_request_can_be_reached(tablestore: Mount, service: Dialect) -> None:
    emulator = service.emulator
    assert isinstance(emulator, Tablestore)
    chosen = '{"op": "eq", "field": "runId", "value": "session-001"}'
    options = ["--scope", SCOPE, "--filter", chosen, "--context-scope", SCOPE, "--top-k", "5", "--min-similarity", "0.1"]
    options += ["--min-score", "0.05", "--metadata", "source=chat", "--no-rerank", "--evidence", "--json"]
    result = memfs(tablestore, "search", "乌龙茶", *options)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["results"][0]["rankingSignals"] == {"sameSession": True}
    assert answer["evidence"][0]["text"] == "用户喜欢喝乌龙茶"
    scope = dict(zip(("appId", "tenantId", "agentId", "runId"), SCOPE.split("/"), strict=True))
    assert emulator.searches[-1] == {
        "memoryStoreName": "chats",
        "query": "乌龙茶",
        "scope": scope,
        "filter": json.loads(chosen),
        "contextScope": scope,
        "topK": 5,
        "enableRerank": False,
        "includeEvidence": True,
        "thresholds": {"minSimilarity": 0.1, "minScore": 0.05},
        "metadata": {"source": "chat"},
    }


def test_the_file_form_takes_its_defaults_from_the_configuration(tablestore: Mount, service: Dialect) -> None:
    emulator = service.emulator
    assert isinstance(emulator, Tablestore)
    folder = Path(tablestore.environment["XDG_CONFIG_HOME"]) / "memfs"
    folder.mkdir(exist_ok=True)
    (folder / "search.toml").write_text('top_k = 3\nevidence = true\n[metadata]\nsource = "chat"\n')
    tablestore.sh("cat .search/oolong")
    assert emulator.searches[-1]["topK"] == 3
    assert emulator.searches[-1]["metadata"] == {"source": "chat"}
    assert emulator.searches[-1]["includeEvidence"] is True
    (folder / "search.toml").write_text("top = 3\n")
    before = len(emulator.searches)
    with refuses(errno.EINVAL):
        (tablestore.store / ".search" / "oolong").read_text()
    assert len(emulator.searches) == before
    (folder / "search.toml").unlink()
    last = json.loads((tablestore.path / ".memfs" / "errors").read_text().splitlines()[-1])
    assert "search.toml sets 'top'" in last["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scope", "app-001/user-001/*/*"), "exact scope only"),
        (("--scope", "*/user-001"), "must name the app"),
        (("--scope", "a/b/c/d/e"), "more than four parts"),
        (("--context-scope", "app-001/user-001/assistant/*"), "wildcard"),
        (("--context-scope", "other/user-001/assistant/x"), "does not lie in scope"),
        (("--top-k", "51"), "between 1 and 50"),
        (("--min-score", "1.5"), "between 0 and 1"),
        (("--metadata", "k=" + "v" * 1025), "metadata has at most"),
    ],
)
def test_what_the_service_would_refuse_is_not_sent(
    tablestore: Mount, service: Dialect, arguments: tuple[str, ...], words: str
) -> None:
    emulator = service.emulator
    assert isinstance(emulator, Tablestore)
    before = len(emulator.searches)
    result = memfs(tablestore, "search", "tea", *arguments)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert words in result.stderr
    assert len(emulator.searches) == before


def test_structured_memories_are_files_that_can_only_be_read(tablestore: Mount) -> None:
    folder = tablestore.store / ".memories" / "atomic_fact"
    names = sorted(os.listdir(folder))
    assert len(names) == 2
    assert names[0].startswith("I-live-in-Hangzhou-")
    text = (folder / names[0]).read_text()
    assert text.startswith("---\nid: ")
    assert "metadata: source=chat\n" in text
    assert text.endswith("\nI live in Hangzhou\n")
    with refuses(errno.EROFS):
        (folder / names[0]).write_text("x")
    assert ".memories" not in os.listdir(tablestore.store)


def test_a_store_that_the_service_writes_is_read_only(tablestore: Mount) -> None:
    assert (tablestore.store / "profile" / "drinks.md").read_text() == "# 饮品\n\n乌龙茶\n"
    for call in (
        lambda: (tablestore.store / "new.md").write_text("x"),
        lambda: (tablestore.store / "profile" / "drinks.md").write_text("x"),
        lambda: os.unlink(tablestore.store / "profile" / "drinks.md"),
        lambda: os.rename(tablestore.store / "profile" / "drinks.md", tablestore.store / "x.md"),
        lambda: os.mkdir(tablestore.store / "d"),
    ):
        with refuses(errno.EROFS):
            call()
    assert not (tablestore.store / ".versions").exists()


def test_what_the_service_adds_to_a_read_only_store_shows_within_the_bound(tablestore: Mount, service: Dialect) -> None:
    emulator = service.emulator
    assert isinstance(emulator, Tablestore)
    emulator.project("chats", tuple(SCOPE.split("/")), "/profile/new.md", "new\n")  # type: ignore[arg-type]
    eventually(lambda: (tablestore.store / "profile" / "new.md").exists(), True, within=4)
