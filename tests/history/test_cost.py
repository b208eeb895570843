"""What a look at a long history asks of a service, counted by the service."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memfs.model.content import sha256_of
from tests.harness.oma import KEY_ID
from tests.history.sites import Site, site

VERSIONS = 2_000
OTHERS = 100_000
PAGE = 100


def fill(place: Site) -> None:
    """One memory with 2,000 versions among 100,000 others, written behind the service's back."""
    assert place.oma is not None
    state = place.oma
    (store,) = state.stores
    began = datetime.now(UTC) - timedelta(days=2)

    def version(number: int, memory: str, operation: str, path: str, text: str) -> dict[str, object]:
        identity = f"memver_oma9{number:07}"
        state.contents[identity] = text
        return {
            "id": identity,
            "type": "memory_version",
            "memory_store_id": store,
            "memory_id": memory,
            "operation": operation,
            "path": path,
            "content_sha256": sha256_of(text.encode()),
            "content_size_bytes": len(text),
            "created_at": (began + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "created_by": {"type": "api_actor", "api_key_id": KEY_ID},
            "redacted_at": None,
            "redacted_by": None,
        }

    step = (OTHERS + VERSIONS) // VERSIONS
    count = 0
    for number in range(OTHERS + VERSIONS):
        if number % step == 0 and count < VERSIONS:
            operation = "modified" if count else "created"
            state.versions.append(version(number, "mem_long", operation, "/long.md", f"{count}\n"))
            count += 1
        else:
            state.versions.append(version(number, f"mem_{number % 500}", "modified", f"/f{number % 500}.md", "x"))
    assert count == VERSIONS
    newest: dict[object, dict[str, object]] = {one["memory_id"]: one for one in state.versions}
    for memory, last in newest.items():
        state.memories[str(memory)] = {
            "id": memory,
            "type": "memory",
            "memory_store_id": store,
            "memory_version_id": last["id"],
            "path": last["path"],
            "content_sha256": last["content_sha256"],
            "content_size_bytes": last["content_size_bytes"],
            "created_at": last["created_at"],
            "updated_at": last["created_at"],
        }


def test_one_path_and_the_log_of_a_store_with_100_000_versions(tmp_path: Path) -> None:
    with site("oma", tmp_path, "--max-staleness", "60", "--timeout", "60") as place:
        fill(place)
        place.program.ok("umount", place.mountpoint)
        place.mount("--max-staleness", "60", "--timeout", "60")
        assert place.oma is not None
        state = place.oma

        def asked(command: Callable[[], object]) -> int:
            """How many requests for versions `command` costs."""
            before = sum(request.endswith("/memory_versions") for request in state.requests)
            command()
            return sum(request.endswith("/memory_versions") for request in state.requests) - before

        assert (place.here / "long.md").read_text() == "1999\n"
        assert asked(lambda: _expect(place.sh("head -n 10 .versions/@log | wc -l"), "10\n")) == 1
        assert asked(lambda: _expect(place.sh("head -n 1 .versions/@log.jsonl | jq -r .type"), "memory_version\n")) == 1
        own = VERSIONS // PAGE
        cost = asked(lambda: _expect(place.sh("ls .versions/long.md | wc -l"), f"{VERSIONS}\n"))
        assert own <= cost <= own + 2, "its own versions; and once the newest page, and the deletions"
        assert asked(lambda: _expect(place.sh("ls .versions/long.md | wc -l"), f"{VERSIONS}\n")) == 0
        assert asked(lambda: _expect(place.sh("cat .versions/long.md/*-created-*"), "0\n")) == 0
        others = sum(version["path"] == "/f7.md" for version in state.versions)
        assert asked(lambda: _expect(place.sh("ls .versions/f7.md | wc -l"), f"{others}\n")) == -(-others // PAGE)
        cost = asked(lambda: _expect(str(len(place.versions("long.md"))), str(VERSIONS)))
        assert own <= cost <= own + 2
        assert asked(lambda: place.memfs("log", place.here / "long.md", "-n", "5")) <= 2


def _expect(found: str, wanted: str) -> None:
    assert found == wanted
