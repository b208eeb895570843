"""Contract section 13, vectors 40 to 43, and 47 as far as it is about attribution: memory versions."""

from datetime import timedelta
from functools import partial

import pytest

from memfs.model.errors import InvalidRequest, NotFound, PermissionDenied
from memfs.model.ids import ApiKeyId, SessionId, VersionId
from memfs.model.objects import ApiActor, MemoryVersion, Operation, SessionActor, Store
from memfs.stores.base import MemoryStore
from tests.contract.backends import Participant, ServiceFactory
from tests.contract.reading import pages, versions


def _ids(found: list[MemoryVersion]) -> list[VersionId]:
    return [version.id for version in found]


@pytest.mark.needs("rename")
async def test_40_the_history_of_a_memory(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    await service.create_memory(store.id, "/other", "x")
    await service.update_memory(store.id, memory.id, content="two")
    await service.update_memory(store.id, memory.id, path="/b")
    await service.delete_memory(store.id, memory.id)
    history = await versions(service, store, memory_id=memory.id)
    assert [(version.operation, version.path, version.content) for version in history] == [
        ("deleted", "/b", None),
        ("modified", "/b", None),
        ("modified", "/a", None),
        ("created", "/a", None),
    ]
    assert (history[0].content_sha256, history[0].content_size_bytes) == (None, None)
    assert [version.content_size_bytes for version in history[1:]] == [3, 3, 3]
    full = await versions(service, store, memory_id=memory.id, view="full")
    assert [version.content for version in full] == [None, "two", "two", "one"]
    times = [version.created_at for version in history]
    assert times == sorted(times, reverse=True)
    assert await service.retrieve_version(store.id, history[0].id) == full[0]
    assert await service.retrieve_version(store.id, history[3].id) == full[3]
    assert await service.retrieve_version(store.id, history[3].id, view="basic") == history[3]


async def test_40_versions_have_pages(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "0")
    for number in range(1, 25):
        await service.update_memory(store.id, memory.id, content=str(number))
    newest_first = [str(number) for number in reversed(range(25))]

    async def list_full(**parameters: object):  # type: ignore[no-untyped-def]
        return await service.list_versions(store.id, view="full", **parameters)  # type: ignore[arg-type]

    for limit in (1, 7, 24, 25, 26, 100):
        found = await pages(partial(service.list_versions, store.id), view="full", limit=limit)
        assert [version.content for page in found for version in page] == newest_first
        assert all(len(page) == min(limit, 20) for page in found[:-1])
    assert len((await service.list_versions(store.id, limit=100)).data) == 25


@pytest.mark.needs("bound cursors")
async def test_40_a_cursor_of_versions_fits_its_own_list_only(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "0")
    await service.update_memory(store.id, memory.id, content="1")
    page = (await service.list_versions(store.id, memory_id=memory.id, limit=1)).next_page
    assert page is not None
    assert len((await service.list_versions(store.id, memory_id=memory.id, page=page)).data) == 1
    with pytest.raises(InvalidRequest):
        await service.list_versions(store.id, page=page)
    with pytest.raises(InvalidRequest):
        await service.list_versions(store.id, memory_id=memory.id, operation="created", page=page)


async def test_41_filters(service_factory: ServiceFactory, owner: Participant, store: Store) -> None:
    service = owner.service
    session = await service_factory.session(store.id)
    assert isinstance(owner.actor, ApiActor)
    assert isinstance(session.actor, SessionActor)
    key_id, session_id = owner.actor.api_key_id, session.actor.session_id
    assert key_id is not None
    first = await service.create_memory(store.id, "/first", "1")
    second = await session.service.create_memory(store.id, "/second", "1")
    await session.service.update_memory(store.id, first.id, content="2")
    await service.update_memory(store.id, second.id, content="2")
    await service.delete_memory(store.id, first.id)
    everything = await versions(service, store)
    assert len(everything) == 5

    async def check(
        *,
        memory: str | None = None,
        operation: Operation | None = None,
        by: str | None = None,
        gte: int | None = None,
        lte: int | None = None,
    ) -> None:
        """All filters narrow; times are those of the version at a position of `everything`."""
        expected = [
            version.id
            for version in everything
            if (memory is None or version.memory_id == memory)
            and (operation is None or version.operation == operation)
            and (by is None or version.created_by == (session.actor if by == "session" else owner.actor))
            and (gte is None or version.created_at >= everything[gte].created_at)
            and (lte is None or version.created_at <= everything[lte].created_at)
        ]
        found = await versions(
            service,
            store,
            memory_id=memory,
            operation=operation,
            session_id=session_id if by == "session" else None,
            api_key_id=key_id if by == "key" else None,
            created_at_gte=None if gte is None else everything[gte].created_at,
            created_at_lte=None if lte is None else everything[lte].created_at,
            limit=2,
        )
        assert _ids(found) == expected

    operations: list[Operation | None] = [None, "created", "modified", "deleted"]
    for memory in (None, first.id, second.id):
        for operation in operations:
            for by in (None, "session", "key"):
                for gte, lte in ((None, None), (3, None), (None, 1), (3, 1), (2, 2)):
                    await check(memory=memory, operation=operation, by=by, gte=gte, lte=lte)


async def test_41_filters_that_match_nothing(service: MemoryStore, owner: Participant, store: Store) -> None:
    await service.create_memory(store.id, "/a", "x")
    (version,) = await versions(service, store)
    assert isinstance(owner.actor, ApiActor)
    key_id = owner.actor.api_key_id
    assert key_id is not None
    assert await versions(service, store, memory_id="mem_01nothing") == []
    assert await versions(service, store, session_id=SessionId("sesn_01nothing")) == []
    assert await versions(service, store, session_id=SessionId(key_id)) == []
    assert await versions(service, store, api_key_id=ApiKeyId("apikey_é")) == []
    assert await versions(service, store, service_account_id="svac_01nothing") == []
    assert await versions(service, store, api_key_id=key_id, session_id=SessionId("sesn_01nothing")) == []
    assert await versions(service, store, created_at_gte=version.created_at + timedelta(microseconds=1)) == []
    assert await versions(service, store, created_at_lte=version.created_at - timedelta(microseconds=1)) == []


async def test_42_the_head_is_not_redacted(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "secret")
    before = await service.retrieve_version(store.id, memory.memory_version_id)
    with pytest.raises(InvalidRequest):
        await service.redact_version(store.id, memory.memory_version_id)
    assert await service.retrieve_version(store.id, memory.memory_version_id) == before
    assert (await service.retrieve_memory(store.id, memory.id)).content == "secret"


@pytest.mark.needs("actors", "redacted path")
async def test_42_an_old_version_is_redacted(service_factory: ServiceFactory, owner: Participant, store: Store) -> None:
    service = owner.service
    session = await service_factory.session(store.id)
    memory = await session.service.create_memory(store.id, "/a", "secret")
    changed = await session.service.update_memory(store.id, memory.id, content="public")
    before = await service.retrieve_version(store.id, memory.memory_version_id)
    redacted = await service.redact_version(store.id, memory.memory_version_id)
    assert redacted.redacted_at is not None
    assert redacted == before.model_copy(
        update={
            "path": None,
            "content": None,
            "content_sha256": None,
            "content_size_bytes": None,
            "redacted_at": redacted.redacted_at,
            "redacted_by": owner.actor,
        }
    )
    assert redacted.created_by == session.actor
    assert await service.retrieve_version(store.id, redacted.id) == redacted
    assert (await versions(service, store, view="full"))[1] == redacted
    assert (await service.retrieve_memory(store.id, memory.id)).content == "public"
    assert (await service.retrieve_version(store.id, changed.memory_version_id)).content == "public"
    # Section 14, choice 10: the first redaction stays.
    other = await service_factory.key()
    assert await other.service.redact_version(store.id, redacted.id) == redacted


@pytest.mark.needs("rename")
async def test_42_a_rename_has_content_of_its_own(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "kept")
    await service.update_memory(store.id, memory.id, path="/b")
    await service.redact_version(store.id, memory.memory_version_id)
    assert (await service.retrieve_memory(store.id, memory.id)).content == "kept"


@pytest.mark.needs("permissions")
async def test_42_a_session_cannot_redact(service_factory: ServiceFactory, store: Store) -> None:
    session = await service_factory.session(store.id)
    memory = await session.service.create_memory(store.id, "/a", "one")
    await session.service.update_memory(store.id, memory.id, content="two")
    with pytest.raises(PermissionDenied):
        await session.service.redact_version(store.id, memory.memory_version_id)
    assert (await session.service.retrieve_version(store.id, memory.memory_version_id)).content == "one"


@pytest.mark.needs("redacted path")
async def test_43_all_versions_of_a_deleted_memory_are_redacted(service: MemoryStore, store: Store) -> None:
    memory = await service.create_memory(store.id, "/a", "one")
    await service.update_memory(store.id, memory.id, content="two")
    await service.delete_memory(store.id, memory.id)
    history = await versions(service, store, memory_id=memory.id)
    assert len(history) == 3
    for version in history:
        assert (await service.redact_version(store.id, version.id)).path is None
    assert all(version.redacted_at for version in await versions(service, store, memory_id=memory.id))


@pytest.mark.parametrize("version_id", ["memver_01nothing", "memver_\0", "memver_é"])
async def test_43_unknown_versions_are_not_found(service: MemoryStore, store: Store, version_id: str) -> None:
    with pytest.raises(NotFound):
        await service.retrieve_version(store.id, VersionId(version_id))
    with pytest.raises(NotFound):
        await service.redact_version(store.id, VersionId(version_id))


@pytest.mark.needs("actors")
async def test_47_every_write_names_its_actor(service_factory: ServiceFactory, owner: Participant, store: Store) -> None:
    session = await service_factory.session(store.id)
    memory = await owner.service.create_memory(store.id, "/a", "x")
    await session.service.update_memory(store.id, memory.id, content="1")
    await owner.service.update_memory(store.id, memory.id, path="/b")
    await session.service.delete_memory(store.id, memory.id)
    authors = [version.created_by for version in await versions(owner.service, store)]
    assert authors == [session.actor, owner.actor, session.actor, owner.actor]
