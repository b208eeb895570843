"""What walks through a store ask the service when nothing is known yet, and when all of it is."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from math import ceil

import pytest

from tests.economy.conftest import Counted, Store
from tests.harness.waiting import eventually

NOTES, DIRECTORIES = 300, 15
SIZE = 500


def path(number: int) -> str:
    return f"/topic-{number % DIRECTORIES:02}/note-{number:03}.md"


def content(number: int) -> str:
    return f"note {number}\n".ljust(SIZE, ".")


@pytest.fixture
def filled(store: Store) -> Store:
    """300 notes in 15 directories."""
    for number in range(NOTES):
        store.api.create_memory(store.id, path(number), content(number))
    return store


def without_polls(requests: Counter[str]) -> Counter[str]:
    return Counter({name: count for name, count in requests.items() if name != "list_versions"})


def asked_so_far(mount: Counted) -> Counter[str]:
    """All that the mount asked about memories since it began: it looks at the root before anybody asks."""
    return Counter(
        {name: count for name, count in without_polls(mount.requests()).items() if not name.endswith(("_store", "_stores"))}
    )


NAMES = ceil(NOTES / 100) + 2
CONTENTS = ceil(NOTES / 20) + NAMES


def see_all_names(mount: Counted, command: str) -> None:
    assert mount.sh(command).count("note-") == NOTES


@pytest.mark.parametrize("command", ["find . -type f", "ls -lR", "find . -type f -size +0", "du -a . | grep note-"])
def test_a_cold_walk_over_names(filled: Store, command: str) -> None:
    with filled.mounted("m") as mount:
        see_all_names(mount, command)
        requests = asked_so_far(mount)
        assert set(requests) == {"list_memories"}
        assert requests["list_memories"] <= NAMES
        with mount.made() as again:
            see_all_names(mount, command)
        assert not without_polls(again)


@pytest.mark.parametrize(
    "command", ["grep -rh '' . | wc -c", "find . -type f -print0 | xargs -0 cat | wc -c", "tar cf - . | tar xfO - | wc -c"]
)
def test_a_cold_walk_over_contents(filled: Store, command: str) -> None:
    with filled.mounted("m") as mount:
        seen = int(mount.sh(command))
        assert seen in (NOTES * SIZE, NOTES * (SIZE + 1))  # grep ends a last line that has no end
        assert sum(asked_so_far(mount).values()) <= CONTENTS
        with mount.made() as again:
            assert int(mount.sh(command)) == seen
        assert not without_polls(again)


def test_a_second_mount_asks_for_no_content(filled: Store) -> None:
    with filled.mounted("first", home="one-user") as mount:
        mount.sh("cat */*")
    with filled.mounted("second", home="one-user") as mount:
        assert len(mount.sh("cat */*")) == NOTES * SIZE
        requests = asked_so_far(mount)
    assert set(requests) == {"list_memories"}
    assert requests["list_memories"] <= NAMES


def test_a_changed_memory_is_all_that_a_second_mount_asks_for(filled: Store) -> None:
    with filled.mounted("first", home="one-user") as mount:
        mount.sh("cat */*")
    memories = filled.api.ok(filled.api.get(f"memory_stores/{filled.id}/memories", path_prefix="/topic-03/"))["data"]
    update = {"content": "changed\n"}
    filled.api.ok(filled.api.post(f"memory_stores/{filled.id}/memories/{memories[0]['id']}", update))
    with filled.mounted("second", home="one-user") as mount:
        assert "changed\n" in mount.sh("cat */*")
        requests = asked_so_far(mount)
    assert requests["retrieve_memory"] == 1
    assert set(requests) == {"list_memories", "retrieve_memory"}


def test_one_directory_is_one_listing(filled: Store) -> None:
    with filled.mounted("m") as mount:
        assert len(mount.sh("ls topic-07").split()) == NOTES / DIRECTORIES
        assert asked_so_far(mount) == {"list_memories": 2}  # the root, to know the name, and the directory
        with mount.made() as requests:
            assert len(mount.sh("ls -l topic-07").splitlines()) == NOTES / DIRECTORIES + 1
            mount.sh("ls -d topic-11 topic-12")
        assert not without_polls(requests)


def test_one_note_is_one_more_request(filled: Store) -> None:
    with filled.mounted("m") as mount:
        mount.sh("ls topic-07")
        with mount.made() as requests:
            assert mount.sh(f"cat .{path(7)}") == content(7)
        assert without_polls(requests) == {"retrieve_memory": 1}
        with mount.made() as requests:
            assert mount.sh(f"cat .{path(7)}; cat .{path(7)}") == content(7) * 2
        assert not without_polls(requests)


def test_a_look_at_the_root_asks_for_nothing_but_its_names(filled: Store) -> None:
    with filled.mounted("m") as mount:
        mount.sh("test ! -e nowhere")  # waits until the mount, which asks by itself, knows the root
        assert len(mount.sh("ls").split()) == DIRECTORIES
        mount.sh("sleep 0.5")
        assert asked_so_far(mount) == {"list_memories": 1}


def test_a_walk_beside_which_others_write_ends_with_what_the_store_has(store: Store) -> None:
    """Directories are complete one after the other; a change behind the walk must not be undone by its end."""
    shelves = ["/a", "/a-b", "/a.d", "/a/b", "/a/b-c", "/a/b/c", "/a0", "/B", "/é", "/z/y/x"]
    made = {path: store.api.create_memory(store.id, path, "old\n") for shelf in shelves for path in _notes(shelf, 30)}
    with store.mounted("m", "--max-staleness", "0.2") as mount, ThreadPoolExecutor(1) as reader:
        walking = reader.submit(mount.sh, "for i in 1 2 3 4 5; do find . -type f >/dev/null; done")
        for number, (path, memory) in enumerate(list(made.items())):
            if number % 3 == 0:
                store.api.ok(store.api.delete(f"memory_stores/{store.id}/memories/{memory['id']}"))
                del made[path]
            elif number % 7 == 0:
                new = f"{path}.new"
                made[new] = store.api.create_memory(store.id, new, "new\n")
        walking.result()
        wanted = Counter(f".{path}" for path in made)

        def difference() -> tuple[Counter[str], Counter[str]]:
            seen = Counter(mount.sh("find . -type f").split())
            return seen - wanted, wanted - seen

        eventually(difference, (Counter(), Counter()), within=5)


def _notes(shelf: str, count: int) -> list[str]:
    return [f"{shelf}/note-{number:02}.md" for number in range(count)]
