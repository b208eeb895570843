"""A mount of OMA: every memory is shown once, whatever its name, and edits go back to the memory that they belong to."""

from collections import Counter
from pathlib import Path

import pytest
import trio

from memfs.model.objects import Store
from memfs.stores.credentials import Credentials
from memfs.stores.managed import open_managed
from tests.harness.mounts import force_unmount
from tests.harness.oma import KEY, Oma, oma
from tests.harness.serving import memfs

PATHS = [
    "/plain.md",
    "/a",
    "/a/b",
    "/a/b/c.md",
    "/B.md",
    "/b.md",
    "/_c.md",
    "/back\\slash.md",
    "/with space.md",
    "/" + "x" * 1023,
    "/" + "y" * 300 + "/below.md",
    "/%2e.md",
    "/é.md",
    "/.versions",
    "/.hidden",
    *(f"/many/{number:03}.md" for number in range(130)),
]


def fill(service: Oma) -> Store:
    """A store with a memory at each of `PATHS`, whose content is its path."""

    async def work() -> Store:
        client = await open_managed(service.url, credentials=Credentials(environment={"MEMFS_API_KEY": KEY}))
        store = await client.create_store("Notes")
        for path in PATHS:
            await client.create_memory(store.id, path, path)
        await client.aclose()
        return store

    return trio.run(work)


def test_every_memory_is_shown_once_and_stays_itself(tmp_path: Path) -> None:
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    with oma() as service:
        fill(service)
        ids = {memory["path"]: memory["id"] for memory in service.memories.values()}
        try:
            memfs("mount", str(mountpoint), "--url", service.url, ANTHROPIC_API_KEY=KEY)
            root = mountpoint / "notes"
            shown = Counter(path.read_text() for path in root.rglob("*") if path.is_file())
            assert shown == Counter(PATHS)
            # Two edits within one of OMA's seconds, each seen at once, and each a version of the same memory.
            for text in ("first edit", "second edit"):
                (root / "plain.md").write_text(text)
                assert (root / "plain.md").read_text() == text
            (root / "many" / "000.md").rename(root / "many" / "renamed.md")
            (root / "new.md").write_text("new")
            (root / "b.md").unlink()
            memfs("umount", str(mountpoint))
        finally:
            force_unmount(mountpoint)
        memories = {memory["path"]: memory for memory in service.memories.values()}
        moved = {"/many/000.md", "/b.md"}
        assert set(memories) == (set(PATHS) - moved) | {"/many/renamed.md", "/new.md"}
        assert memories["/plain.md"]["id"] == ids["/plain.md"]
        assert memories["/many/renamed.md"]["id"] == ids["/many/000.md"]
        assert service.contents[memories["/plain.md"]["memory_version_id"]] == "second edit"
        changes = [(v["operation"], v["path"]) for v in service.versions[len(PATHS) :]]
        assert sorted(changes) == [
            ("created", "/new.md"),
            ("deleted", "/b.md"),
            ("modified", "/many/renamed.md"),
            ("modified", "/plain.md"),
            ("modified", "/plain.md"),
        ]


def test_oma_where_it_is_found_by_default(tmp_path: Path) -> None:
    """``http://localhost:PORT`` and nothing else to say: a first store is made where there is none."""
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    with oma() as service:
        try:
            memfs("mount", str(mountpoint), "--url", service.url.replace("127.0.0.1", "localhost"), MEMFS_AUTH_TOKEN=KEY)
            (store,) = service.stores.values()
            assert store["name"] == "Memory"
            (mountpoint / "memory" / "hello.md").write_text("hello")
            memfs("umount", str(mountpoint))
        finally:
            force_unmount(mountpoint)
        assert [memory["path"] for memory in service.memories.values()] == ["/hello.md"]


@pytest.mark.parametrize("key", ["wrong", ""])
def test_a_wrong_key_is_told_in_one_line(tmp_path: Path, key: str) -> None:
    with oma() as service:
        refused = memfs("mount", str(tmp_path), "--url", service.url, check=False, MEMFS_API_KEY=key)
        assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (1, "", 1)
        assert "401" in refused.stderr
