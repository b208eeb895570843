"""Tablestore's own SDKs, for Python and for Node, drive the emulator."""

import json
import os

import pytest

from tests.emulators.tablestore import INSTANCE, KEY
from tests.harness.dialects import dialect
from tests.peers.conftest import Driver


@pytest.mark.parametrize("sdk", ["tablestore", "node"])
def test_the_sdks_of_tablestore(drive: Driver, sdk: str) -> None:
    with dialect("tablestore") as running:
        endpoint = running.url.removeprefix("tablestore+").partition("?")[0]
        program = "tablestore_sdk.mjs" if sdk == "node" else "tablestore_sdk.py"
        trusted = os.environ["SSL_CERT_FILE"]
        seen = json.loads(drive(program, endpoint, INSTANCE, KEY, sdk=sdk, NODE_EXTRA_CA_CERTS=trusted))
    assert seen["mode"] == "filemem"
    assert (seen["added"], seen["got"]) == (["/notes/a.md", 4, False], "one\n")
    assert seen["updated"] == ["/b.md", True]
    assert [seen[what][0] for what in ("stale", "taken", "missing", "no files", "wrong key")] == [409, 409, 404, 400, 403]
    assert seen["listed"] == ["/b.md", *(f"/many/{number}.md" for number in range(5))]
    assert seen["directory"] == [["memoryfile", "/b.md"], ["memoryfile_prefix", "/many/"]]
    assert seen["history"] == ["modified", "created"]
    assert seen["actor"] == {"actorType": "session", "actorId": "s1"}
    assert (seen["old content"], seen["redacted"], seen["deleted"]) == ("one\n", True, True)
    assert seen["memories"] == ["the user likes oolong tea"]
    assert seen["search"] == [["the user likes oolong tea"], []]
    assert seen["stores"] == ["sdk_chats", "sdk_files"]
