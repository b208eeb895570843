"""The rows of docs/services.md, one test each; a test bears the row's name."""

import base64
import errno
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.model.errors import InvalidRequest, NotSupported, PreconditionFailed, StoreArchived
from memfs.model.objects import UserActor
from memfs.stores.base import KeepsMetadata, MemoryStore
from memfs.stores.credentials import Credentials
from memfs.stores.open import open_service
from tests.emulators.modelstudio import ModelStudio
from tests.emulators.qoder import Qoder
from tests.emulators.tablestore import Tablestore
from tests.harness.dialects import DIALECTS, SCOPE, Dialect, dialect
from tests.harness.errnos import refuses
from tests.harness.inspector import Database, Inspector
from tests.harness.mounts import Mount, launch
from tests.harness.waiting import eventually

DOCUMENT = Path(__file__).parents[2] / "docs" / "services.md"
ACTOR = UserActor(user_id="user_tests")


def mounts_of(*names: str) -> pytest.MarkDecorator:
    """Run with the mounts of these services only."""
    return pytest.mark.parametrize("running", names, indirect=True)


@pytest.fixture(params=DIALECTS)
def running(request: pytest.FixtureRequest) -> Iterator[Dialect]:
    with dialect(request.param) as started:
        yield started


async def opened(running: Dialect) -> MemoryStore:
    return await open_service(running.url, actor=ACTOR, credentials=Credentials(environment=running.environment))


def state(mount: Mount, name: str) -> str:
    return os.getxattr(mount.store / name, "user.memory.state").decode()


QODER = ("qoder-entry", "qoder-memory")


# Qoder


@mounts_of(*QODER)
def test_qoder_blank_files(mount: Mount) -> None:
    mount.sh("touch empty; printf ' \\n\\t' > spaces; echo text > emptied; : > emptied")
    assert mount.inspector.memories() == {"/emptied": "text\n"}
    assert [state(mount, name) for name in ("empty", "spaces", "emptied")] == ["pending"] * 3
    assert mount.sh("cat empty spaces emptied") == " \n\t"
    mount.remount()
    assert [state(mount, name) for name in ("empty", "spaces", "emptied")] == ["pending"] * 3
    assert mount.sh("cat spaces; stat -c %s emptied") == " \n\t0\n"
    mount.sh("echo now > empty; mv spaces moved; rm emptied; mv moved again")
    eventually(mount.inspector.memories, {"/empty": "now\n"}, within=3)
    assert sorted(os.listdir(mount.store)) == ["again", "empty"]
    assert mount.inspector.operations("/empty") == ["created"]


@mounts_of(*QODER)
def test_qoder_rename_makes_another_memory(mount: Mount, caplog: pytest.LogCaptureFixture) -> None:
    mount.sh("echo text > a.md")
    number, first = os.stat(mount.store / "a.md").st_ino, mount.inspector.memory_id("/a.md")
    mount.sh("mv a.md b.md")
    assert mount.inspector.memory_id("/b.md") != first
    assert mount.inspector.operations("/a.md") == ["created", "deleted"]
    assert mount.inspector.operations("/b.md") == ["created"]
    assert os.stat(mount.store / "b.md").st_ino == number
    assert "this service cannot rename" in mount.log()
    mount.remount()
    assert os.stat(mount.store / "b.md").st_ino == number


@mounts_of(*QODER)
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


@mounts_of(*QODER)
def test_qoder_deletion_has_no_guard(mount: Mount, running: Dialect) -> None:
    mount.sh("echo one > a.md")
    before = running.emulator.count("GET", mount.inspector.memory_id("/a.md"))
    os.unlink(mount.store / "a.md")
    eventually(mount.inspector.memories, {}, within=3)
    gets = [line for line in running.emulator.requests if line.startswith("GET ") and "/mem_" in line]
    assert len(gets) > before  # the content was compared first


@mounts_of(*QODER)
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


@mounts_of(*QODER)
def test_qoder_metadata(mount: Mount, running: Dialect) -> None:
    assert isinstance(running.emulator, Qoder)
    mount.inspector.put("/a.md", "one\n")
    for memory in running.emulator.memories.values():
        memory.metadata = {"team": "backend", "职位": "经理"}
    mount.remount()
    assert os.getxattr(mount.store / "a.md", "user.memory.meta.team") == b"backend"
    assert os.getxattr(mount.store / "a.md", "user.memory.meta.职位").decode() == "经理"
    (mount.store / "a.md").write_text("two\n")
    assert {tuple(sorted(memory.metadata)) for memory in running.emulator.memories.values()} == {("team", "职位")}
    mount.sh("mv a.md b.md")
    assert {tuple(sorted(memory.metadata)) for memory in running.emulator.memories.values()} == {("team", "职位")}


