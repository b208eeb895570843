"""Model Studio's own SDK drives the emulator."""

import json

from memfs.model.content import sha256_of
from tests.emulators.modelstudio import TOKEN
from tests.harness.dialects import dialect
from tests.peers.conftest import Driver


def test_the_sdk_of_model_studio(drive: Driver) -> None:
    with dialect("modelstudio") as running:
        seen = json.loads(drive("modelstudio_sdk.py", running.url.removeprefix("modelstudio+"), TOKEN, sdk="modelstudio"))
    assert seen["store"] == ["SDK store", "d"]
    assert seen["created"] == ["/notes/a.md", 4, sha256_of(b"one\n")]
    assert (seen["retrieved"], seen["version moved"], seen["renamed"]) == ("one\n", True, "/notes/b.md")
    assert seen["stale"][1] == "memory_precondition_failed_error"
    assert seen["taken"][1] == "memory_path_conflict_error"
    assert [seen[what][1] for what in ("relative", "too many")] == ["invalid_request_error"] * 2
    assert seen["missing"][1] == "not_found_error"
    assert seen["directory"] == [["/notes/b.md"], ["/notes/sub/"]]
    assert seen["full"] == ["two\n", ""]
    assert seen["listed"] == [f"/many/{number}.md" for number in range(5)]
    assert seen["history"] == ["modified", "modified", "created"]
    assert (seen["redacted"], seen["deleted"]) == (True, "memory_deleted")
    assert seen["metadata"] == {"only": "this"}
    assert (seen["archived"], seen["hidden"], seen["shown"]) == (True, [], [True])
