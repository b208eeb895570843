"""What readers see while others write: whole versions, none older than the bound; and what that costs in requests."""

import contextlib
import hashlib
import mmap
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from memfs.model.ids import new_session_id
from memfs.model.objects import Memory, SessionActor
from memfs.stores.base import MemoryStore
from memfs.stores.open import open_service
from tests.faults.proxy import Proxy
from tests.faults.worlds import World, rounds, status
from tests.harness.inspector import Inspector
from tests.harness.mounts import launch, new_database
from tests.harness.waiting import eventually

EDITS = rounds("READS", 1000)
IDLE_SECONDS = float(rounds("IDLE_SECONDS", 6))
BUSY_SECONDS = float(rounds("BUSY_SECONDS", 8))
BOUND = 1.0
SLACK = 0.25
"""For the request itself, and for a machine that does other things meanwhile."""


def text_of(number: int, size: int) -> str:
    """A text that tells whether it is whole: its number, its length, and bytes that belong to no other number."""
    body = hashlib.sha256(str(number).encode()).hexdigest() * (size // 64 + 1)
    return f"{number:08} {size:08}\n" + body[:size]


def number_of(content: bytes) -> int:
    """Raises `AssertionError` unless `content` is one text of `text_of`, whole."""
    number, size = int(content[:8]), int(content[9:17])
    assert content.decode() == text_of(number, size), f"{len(content)} bytes of number {number}, which has {size + 18}"
    return number


class Editor(threading.Thread):
    """Another session that saves ever new texts, longer and shorter ones, as fast as it is served."""

    def __init__(self, store: Inspector, path: str, edits: int) -> None:
        super().__init__(name="editor")
        self.store, self.path, self.edits = store, path, edits
        self.saved = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            trio.run(self._edit)
        except BaseException as error:  # noqa: BLE001  it belongs to the test's own thread
            self.failure = error

    async def _edit(self) -> None:
        service = await open_service(self.store.database.url, actor=SessionActor(session_id=new_session_id()))
        chance = random.Random(5)
        try:
            page = await service.list_memories(self.store.id)
            (memory_id,) = (item.id for item in page.data if isinstance(item, Memory) and item.path == self.path)
            for number in range(1, self.edits + 1):
                size = chance.choice((0, 10, 3000, 5000, 40_000, 90_000))
                await service.update_memory(self.store.id, memory_id, content=text_of(number, size))
                self.saved = number
                await trio.sleep(0.001)
        finally:
            await service.aclose()


def read_whole(descriptor: int) -> bytes:
    """One read(2): two of them may see two versions, as with any file that another process rewrites."""
    return os.pread(descriptor, 200_000, 0)


def open_and_read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return read_whole(descriptor)
    finally:
        os.close(descriptor)


def watch(path: Path, editor: Editor) -> tuple[int, int]:
    """Read by name and through one descriptor until the editor has ended; how many reads, and how many different texts."""
    reads, seen = 0, set()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while editor.is_alive():
            seen.add(number_of(open_and_read(path)))
            seen.add(number_of(read_whole(descriptor)))
            os.stat(path)
            reads += 2
    finally:
        os.close(descriptor)
    return reads, len(seen)


@contextlib.contextmanager
def editing(store: Inspector) -> Iterator[Editor]:
    editor = Editor(store, "/a", EDITS)
    editor.start()
    try:
        yield editor
    finally:
        editor.join(600)
    if editor.failure is not None:
        raise editor.failure
    assert editor.saved == EDITS


def test_no_read_is_cut_on_the_embedded_store(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    store.put("/a", text_of(0, 100))
    with launch(tmp_path, store, database=database) as mount, editing(store) as editor:
        reads, texts = watch(mount.store / "a", editor)
        print(f"{reads} reads of {texts} texts while {EDITS} were saved")
        assert texts > 10


def test_no_read_is_cut_over_http(bad: World) -> None:
    bad.store.put("/a", text_of(0, 100))
    with bad.mount("m", "--max-staleness", "0.1", direct=True) as mount, editing(bad.store) as editor:
        reads, texts = watch(mount.store / "a", editor)
        print(f"{reads} reads of {texts} texts while {EDITS} were saved")
        assert texts > 5


def polls(proxy: Proxy) -> int:
    return proxy.count("GET", "/memory_versions?")


def test_an_idle_mount_sends_nothing_and_a_busy_one_a_poll_per_bound(bad: World) -> None:
    for number in range(50):
        bad.store.put(f"/d/f{number}", f"{number}\n")
    with bad.mount("m", "--max-staleness", str(BOUND)) as mount:
        names = os.listdir(mount.store / "d")
        for name in names:
            (mount.store / "d" / name).read_bytes()
        time.sleep(2 * BOUND + 1.5)  # past the last poll of a mount in use
        before = bad.proxy.count()
        time.sleep(IDLE_SECONDS)
        assert bad.proxy.count() == before
        before, all_before = polls(bad.proxy), bad.proxy.count()
        end = time.monotonic() + BUSY_SECONDS
        looks = 0
        while time.monotonic() < end:
            for name in names:
                os.stat(mount.store / "d" / name)
                looks += 1
            (mount.store / "d" / names[0]).read_bytes()
            time.sleep(0.05)
        asked = polls(bad.proxy) - before
        assert asked <= BUSY_SECONDS / BOUND + 1
        assert bad.proxy.count() - all_before == asked
        assert asked >= BUSY_SECONDS / BOUND / 2
        print(f"{asked} polls for {looks} looks in {BUSY_SECONDS:g} s with a bound of {BOUND:g} s")


@pytest.mark.parametrize(
    "how", ["looked up", "cached", "open", "mapped", "absent", "listed", "new length", "removed", "renamed"]
)
def test_a_change_shows_in_an_idle_mount_at_the_first_access_past_the_bound(bad: World, how: str) -> None:
    old, new = "old text\n", "new text\n"
    bad.store.put("/d/a", old)
    # Not through the proxy: a thread that waits in a page fault keeps the others of its process from running.
    with bad.mount("m", "--max-staleness", str(BOUND), direct=True) as mount, contextlib.ExitStack() as stack:
        path = mount.store / "d" / "a"
        descriptor = os.open(path, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        mapping = stack.enter_context(mmap.mmap(descriptor, len(old), prot=mmap.PROT_READ))
        # Everything that could be cached is, as late as can be; then somebody else writes.
        time.sleep(3.2 * BOUND)  # idle
        assert path.read_text() == old
        assert mapping[:] == os.pread(descriptor, 100, 0) == old.encode()
        assert not (mount.store / "d" / "b").exists()
        assert os.listdir(mount.store / "d") == ["a"]
        if how in ("absent", "listed"):
            bad.store.put("/d/b", new)
        elif how == "new length":
            new = old * 300
            bad.store.put("/d/a", new)
        elif how == "removed":
            bad.store.delete("/d/a")
        elif how == "renamed":
            memory_id = bad.store.memory_id("/d/a")
            bad.store.database.call(lambda service: service.update_memory(bad.store.id, memory_id, path="/d/c"))
        else:
            bad.store.put("/d/a", new)
        time.sleep(BOUND + SLACK)
        if how == "looked up":
            assert os.stat(path).st_mtime_ns != 0
            assert path.read_text() == new
        elif how == "cached":
            assert path.read_text() == new
        elif how in ("open", "new length"):
            assert os.pread(descriptor, 10_000, 0) == new.encode()
        elif how == "mapped":
            os.fstat(descriptor)  # a mapping by itself asks nobody
            assert mapping[:] == new.encode()
        elif how == "absent":
            assert (mount.store / "d" / "b").read_text() == new
        elif how == "listed":
            assert sorted(os.listdir(mount.store / "d")) == ["a", "b"]
        elif how == "removed":
            assert not path.exists()
        else:
            assert not path.exists()
            assert (mount.store / "d" / "c").read_text() == old


def test_a_store_that_is_rewritten_as_a_whole_shows_as_it_is(bad: World) -> None:
    """Every path gets another memory, names are swapped, and directories stay where somebody stands in them."""
    bad.store.put_all((f"/d{number % 4}/f{number}", f"old {number}\n") for number in range(60))
    with bad.mount("m", "--max-staleness", str(BOUND)) as mount:
        before = {str(path.relative_to(mount.store)): path.read_text() for path in mount.store.rglob("f*")}
        assert len(before) == 60
        here = os.open(mount.store / "d1", os.O_RDONLY | os.O_DIRECTORY)
        try:
            for number in range(60):
                if number % 3 == 0:
                    bad.store.delete(f"/d{number % 4}/f{number}")
            bad.store.put_all((f"/d{number % 4}/f{number}", f"new {number}\n") for number in range(0, 60, 3))

            async def swap(service: MemoryStore) -> None:
                for one, other in (("/d1/f1", "/d1/f5"), ("/d2/f2", "/d3/f7")):
                    await service.update_memory(bad.store.id, found[one].id, path="/between")
                    await service.update_memory(bad.store.id, found[other].id, path=one)
                    await service.update_memory(bad.store.id, found[one].id, path=other)

            found = bad.store.heads()
            bad.store.database.call(swap)
            wanted = {path[1:]: text for path, text in bad.store.memories().items()}
            time.sleep(BOUND + SLACK)
            assert sorted(os.listdir(here)) == sorted(path.removeprefix("d1/") for path in wanted if path.startswith("d1/"))
            assert {str(path.relative_to(mount.store)): path.read_text() for path in mount.store.rglob("f*")} == wanted
            assert os.stat(mount.store / "d1").st_ino == os.fstat(here).st_ino
        finally:
            os.close(here)


def test_requests_are_counted(bad: World) -> None:
    with bad.mount("m") as mount:
        (mount.store / "a").write_text("x\n")
        eventually(lambda: status(mount)["requests"].get("create_memory"), 1, within=3)
        assert f'operation="create_memory",store="{mount.store.name}"' in (mount.path / ".memfs" / "metrics").read_text()
