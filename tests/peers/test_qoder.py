"""Qoder's own SDK drives the emulator, and our client sees what it did."""

import json
from typing import Any

import pytest
import trio

from memfs.model.ids import StoreId
from memfs.model.objects import Memory, UserActor
from memfs.stores.base import MemoryStore
from memfs.stores.credentials import Credentials
from memfs.stores.open import open_service
from tests.emulators.qoder import TOKEN, Qoder
from tests.harness.dialects import dialect
from tests.peers.conftest import Driver


@pytest.mark.parametrize("paging", ["pages", "ids"])
def test_the_sdk_of_qoder(drive: Driver, paging: str) -> None:
    with dialect("qoder-memory") as running:
        assert isinstance(running.emulator, Qoder)
        running.emulator.guesses.paging = "pages" if paging == "pages" else "ids"
        base_url = running.url.removeprefix("qoder+")
        seen = json.loads(drive("qoder_sdk.py", base_url, TOKEN, sdk="qoder"))
        assert seen["store"] == ["SDK store", "active", {"team": "a"}]
        assert seen["created"] == ["notes/a.md", "one\n", 4, {"k": "v"}]
        assert (seen["retrieved"], seen["updated"]) == ("one\n", "two\n")
        assert seen["metadata"] == [{"k": "v"}, {"m": "w"}]
        assert [seen[what][1] for what in ("stale", "taken", "blank", "absolute", "missing")] == [409, 409, 400, 400, 404]
        # The SDK follows next_page only: by ids it stops after the first page, which is what our client must not do.
        assert len(seen["listed"]) == (6 if paging == "pages" else 2)
        assert seen["history"] == ["updated", "updated", "created"]
        assert (seen["old content"], seen["redacted"]) == ("one\n", None)
        assert seen["deleted"] == [True, "memory_deleted"]
        assert seen["renamed store"] == "Other"
        assert seen["archived"] == ["archived", True]
        assert seen["write to archived"][1] == 409

        async def ours(service: MemoryStore) -> tuple[list[str], list[str]]:
            store_id = StoreId(seen["store id"])
            found: list[str] = []
            page: str | None = None
            while True:
                answer = await service.list_memories(store_id, limit=2, page=page)
                found += [item.path for item in answer.data if isinstance(item, Memory)]
                page = answer.next_page
                if page is None:
                    break
            versions = (await service.list_versions(store_id, limit=100)).data
            return sorted(found), [version.operation for version in versions]

        async def main() -> Any:
            service = await open_service(
                running.url, actor=UserActor(user_id="user_tests"), credentials=Credentials(environment=running.environment)
            )
            try:
                return await ours(service)
            finally:
                await service.aclose()

        paths, operations = trio.run(main)
        assert paths == [f"/many/{number}.md" for number in range(5)]
        assert operations == ["deleted", *["created"] * 5, "modified", "modified", "created"]
