"""The rows of docs/services.md, one test each; a test bears the row's name."""

import base64
import errno
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest

from memfs.model.errors import InvalidRequest, NotSupported, PreconditionFailed, StoreArchived
from memfs.model.objects import SessionActor, UserActor
from memfs.stores.base import KeepsMetadata, MemoryStore
from memfs.stores.credentials import Credentials
from memfs.stores.open import open_service
from tests.emulators.modelstudio import ModelStudio
from tests.emulators.qoder import Qoder
from tests.emulators.tablestore import Tablestore
from tests.harness.dialects import SCOPE, Dialect, dialect
from tests.harness.errnos import refuses
from tests.harness.inspector import Database, Inspector
from tests.harness.mounts import Place, launch
from tests.harness.waiting import eventually

DOCUMENT = Path(__file__).parents[2] / "docs" / "services.md"
ACTOR = UserActor(user_id="user_tests")


def only(*names: str) -> pytest.MarkDecorator:
    """Run with these services only."""
    return pytest.mark.parametrize("kind", names, indirect=True, scope="module")


async def opened(running: Dialect) -> MemoryStore:
    return await open_service(running.url, actor=ACTOR, credentials=Credentials(environment=running.environment))


def state(place: Place, name: str) -> str:
    return os.getxattr(place / name, "user.memory.state").decode()


def told(running: Dialect, place: Place) -> Any:
    """What the emulator of Qoder has for the one memory of `place`."""
    assert isinstance(running.emulator, Qoder)
    (memory,) = (memory for memory in running.emulator.memories.values() if f"/{memory.path}".startswith(place.prefix))
    return memory


QODER = ("qoder-entry", "qoder-memory")


# Qoder


@only(*QODER)
def test_qoder_blank_files(place: Place) -> None:
    place.sh("touch empty; printf ' \\n\\t' > spaces; echo text > emptied; : > emptied")
    assert place.memories() == {"emptied": "text\n"}
    assert [state(place, name) for name in ("empty", "spaces", "emptied")] == ["pending"] * 3
    assert place.sh("cat empty spaces emptied") == " \n\t"
    place.mount.remount()
    assert [state(place, name) for name in ("empty", "spaces", "emptied")] == ["pending"] * 3
    assert place.sh("cat spaces; stat -c %s emptied") == " \n\t0\n"
    place.sh("echo now > empty; mv spaces moved; rm emptied; mv moved again")
    eventually(place.memories, {"empty": "now\n"}, within=3)
    assert sorted(os.listdir(place.path)) == ["again", "empty"]
    assert place.operations("empty") == ["created"]


@only(*QODER)
def test_qoder_rename_makes_another_memory(place: Place) -> None:
    place.sh("echo text > a.md")
    number, first = os.stat(place / "a.md").st_ino, place.ids()["a.md"]
    place.sh("mv a.md b.md")
    assert place.ids()["b.md"] != first
    assert place.operations("a.md") == ["created", "deleted"]
    assert place.operations("b.md") == ["created"]
    assert os.stat(place / "b.md").st_ino == number
    assert "this service cannot rename" in place.mount.log()
    place.mount.remount()
    assert os.stat(place / "b.md").st_ino == number


