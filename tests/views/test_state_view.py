"""`.memfs`: every file says what the mount knows, in the form that its readers parse."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from memfs.replica.notices import Notices
from memfs.views.state import SHOWN_UNSAVED, MountState, StateDirectory, StoreState, Unsaved, status_object
from memfs.views.tree import ViewFile

_START = datetime(2026, 8, 26, 10, 0, tzinfo=UTC)
_NOW = _START + timedelta(minutes=2)

_NOTES = StoreState(
    name="notes",
    store_id="memstore_01a",
    access="read_write",
    reachable=True,
    last_change_poll=_NOW - timedelta(seconds=1.5),
    pending=2,
    refused=1,
    scratch_files=3,
    scratch_bytes=4_000,
    memories=1_234,
    content_bytes=5_000_000,
    cached_bytes=2_000_000,
    cache_limit=64_000_000,
    cache_hits=99,
    cache_misses=1,
    requests={"list_memories": 7, "update_memory": 2},
    unsaved=(Unsaved("/big.bin", "refused", 200_000, _START, "a memory holds UTF-8 text"),),
)
_RULES = StoreState(
    name="rules",
    store_id="memstore_01b",
    access="read_only",
    reachable=False,
    last_change_poll=None,
    pending=0,
    refused=0,
    scratch_files=0,
    scratch_bytes=0,
    memories=None,
    content_bytes=None,
    cached_bytes=0,
    cache_limit=64_000_000,
    cache_hits=0,
    cache_misses=0,
)


def _state(*stores: StoreState) -> MountState:
    return MountState(
        version="1.2.3",
        pid=42,
        mountpoint="/mnt/memory",
        url="https://memory.example",
        session_id="sesn_01x",
        started_at=_START,
        now=_NOW,
        max_staleness=2.0,
        stores=stores,
        errors={"EFBIG": 3},
    )


async def _read(directory: StateDirectory, name: str) -> bytes:
    file = await directory.lookup(name)
    assert isinstance(file, ViewFile)
    content = await file.open()
    pieces: list[bytes] = []
    while piece := await content.read(len(b"".join(pieces)), 1_000):
        pieces.append(piece)
    return b"".join(pieces)


def _directory(notices: Notices | None = None) -> StateDirectory:
    return StateDirectory("memfs", lambda: _state(_NOTES, _RULES), Notices() if notices is None else notices)


async def test_the_directory_lists_what_it_finds() -> None:
    directory = _directory()
    entries = await directory.entries()
    assert [name for name, _ in entries] == ["status", "status.json", "errors", "conflicts", "metrics"]
    for name, listed in entries:
        found = await directory.lookup(name)
        assert isinstance(found, ViewFile)
        assert found.key == listed.key
        assert found.size == len(await _read(directory, name))
    assert len({node.key for _, node in entries}) == 5
    assert await directory.lookup("nothing") is None


async def test_status_is_for_people() -> None:
    text = (await _read(_directory(), "status")).decode()
    assert "known as of 1.5 s ago (bound 2 s)" in text
    assert "STALE: the service does not answer; not read yet" in text
    assert "1,234, 5,000,000 bytes" in text
    assert "refused  /big.bin  200,000 bytes since 2026-08-26T10:00:00.000000Z: a memory holds UTF-8 text" in text
    assert "9 (list_memories 7, update_memory 2)" in text
    assert "99% of reads" in text


async def test_the_status_says_why_the_service_cannot_be_asked() -> None:
    store = StoreState(**{**vars(_RULES), "trouble": "the credential was refused"})
    text = (await _read(StateDirectory("memfs", lambda: _state(store), Notices()), "status")).decode()
    assert "STALE: the credential was refused; not read yet" in text


async def test_status_json_has_every_field() -> None:
    shown = json.loads(await _read(_directory(), "status.json"))
    assert shown == status_object(_state(_NOTES, _RULES))
    assert shown["started_at"] == "2026-08-26T10:00:00.000000Z"
    notes, rules = shown["stores"]
    assert notes["requests"] == {"list_memories": 7, "update_memory": 2}
    assert notes["seconds_since_change_poll"] == 1.5
    assert notes["unsaved"][0]["state"] == "refused"
    assert notes["last_change_poll"] == "2026-08-26T10:01:58.500000Z"
    assert rules["seconds_since_change_poll"] is None


async def test_the_status_names_a_bounded_number_of_unsaved_files() -> None:
    count = SHOWN_UNSAVED + 7
    unsaved = tuple(Unsaved(f"/f{number}", "pending", 1, _START, "") for number in range(count))
    store = StoreState(**{**vars(_NOTES), "pending": count, "unsaved": unsaved})
    directory = StateDirectory("memfs", lambda: _state(store), Notices())
    text = (await _read(directory, "status")).decode()
    assert text.count("  pending  /f") == SHOWN_UNSAVED
    assert text.endswith("  and 7 more\n")
    assert len(json.loads(await _read(directory, "status.json"))["stores"][0]["unsaved"]) == SHOWN_UNSAVED


async def test_a_path_cannot_pretend_to_be_a_line_of_the_status() -> None:
    store = StoreState(**{**vars(_NOTES), "unsaved": (Unsaved("/a\n  refused   0", "pending", 1, _START, ""),)})
    text = (await _read(StateDirectory("memfs", lambda: _state(store), Notices()), "status")).decode()
    assert not any(line.startswith("  refused   0") for line in text.splitlines())


async def test_errors_and_conflicts_are_json_lines_newest_last() -> None:
    notices = Notices()
    directory = _directory(notices)
    empty = await directory.lookup("errors")
    assert empty is not None
    assert await _read(directory, "errors") == b""
    notices.error(store="notes", path="/a", operation="write", error="EFBIG", message="too long")
    notices.error(store="notes", path="/b\udcff", operation="open", error="EILSEQ", message="no name")
    notices.conflict(
        store="notes", path="/a", sidecar="/a.x", our_session="s", their_actor={"type": "api_actor"}, their_version="memver_1"
    )
    first, second = [json.loads(line) for line in (await _read(directory, "errors")).splitlines()]
    assert (first["path"], first["error"], first["message"]) == ("/a", "EFBIG", "too long")
    assert second["path"] == "/b\udcff"
    (conflict,) = [json.loads(line) for line in (await _read(directory, "conflicts")).splitlines()]
    assert conflict["their_actor"] == {"type": "api_actor"}
    assert conflict["time"].endswith("Z")
    changed = await directory.lookup("errors")
    assert changed is not None
    assert changed.mtime_ns > empty.mtime_ns


async def test_an_opened_file_does_not_change_under_its_reader() -> None:
    notices = Notices()
    file = await _directory(notices).lookup("errors")
    assert isinstance(file, ViewFile)
    content = await file.open()
    notices.error(store="notes", path="/a", operation="write", error="EFBIG", message="too long")
    assert await content.read(0, 1_000) == b""
    assert len(await (await file.open()).read(0, 1_000)) == file.size > 0


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("memfs_requests_total", {"store": "notes", "operation": "list_memories"}, 7),
        ("memfs_errors_total", {"errno": "EFBIG"}, 3),
        ("memfs_pending", {"store": "notes"}, 2),
        ("memfs_reachable", {"store": "rules"}, 0),
        ("memfs_staleness_seconds", {"store": "notes"}, 1.5),
        ("memfs_cache_hits_total", {"store": "notes"}, 99),
        ("memfs_conflicts", {}, 1),
        ("memfs_start_time_seconds", {}, _START.timestamp()),
    ],
)
async def test_metrics_parse_as_prometheus_text(name: str, labels: dict[str, str], value: float) -> None:
    notices = Notices()
    notices.conflict(store="notes", path="/a", sidecar="/a.x", our_session="s", their_actor=None, their_version="memver_1")
    text = (await _read(_directory(notices), "metrics")).decode()
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    assert [sample.value for sample in samples] == [value]


async def test_metrics_leave_out_what_is_not_known() -> None:
    text = (await _read(_directory(), "metrics")).decode()
    assert 'memfs_memories{store="notes"} 1234.0' in text
    assert 'memfs_memories{store="rules"}' not in text
