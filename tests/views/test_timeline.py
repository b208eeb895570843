"""The timeline says the same as a look through all changes would, whatever was added, redacted and pruned in which order."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from memfs.model.content import sha256_of
from memfs.model.ids import MemoryId, StoreId, VersionId
from memfs.model.objects import MemoryVersion, Operation
from memfs.views.snapshot import SnapshotFile, SnapshotFolder, snapshot
from memfs.views.timeline import Change, Timeline, change_of, microseconds

_START = datetime(2026, 8, 26, tzinfo=UTC)
_PATHS = ["/a", "/a/b", "/a/b/c", "/d", "/d/b"]


def _version(number: int, memory: int, path: str | None, operation: Operation = "modified") -> MemoryVersion:
    gone = path is None or operation == "deleted"
    return MemoryVersion(
        id=VersionId(f"memver_{number:03}"),
        memory_store_id=StoreId("memstore_1"),
        memory_id=MemoryId(f"mem_{memory}"),
        operation=operation,
        path=path,
        content_sha256=None if gone else sha256_of(b"%d" % number),
        content_size_bytes=None if gone else 1,
        created_at=_START + timedelta(seconds=number),
        redacted_at=_START if path is None else None,
    )


_VERSIONS = st.lists(
    st.builds(
        _version,
        st.integers(0, 99),
        st.integers(0, 3),
        st.sampled_from([*_PATHS, None]),
        st.sampled_from(["modified", "deleted"]),
    ),
    max_size=20,
    unique_by=lambda version: version.id,
)


def _assert_agrees(timeline: Timeline, changes: list[Change]) -> None:
    assert len(timeline) == len(changes)
    memories = {change.memory_id for change in changes}
    for memory in memories:
        expected = sorted((change for change in changes if change.memory_id == memory), key=lambda change: change.time)
        assert list(timeline.lineage(memory)) == expected
    assert sorted(lineage[0].memory_id for lineage in timeline.lineages() if lineage) == sorted(memories)
    for path in _PATHS:
        assert timeline.memories_at(path) == {change.memory_id for change in changes if change.path == path}
        below = {change.path for change in changes if change.path is not None and change.path.startswith(f"{path}/")}
        assert timeline.names_below(f"{path}/") == {other[len(path) + 1 :].split("/")[0] for other in below}
        assert timeline.knows(path) == bool(below or timeline.memories_at(path))
    assert timeline.names_below("/") == {change.path.split("/")[1] for change in changes if change.path is not None}


@settings(max_examples=300, deadline=None)
@given(_VERSIONS, st.data())
def test_adding_redacting_and_pruning(versions: list[MemoryVersion], data: st.DataObject) -> None:
    timeline = Timeline()
    changes: list[Change] = []
    for version in data.draw(st.permutations(versions)):
        assert timeline.add(version) == change_of(version)
        assert timeline.add(version) is None, "a change counts once"
        changes.append(change_of(version))
    _assert_agrees(timeline, changes)
    for _ in range(3):
        memory = MemoryId(f"mem_{data.draw(st.integers(0, 3))}")
        mine = [change for change in changes if change.memory_id == memory]
        kept = data.draw(st.lists(st.sampled_from(mine), unique=True)) if mine else []
        redacted = [
            change_of(_version(int(change.id[-3:]), int(memory[-1:]), None)) if data.draw(st.booleans()) else change
            for change in kept
        ]
        different = [change.time for change in mine if change not in redacted]
        assert timeline.replace(memory, redacted) == min(different, default=None)
        changes = [change for change in changes if change.memory_id != memory] + redacted
        _assert_agrees(timeline, changes)


def _snapshot(changes: list[MemoryVersion], second: int) -> dict[str, str]:
    timeline = Timeline()
    for version in changes:
        timeline.add(version)
    root = None
    for made in snapshot(timeline.lineages(), microseconds(_START + timedelta(seconds=second))):
        root = made
    assert isinstance(root, SnapshotFolder)
    return _flat(root)


def _flat(folder: SnapshotFolder) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, child in folder.children.items():
        if isinstance(child, SnapshotFile):
            found[f"/{name}"] = child.change.id
        else:
            found.update({f"/{name}{path}": version for path, version in _flat(child).items()})
    return found


def test_a_redacted_version_stands_where_the_nearest_one_was() -> None:
    history = [_version(1, 1, "/a"), _version(2, 1, None), _version(3, 1, "/d")]
    assert _snapshot(history, 2) == {"/a": "memver_002"}
    assert _snapshot(history[1:], 2) == {"/d": "memver_002"}
    assert _snapshot(history[1:2], 2) == {}


def test_a_redacted_version_gives_way() -> None:
    history = [_version(1, 1, "/a"), _version(2, 1, None)]
    assert _snapshot([*history, _version(2, 2, "/a")], 3) == {"/a": "memver_002"}
    assert _snapshot([*history, _version(3, 2, "/a/b")], 3) == {"/a/b": "memver_003"}
    assert _snapshot([_version(1, 1, "/a/b"), _version(2, 1, None), _version(3, 2, "/a")], 3) == {"/a": "memver_003"}


def test_a_memory_and_a_prefix_of_one_name_are_both_shown() -> None:
    for history in ([_version(1, 1, "/a"), _version(2, 2, "/a/b")], [_version(2, 2, "/a/b"), _version(1, 1, "/a")]):
        shown = _snapshot(history, 3)
        assert shown["/a/b"] == "memver_002"
        assert len(shown) == 2


def test_within_one_second_creation_comes_first_and_deletion_last() -> None:
    second = {"created_at": _START}
    history = [
        _version(9, 1, "/a", "created").model_copy(update=second),
        _version(5, 1, "/a").model_copy(update=second),
        _version(1, 1, "/a", "deleted").model_copy(update=second),
        _version(3, 2, "/a", "created").model_copy(update=second),
    ]
    assert _snapshot(history, 0) == {"/a": "memver_003"}
