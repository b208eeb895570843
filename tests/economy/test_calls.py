"""What single calls ask the service: a save is one request and one version, and what needs none makes none."""

import time
from collections import Counter

import pytest

from tests.economy.conftest import Counted, Store
from tests.harness.waiting import eventually

BOUND = 2.0
"""The default of --max-staleness, in seconds."""


def asked(requests: Counter[str]) -> Counter[str]:
    """All but the polls of the change feed, which come by time."""
    return Counter({name: count for name, count in requests.items() if name != "list_versions"})


def versions(store: Store) -> list[str]:
    """Every version's operation, oldest first."""
    answer = store.api.ok(store.api.get(f"memory_stores/{store.id}/memory_versions", limit=100))
    return [version["operation"] for version in reversed(answer["data"])]


def prepared(mount: Counted) -> None:
    """Two notes in a directory that is known, and nothing of their making left to do."""
    mount.sh("mkdir d; echo one > d/a.md; echo two > d/b.md; ls d; cat d/*")


REPLACING = """
import os, tempfile
descriptor, temporary = tempfile.mkstemp(dir="d")
os.write(descriptor, b"replaced")
os.close(descriptor)
os.replace(temporary, "d/a.md")
"""

SAVES = {
    "a save in place": ("echo changed > d/a.md", "update_memory", "modified"),
    "an append": ("echo more >> d/a.md", "update_memory", "modified"),
    "a truncation": ("truncate -s 2 d/a.md", "update_memory", "modified"),
    "an atomic save": ("echo changed > d/.a.md.tmp-1; mv d/.a.md.tmp-1 d/a.md", "update_memory", "modified"),
    "sed -i": ("sed -i s/one/three/ d/a.md", "update_memory", "modified"),
    "python's tempfile and replace": (
        f"python -c '{REPLACING}'",
        "update_memory",
        "modified",
    ),
    "a rename": ("mv d/a.md d/c.md", "update_memory", "modified"),
    "a new note": ("echo new > d/new.md", "create_memory", "created"),
    "touch": ("touch d/empty.md", "create_memory", "created"),
}


@pytest.mark.parametrize("what", SAVES)
def test_one_save_is_one_request_and_one_version(store: Store, what: str) -> None:
    command, method, operation = SAVES[what]
    with store.mounted("m") as mount:
        prepared(mount)
        with mount.made() as requests:
            mount.sh(command)
        assert asked(requests) == {method: 1}
        assert versions(store) == ["created", "created", operation]


def test_an_unlink_is_one_request_within_a_moment(store: Store) -> None:
    with store.mounted("m") as mount:
        prepared(mount)
        with mount.made() as requests:
            mount.sh("rm d/a.md; sleep 0.5")
        assert asked(requests) == {"delete_memory": 1}
        assert versions(store) == ["created", "created", "deleted"]


NOTHING = {
    "mkdir": "mkdir d/sub",
    "rmdir": "mkdir d/sub; rmdir d/sub",
    "a name that is missing": "test ! -e d/missing; test ! -e d/also-missing; test ! -e nowhere",
    "chmod": "chmod 600 d/a.md",
    "times": "touch -d 2020-01-01 d/a.md",
    "the same bytes again": "echo one > d/a.md",
    "reading again": "cat d/a.md d/b.md; grep -r t d; stat d/*; ls -lR",
    "a scratch file": "echo x > d/.a.md.swp; rm d/.a.md.swp",
    "a scratch directory": "mkdir .git; echo x > .git/config; rm -r .git",
}


@pytest.mark.parametrize("what", NOTHING)
def test_no_request(store: Store, what: str) -> None:
    with store.mounted("m") as mount:
        prepared(mount)
        with mount.made() as requests:
            mount.sh(NOTHING[what])
        assert not asked(requests)
        assert versions(store) == ["created", "created"]


def test_an_idle_mount_asks_nothing(store: Store) -> None:
    with store.mounted("m") as mount:
        prepared(mount)
        time.sleep(3 * BOUND)  # until then it was in use
        before = mount.requests()
        time.sleep(3 * BOUND)
        after = mount.requests()
        assert after == before


def test_a_mount_in_use_polls_once_a_bound_at_most(store: Store) -> None:
    with store.mounted("m") as mount:
        prepared(mount)
        began = time.monotonic()
        with mount.made() as requests:
            while time.monotonic() - began < 4 * BOUND:
                mount.sh("cat d/*; ls -l d")
                time.sleep(0.05)
        assert set(requests) == {"list_versions"}
        bounds = (time.monotonic() - began) / BOUND
        assert 1 <= requests["list_versions"] <= bounds + 1


def test_a_mount_of_a_wider_bound_polls_less(store: Store) -> None:
    with store.mounted("m", "--max-staleness", "30") as mount:
        prepared(mount)
        with mount.made() as requests:
            for _ in range(20):
                mount.sh("cat d/*; ls -l d")
                time.sleep(0.1)
        assert not requests


def test_the_end_of_a_mount_leaves_no_superseded_text_on_disk(store: Store) -> None:
    """Who ends a mount right after a save does not leave what was replaced for good: no later poll would drop it."""
    with store.mounted("m", "--max-staleness", "60", home="home") as mount:
        cache = store.root / "home" / "CACHE" / "memfs" / "blobs"

        def kept() -> set[str]:
            return {path.read_text() for path in cache.rglob("*") if path.is_file()}

        mount.sh("echo replaced > a.md; echo removed > b.md; echo kept > c.md")
        eventually(kept, {"replaced\n", "removed\n", "kept\n"}, within=5)
        mount.sh("echo now > a.md; rm b.md")
    assert kept() == {"now\n", "kept\n"}
