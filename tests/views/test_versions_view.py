"""`.versions` over the real store: what each path was, the store at any time, and what looking costs."""

import itertools
import json
import random
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from memfs.model.errors import NotFound, Redacted, Unavailable
from memfs.model.ids import MemoryId, VersionId
from memfs.model.objects import MemoryVersion, format_time
from memfs.replica.blobs import BlobCache
from memfs.views import history
from memfs.views.names import version_name
from memfs.views.tree import ViewDirectory, ViewFile
from tests.views.worlds import World, read, served_world, sql_world, tree


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[World]:
    async with sql_world(tmp_path, local=True) as world:
        yield world


@pytest.fixture
async def remote(tmp_path: Path) -> AsyncIterator[World]:
    async with sql_world(tmp_path / "remote", local=False) as world:
        yield world


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[World]:
    async with served_world(tmp_path) as world:
        yield world


@pytest.fixture(params=["local", "remote", "served"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    opened = served_world(tmp_path) if request.param == "served" else sql_world(tmp_path, local=request.param == "local")
    async with opened as world:
        yield world


async def _create(world: World, path: str, content: str) -> MemoryId:
    return (await world.service.create_memory(world.store_id, path, content)).id


async def _update(world: World, memory_id: MemoryId, content: str | None = None, path: str | None = None) -> VersionId:
    return (await world.service.update_memory(world.store_id, memory_id, content=content, path=path)).memory_version_id


def _name(version: MemoryVersion, directory: str) -> str:
    return version_name(version.created_at, version.operation, version.id, directory)


async def test_every_version_of_a_path(world: World) -> None:
    memory = await _create(world, "/profile/coffee.md", "black\n")
    await _update(world, memory, "white\n")
    await world.service.delete_memory(world.store_id, memory)
    again = await _create(world, "/profile/coffee.md", "none\n")
    names = await world.ls("profile/coffee.md")
    versions = [*reversed(await world.versions())]
    assert names == sorted(names) == [_name(version, "coffee.md") for version in versions]
    assert [version.operation for version in versions] == ["created", "modified", "deleted", "created"]
    contents = [await world.read(f"profile/coffee.md/{name}") for name in names]
    assert contents == [b"black\n", b"white\n", b"", b"none\n"]
    assert versions[-1].memory_id == again
    for name, version in zip(names, versions, strict=True):
        file = await world.find(f"profile/coffee.md/{name}")
        assert isinstance(file, ViewFile)
        assert file.mtime_ns == int(version.created_at.timestamp()) * 10**9 + version.created_at.microsecond * 1000
        assert file.size == (version.content_size_bytes or 0)
        assert file.direct, "no pages of it stay with the kernel"


async def test_attributes_of_a_version(world: World) -> None:
    memory = await _create(world, "/a.md", "text")
    (name,) = await world.ls("a.md")
    file = await world.find(f"a.md/{name}")
    (version,) = await world.versions()
    assert file is not None
    assert version.content_sha256 is not None
    attributes = {key: value.decode() for key, value in file.xattrs.items()}
    actor = json.loads(attributes.pop("user.memory.created_by"))
    assert actor["type"] == "session_actor"
    assert attributes == {
        "user.memory.id": memory,
        "user.memory.version_id": version.id,
        "user.memory.operation": "created",
        "user.memory.path": "/a.md",
        "user.memory.sha256": version.content_sha256,
        "user.memory.session_id": actor["session_id"],
        "user.memory.created_at": format_time(version.created_at),
        "user.memory.updated_at": format_time(version.created_at),
        "user.memory.state": "stored",
    }


async def test_a_renamed_memory_is_found_under_both_names(world: World) -> None:
    memory = await _create(world, "/old.md", "text")
    await _update(world, memory, path="/new.txt")
    versions = [*reversed(await world.versions())]
    assert await world.ls("new.txt") == [_name(version, "new.txt") for version in versions]
    assert await world.ls("old.md") == [_name(version, "old.md") for version in versions]
    assert sorted(await world.ls("")) == ["new.txt", "old.md"]


async def test_a_new_memory_at_the_name_of_a_renamed_one_shows_both(world: World) -> None:
    memory = await _create(world, "/a.md", "first")
    await _update(world, memory, path="/b.md")
    await _create(world, "/a.md", "second")
    assert len(await world.ls("a.md")) == 3
    assert len(await world.ls("b.md")) == 2


async def test_deleted_paths_are_listed_in_their_directories(world: World) -> None:
    memory = await _create(world, "/docs/old/gone.md", "x")
    await _create(world, "/docs/kept.md", "x")
    await world.service.delete_memory(world.store_id, memory)
    assert await world.ls("docs") == ["kept.md", "old"]
    assert await world.ls("docs/old") == ["gone.md"]
    assert len(await world.ls("docs/old/gone.md")) == 2
    assert await world.find("docs/old/never.md") is None
    assert await world.find("never") is None


async def test_a_path_that_was_a_file_and_became_a_directory_shows_both(world: World) -> None:
    memory = await _create(world, "/a", "file")
    await world.service.delete_memory(world.store_id, memory)
    await _create(world, "/a/b.md", "below")
    created, deleted, child = await world.ls("a")
    assert created.endswith(f"-created-{(await world.versions(operation='created'))[-1].id}")
    assert "-deleted-" in deleted
    assert child == "b.md"
    assert await world.read(f"a/{created}") == b"file"
    assert len(await world.ls("a/b.md")) == 1


async def test_names_that_would_be_mistaken_are_marked(world: World) -> None:
    memory = await _create(world, "/dir", "x")
    (version,) = await world.ls("dir")
    await world.service.delete_memory(world.store_id, memory)
    await _create(world, f"/dir/{version}", "a copy of the version")
    await _create(world, "/@2d", "no time")
    await _create(world, "/@log", "no log")
    await _create(world, "/@@", "at")
    assert await world.ls("") == ["@@2d", "@@@", "@@log", "dir"]
    for name in ("@@2d", "@@@", "@@log"):
        (only,) = await world.ls(name)
        assert await world.read(f"{name}/{only}") in (b"no time", b"no log", b"at")
    assert f"@{version}" in await world.ls("dir")
    assert await world.read(f"dir/{version}") == b"x"
    (copy,) = await world.ls(f"dir/@{version}")
    assert await world.read(f"dir/@{version}/{copy}") == b"a copy of the version"
    assert isinstance(await world.find("@2d"), ViewDirectory)
    assert isinstance(await world.find("@log"), ViewFile)


async def test_long_and_unusual_names(world: World) -> None:
    long = "語" * 100
    await _create(world, f"/{long}/x", "long")
    await _create(world, "/é \\%.md", "é")
    (short,) = [name for name in await world.ls("") if name.startswith("語")]
    assert len(short.encode()) <= 255
    (version,) = await world.ls(f"{short}/x")
    assert await world.read(f"{short}/x/{version}") == b"long"
    assert len(await world.ls("e\u0301 \\%.md")) == 1, "a name in NFD finds its NFC twin"
    assert await tree(await world.directory("@0s")) == {f"/{short}/x": b"long", "/é \\%.md": "é".encode()}
    for illegal in ("\udcff", "a\x01", "..", "x" * 2_000):
        assert await world.find(illegal) is None


async def test_a_redacted_version_keeps_its_name_and_loses_its_words(world: World) -> None:
    memory = await _create(world, "/a.md", "secret")
    await _update(world, memory, "harmless")
    first, second = await world.ls("a.md")
    held = await world.find(f"a.md/{first}")
    assert isinstance(held, ViewFile)
    opened = await held.open()
    assert await opened.read(0, 100) == b"secret"
    before = await world.find(f"@{format_time((await world.versions())[1].created_at)}/a.md")
    assert isinstance(before, ViewFile)
    version = (await world.versions())[1]
    await world.administrator.redact_version(world.store_id, version.id)
    world.wait(3)
    with pytest.raises(Redacted):
        await held.open()
    with pytest.raises(Redacted):
        await opened.read(0, 100)
    assert await world.ls("a.md") == [first, second]
    now = await world.find(f"a.md/{first}")
    assert isinstance(now, ViewFile)
    assert now.key == held.key
    assert now.size == 0
    assert "user.memory.redacted_at" in now.xattrs
    assert "user.memory.path" not in now.xattrs
    with pytest.raises(Redacted):
        await now.open()
    with pytest.raises(Redacted):
        await before.open()
    assert await world.read(f"a.md/{second}") == b"harmless"


async def test_a_listing_alone_clears_a_redacted_content_from_the_cache(world: World) -> None:
    memory = await _create(world, "/a.md", "secret")
    await _update(world, memory, "harmless")
    await world.ls("a.md")
    version = (await world.versions())[1]
    assert version.content_sha256 is not None
    world.blobs.put(version.content_sha256, b"secret")  # as the mount has it until it sees the next version
    await world.administrator.redact_version(world.store_id, version.id)
    world.wait(3)
    await world.ls("a.md")
    assert world.blobs.get(version.content_sha256) is None


async def test_contents_of_versions_are_let_go_within_the_bound(world: World) -> None:
    memory = await _create(world, "/a.md", "secret")
    await _update(world, memory, "harmless")
    (first, _) = await world.ls("a.md")
    file = await world.find(f"a.md/{first}")
    assert isinstance(file, ViewFile)
    opened = await file.open()
    world.wait(1.9)
    assert await opened.read(0, 100) == b"secret"
    assert b"secret" in _held_by(world.history)
    world.wait(0.2)
    assert b"secret" not in _held_by(world.history)
    assert len(world.blobs) == 0, "what the mount shares holds no old version at any time"


def _held_by(held: object) -> list[object]:
    """Every value in the containers of an object of ours."""
    found: list[object] = []
    pending = [*vars(held).values()]
    while pending:
        value = pending.pop()
        found.append(value)
        if isinstance(value, dict):
            pending += [*value.values()]
        elif isinstance(value, BlobCache):
            pending += [*vars(value).values()]
    return found


async def test_a_wholly_redacted_memory_leaves_its_path(world: World) -> None:
    memory = await _create(world, "/secret/a.md", "x")
    await world.service.delete_memory(world.store_id, memory)
    assert len(await world.ls("secret/a.md")) == 2
    for version in await world.versions():
        await world.administrator.redact_version(world.store_id, version.id)
    world.wait(3)
    assert await world.ls("secret/a.md") == []
    assert await world.ls("") == []


def _prune(directory: Path, version: MemoryVersion) -> None:
    """Let a version vanish as retention does, which no endpoint offers."""
    connection = sqlite3.connect(directory / "memory.db")
    with connection:
        tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        (table,) = [name for name in tables if "version" in name and name != "sqlite_sequence"]
        assert connection.execute(f"delete from {table} where id = ?", (version.id,)).rowcount == 1
    connection.close()


async def test_a_pruned_version_goes_away(world: World, tmp_path: Path) -> None:
    memory = await _create(world, "/a.md", "old")
    await _update(world, memory, "new")
    first, second = await world.ls("a.md")
    held = await world.find(f"a.md/{first}")
    assert isinstance(held, ViewFile)
    _prune(tmp_path, (await world.versions())[1])
    world.wait(3)
    with pytest.raises(NotFound):
        await held.open()
    assert await world.ls("a.md") == [second]
    with pytest.raises(NotFound, match="does not keep"):
        await world.find(f"a.md/{first}")


async def test_what_was_just_stored_is_shown_within_the_bound(remote: World) -> None:
    memory = await _create(remote, "/a.md", "1")
    assert len(await remote.ls("a.md")) == 1
    await _update(remote, memory, "2")
    assert len(await remote.ls("a.md")) == 2, "the head is known to be newer than the listing"
    await remote.service.delete_memory(remote.store_id, memory)
    remote.history.expire()
    assert len(await remote.ls("a.md")) == 3


# The whole store at a time


class _Script:
    """Random changes of a store, and what the store held after each of them."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.paths: dict[str, tuple[MemoryId, str]] = {}
        self.states: list[tuple[datetime, dict[str, bytes]]] = []
        self.owners: dict[str, set[MemoryId]] = {}

    def _free_path(self) -> str:
        while True:
            depth = self.random.randint(1, 3)
            path = "".join(f"/{self.random.choice('abcdé@')}" for _ in range(depth))
            in_the_way = (other == path or other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in self.paths)
            if not any(in_the_way):
                return path

    async def step(self) -> None:
        world, choice = self.world, self.random.random()
        content = f"{self.random.randrange(20)}\n" * self.random.randrange(4)
        if len(self.paths) < 3 or (choice < 0.3 and len(self.paths) < 12):
            path = self._free_path()
            self.paths[path] = (await _create(world, path, content), content)
        else:
            path = self.random.choice(sorted(self.paths))
            memory, old = self.paths[path]
            if choice < 0.6:
                if content == old:
                    content = f"{old}more\n"
                await _update(world, memory, content)
                self.paths[path] = (memory, content)
            elif choice < 0.8:
                del self.paths[path]
                path = self._free_path()
                await _update(world, memory, path=path)
                self.paths[path] = (memory, old)
            else:
                await world.service.delete_memory(world.store_id, memory)
                del self.paths[path]
        for path, (memory, _) in self.paths.items():
            self.owners.setdefault(path, set()).add(memory)
        newest = await world.service.list_versions(world.store_id, limit=1)
        state = {path: text.encode() for path, (_, text) in self.paths.items()}
        self.states.append((newest.data[0].created_at, state))


async def _check_instants(world: World, *, seed: int, steps: int, instants: int) -> None:
    script = _Script(world, seed)
    checks = random.Random(seed)
    for number in range(steps):
        await script.step()
        if number % 60 == 30:  # the view follows while the history grows
            world.wait(3)
            assert await tree(await world.directory("@0s")) == script.states[-1][1]
    world.wait(3)
    for place in checks.sample(range(steps - 1), instants):
        time, state = script.states[place]
        later = script.states[place + 1][0]
        instant = time + checks.random() * (later - time - timedelta(microseconds=1))
        zone = checks.choice(["Z", "+00:00"])
        text = instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + zone
        assert await tree(await world.directory(f"@{text}")) == state
    before = script.states[0][0] - timedelta(microseconds=1)
    assert await tree(await world.directory(f"@{format_time(before)}")) == {}


@pytest.mark.parametrize("seed", [1, 2])
async def test_any_instant_shows_what_the_store_held(local: World, remote: World, seed: int) -> None:
    for world in (local, remote):
        await _check_instants(world, seed=seed, steps=300, instants=50)


async def test_any_instant_over_http(served: World) -> None:
    await _check_instants(served, seed=5, steps=70, instants=5)


async def _check_paths(world: World, *, seed: int, steps: int) -> None:
    script = _Script(world, seed)
    for _ in range(steps):
        await script.step()
    versions = await world.versions()
    await world.directory("@0s")  # so that the whole history is known on a service, too
    for path, owners in script.owners.items():
        shown = path[1:] if not path.startswith("/@") else f"@{path[1:]}"
        segment = path.rpartition("/")[2]
        expected = sorted(_name(version, segment) for version in versions if version.memory_id in owners)
        assert [name for name in await world.ls(shown) if name in expected or "memver_" in name] == expected


@pytest.mark.parametrize("seed", [3, 4])
async def test_any_path_shows_every_version_of_every_memory_that_had_it(local: World, remote: World, seed: int) -> None:
    for world in (local, remote):
        await _check_paths(world, seed=seed, steps=300)


async def test_any_path_over_http(served: World) -> None:
    await _check_paths(served, seed=6, steps=40)


async def test_a_rename_does_not_change_the_time_of_a_file(world: World) -> None:
    memory = await _create(world, "/a.md", "text")
    await _update(world, memory, path="/b.md")
    await _update(world, memory, path="/c.md")
    created = (await world.versions())[-1]
    file = await world.find("@0s/c.md")
    assert file is not None
    assert file.mtime_ns == int(created.created_at.timestamp()) * 10**9 + created.created_at.microsecond * 1000
    assert file.ctime_ns > file.mtime_ns


async def test_a_redacted_memory_stands_where_it_was(world: World) -> None:
    memory = await _create(world, "/a.md", "secret")
    await _update(world, memory, "harmless")
    first = (await world.versions())[1]
    await world.administrator.redact_version(world.store_id, first.id)
    file = await world.find(f"@{format_time(first.created_at)}/a.md")
    assert isinstance(file, ViewFile)
    with pytest.raises(Redacted):
        await file.open()


async def test_two_times_share_the_file_that_did_not_change_between(world: World) -> None:
    await _create(world, "/a.md", "same")
    await _create(world, "/b.md", "other")
    second, first = await world.versions()
    one = await world.find(f"@{format_time(first.created_at)}/a.md")
    two = await world.find(f"@{format_time(second.created_at)}/a.md")
    assert one is not None
    assert two is not None
    assert one.key == two.key


# The log


async def test_the_log_is_the_history_newest_first(world: World) -> None:
    memory = await _create(world, "/a\\b.md", "é")
    await world.service.delete_memory(world.store_id, memory)
    versions = await world.versions()
    log = await world.find("@log")
    assert isinstance(log, ViewFile)
    assert log.direct
    lines = [line.split("\t") for line in (await read(log, 7)).decode().splitlines()]
    assert [line[0] for line in lines] == [format_time(version.created_at) for version in versions]
    assert [line[1:4] for line in lines] == [["deleted", "/a\\b.md", "-"], ["created", "/a\\b.md", "2"]]
    assert [line[5] for line in lines] == [version.id for version in versions]
    assert all(line[4].startswith("sesn_") for line in lines)
    objects = [json.loads(line) for line in (await world.read("@log.jsonl")).splitlines()]
    assert [MemoryVersion.model_validate(item) for item in objects] == versions


@pytest.mark.parametrize("name", ["@log", "@log.jsonl"])
async def test_a_delete_that_waits_is_sent_before_the_log_is_read(local: World, name: str) -> None:
    memory = await _create(local, "/a.md", "x")
    log = await local.find(name)
    assert isinstance(log, ViewFile)
    local.paths.held_back.append(memory)
    assert b"deleted" in await read(log)


async def test_a_delete_that_waits_is_sent_before_a_time_is_looked_at(local: World) -> None:
    local.paths.held_back.append(await _create(local, "/a.md", "x"))
    assert await local.ls("@0s") == []


async def test_the_log_is_asked_for_as_it_is_read(remote: World) -> None:
    memory = await _create(remote, "/a.md", "0")
    for number in range(1, 350):
        await _update(remote, memory, str(number))
    log = await remote.find("@log")
    assert isinstance(log, ViewFile)
    content = await log.open()
    assert remote.counted.requests["list_versions"] == 0
    await content.read(0, 4_096)
    assert remote.counted.requests["list_versions"] == 1
    await _update(remote, memory, "newer")
    assert 4_096 < len(await content.read(0, 1 << 20)) < 50_000, "whoever reads much at once gets what there is of it"
    assert remote.counted.requests["list_versions"] == 1
    text = b""
    while piece := await content.read(len(text), 65_536):
        text += piece
    assert remote.counted.requests["list_versions"] == 4
    assert text.count(b"\n") == 350, "a version that came later is not mixed in"
    assert await content.read(0, 100) == text[:100]


# What looking costs


async def test_one_path_costs_its_own_versions(remote: World) -> None:
    for number in range(250):
        await _create(remote, f"/f{number}.md", "x")
    memory = await _create(remote, "/a.md", "0")
    for number in range(1, 150):
        await _update(remote, memory, str(number))
    remote.counted.memory_ids.clear()
    assert len(await remote.ls("a.md")) == 150
    assert remote.counted.memory_ids.count(memory) == 2, "150 versions are two pages"
    assert len(remote.counted.memory_ids) == 4, "beside them: the newest page and the newest deletions, once"
    assert len(await remote.ls("a.md")) == 150
    await remote.ls("f7.md")
    assert len(remote.counted.memory_ids) == 5
    assert "retrieve_version full" not in remote.counted.requests


async def test_a_directory_costs_no_look_at_the_whole_history(remote: World) -> None:
    for number in range(450):
        await _create(remote, f"/docs/f{number}.md", "x")
    for _, memory in zip(range(3), await remote.versions(), strict=False):
        await remote.service.delete_memory(remote.store_id, memory.memory_id)
    assert len(await remote.ls("docs")) == 450
    assert await remote.ls("") == ["docs"]
    assert remote.counted.requests["list_versions"] == 2, "the newest page, and the deletions"
    assert len(await remote.ls("docs/f449.md")) == 2
    assert remote.counted.requests["list_versions"] == 3


async def test_a_name_that_was_renamed_away_long_ago_is_searched_for(remote: World) -> None:
    memory = await _create(remote, "/old/name.md", "x")
    await _update(remote, memory, path="/new.md")
    for number in range(250):
        await _create(remote, f"/f{number}.md", "x")
    assert "old" not in await remote.ls("")
    assert len(await remote.ls("old/name.md")) == 2
    assert "old" in await remote.ls("")
    assert remote.counted.requests["list_versions"] == 5


async def test_a_long_local_history_is_read_as_far_as_needed(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_LOCAL_ENOUGH", 500)
    gone = await _create(local, "/gone.md", "x")
    memory = await _create(local, "/old.md", "x")
    await _update(local, memory, path="/new.md")
    await local.service.delete_memory(local.store_id, gone)
    for number in range(1_000):
        await _create(local, f"/d/f{number}.md", "x")
    assert len(await local.ls("d/f0.md")) == 1
    assert local.counted.requests["list_versions"] == 4, "two pages, the deletions, and the memory's own"
    assert await local.ls("") == ["d", "gone.md", "new.md"]
    assert local.counted.requests["list_versions"] == 4
    assert len(await local.ls("gone.md")) == 2
    assert len(await local.ls("old.md")) == 2
    assert await local.ls("") == ["d", "gone.md", "new.md", "old.md"]


async def test_those_who_ask_at_once_share_the_reading(remote: World) -> None:
    for number in range(250):
        await _create(remote, f"/f{number}.md", "x")
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(remote.ls, "@0s")
    assert remote.counted.requests["list_versions"] == 3


async def test_the_history_is_read_once_and_then_followed(remote: World) -> None:
    for number in range(250):
        await _create(remote, f"/f{number}.md", "x")
    requests = remote.counted.requests
    await remote.directory("@0s")
    assert requests["list_versions"] == 3
    await _create(remote, "/new.md", "x")
    remote.wait(3)
    assert len(await remote.ls("@0s")) == 251
    assert requests["list_versions"] == 4
    assert await remote.find("never.md") is None
    assert requests["list_versions"] == 4


async def test_contents_are_fetched_once(remote: World) -> None:
    memory = await _create(remote, "/a.md", "one")
    await _update(remote, memory, "two")
    names = await remote.ls("a.md")
    requests = remote.counted.requests
    for _ in range(3):
        assert [await remote.read(f"a.md/{name}") for name in names] == [b"one", b"two"]
    assert requests["retrieve_version full"] == 2
    assert requests["retrieve_version basic"] == 0
    file = await remote.find(f"a.md/{names[0]}")
    assert isinstance(file, ViewFile)
    remote.wait(3)
    assert await read(file) == b"one"
    assert await read(file) == b"one"
    assert requests["retrieve_version full"] == 3, "old contents are not kept"
    assert requests["retrieve_version basic"] == 0


async def test_what_a_memory_has_now_is_not_fetched_again(remote: World) -> None:
    memory = await _create(remote, "/a.md", "one")
    (name,) = await remote.ls("a.md")
    head = await remote.service.retrieve_memory(remote.store_id, memory)
    remote.blobs.put(head.content_sha256, b"one")  # as the mount has what was read of it
    remote.wait(3)
    file = await remote.find(f"a.md/{name}")
    assert isinstance(file, ViewFile)
    remote.wait(3)
    assert await read(file) == b"one"
    assert remote.counted.requests["retrieve_version full"] == 0
    assert remote.counted.requests["retrieve_version basic"] == 1, "asked only whether it still exists"


async def test_an_untouched_local_store_is_asked_nothing_again(local: World) -> None:
    await _create(local, "/a.md", "one")
    await local.ls("a.md")
    before = local.counted.requests["list_versions"]
    local.wait(3_600)
    await local.ls("a.md")
    assert local.counted.requests["list_versions"] == before
    await _create(local, "/b.md", "two")
    assert len(await local.ls("b.md")) == 1
    assert sorted(await local.ls("")) == ["a.md", "b.md"]


async def test_a_reading_that_took_too_long_goes_on(remote: World) -> None:
    for number in range(450):
        await _create(remote, f"/f{number}.md", "x")
    pages = itertools.count()
    listed = remote.counted.list_versions

    async def slow(*arguments: object, **named: object) -> object:
        if next(pages) % 2 == 1:
            await trio.sleep(60)
        return await listed(*arguments, **named)  # type: ignore[arg-type]

    remote.counted.list_versions = slow  # type: ignore[method-assign, assignment]
    remote.history.timeout = 0.3
    failures = 0
    while True:
        try:
            folder = await remote.directory("@0s")
            break
        except Unavailable:
            failures += 1
    assert failures >= 4
    assert remote.counted.requests["list_versions"] <= 5 + failures - 4, "each page is read once, unless it was cut off"
    assert len(await folder.entries()) == 450


async def test_many_lineages_of_one_path(remote: World) -> None:
    for number in range(60):
        memory = await _create(remote, "/a.md", str(number))
        await remote.service.delete_memory(remote.store_id, memory)
    names = await remote.ls("a.md")
    assert len(names) == 120
    assert names == sorted(names)
    assert remote.counted.requests["list_versions"] <= 4
    assert await remote.read(f"a.md/{names[-2]}") == b"59"
