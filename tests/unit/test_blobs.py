"""The disk cache of contents: bounded, checked, safe to delete, and without what was forgotten."""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from memfs.model.content import sha256_of
from memfs.replica.blobs import BlobCache, DiskBlobs


def on_disk(directory: Path) -> list[bytes]:
    """The contents that a process which starts now finds."""
    found = []
    for path in directory.glob("*/[!.]*"):
        with contextlib.suppress(FileNotFoundError):
            found.append(path.read_bytes())
    return sorted(found)


async def until(reached: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not reached():  # noqa: ASYNC110 -- the disk tells nobody
            await trio.sleep(0.01)


def put(blobs: DiskBlobs | BlobCache, *contents: bytes) -> None:
    for content in contents:
        blobs.put(sha256_of(content), content)


def test_what_is_put_is_there_for_the_next_process(tmp_path: Path) -> None:
    put(DiskBlobs(tmp_path), b"one", b"two", b"one")
    assert on_disk(tmp_path) == [b"one", b"two"]
    assert DiskBlobs(tmp_path).get(sha256_of(b"one")) == b"one"
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*"))


def test_a_file_that_is_not_what_its_name_says_is_no_content(tmp_path: Path) -> None:
    blobs = DiskBlobs(tmp_path)
    put(blobs, b"one")
    (path,) = tmp_path.glob("*/*")
    path.write_bytes(b"won")
    assert blobs.get(sha256_of(b"one")) is None
    assert on_disk(tmp_path) == []


def test_a_disk_that_takes_nothing_is_a_cache_that_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file where the cache's directory should be")
    blobs = DiskBlobs(tmp_path / "blobs")
    put(blobs, b"one")
    assert not blobs.has(sha256_of(b"one"))
    assert blobs.get(sha256_of(b"one")) is None


def test_what_was_used_last_is_kept(tmp_path: Path) -> None:
    blobs = DiskBlobs(tmp_path, limit=1000)
    contents = [bytes([letter]) * 100 for letter in b"abcdefghijklmnop"]
    put(blobs, *contents)
    for second, content in enumerate(contents):
        digest = sha256_of(content)
        os.utime(tmp_path / digest[:2] / digest[2:], (second, second))
    assert blobs.get(sha256_of(contents[0])) == contents[0]
    blobs.evict()
    assert on_disk(tmp_path) == sorted([contents[0], *contents[-8:]])


async def test_a_disk_that_fails_ends_nothing(tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(path: Path, **_: object) -> os.stat_result:
        raise OSError(errno.ESTALE, "the server's disk went away")

    blobs = DiskBlobs(tmp_path)
    nursery.start_soon(blobs.run)
    await trio.testing.wait_all_tasks_blocked()
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", stale)
        put(blobs, b"one")
        await until(lambda: not blobs.has(sha256_of(b"one")))
    put(blobs, b"two")
    await until(lambda: b"two" in on_disk(tmp_path))


async def test_the_disk_gets_it_later_and_readers_at_once(tmp_path: Path, nursery: trio.Nursery) -> None:
    blobs = DiskBlobs(tmp_path)
    nursery.start_soon(blobs.run)
    await trio.testing.wait_all_tasks_blocked()
    put(blobs, b"one", b"two")
    assert on_disk(tmp_path) == []
    assert blobs.has(sha256_of(b"one"))
    assert blobs.get(sha256_of(b"one")) == b"one"
    await until(lambda: on_disk(tmp_path) == [b"one", b"two"])
    put(blobs, b"three")
    await until(lambda: on_disk(tmp_path) == [b"one", b"three", b"two"])


async def test_what_is_forgotten_is_not_on_disk(tmp_path: Path, nursery: trio.Nursery) -> None:
    blobs = DiskBlobs(tmp_path)
    nursery.start_soon(blobs.run)
    await trio.testing.wait_all_tasks_blocked()
    put(blobs, b"first", b"secret")
    blobs.forget(sha256_of(b"secret"))
    await until(lambda: on_disk(tmp_path) == [b"first"])
    blobs.forget(sha256_of(b"first"))
    assert not blobs.has(sha256_of(b"first"))
    assert on_disk(tmp_path) == []


async def test_what_is_forgotten_while_it_is_written_is_not_on_disk(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is slow: the name is there only after the content is forgotten."""
    blobs = DiskBlobs(tmp_path)
    writing, forgotten = trio.Event(), trio.Event()
    replace = os.replace

    def slowly(source: Path, target: Path) -> None:
        trio.from_thread.run_sync(writing.set)
        trio.from_thread.run(forgotten.wait)
        replace(source, target)

    monkeypatch.setattr(os, "replace", slowly)
    nursery.start_soon(blobs.run)
    await trio.testing.wait_all_tasks_blocked()
    put(blobs, b"secret")
    await writing.wait()
    blobs.forget(sha256_of(b"secret"))
    put(blobs, b"after")
    forgotten.set()
    await until(lambda: on_disk(tmp_path) == [b"after"])
    assert not blobs.has(sha256_of(b"secret"))


async def test_all_is_written_at_the_end(tmp_path: Path) -> None:
    blobs = DiskBlobs(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(blobs.run)
        await trio.testing.wait_all_tasks_blocked()
        put(blobs, b"one")
        nursery.cancel_scope.cancel()
    put(blobs, b"two")
    assert on_disk(tmp_path) == [b"one", b"two"]


async def test_the_disk_keeps_to_its_limit(tmp_path: Path, nursery: trio.Nursery) -> None:
    blobs = DiskBlobs(tmp_path, limit=1000)
    nursery.start_soon(blobs.run)
    await trio.testing.wait_all_tasks_blocked()
    for number in range(40):
        put(blobs, f"{number:0100d}".encode())
    await until(lambda: 0 < sum(map(len, on_disk(tmp_path))) <= 1000)


def test_memory_keeps_to_its_limit_and_the_disk_has_the_rest(tmp_path: Path) -> None:
    cache = BlobCache(limit=250, disk=DiskBlobs(tmp_path))
    contents = [bytes([letter]) * 100 for letter in b"abcd"]
    put(cache, *contents)
    assert cache.held <= 250
    assert [cache.get(sha256_of(content)) for content in contents] == contents
