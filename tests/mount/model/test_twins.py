"""Random system calls of two processes, on a mount and on a plain directory: results, errors, contents and listings agree.

`MODEL_STEPS` sets how many steps are made in all. What hypothesis finds it shrinks, and tries first in the next run; what was
found is kept in `KEPT` for good.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.harness.mounts import Mount
from tests.mount.model.twins import PROCESSES, Twins

STEPS = int(os.environ.get("MODEL_STEPS", "300"))
STEPS_EACH = 50

PATHS = ("a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a")
FLAGS = (
    os.O_RDONLY,
    os.O_RDWR,
    os.O_WRONLY,
    os.O_RDONLY | os.O_DIRECTORY,
    os.O_RDWR | os.O_CREAT,
    os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    os.O_RDWR | os.O_CREAT | os.O_TRUNC,
    os.O_WRONLY | os.O_APPEND | os.O_CREAT,
    os.O_RDWR | os.O_APPEND,
    os.O_WRONLY | os.O_TRUNC,
)
MOST_OFFSET = 20_000

numbers = itertools.count()


@pytest.fixture
def make_twins(mount: Mount) -> Iterator[Callable[[], Twins]]:
    """Makes fresh twins; all of them are stopped at the end."""
    made: list[Twins] = []

    def make() -> Twins:
        name = f"twins{next(numbers)}"
        twins = Twins(mount.store / name, mount.plain / name)
        made.append(twins)
        return twins

    yield make
    for twins in made:
        twins.stop()


def check_store(mount: Mount, twins: Twins) -> None:
    """End the twins; the store must hold what the plain directory does."""
    expected = twins.end()
    root = twins.roots["mount"]
    descriptor = os.open(root, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    prefix = f"/{root.name}/"
    stored = {path.removeprefix(prefix): text for path, text in mount.inspector.memories(prefix).items()}
    assert stored == expected, twins.told("the store", stored, expected)
    versions = mount.inspector.history(prefix)
    actors = {getattr(version.created_by, "session_id", None) for version in versions}
    assert actors <= {mount.session_id}, twins.told("the authors", actors, mount.session_id)


def machine(mount: Mount, make: Callable[[], Twins]) -> type[RuleBasedStateMachine]:
    """The state machine for one mount."""
    paths = st.sampled_from(PATHS)
    workers = st.integers(0, PROCESSES - 1)
    places = st.integers(0, 10**6)
    sizes = st.integers(0, MOST_OFFSET)
    texts = st.builds(
        lambda letter, count: letter * count,
        st.sampled_from([b"x", b"text\n", b"0123456789"]),
        st.integers(0, 80),
    )

    class Calls(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.twins = make()

        def place(self, place: int) -> int:
            return place % len(self.twins.open_slots)

        # Descriptors

        @rule(worker=workers, path=paths, flags=st.sampled_from(FLAGS), mode=st.sampled_from([0o644, 0o600, 0o666, 0o755]))
        def open(self, worker: int, path: str, flags: int, mode: int) -> None:
            self.twins.open(worker, path, flags, mode)

        @precondition(lambda self: self.twins.open_slots)
        @rule(place=places)
        def dup(self, place: int) -> None:
            self.twins.dup(self.place(place))

        @precondition(lambda self: self.twins.open_slots)
        @rule(place=places)
        def close(self, place: int) -> None:
            self.twins.close(self.place(place))

        @precondition(lambda self: self.twins.open_slots)
        @rule(place=places, data=texts, offset=sizes, way=st.sampled_from(["write", "pwrite"]))
        def write(self, place: int, data: bytes, offset: int, way: str) -> None:
            arguments: tuple[Any, ...] = (data,) if way == "write" else (data, offset)
            self.twins.with_descriptor(self.place(place), way, *arguments)

        @precondition(lambda self: self.twins.open_slots)
        @rule(place=places, count=sizes, offset=sizes, way=st.sampled_from(["read", "pread"]))
        def read(self, place: int, count: int, offset: int, way: str) -> None:
            arguments = (count,) if way == "read" else (count, offset)
            self.twins.with_descriptor(self.place(place), way, *arguments)

        @precondition(lambda self: self.twins.open_slots)
        @rule(place=places, offset=st.integers(-100, MOST_OFFSET), whence=st.sampled_from([os.SEEK_SET, os.SEEK_CUR]))
        def seek(self, place: int, offset: int, whence: int) -> None:
            if whence == os.SEEK_CUR:
                offset %= 100
            worker, slot = self.twins.open_slots[self.place(place)]
            if self.twins.workers[worker].do("fstat", slot)["plain"][1][0] & 0o170000 == 0o40000:
                return  # positions in a directory are each file system's own
            self.twins.with_descriptor(self.place(place), "lseek", offset, whence)

        @precondition(lambda self: self.twins.open_slots)
        @rule(place=places, size=sizes)
        def ftruncate(self, place: int, size: int) -> None:
            self.twins.with_descriptor(self.place(place), "ftruncate", size)

        @precondition(lambda self: self.twins.open_slots)
        @rule(place=places)
        def fsync(self, place: int) -> None:
            self.twins.with_descriptor(self.place(place), "fsync")

        @precondition(lambda self: self.twins.open_slots)
        @rule(place=places, mode=st.sampled_from([0o600, 0o644, 0o755, 0o444]))
        def fchmod(self, place: int, mode: int) -> None:
            self.twins.with_descriptor(self.place(place), "fchmod", mode)

        # Mappings: within the file, or an access would be a signal

        @precondition(lambda self: self.twins.open_slots)
        @rule(place=places)
        def map(self, place: int) -> None:
            worker, slot = self.twins.open_slots[self.place(place)]
            mode, size, _ = self.twins.workers[worker].do("fstat", slot)["plain"][1]
            if size and mode & 0o170000 == 0o100000:
                self.twins.map(self.place(place), size)

        @precondition(lambda self: self.twins.mapped)
        @rule(place=places, data=texts)
        def use_mapping_and_unmap(self, place: int, data: bytes) -> None:
            place %= len(self.twins.mapped)
            worker, slot, size = self.twins.mapped[place]
            if self.still_large_enough(worker, slot, size):
                if len(data) <= size:
                    self.twins.do(worker, "write_map", slot, size - len(data), data)
                self.twins.do(worker, "read_map", slot, 0, size)
            self.twins.unmap(place)

        def still_large_enough(self, worker: int, slot: int, size: int) -> bool:
            hands = self.twins.workers[worker].do("map_size", slot)
            return all(outcome == "ok" and found >= size for outcome, found in hands.values())

        # Names

        @rule(worker=workers, path=paths)
        def stat(self, worker: int, path: str) -> None:
            self.twins.do(worker, "stat", path)

        @rule(worker=workers, path=paths, size=sizes)
        def truncate(self, worker: int, path: str, size: int) -> None:
            self.twins.do(worker, "truncate", path, size)

        @rule(worker=workers, old=paths, new=paths, way=st.sampled_from(["rename", "rename", "rename_noreplace"]))
        def rename(self, worker: int, old: str, new: str, way: str) -> None:
            self.twins.do(worker, way, old, new)

        @rule(worker=workers, path=paths)
        def unlink(self, worker: int, path: str) -> None:
            self.twins.do(worker, "unlink", path)

        @rule(worker=workers, path=paths)
        def mkdir(self, worker: int, path: str) -> None:
            self.twins.do(worker, "mkdir", path, 0o755)

        @rule(worker=workers, path=paths)
        def rmdir(self, worker: int, path: str) -> None:
            self.twins.do(worker, "rmdir", path)

        @rule(worker=workers, path=st.sampled_from(("", *PATHS)))
        def listdir(self, worker: int, path: str) -> None:
            self.twins.do(worker, "listdir", path)

        @rule(worker=workers, path=paths, mode=st.sampled_from([0o600, 0o644, 0o755, 0o700]))
        def chmod(self, worker: int, path: str, mode: int) -> None:
            self.twins.do(worker, "chmod", path, mode)

        @rule(worker=workers, path=paths, atime=st.integers(0, 2**31), mtime=st.integers(0, 2**31))
        def utime(self, worker: int, path: str, atime: int, mtime: int) -> None:
            self.twins.do(worker, "utime", path, atime * 10**9 + 1, mtime * 10**9 + 2)

        @rule(worker=workers, path=paths, data=texts, way=st.sampled_from(["save", "append", "replace"]))
        def write_whole(self, worker: int, path: str, data: bytes, way: str) -> None:
            self.twins.do(worker, way, path, data)

        def teardown(self) -> None:
            check_store(mount, self.twins)
            self.twins.stop()

    return Calls


def test_a_mount_and_a_plain_directory_agree(mount: Mount, make_twins: Callable[[], Twins]) -> None:
    run_state_machine_as_test(
        lambda: machine(mount, make_twins)(),
        settings=settings(
            max_examples=max(1, STEPS // STEPS_EACH),
            stateful_step_count=STEPS_EACH,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


def _mapped_through_an_appender(twins: Twins) -> None:
    """Pages of a mapping are written back where they belong, also when the descriptor appends."""
    twins.do(0, "save", "b", b"text\n" * 73)
    twins.open(0, "b", os.O_RDWR | os.O_APPEND)
    twins.map(0, 365)
    twins.close(0)
    twins.do(0, "write_map", 1, 298, b"x" * 67)
    twins.unmap(0)


def _appended_and_mapped(twins: Twins) -> None:
    """Both through one descriptor, in turn."""
    twins.open(0, "b", os.O_RDWR | os.O_APPEND | os.O_CREAT)
    for _ in range(3):
        twins.with_descriptor(0, "write", b"0123456789" * 500)
        size = twins.do(0, "stat", "b")[1][1]
        twins.map(0, size)
        twins.do(0, "write_map", twins.mapped[0][1], size - 100, b"y" * 10)
        twins.with_descriptor(0, "write", b"z" * 10)
        twins.unmap(0)


KEPT = [_mapped_through_an_appender, _appended_and_mapped]


@pytest.mark.parametrize("script", KEPT, ids=lambda script: script.__name__.strip("_"))
def test_what_was_found_before(mount: Mount, make_twins: Callable[[], Twins], script: Callable[[Twins], None]) -> None:
    twins = make_twins()
    script(twins)
    check_store(mount, twins)


def test_the_twins_find_a_difference(mount: Mount, make_twins: Callable[[], Twins]) -> None:
    """The comparison itself: what differs is told, with the calls that led there."""
    twins = make_twins()
    twins.do(0, "save", "a", b"text\n")
    (twins.roots["plain"] / "a").write_bytes(b"test\n")
    with pytest.raises(AssertionError, match="the trees"):
        twins.check()
    (twins.roots["plain"] / "a").write_bytes(b"text\n")
    twins.check()
    (twins.roots["mount"] / "more").mkdir()
    with pytest.raises(AssertionError, match="listdir"):
        twins.do(1, "listdir", "")
    (twins.roots["mount"] / "more").rmdir()
    check_store(mount, twins)