@mounts_of(*QODER)
def test_qoder_metadata_can_be_set(mount: Mount, running: Dialect) -> None:
    assert isinstance(running.emulator, Qoder)
    file = mount.store / "a.md"
    file.write_text("one\n")
    before, (memory,) = os.stat(file), running.emulator.memories.values()
    asked = running.mutations()
    memory.metadata = {"by": "another session"}  # which this mount has not heard of
    mount.sh("setfattr -n user.memory.meta.team -v 后端 a.md && setfattr -n user.memory.meta.x -v 1 a.md")
    assert mount.sh("getfattr --only-values -n user.memory.meta.team a.md") == "后端"
    mount.sh("setfattr -x user.memory.meta.x a.md")
    assert memory.metadata == {"by": "another session", "team": "后端"}
    assert running.mutations() - asked == 3
    assert mount.inspector.operations("/a.md") == ["created", "modified", "modified", "modified"]
    assert (os.stat(file).st_mtime_ns, os.stat(file).st_ino) == (before.st_mtime_ns, before.st_ino)
    file.write_text("two\n")  # the next save meets no conflict of its own making
    assert mount.inspector.memories() == {"/a.md": "two\n"}
    (mount.store / "blank").touch()
    for name, key, value, wanted in (
        ("a.md", "k" * 65, b"v", errno.ERANGE),
        ("a.md", "k", b"v" * 513, errno.ERANGE),
        ("a.md", "k", b"\xff", errno.EILSEQ),
        ("blank", "k", b"v", errno.EINVAL),
    ):
        with refuses(wanted):
            os.setxattr(mount.store / name, f"user.memory.meta.{key}", value)
    with refuses(errno.ENODATA):
        os.removexattr(file, "user.memory.meta.x")
    memory.metadata = {str(number): "" for number in range(16)}
    with refuses(errno.ENOSPC):
        os.setxattr(file, "user.memory.meta.k", b"v")
    mount.inspector.put("/a.md", "theirs\n")
    with refuses(errno.EBUSY):
        os.setxattr(file, "user.memory.meta.0", b"v")


@mounts_of(*QODER)
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


@mounts_of(*QODER, "modelstudio")
def test_no_actors(mount: Mount) -> None:
    mount.sh("echo one > a.md")
    with refuses(errno.ENODATA):
        os.getxattr(mount.store / "a.md", "user.memory.session_id")
    assert {version.created_by for version in mount.inspector.history()} == {None}


@mounts_of(*QODER)
def test_qoder_lists_everything_or_nothing(mount: Mount, running: Dialect) -> None:
    mount.inspector.put_all((f"/d{number % 10}/s/{number}.md", f"{number}\n") for number in range(120))
    mount.remount()
    before = running.emulator.count("GET", "/memories")
    mount.sh("ls; ls -lR; find . -name '*.md' | wc -l")
    assert running.emulator.count("GET", "/memories") - before == 2  # of 100 and 20


@mounts_of("qoder-entry")
async def test_qoder_entry_stores_cannot_be_changed(running: Dialect) -> None:
    service = await opened(running)
    store = await service.create_store("Notes")
    with pytest.raises(NotSupported):
        await service.update_store(store.id, name="Other")
    await service.aclose()


@mounts_of("qoder-memory")
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


@mounts_of("qoder-memory")
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


@mounts_of("tablestore")
def test_tablestore_sees_its_own_scope_only(mount: Mount, running: Dialect, database: Database, tmp_path: Path) -> None:
    mount.sh("echo one > a.md")
    other_url = running.url.replace(SCOPE, "app-001/user-001/assistant/session-002")
    other = Database(other_url, kind="tablestore", environment=running.environment)
    store = other.call(lambda service: service.list_stores()).data[0]
    assert store.id != mount.inspector.id
    assert Inspector(other, store).memories() == {}


