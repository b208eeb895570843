"""Which times move, of the file and of its directory, and which must not."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mount.posix.actors import ALICE, BOB, as_user, verdict
from tests.mount.posix.calls import UTIME_NOW, UTIME_OMIT, opened, utimensat

TICK_SECONDS = 0.03
"""More than the kernel's coarse clock takes to move on."""


def _exclusive(d: Path) -> None:
    assert verdict(lambda: os.open(d / "f", os.O_CREAT | os.O_EXCL)) == "EEXIST"


def _pwrite(path: Path, data: bytes, offset: int = 0, flags: int = os.O_WRONLY) -> None:
    with opened(path, flags) as f:
        os.pwrite(f, data, offset)


def _ftruncate(path: Path, size: int) -> None:
    with opened(path, os.O_RDWR) as f:
        os.ftruncate(f, size)


def _touch_nothing(path: Path, flags: int) -> None:
    os.close(os.open(path, flags))


# What each call moves: m and c of what is named; everything that is not named stays as it was.
MOVES: dict[str, tuple[Callable[[Path], object], dict[str, str]]] = {
    "create": (lambda d: (d / "new").touch(), {".": "mc"}),
    "create what is there": (lambda d: _touch_nothing(d / "f", os.O_CREAT | os.O_WRONLY), {}),
    "create exclusively what is there": (_exclusive, {}),
    "open and close": (lambda d: _touch_nothing(d / "f", os.O_RDWR), {}),
    "read": (lambda d: (d / "f").read_text(), {}),
    "list": (lambda d: os.listdir(d), {}),
    "write": (lambda d: _pwrite(d / "f", b"T"), {"f": "mc"}),
    "write the same": (lambda d: _pwrite(d / "f", b"t"), {"f": "mc"}),
    "append": (lambda d: _pwrite(d / "f", b"more", flags=os.O_WRONLY | os.O_APPEND), {"f": "mc"}),
    "write nothing": (lambda d: _pwrite(d / "f", b""), {}),
    "open to truncate": (lambda d: _touch_nothing(d / "f", os.O_WRONLY | os.O_TRUNC), {"f": "mc"}),
    "truncate shorter": (lambda d: os.truncate(d / "f", 1), {"f": "mc"}),
    "truncate longer": (lambda d: os.truncate(d / "f", 100), {"f": "mc"}),
    "ftruncate shorter": (lambda d: _ftruncate(d / "f", 1), {"f": "mc"}),
    "ftruncate longer": (lambda d: _ftruncate(d / "f", 100), {"f": "mc"}),
    "a truncate that is refused": (lambda d: verdict(lambda: os.truncate(d / "f", -1)), {}),
    "chmod": (lambda d: os.chmod(d / "f", 0o600), {"f": "c"}),
    "chown": (lambda d: os.chown(d / "f", 1234, 4321), {"f": "c"}),
    "chmod of a directory": (lambda d: os.chmod(d / "s", 0o700), {"s": "c"}),
    "chown of a directory": (lambda d: os.chown(d / "s", 1234, 4321), {"s": "c"}),
    "a chmod that is refused": (lambda d: verdict(lambda: as_user(BOB, lambda: os.chmod(d / "f", 0))), {}),
    "utimes": (lambda d: os.utime(d / "f"), {"f": "mc"}),
    "utimes of a directory": (lambda d: os.utime(d / "s"), {"s": "mc"}),
    "setting the access time": (lambda d: utimensat(d / "f", (5, 5), (0, UTIME_OMIT)), {"f": "c"}),
    "setting no time": (lambda d: utimensat(d / "f", (0, UTIME_OMIT), (0, UTIME_OMIT)), {}),
    "mkdir": (lambda d: os.mkdir(d / "new"), {".": "mc"}),
    "mkdir of what is there": (lambda d: verdict(lambda: os.mkdir(d / "s")), {}),
    "mkdir below": (lambda d: os.mkdir(d / "s/new"), {"s": "mc"}),
    "rmdir": (lambda d: os.rmdir(d / "e"), {".": "mc"}),
    "rmdir of what is full": (lambda d: verdict(lambda: os.rmdir(d / "s")), {}),
    "unlink": (lambda d: os.unlink(d / "g"), {".": "mc"}),
    "unlink below": (lambda d: os.unlink(d / "s/x"), {"s": "mc"}),
    "unlink of nothing": (lambda d: verdict(lambda: os.unlink(d / "missing")), {}),
    "rename": (lambda d: os.rename(d / "f", d / "new"), {".": "mc"}),
    "rename out of a directory": (lambda d: os.rename(d / "s/x", d / "new"), {".": "mc", "s": "mc"}),
    "rename into a directory": (lambda d: os.rename(d / "f", d / "s/new"), {".": "mc", "s": "mc"}),
    "rename over": (lambda d: os.rename(d / "g", d / "f"), {".": "mc", "f": "mc"}),
    "rename to itself": (lambda d: os.rename(d / "f", d / "f"), {}),
    "a rename that is refused": (lambda d: verdict(lambda: os.rename(d / "e", d / "s")), {}),
    "rename of a directory": (lambda d: os.rename(d / "e", d / "new"), {".": "mc"}),
    "a write below": (lambda d: _pwrite(d / "s/x", b"X"), {"s/x": "mc"}),
}


