"""The official SDKs drive every endpoint of `memfs serve` and understand every answer."""

import json

import pytest

from tests.harness.serving import ServerProcess
from tests.peers.conftest import PYTHON_SDKS, Driver


@pytest.mark.parametrize("kind", ["api_key", "auth_token"])
@pytest.mark.parametrize("sdk", [*PYTHON_SDKS, "node"])
def test_every_endpoint(server: ServerProcess, drive: Driver, sdk: str, kind: str) -> None:
    key_id, secret = server.create_key(sdk)
    program = "every_endpoint.mjs" if sdk == "node" else "every_endpoint.py"
    seen = json.loads(drive(program, server.url, kind, sdk=sdk, PEER_SECRET=secret))
    assert seen["actor"] == {"type": "api_actor", "api_key_id": key_id}
    # The SDKs repeat a 409 by themselves; the header on ours keeps them from it.
    assert seen["precondition"] == ["memory_precondition_failed_error", 1]
    assert seen["delete guard"] == ["memory_precondition_failed_error", 1]
    assert seen["path conflict"] == ["memory_path_conflict_error", 1]
    for refusal in ("wrong path", "redact head", "archived"):
        assert seen[refusal] == ["invalid_request_error", 1]
    for refusal in ("missing", "deleted"):
        assert seen[refusal] == ["not_found_error", 1]
