"""The contract's objects (section 2) as the wire shows them."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from memfs.model.content import EMPTY_SHA256
from memfs.model.objects import (
    Actor,
    ApiActor,
    DeletedMemory,
    DeletedStore,
    Memory,
    MemoryPrefix,
    MemoryVersion,
    Page,
    ServiceAccountActor,
    SessionActor,
    Store,
    UnknownActor,
    UserActor,
    format_time,
)

TIME = "2026-08-25T05:52:19.185042Z"
MEMORY = {
    "id": "mem_1",
    "type": "memory",
    "memory_store_id": "memstore_1",
    "memory_version_id": "memver_1",
    "path": "/a.md",
    "content": None,
    "content_sha256": EMPTY_SHA256,
    "content_size_bytes": 0,
    "created_at": TIME,
    "updated_at": TIME,
}
VERSION = {
    "id": "memver_1",
    "type": "memory_version",
    "memory_store_id": "memstore_1",
    "memory_id": "mem_1",
    "operation": "deleted",
    "path": "/a.md",
    "content": None,
    "content_sha256": None,
    "content_size_bytes": None,
    "created_at": TIME,
    "created_by": {"type": "session_actor", "session_id": "sesn_1"},
    "redacted_at": None,
    "redacted_by": None,
}
STORE: dict[str, Any] = {
    "id": "memstore_1",
    "type": "memory_store",
    "name": "Notes",
    "description": "",
    "metadata": {},
    "created_at": TIME,
    "updated_at": TIME,
    "archived_at": None,
}


@pytest.mark.parametrize(("kind", "wire"), [(Memory, MEMORY), (MemoryVersion, VERSION), (Store, STORE)])
def test_an_object_is_on_the_wire_as_it_came(kind: Any, wire: dict[str, Any]) -> None:
    assert json.loads(kind.model_validate_json(json.dumps(wire)).model_dump_json()) == wire


def test_small_objects_on_the_wire() -> None:
    assert MemoryPrefix(path="/x/").model_dump() == {"type": "memory_prefix", "path": "/x/"}
    assert DeletedMemory(id="mem_1").model_dump() == {"id": "mem_1", "type": "memory_deleted"}
    assert DeletedStore(id="memstore_1").model_dump() == {"id": "memstore_1", "type": "memory_store_deleted"}
    assert Page[MemoryPrefix](data=[]).model_dump() == {"data": [], "next_page": None}


def test_fields_of_a_newer_service_are_ignored() -> None:
    assert Memory.model_validate({**MEMORY, "mood": "fine"}) == Memory.model_validate(MEMORY)


def test_fields_that_older_services_leave_out_have_defaults() -> None:
    wire = {name: value for name, value in STORE.items() if name not in ("description", "metadata", "archived_at")}
    assert Store.model_validate(wire) == Store.model_validate(STORE)


def test_objects_do_not_change() -> None:
    memory = Memory.model_validate(MEMORY)
    with pytest.raises(ValidationError):
        memory.path = "/b"  # type: ignore[misc]


def test_times_are_utc_with_microseconds() -> None:
    assert format_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05.000000Z"
    assert format_time(datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-02T01:04:05.000006Z"
    for text in ("2026-08-25T05:52:19Z", "2026-08-25T05:52:19.5Z", "2026-08-25T07:52:19+02:00"):
        memory = Memory.model_validate({**MEMORY, "created_at": text})
        assert memory.created_at.utcoffset() is not None
        assert json.loads(memory.model_dump_json())["created_at"].endswith("Z")


@pytest.mark.parametrize(
    ("wire", "actor"),
    [
        ({"type": "session_actor", "session_id": "sesn_1"}, SessionActor(session_id="sesn_1")),
        ({"type": "api_actor", "api_key_id": "apikey_1"}, ApiActor(api_key_id="apikey_1")),
        ({"type": "user_actor", "user_id": "user_1"}, UserActor(user_id="user_1")),
        ({"type": "service_account_actor", "service_account_id": "svac_1"}, ServiceAccountActor(service_account_id="svac_1")),
    ],
)
def test_actors_are_told_apart_by_their_type(wire: dict[str, str], actor: Actor) -> None:
    found: Actor = TypeAdapter(Actor).validate_python(wire)
    assert found == actor
    assert type(found) is type(actor)
    assert found.model_dump() == wire


def test_an_actor_of_an_unknown_type_keeps_what_it_says() -> None:
    wire = {"type": "martian_actor", "martian_id": "mars_1"}
    found: Actor = TypeAdapter(Actor).validate_python(wire)
    assert isinstance(found, UnknownActor)
    assert found.model_dump() == wire


def test_an_actor_has_an_id() -> None:
    for kind, name in ((SessionActor, "session_id"), (UserActor, "user_id"), (ServiceAccountActor, "service_account_id")):
        with pytest.raises(ValidationError):
            kind.model_validate({name: ""})
