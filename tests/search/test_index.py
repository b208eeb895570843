"""The index itself, over a replica without a mount."""

from pathlib import Path

import pytest
import trio

from memfs.replica.index import SearchIndex
from tests.harness.replicas import world


async def test_words_of_old_versions_leave_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfs.replica.index.WIPE_SECONDS", 0.2)
    async with world(tmp_path) as (service, store, replica):
        index = SearchIndex(replica.attached, replica.listing, replica.feed)
        memory = await service.create_memory(store.id, "/secret.md", "the password is xyzzyplugh 芝麻开门")
        await service.create_memory(store.id, "/other.md", "something else")
        assert [hit.path for hit in (await index.search("xyzzyplugh", limit=5)).hits] == ["/secret.md"]
        assert b"xyzzyplugh" in index.dump()
        await service.update_memory(store.id, memory.id, content="nothing to see")
        await service.redact_version(store.id, memory.memory_version_id)
        await trio.sleep(0.2)
        assert (await index.search("xyzzyplugh", limit=5)).hits == []
        await trio.sleep(0.5)
        held = index.dump()
        assert b"xyzzyplugh" not in held
        assert "芝麻".encode() not in held
        assert b"something" in held


async def test_path_and_heading_weigh_more_than_the_text(tmp_path: Path) -> None:
    async with world(tmp_path) as (service, store, replica):
        index = SearchIndex(replica.attached, replica.listing, replica.feed)
        await service.create_memory(store.id, "/a.md", "zebra " + "word " * 50)
        await service.create_memory(store.id, "/b.md", "# Zebra\n\n" + "word " * 50)
        await service.create_memory(store.id, "/animals/zebra.md", "word " * 50)
        found = await index.search("zebra", limit=5)
        assert [hit.path for hit in found.hits] == ["/animals/zebra.md", "/b.md", "/a.md"]
        assert (found.searched, found.missing, found.reason) == (3, 0, "")


async def test_an_edit_costs_no_second_reading_of_the_store(tmp_path: Path) -> None:
    async with world(tmp_path) as (service, store, replica):
        index = SearchIndex(replica.attached, replica.listing, replica.feed)
        for number in range(60):
            await service.create_memory(store.id, f"/{number}.md", f"memory {number}")
        await index.search("memory", limit=5)
        listed: list[object] = []
        list_memories = service.list_memories

        async def counting(*arguments: object, **parameters: object) -> object:
            listed.append(parameters)
            return await list_memories(*arguments, **parameters)  # type: ignore[arg-type]

        service.list_memories = counting  # type: ignore[method-assign, assignment]
        await service.create_memory(store.id, "/new.md", "a quokka")
        await trio.sleep(0.2)
        assert [hit.path for hit in (await index.search("quokka", limit=5)).hits] == ["/new.md"]
        assert listed == []
