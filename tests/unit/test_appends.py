"""Where the bytes of an appender go, whatever the kernel takes the end of the file to be."""

import mmap
import os
from pathlib import Path

import pytest

from memfs.replica.tree import File
from tests.harness.replicas import world

PAGE = mmap.PAGESIZE
APPEND = os.O_WRONLY | os.O_APPEND


@pytest.mark.parametrize(("length", "offset"), [(20, 0), (20, 7), (20, 20), (20, 999), (2 * PAGE, PAGE), (2 * PAGE, 1)])
async def test_an_appender_writes_at_the_end_wherever_the_kernel_sees_it(tmp_path: Path, length: int, offset: int) -> None:
    async with world(tmp_path) as (service, store, replica):
        memory = await service.create_memory(store.id, "/log", "x" * length)
        file = await replica.lookup(replica.root, b"log")
        assert isinstance(file, File)
        handle = await replica.files.open(file, APPEND, 1)
        assert await replica.files.write(handle, offset, b"ours\n") == 5
        await replica.files.flush(handle)
        await replica.files.release(handle)
        stored = await service.retrieve_memory(store.id, memory.id, view="full")
        assert stored.content == "x" * length + "ours\n"


async def test_pages_of_a_mapping_stay_where_they_are_though_an_appender_carries_them(tmp_path: Path) -> None:
    async with world(tmp_path) as (service, store, replica):
        memory = await service.create_memory(store.id, "/log", "x" * 2 * PAGE)
        file = await replica.lookup(replica.root, b"log")
        assert isinstance(file, File)
        mapped = await replica.files.open(file, os.O_RDWR, 1)
        appender = await replica.files.open(file, APPEND, 2)
        await replica.files.write(appender, PAGE, b"m" * PAGE)
        await replica.files.write(appender, PAGE + 5, b"ours\n")
        for handle in (mapped, appender):
            await replica.files.flush(handle)
            await replica.files.release(handle)
        stored = await service.retrieve_memory(store.id, memory.id, view="full")
        assert stored.content == "x" * PAGE + "m" * PAGE + "ours\n"