@only(*QODER)
async def test_qoder_rename_that_meets_an_edit(running: Dialect, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    service = await opened(running)
    store = await service.create_store("Notes")
    memory = await service.create_memory(store.id, "/a", "one")
    with pytest.raises(PreconditionFailed):
        await service.update_memory(store.id, memory.id, path="/b", precondition=memory.content_sha256.replace("a", "b"))
    moved = await service.update_memory(store.id, memory.id, path="/b")
    assert (moved.path, moved.content_sha256) == ("/b", memory.content_sha256)
    assert "whose history begins here" in caplog.text
    await service.aclose()


@only(*QODER)
def test_qoder_deletion_has_no_guard(place: Place, shared: Dialect) -> None:
    compared_first(place, shared)


def compared_first(place: Place, service: Dialect) -> None:
    """A removal reads the memory before it deletes it."""
    place.sh("echo one > a.md")
    memory_id = place.ids()["a.md"]
    before = len(service.emulator.requests)
    os.unlink(place / "a.md")
    eventually(place.ids, {}, within=3)
    asked = [line.split()[0] for line in service.emulator.requests[before:] if line.endswith(memory_id)]
    assert "GET" in asked[: asked.index("DELETE")]


@only(*QODER)
def test_qoder_archived_store_is_read_only(database: Database, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    store.put("/a.md", "one\n")
    with launch(tmp_path, store, database=database) as mount:
        store.archive()
        with refuses(errno.EROFS):
            (mount.store / "new.md").write_text("x")
        mount.abort()  # what was refused stays in the journal
    (tmp_path / "again").mkdir()
    with launch(tmp_path / "again", store, database=database, options=["--store", store.id]) as mount:
        assert (mount.store / "a.md").read_text() == "one\n"
        for call in (
            lambda: (mount.store / "b.md").write_text("x"),
            lambda: (mount.store / "a.md").write_text("x"),
            lambda: os.unlink(mount.store / "a.md"),
            lambda: os.rename(mount.store / "a.md", mount.store / "c.md"),
        ):
            with refuses(errno.EROFS):
                call()
    assert store.memories() == {"/a.md": "one\n"}


@only(*QODER)
def test_qoder_metadata(place: Place, shared: Dialect) -> None:
    place.inspector.put(place.at("a.md"), "one\n")
    told(shared, place).metadata = {"team": "backend", "职位": "经理"}
    eventually((place / "a.md").exists, True, within=5)
    assert os.getxattr(place / "a.md", "user.memory.meta.team") == b"backend"
    assert os.getxattr(place / "a.md", "user.memory.meta.职位").decode() == "经理"
    (place / "a.md").write_text("two\n")
    assert set(told(shared, place).metadata) == {"team", "职位"}
    place.sh("mv a.md b.md")
    assert set(told(shared, place).metadata) == {"team", "职位"}


@only(*QODER)
def test_qoder_metadata_can_be_set(place: Place, shared: Dialect) -> None:
    file = place / "a.md"
    file.write_text("one\n")
    before, memory = os.stat(file), told(shared, place)
    asked = shared.mutations()
    memory.metadata = {"by": "another session"}  # which this mount has not heard of
    place.sh("setfattr -n user.memory.meta.team -v 后端 a.md && setfattr -n user.memory.meta.x -v 1 a.md")
    assert place.sh("getfattr --only-values -n user.memory.meta.team a.md") == "后端"
    place.sh("setfattr -x user.memory.meta.x a.md")
    assert memory.metadata == {"by": "another session", "team": "后端"}
    assert shared.mutations() - asked == 3
    assert place.operations("a.md") == ["created", "modified", "modified", "modified"]
    assert (os.stat(file).st_mtime_ns, os.stat(file).st_ino) == (before.st_mtime_ns, before.st_ino)
    file.write_text("two\n")  # the next save meets no conflict of its own making
    assert place.memories() == {"a.md": "two\n"}
    (place / "blank").touch()
    for name, key, value, wanted in (
        ("a.md", "k" * 65, b"v", errno.ERANGE),
        ("a.md", "k", b"v" * 513, errno.ERANGE),
        ("a.md", "k", b"\xff", errno.EILSEQ),
        ("blank", "k", b"v", errno.EINVAL),
    ):
        with refuses(wanted):
            os.setxattr(place / name, f"user.memory.meta.{key}", value)
    with refuses(errno.ENODATA):
        os.removexattr(file, "user.memory.meta.x")
    memory.metadata = {str(number): "" for number in range(16)}
    with refuses(errno.ENOSPC):
        os.setxattr(file, "user.memory.meta.k", b"v")
    place.inspector.put(place.at("a.md"), "theirs\n")
    with refuses(errno.EBUSY):
        os.setxattr(file, "user.memory.meta.0", b"v")


@only(*QODER)
async def test_qoder_metadata_of_two_sessions(running: Dialect) -> None:
    assert isinstance(running.emulator, Qoder)
    service, other = await opened(running), await opened(running)
    assert isinstance(service, KeepsMetadata)
    assert isinstance(other, KeepsMetadata)
    store = await service.create_store("Notes")
    memory = await service.create_memory(store.id, "/a", "one")
    running.emulator.faults.lose = 1
    await service.update_metadata(store.id, memory.id, {"a": "1"}, precondition=memory.content_sha256)
    await other.update_metadata(store.id, memory.id, {"b": "2"}, precondition=memory.content_sha256)
    again = await service.update_metadata(store.id, memory.id, {"a": None}, precondition=memory.content_sha256)
    assert again.metadata == {"b": "2"}
    assert len((await service.list_versions(store.id)).data) == 4
    await service.update_metadata(store.id, memory.id, {"b": "2"}, precondition=memory.content_sha256)
    assert len((await service.list_versions(store.id)).data) == 4  # nothing changed
    await service.aclose()
    await other.aclose()


@only(*QODER, "modelstudio")
def test_no_actors(place: Place) -> None:
    place.sh("echo one > a.md")
    with refuses(errno.ENODATA):
        os.getxattr(place / "a.md", "user.memory.session_id")
    assert {version.created_by for _, version in place.named_versions()} == {None}


@only(*QODER)
def test_qoder_lists_everything_or_nothing(running: Dialect, database: Database, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    store.put_all((f"/d{number % 10}/s/{number}.md", f"{number}\n") for number in range(120))
    with launch(tmp_path, store, database=database) as mount:
        before = running.emulator.count("GET", "/memories")
        mount.sh("ls; ls -lR; find . -name '*.md' | wc -l")
        assert running.emulator.count("GET", "/memories") - before == 2  # of 100 and 20


@only("qoder-entry")
async def test_qoder_entry_stores_cannot_be_changed(running: Dialect) -> None:
    service = await opened(running)
    store = await service.create_store("Notes")
    with pytest.raises(NotSupported):
        await service.update_store(store.id, name="Other")
    await service.aclose()


@only("qoder-memory")
@pytest.mark.parametrize("paging", ["ids", "pages"])
async def test_qoder_both_ways_of_paging(running: Dialect, paging: str) -> None:
    assert isinstance(running.emulator, Qoder)
    running.emulator.guesses.paging = "ids" if paging == "ids" else "pages"
    service = await opened(running)
    store = await service.create_store("Notes")
    for number in range(25):
        await service.create_memory(store.id, f"/{number}", "x")
    page, found = None, []
    while True:
        answer = await service.list_memories(store.id, limit=10, page=page)
        found += [item.path for item in answer.data]
        page = answer.next_page
        if page is None:
            break
    assert sorted(found) == sorted(f"/{number}" for number in range(25))
    await service.aclose()


@pytest.mark.parametrize(("name", "method"), [("qoder-entry", "PUT"), ("qoder-memory", "POST")])
async def test_qoder_generation_is_found_out(name: str, method: str) -> None:
    with dialect(name) as running:
        service = await opened(running)
        store = await service.create_store("Notes")
        memory = await service.create_memory(store.id, "/a", "one")
        await service.update_memory(store.id, memory.id, content="two", precondition=memory.content_sha256)
        assert running.emulator.count(method, memory.id) == 1
        again = await opened(running)  # and of a store that is empty
        empty = await again.create_store("Empty")
        assert (await again.list_versions(empty.id)).data == []
        await service.aclose()
        await again.aclose()


@only("qoder-memory")
@pytest.mark.parametrize("status", [409, 412])
async def test_qoder_conflicts_are_told_by_their_status(running: Dialect, status: int) -> None:
    assert isinstance(running.emulator, Qoder)
    running.emulator.guesses.conflict_status = status
    first, second = await opened(running), await opened(running)
    store = await first.create_store("Notes")
    memory = await first.create_memory(store.id, "/a", "one")
    await second.update_memory(store.id, memory.id, content="two")
    with pytest.raises(PreconditionFailed):
        await first.update_memory(store.id, memory.id, content="three", precondition=memory.content_sha256)
    await first.aclose()
    await second.aclose()


# Tablestore


@only("tablestore")
def test_tablestore_sees_its_own_scope_only(place: Place, shared: Dialect) -> None:
    place.sh("echo one > a.md")
    other_url = shared.url.replace(SCOPE, "app-001/user-001/assistant/session-002")
    other = Database(other_url, kind="tablestore", environment=shared.environment)
    store = other.call(lambda service: service.list_stores()).data[0]
    assert store.id != place.inspector.id
    assert Inspector(other, store).memories() == {}


@only("tablestore")
def test_tablestore_binary_files_are_read_only(place: Place, shared: Dialect) -> None:
    assert isinstance(shared.emulator, Tablestore)
    pixel = b"\x89PNG\r\n\x1a\n\x00\xff\xfe"
    shared.emulator.do_AddItem(
        {
            "type": "memoryfile",
            "memoryStoreName": "Notes",
            "scope": dict(zip(("appId", "tenantId", "agentId", "runId"), SCOPE.split("/"), strict=True)),
            "path": place.at("pixel.png"),
            "contentBase64": base64.b64encode(pixel).decode(),
            "mediaType": "image/png",
        }
    )
    file = place / "pixel.png"
    eventually(file.exists, True, within=4)
    assert file.read_bytes() == pixel
    assert os.getxattr(file, "user.memory.media_type") == b"image/png"
    for call in (lambda: file.write_text("x"), lambda: os.truncate(file, 0), lambda: os.open(file, os.O_RDWR)):
        with refuses(errno.EROFS):
            call()
    (place / "a.md").write_text("text\n")
    with refuses(errno.EROFS):
        os.replace(place / "a.md", file)
    os.rename(file, place / "moved.png")
    assert (place / "moved.png").read_bytes() == pixel
    with refuses(errno.EILSEQ):
        (place / "new.png").write_bytes(pixel)
    os.unlink(place / "new.png")
    os.unlink(place / "moved.png")
    eventually(lambda: list(place.ids()), ["a.md"], within=3)


@only("tablestore")
def test_tablestore_names_the_session(place: Place) -> None:
    place.sh("echo one > a.md; echo two > a.md; mv a.md b.md; rm b.md")
    eventually(lambda: len(place.history()), 4, within=3)
    assert {version.created_by for _, version in place.named_versions()} == {SessionActor(session_id=place.mount.session_id)}


@only("tablestore")
def test_tablestore_whole_seconds(place: Place) -> None:
    file = place / "a.md"
    file.write_text("one\n")
    times = {os.stat(file).st_mtime_ns}
    for text in ("two\n", "six\n", "ten\n"):
        place.inspector.put(place.at("a.md"), text)
        eventually(file.read_text, text, within=4)
        times.add(os.stat(file).st_mtime_ns)
    assert len(times) == 4


@only("tablestore")
async def test_tablestore_a_version_that_was_taken_back_is_a_conflict_no_more(running: Dialect) -> None:
    first, second = await opened(running), await opened(running)
    store = await first.create_store("Notes")
    memory = await first.create_memory(store.id, "/a", "one")
    await second.update_memory(store.id, memory.id, path="/b")
    # The version moved, the content did not: a save is based on the content.
    changed = await first.update_memory(store.id, memory.id, content="two", precondition=memory.content_sha256)
    assert changed.path == "/b"
    await second.update_memory(store.id, memory.id, content="three")
    with pytest.raises(PreconditionFailed):
        await first.update_memory(store.id, memory.id, content="four", precondition=changed.content_sha256)
    with pytest.raises(PreconditionFailed):
        await first.delete_memory(store.id, memory.id, expected_content_sha256=changed.content_sha256)
    await first.aclose()
    await second.aclose()


@only("tablestore")
def test_tablestore_full(place: Place, shared: Dialect) -> None:
    assert isinstance(shared.emulator, Tablestore)
    place.sh("echo 1 > a; echo 2 > b")
    shared.emulator.guesses.max_items = place.inspector.count()
    with refuses(errno.ENOSPC):
        (place / "c").write_text("x")
    os.unlink(place / "c")
    (place / "a").write_text("still editable\n")
    assert place.memories() == {"a": "still editable\n", "b": "2\n"}
    shared.emulator.guesses.max_items = None


@only("tablestore")
async def test_tablestore_stores(running: Dialect) -> None:
    service = await opened(running)
    store = await service.create_store("Notes")
    for wrong in ("user-preferences", "Notes", "x" * 33):
        with pytest.raises(InvalidRequest):
            await service.create_store(wrong)
    with pytest.raises(NotSupported):
        await service.archive_store(store.id)
    with pytest.raises(NotSupported):
        await service.update_store(store.id, name="Other")
    with pytest.raises(NotSupported):
        await service.create_store("More", metadata={"k": "v"})
    assert (await service.update_store(store.id, description="new")).description == "new"
    await service.aclose()


# Model Studio


@only("modelstudio")
@pytest.mark.parametrize("guard", ["both", "top level", "object"])
def test_modelstudio_guard_is_tried_at_the_mount(database: Database, running: Dialect, tmp_path: Path, guard: str) -> None:
    assert isinstance(running.emulator, ModelStudio)
    running.emulator.guesses.guard = guard  # type: ignore[assignment]
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        assert "CONFLICTS CANNOT BE DETECTED" not in mount.log()
        assert store.memories() == {}
        assert re.fullmatch(r"/\.memfs-guard-[0-9a-f]{16}\.tmp", store.history()[0].path or "")
        assert [version.operation for version in store.history()] == ["created", "deleted"]
        mount.remount()
        assert len(store.history()) == 2  # tried today already


@only("modelstudio")
def test_modelstudio_without_a_guard_says_so_loudly(database: Database, running: Dialect, tmp_path: Path) -> None:
    assert isinstance(running.emulator, ModelStudio)
    running.emulator.guesses.guard = "neither"
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        assert "CONFLICTS CANNOT BE DETECTED" in mount.log()
        assert "CONFLICTS CANNOT BE DETECTED" in (mount.path / ".memfs" / "errors").read_text()
        assert store.memories() == {}
        # What can be done is done: the content is compared before each update.
        store.put("/a.md", "one\ntwo\nthree\n")
        eventually((mount.store / "a.md").exists, True, within=5)
        with open(mount.store / "a.md", "r+") as file:
            ours = file.read().replace("one", "ONE")
            store.put("/a.md", "one\ntwo\nTHREE\n")
            file.seek(0)
            file.write(ours)
        assert store.content("/a.md") == "ONE\ntwo\nTHREE\n"


@only("modelstudio")
def test_modelstudio_a_read_only_mount_tries_nothing(database: Database, running: Dialect, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database, options=["--read-only"]):
        assert store.history() == []


@only("modelstudio")
async def test_modelstudio_archived_store(running: Dialect) -> None:
    service = await opened(running)
    store = await service.create_store("Notes")
    memory = await service.create_memory(store.id, "/a", "one")
    await service.archive_store(store.id)
    with pytest.raises(StoreArchived):
        await service.create_memory(store.id, "/b", "two")
    with pytest.raises(StoreArchived):
        await service.update_memory(store.id, memory.id, content="two")
    with pytest.raises(StoreArchived):
        await service.delete_memory(store.id, memory.id)
    assert (await service.retrieve_memory(store.id, memory.id)).content == "one"
    await service.aclose()


@only("modelstudio")
def test_modelstudio_deletion_has_no_guard(place: Place, shared: Dialect) -> None:
    compared_first(place, shared)


# All of them


def test_everywhere_a_file_beside_a_directory_of_its_name(place: Place) -> None:
    place.inspector.put(place.at("a"), "file\n")
    place.inspector.put(place.at("a/b"), "below\n")
    eventually(lambda: len(os.listdir(place.path)), 2, within=5)
    assert (place / "a" / "b").read_text() == "below\n"
    (escaped,) = (name for name in os.listdir(place.path) if name != "a")
    assert (place / escaped).read_text() == "file\n"


async def test_everywhere_the_head_is_not_redacted(running: Dialect) -> None:
    service = await opened(running)
    store = await service.create_store("Notes")
    memory = await service.create_memory(store.id, "/a", "one")
    await service.update_memory(store.id, memory.id, content="two")
    newest, oldest = (await service.list_versions(store.id)).data
    with pytest.raises(InvalidRequest):
        await service.redact_version(store.id, newest.id)
    assert (await service.redact_version(store.id, oldest.id)).redacted_at is not None
    assert (await service.redact_version(store.id, oldest.id)).redacted_at is not None
    assert (await service.retrieve_version(store.id, oldest.id)).content is None
    await service.aclose()


def test_every_row_of_the_document_has_its_test() -> None:
    text = DOCUMENT.read_text("utf-8")
    rows = [line for table in text.split("| what |")[1:] for line in table.partition("\n\n")[0].splitlines()[2:]]
    assert [row for row in rows if "`test_" not in row] == []
    named = set(re.findall(r"`(test_\w+)`", text))
    here = {name for name, value in globals().items() if name.startswith("test_") and callable(value)}
    assert named, "the document names no test"
    assert named <= here
    assert here - named == {"test_every_row_of_the_document_has_its_test"}