def times(here: Path) -> dict[str, tuple[int, int]]:
    """mtime and ctime of the directory and of everything in it, by name."""
    found = {"." if path == here else str(path.relative_to(here)): path.stat() for path in [here, *here.rglob("*")]}
    return {name: (status.st_mtime_ns, status.st_ctime_ns) for name, status in found.items()}


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_and_what_stays(here: Path, name: str) -> None:
    (here / "f").write_text("text\n")
    (here / "g").write_text("other\n")
    (here / "s").mkdir()
    (here / "s/x").write_text("x")
    (here / "e").mkdir()
    before = times(here)
    time.sleep(TICK_SECONDS)
    earliest = time.time_ns() - 10_000_000
    call, moved = MOVES[name]
    call(here)
    after = times(here)
    assert all(time_ns <= time.time_ns() for pair in after.values() for time_ns in pair)
    found = {}
    for entry in before.keys() & after.keys():
        letters = ("m" if after[entry][0] >= earliest else "") + ("c" if after[entry][1] >= earliest else "")
        if after[entry] != before[entry]:
            found[entry] = letters
    if name == "rename over":  # the name shows the other file now, with the times that it had
        assert found.pop("f", None) in (None, "", "c", "mc")
        moved = {".": "mc"}
    assert found == moved
    time.sleep(TICK_SECONDS)
    assert times(here) == after, "it moved again later"


def test_a_new_file_has_one_time(here: Path) -> None:
    before = time.time_ns() - 10_000_000
    with opened(here / "f", os.O_CREAT | os.O_WRONLY) as f:
        made = os.fstat(f)
        assert made.st_mtime_ns == made.st_ctime_ns == made.st_atime_ns
        assert before <= made.st_mtime_ns <= time.time_ns()
    os.mkdir(here / "d")
    made = (here / "d").stat()
    assert made.st_mtime_ns == made.st_ctime_ns == made.st_atime_ns
    assert made.st_mtime_ns == here.stat().st_mtime_ns
    assert (here / "f").stat().st_mtime_ns - made.st_mtime_ns < 10_000_000  # a version's clock is finer than the kernel's


def test_nanoseconds_are_kept(here: Path) -> None:
    (here / "f").write_text("x")
    (here / "d").mkdir()
    for name in ("f", "d"):
        path = here / name
        for atime, mtime in ((1, 999_999_999), (1_500_000_000_123_456_789, 1_600_000_000_987_654_321), (2**32 * 10**9 + 7, 5)):
            os.utime(path, ns=(atime, mtime))
            assert (path.stat().st_atime_ns, path.stat().st_mtime_ns) == (atime, mtime)


@pytest.mark.parametrize("name", ["f", "d"])
def test_utimensat(here: Path, name: str) -> None:
    path = here / name
    path.mkdir() if name == "d" else path.write_text("x")
    utimensat(path, (100, 1), (200, 2))
    utimensat(path, (0, UTIME_OMIT), (300, 3))
    assert (path.stat().st_atime_ns, path.stat().st_mtime_ns) == (100_000_000_001, 300_000_000_003)
    utimensat(path, (400, 4), (0, UTIME_OMIT))
    assert (path.stat().st_atime_ns, path.stat().st_mtime_ns) == (400_000_000_004, 300_000_000_003)
    began = time.time_ns() - 10_000_000
    utimensat(path, (0, UTIME_NOW), (0, UTIME_OMIT))
    assert began <= path.stat().st_atime_ns <= time.time_ns()
    assert path.stat().st_mtime_ns == 300_000_000_003
    utimensat(path, (0, UTIME_OMIT), (0, UTIME_NOW))
    assert began <= path.stat().st_mtime_ns <= time.time_ns()
    assert verdict(lambda: utimensat(path, (0, 10**9), (0, 0))) == "EINVAL"
    assert verdict(lambda: utimensat(here / "missing", (0, 0), (0, 0))) == "ENOENT"
    assert verdict(lambda: utimensat(here / "missing", (0, UTIME_OMIT), (0, UTIME_OMIT))) in ("ENOENT", "ok")


def test_who_may_set_times(here: Path) -> None:
    path = here / "f"
    path.write_text("x")
    os.chown(path, ALICE, ALICE)
    os.chmod(path, 0o644)
    assert verdict(lambda: as_user(BOB, lambda: os.utime(path))) == "EACCES"
    assert verdict(lambda: as_user(BOB, lambda: os.utime(path, (1, 1)))) == "EPERM"
    os.chmod(path, 0o666)
    assert verdict(lambda: as_user(BOB, lambda: os.utime(path))) == "ok"
    assert verdict(lambda: as_user(BOB, lambda: os.utime(path, (1, 1)))) == "EPERM"
    os.chmod(path, 0o444)
    assert verdict(lambda: as_user(ALICE, lambda: os.utime(path, (1, 1)))) == "ok"
    assert verdict(lambda: as_user(ALICE, lambda: os.utime(path))) == "ok"


def test_times_that_were_set_survive_the_close(here: Path) -> None:
    """As `cp -p`, `tar` and `rsync` do: write, set the times, close."""
    with opened(here / "f", os.O_CREAT | os.O_WRONLY) as f:
        os.write(f, b"text")
        os.utime(f, ns=(10**18, 10**18 + 1))
    assert ((here / "f").stat().st_atime_ns, (here / "f").stat().st_mtime_ns) == (10**18, 10**18 + 1)
    with opened(here / "f", os.O_WRONLY | os.O_APPEND) as f:
        os.write(f, b" and more")
    assert abs((here / "f").stat().st_mtime_ns - time.time_ns()) < 10**10


def test_an_unlink_moves_the_ctime_of_those_who_hold_it(here: Path) -> None:
    (here / "f").write_text("x")
    with opened(here / "f", os.O_RDONLY) as f:
        before = os.fstat(f)
        time.sleep(TICK_SECONDS)
        os.unlink(here / "f")
        after = os.fstat(f)
    assert after.st_ctime_ns > before.st_ctime_ns
    assert after.st_mtime_ns == before.st_mtime_ns
