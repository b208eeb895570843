"""A defect in any handler is an EIO and a line in `.memfs/errors`, never the end of the mount."""

import contextlib
import errno
import inspect
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyfuse3
import pytest

from memfs.fuse.operations import Operations
from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, new_database
from tests.harness.waiting import eventually


class BreakingMount(Mount):
    """A mount whose daemon has defects that can be switched on."""

    @property
    def switch(self) -> Path:
        return self.root / "break"

    @contextlib.contextmanager
    def broken(self, name: str) -> Iterator[None]:
        self.switch.write_text(name)
        try:
            yield
        finally:
            self.switch.write_text("")

    def errors(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in (self.path / ".memfs/errors").read_text().splitlines()]


@pytest.fixture(scope="module")
def breaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BreakingMount]:
    root = tmp_path_factory.mktemp("breaking")
    database = new_database(root)
    mount = BreakingMount(root, [database.create_store("Notes")], database=database, environment={"BREAK": str(root / "break")})
    mount.module = "tests.mount.posix.breaking"
    mount.switch.write_text("")
    try:
        mount.start()
        yield mount
        assert mount.stop() == 0, mount.log()
    finally:
        mount.abort()


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _with(path: str, flags: int, work: Callable[[int], object]) -> Callable[[Path], Callable[[], object]]:
    """Opens first, and gives what is to be done while the handler is broken."""

    def prepare(store: Path) -> Callable[[], object]:
        descriptor = os.open(store / path, flags)

        def act() -> object:
            try:
                return work(descriptor)
            finally:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

        return act

    return prepare


def _plainly(work: Callable[[Path], object]) -> Callable[[Path], Callable[[], object]]:
    return lambda store: lambda: work(store)


def _write_and_close(descriptor: int) -> None:
    os.write(descriptor, b"x")
    os.close(descriptor)


CALLS: dict[str, Callable[[Path], Callable[[], object]]] = {
    "lookup": _plainly(lambda store: os.stat(store / "unknown")),
    "getattr": _with("fresh", os.O_RDONLY, lambda f: (time.sleep(1.2), os.fstat(f))),
    "setattr": _with("f", os.O_RDWR, lambda f: os.fchmod(f, 0o600)),
    "readlink": _plainly(lambda store: os.readlink(store / "node_modules/link")),
    "statfs": _plainly(lambda store: os.statvfs(store)),
    "opendir": _plainly(lambda store: os.listdir(store / "d")),
    "readdir": _plainly(lambda store: os.listdir(store / "d")),
    "fsyncdir": _with("d", os.O_RDONLY, os.fsync),
    "create": _plainly(lambda store: os.open(store / "d/new", os.O_CREAT | os.O_WRONLY)),
    "mkdir": _plainly(lambda store: os.mkdir(store / "d/new")),
    "unlink": _plainly(lambda store: os.unlink(store / "f")),
    "rmdir": _plainly(lambda store: os.rmdir(store / "d")),
    "rename": _plainly(lambda store: os.rename(store / "f", store / "g")),
    "symlink": _plainly(lambda store: os.symlink("x", store / "node_modules/new")),
    "link": _plainly(lambda store: os.link(store / "f", store / "g")),
    "mknod": _plainly(lambda store: os.mkfifo(store / "g")),
    "open": _plainly(lambda store: os.open(store / "f", os.O_RDONLY)),
    "read": _with("fresh", os.O_RDONLY, lambda f: os.read(f, 10)),
    "write": _with("f", os.O_WRONLY, lambda f: os.write(f, b"x")),
    "flush": _with("f", os.O_WRONLY, _write_and_close),
    "fsync": _with("f", os.O_WRONLY, os.fsync),
    "getxattr": _plainly(lambda store: os.getxattr(store / "f", "user.memory.id")),
    "listxattr": _plainly(lambda store: os.listxattr(store / "f")),
    "setxattr": _plainly(lambda store: os.setxattr(store / "f", "user.x", b"y")),
    "removexattr": _plainly(lambda store: os.removexattr(store / "f", "user.x")),
}
UNHEARD = {"release", "releasedir", "forget"}
"""Nobody waits for these."""
NEVER = {"access"}
"""With default_permissions the kernel decides by itself."""

