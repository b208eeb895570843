"""`memfs doctor` about the service: the credential, the answer, the clock, a write that comes back."""

import json
from typing import Any

from tests.cli.conftest import Program
from tests.harness.serving import serving_in_thread
from tests.move.test_import import new_store


def findings(output: str) -> dict[str, dict[str, Any]]:
    return {finding["subject"]: finding for finding in map(json.loads, output.splitlines())}


def test_a_healthy_machine_ends_with_nothing_to_do(program: Program) -> None:
    said = program.ok("doctor")
    assert "All that a mount needs is there." in said
    assert "To do:" not in said
    assert not program.database.exists()


def test_a_service_with_its_version_clock_and_credential(program: Program) -> None:
    store = new_store(program)
    with serving_in_thread(store.database.url) as server:
        _, minted = server.keyring.create_key("tests")
        variables = {"MEMFS_URL": server.url, "MEMFS_API_KEY": minted.secret}
        said = program.ok("doctor", "--write", "--json", **variables)
        found = findings(said)
        assert found["credential"]["detail"] == "API key from MEMFS_API_KEY"
        assert found["server"]["detail"].startswith("memfs/")
        assert "agrees" in found["clock"]["detail"]
        assert found["write and read back"]["ok"]
        assert minted.secret not in said
        assert [version.operation for version in store.history()] == ["created", "deleted"]
        assert store.memories() == {}

        done = program.run("doctor", **{**variables, "MEMFS_API_KEY": "wrong"})
        assert done.returncode == 1
        assert "MEMFS_API_KEY" in done.stdout.partition("To do:")[2]

        file = program.root / "key"
        file.write_text(minted.secret)
        file.chmod(0o644)
        found = findings(program.ok("doctor", "--json", "--credentials-file", file, MEMFS_URL=server.url))
        assert "--write" not in found
        assert "write and read back" not in found
    notes = program.run("doctor", "--credentials-file", file, MEMFS_URL=server.url)
    assert notes.returncode == 1  # the server is gone
    assert f"chmod 600 {file}" in notes.stdout
    assert "check $MEMFS_URL" in notes.stdout


def test_a_clock_that_is_wrong() -> None:
    from memfs.cli.service_checks import _skew

    assert _skew(3).ok
    wrong = _skew(-90)
    assert not wrong.failed
    assert wrong.detail == "is 90 s behind the service's"
    assert wrong.remedy


def test_a_machine_without_fuse_is_shown_the_other_way(program: Program) -> None:
    done = program.run("doctor", PATH=str(program.root))
    assert done.returncode == 1
    assert "memfs shadow" in done.stdout