@mounts_of("tablestore")
def test_tablestore_binary_files_are_read_only(mount: Mount, running: Dialect) -> None:
    assert isinstance(running.emulator, Tablestore)
    pixel = b"\x89PNG\r\n\x1a\n\x00\xff\xfe"
    running.emulator.do_AddItem(
        {
            "type": "memoryfile",
            "memoryStoreName": "Notes",
            "scope": dict(zip(("appId", "tenantId", "agentId", "runId"), SCOPE.split("/"), strict=True)),
            "path": "/pixel.png",
            "contentBase64": base64.b64encode(pixel).decode(),
            "mediaType": "image/png",
        }
    )
    eventually(lambda: (mount.store / "pixel.png").exists(), True, within=4)
    file = mount.store / "pixel.png"
    assert file.read_bytes() == pixel
    assert os.getxattr(file, "user.memory.media_type") == b"image/png"
    for call in (lambda: file.write_text("x"), lambda: os.truncate(file, 0), lambda: os.open(file, os.O_RDWR)):
        with refuses(errno.EROFS):
            call()
    (mount.store / "a.md").write_text("text\n")
    with refuses(errno.EROFS):
        os.replace(mount.store / "a.md", file)
    os.rename(file, mount.store / "moved.png")
    assert (mount.store / "moved.png").read_bytes() == pixel
    with refuses(errno.EILSEQ):
        (mount.store / "new.png").write_bytes(pixel)
    os.unlink(mount.store / "new.png")
    os.unlink(mount.store / "moved.png")
    eventually(lambda: sorted(mount.inspector.heads()), ["/a.md"], within=3)


@mounts_of("tablestore")
def test_tablestore_names_the_session(mount: Mount, running: Dialect) -> None:
    mount.sh("echo one > a.md; echo two > a.md; mv a.md b.md; rm b.md")
    eventually(lambda: len(mount.inspector.history()), 4, within=3)
    assert isinstance(running.emulator, Tablestore)
    assert {version.actor["actorId"] for version in running.emulator.versions} == {mount.session_id}


@mounts_of("tablestore")
def test_tablestore_whole_seconds(mount: Mount) -> None:
    (mount.store / "a.md").write_text("one\n")
    times = {os.stat(mount.store / "a.md").st_mtime_ns}
    for text in ("two\n", "six\n", "ten\n"):
        mount.inspector.put("/a.md", text)
        eventually(lambda text=text: (mount.store / "a.md").read_text(), text, within=4)  # type: ignore[misc]
        times.add(os.stat(mount.store / "a.md").st_mtime_ns)
    assert len(times) == 4


@mounts_of("tablestore")
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


@mounts_of("tablestore")
def test_tablestore_full(mount: Mount, running: Dialect) -> None:
    assert isinstance(running.emulator, Tablestore)
    running.emulator.guesses.max_items = 2
    mount.sh("echo 1 > a; echo 2 > b")
    with refuses(errno.ENOSPC):
        (mount.store / "c").write_text("x")
    os.unlink(mount.store / "c")
    (mount.store / "a").write_text("still editable\n")
    assert mount.inspector.memories() == {"/a": "still editable\n", "/b": "2\n"}


@mounts_of("tablestore")
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


@mounts_of("modelstudio")
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


@mounts_of("modelstudio")
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
        time.sleep(2.5)
        with open(mount.store / "a.md", "r+") as file:
            ours = file.read().replace("one", "ONE")
            store.put("/a.md", "one\ntwo\nTHREE\n")
            file.seek(0)
            file.write(ours)
        assert store.content("/a.md") == "ONE\ntwo\nTHREE\n"


@mounts_of("modelstudio")
def test_modelstudio_a_read_only_mount_tries_nothing(database: Database, running: Dialect, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database, options=["--read-only"]):
        assert store.history() == []


@mounts_of("modelstudio")
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


@mounts_of("modelstudio")
def test_modelstudio_deletion_has_no_guard(mount: Mount, running: Dialect) -> None:
    mount.sh("echo one > a.md")
    memory_id = mount.inspector.memory_id("/a.md")
    before = running.emulator.count("GET", memory_id)
    os.unlink(mount.store / "a.md")
    eventually(mount.inspector.memories, {}, within=3)
    assert running.emulator.count("GET", memory_id) == before + 1


# All of them


def test_everywhere_a_file_beside_a_directory_of_its_name(mount: Mount) -> None:
    mount.inspector.put("/a", "file\n")
    mount.inspector.put("/a/b", "below\n")
    mount.remount()
    names = sorted(os.listdir(mount.store))
    assert len(names) == 2
    assert (mount.store / "a" / "b").read_text() == "below\n"
    (escaped,) = (name for name in names if name != "a")
    assert (mount.store / escaped).read_text() == "file\n"


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
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text("utf-8")))
    here = {name for name, value in globals().items() if name.startswith("test_") and callable(value)}
    assert named, "the document names no test"
    assert named <= here
    assert here - named == {"test_every_row_of_the_document_has_its_test"}