PYFUSE3S_OWN = {"init", "poll", "stacktrace"}
"""What memfs leaves as it is: nothing, `ENOSYS` so that the kernel polls by itself, and a log line for who debugs."""


def test_no_handler_is_left_out() -> None:
    handlers = {
        name for name, value in vars(Operations).items() if inspect.iscoroutinefunction(value) and not name.startswith("_")
    }
    wrapped = {name for name in handlers if hasattr(getattr(Operations, name), "__wrapped__")}
    assert handlers == wrapped == CALLS.keys() | UNHEARD | NEVER
    offered = {name for name, value in vars(pyfuse3.Operations).items() if callable(value) and not name.startswith("_")}
    assert offered == handlers | PYFUSE3S_OWN


def furnish(store: Path) -> None:
    (store / "f").write_text("text\n")
    (store / "fresh").write_text("fresh\n")
    (store / "d").mkdir(exist_ok=True)
    (store / "node_modules").mkdir(exist_ok=True)
    if not (store / "node_modules/link").is_symlink():
        (store / "node_modules/link").symlink_to("target")


def works(mount: BreakingMount) -> None:
    """The mount is alive, and does what mounts do."""
    store = mount.store
    (store / "proof").write_text("alive\n")
    assert (store / "proof").read_text() == "alive\n"
    assert mount.inspector.content("/proof") == "alive\n"
    (store / "proof").unlink()
    assert "f" in os.listdir(store)
    assert "pid" in json.loads((mount.path / ".memfs/status.json").read_text())


@pytest.mark.parametrize("name", CALLS)
def test_a_defect_is_an_error_and_a_line(breaking: BreakingMount, name: str) -> None:
    furnish(breaking.store)
    call = CALLS[name](breaking.store)
    if name == "read":
        os.posix_fadvise(os.open(breaking.store / "fresh", os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
    before = len(breaking.errors())
    with breaking.broken(name), refuses(errno.EIO):
        call()
    new = breaking.errors()[before:]
    assert any(line["operation"] == name and line["error"] == "EIO" and "Defect" in line["message"] for line in new), new
    works(breaking)


def test_a_defect_that_nobody_waits_for(breaking: BreakingMount) -> None:
    furnish(breaking.store)
    for name in sorted(UNHEARD):
        before = len(breaking.errors())
        descriptor = os.open(breaking.store / ("f" if name == "release" else "d"), os.O_RDONLY)
        with breaking.broken(name):
            os.listdir(descriptor) if name == "releasedir" else None
            os.close(descriptor)
            if name == "forget":
                Path("/proc/sys/vm/drop_caches").write_text("2")
            eventually(lambda name=name, before=before: _noted(breaking, name, before), True, within=5)
        works(breaking)


def _noted(mount: BreakingMount, name: str, before: int) -> bool:
    return any(line["operation"] == name for line in mount.errors()[before:])


@pytest.mark.parametrize("name", ["poll", "timer"])
def test_a_defect_in_a_task_of_the_mount(breaking: BreakingMount, name: str) -> None:
    furnish(breaking.store)
    before = len(breaking.errors())
    (breaking.store / "gone").write_text("x")
    with breaking.broken(name):
        with contextlib.suppress(OSError):
            (breaking.store / "gone").unlink()  # something is to be done later now
        end = time.monotonic() + 5
        while not _noted(breaking, "background", before):
            assert time.monotonic() < end
            with contextlib.suppress(OSError):
                os.stat(breaking.store / "f")
            time.sleep(0.1)
    works(breaking)
    breaking.inspector.put("/from elsewhere", "seen\n")
    eventually(lambda: (breaking.store / "from elsewhere").exists(), True, within=8)
