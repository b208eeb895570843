"""chmod(2), chown(2), set-id and sticky bits, and who may do what."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.errnos import refuses
from tests.mount.posix.actors import ALICE, BOB, CLUB, TEAM, as_user, verdict
from tests.mount.posix.calls import opened


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


def by(uid: int, work: Callable[[], object], groups: tuple[int, ...] = ()) -> str:
    """ "ok" or the errno, as `uid`."""
    return verdict(lambda: as_user(uid, lambda: (work(), None)[1], groups=groups))


def test_every_mode_is_kept(here: Path) -> None:
    (here / "f").write_text("x")
    (here / "d").mkdir()
    for bits in (0o000, 0o111, 0o444, 0o644, 0o755, 0o777, 0o1777, 0o2755, 0o4755, 0o7777):
        os.chmod(here / "f", bits)
        os.chmod(here / "d", bits)
        assert (mode(here / "f"), mode(here / "d")) == (f"{bits:o}", f"{bits:o}")
    with opened(here / "f", os.O_RDONLY) as f:
        os.fchmod(f, 0o640)
        os.fchown(f, 7, 8)
    found = (here / "f").stat()
    assert (mode(here / "f"), found.st_uid, found.st_gid) == ("640", 7, 8)
    os.chown(here / "f", -1, 9)
    os.chown(here / "d", 10, -1)
    assert ((here / "f").stat().st_uid, (here / "f").stat().st_gid) == (7, 9)
    assert (here / "d").stat().st_uid == 10


@pytest.mark.parametrize("name", ["f", "d"])
def test_who_may_change_modes_and_owners(here: Path, name: str) -> None:
    path = here / name
    path.mkdir() if name == "d" else path.write_text("x")
    os.chown(path, ALICE, ALICE)
    os.chmod(path, 0o777)
    assert by(BOB, lambda: os.chmod(path, 0o700)) == "EPERM"
    assert by(BOB, lambda: os.chown(path, BOB, -1)) == "EPERM"
    assert by(BOB, lambda: os.chown(path, -1, BOB)) == "EPERM"
    assert by(ALICE, lambda: os.chmod(path, 0o750)) == "ok"
    assert by(ALICE, lambda: os.chown(path, BOB, -1)) == "EPERM"
    assert by(ALICE, lambda: os.chown(path, -1, CLUB)) == "EPERM"
    assert by(ALICE, lambda: os.chown(path, -1, CLUB), groups=(CLUB,)) == "ok"
    assert (mode(path), path.stat().st_uid, path.stat().st_gid) == ("750", ALICE, CLUB)
    for missing, number in (
        (here / "missing", "ENOENT"),
        (here / f"{name}/../missing", "ENOENT" if name == "d" else "ENOTDIR"),
    ):
        assert verdict(lambda missing=missing: os.chmod(missing, 0)) == number
        assert verdict(lambda missing=missing: os.chown(missing, 0, 0)) == number


def test_set_gid_is_lost_by_those_outside_the_group(here: Path) -> None:
    (here / "f").write_text("x")
    os.chown(here / "f", ALICE, TEAM)
    assert by(ALICE, lambda: os.chmod(here / "f", 0o2755)) == "ok"
    assert mode(here / "f") == "755"
    assert by(ALICE, lambda: os.chmod(here / "f", 0o2755), groups=(TEAM,)) == "ok"
    assert mode(here / "f") == "2755"


CLEARING: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "write": (lambda f: _write(f), "6777", "777"),
    "truncate": (lambda f: os.truncate(f, 1), "6777", "777"),
    "open to truncate": (lambda f: os.close(os.open(f, os.O_WRONLY | os.O_TRUNC)), "6777", "777"),
}


def _write(path: Path) -> None:
    with opened(path, os.O_WRONLY) as f:
        os.write(f, b"X")


@pytest.mark.parametrize("name", CLEARING)
def test_set_id_bits_end_with_a_change_by_others(here: Path, name: str) -> None:
    call, before, after = CLEARING[name]
    path = here / "f"
    path.write_text("text")
    os.chown(path, ALICE, TEAM)
    os.chmod(path, int(before, 8))
    assert by(BOB, lambda: call(path)) == "ok"
    assert mode(path) == after


def test_set_id_bits_end_with_a_change_of_owner(here: Path) -> None:
    for uid, before, after in ((ALICE, "6755", "755"), (ALICE, "6745", "2745"), (0, "6755", "755")):
        path = here / f"f{uid}{before}"
        path.write_text("x")
        os.chown(path, ALICE, ALICE)
        os.chmod(path, int(before, 8))
        change = (lambda path=path: os.chown(path, -1, CLUB)) if uid else (lambda path=path: os.chown(path, BOB, CLUB))
        assert (by(uid, change, groups=(CLUB,)) if uid else verdict(change)) == "ok"
        assert mode(path) == after
    (here / "d").mkdir()
    os.chmod(here / "d", 0o6755)
    os.chown(here / "d", ALICE, TEAM)
    assert mode(here / "d") == "6755"  # a directory's bits mean something else


def test_reading_changes_no_bit(here: Path) -> None:
    (here / "f").write_text("x")
    os.chmod(here / "f", 0o6777)
    assert by(BOB, lambda: (here / "f").read_text()) == "ok"
    assert mode(here / "f") == "6777"


def test_set_gid_directories_hand_down_their_group(here: Path) -> None:
    (here / "d").mkdir()
    os.chown(here / "d", 0, TEAM)
    os.chmod(here / "d", 0o2777)
    as_user(ALICE, lambda: (os.mkdir(here / "d/e"), (here / "d/f").write_text("x"), None)[2])
    assert ((here / "d/e").stat().st_gid, mode(here / "d/e")) == (TEAM, "2755")
    assert ((here / "d/f").stat().st_gid, mode(here / "d/f")) == (TEAM, "644")
    assert (here / "d/f").stat().st_uid == ALICE
    (here / "d/e/deep").mkdir()
    assert (here / "d/e/deep").stat().st_gid == TEAM
    with opened(here / "d/g", os.O_CREAT | os.O_WRONLY, 0o2755):
        pass
    assert (here / "d/g").stat().st_gid == TEAM
    os.chmod(here / "d", 0o777)
    as_user(ALICE, lambda: (here / "d/own").write_text("x"))
    assert (here / "d/own").stat().st_gid == ALICE


def test_a_new_file_belongs_to_its_maker(here: Path) -> None:
    as_user(ALICE, lambda: ((here / "f").write_text("x"), (here / "d").mkdir(), None)[2])
    for name in ("f", "d"):
        assert ((here / name).stat().st_uid, (here / name).stat().st_gid) == (ALICE, ALICE)
    as_user(ALICE, lambda: (here / "g").write_text("x"), gid=TEAM)
    assert (here / "g").stat().st_gid == TEAM


ACCESS = {
    # mode: what owner, group and others may do, of read, write, execute
    0o700: ("rwx", "", ""),
    0o070: ("", "rwx", ""),
    0o007: ("", "", "rwx"),
    0o640: ("rw", "r", ""),
    0o755: ("rwx", "rx", "rx"),
    0o000: ("", "", ""),
    0o421: ("r", "w", "x"),
}


@pytest.mark.parametrize("bits", ACCESS, ids=lambda bits: f"{bits:03o}")
def test_permissions_of_files(here: Path, bits: int) -> None:
    path = here / "f"
    path.write_text("#!/bin/true\n")
    os.chown(path, ALICE, TEAM)
    os.chmod(path, bits)
    callers = {"owner": (ALICE, ()), "group": (BOB, (TEAM,)), "others": (BOB, ())}
    for (uid, groups), allowed in zip(callers.values(), ACCESS[bits], strict=True):
        found = "".join(
            letter
            for letter, flags in (("r", os.O_RDONLY), ("w", os.O_WRONLY))
            if by(uid, lambda flags=flags: os.close(os.open(path, flags)), groups) == "ok"
        )
        found += "x" if as_user(uid, lambda: os.access(path, os.X_OK), groups=groups) else ""
        assert found == allowed, (uid, groups)
        asked = "".join(
            letter
            for letter, what in (("r", os.R_OK), ("w", os.W_OK), ("x", os.X_OK))
            if as_user(uid, lambda what=what: os.access(path, what), groups=groups)
        )
        assert asked == allowed
        writing = "ok" if "w" in allowed else "EACCES"
        assert by(uid, lambda: os.truncate(path, 12), groups) == writing


@pytest.mark.parametrize("bits", [0o777, 0o755, 0o733, 0o711, 0o744, 0o700])
def test_permissions_of_directories(here: Path, bits: int) -> None:
    path = here / "d"
    path.mkdir()
    (path / "f").write_text("x")
    (path / "f").chmod(0o666)
    (path / "e").mkdir()
    os.chmod(path, bits)
    read, write, search = bits & 4, bits & 2 and bits & 1, bits & 1
    expected = {
        "list": "ok" if read else "EACCES",
        "look up": "ok" if search else "EACCES",
        "open": "ok" if search else "EACCES",
        "create": "ok" if write else "EACCES",
        "mkdir": "ok" if write else "EACCES",
        "rename": "ok" if write else "EACCES",
        "unlink": "ok" if write else "EACCES",
        "rmdir": "ok" if write else "EACCES",
    }
    calls: dict[str, Callable[[], object]] = {
        "list": lambda: os.listdir(path),
        "look up": lambda: os.stat(path / "f"),
        "open": lambda: (path / "f").write_text("y"),
        "create": lambda: (path / "g").write_text("x"),
        "mkdir": lambda: (path / "h").mkdir(),
        "rename": lambda: os.rename(path / "f", path / "i"),
        "unlink": lambda: os.unlink(path / "i" if write else path / "f"),
        "rmdir": lambda: os.rmdir(path / "e"),
    }
    assert {name: by(BOB, call) for name, call in calls.items()} == expected


def sticky(here: Path) -> Path:
    """A directory as /tmp: Root's, sticky, with a file and a directory of Alice's and of Bob's."""
    path = here / "tmp"
    path.mkdir()
    os.chmod(path, 0o1777)
    for name, uid in (("alice", ALICE), ("bob", BOB)):
        as_user(uid, lambda name=name: ((path / name).write_text(name), (path / f"{name}.d").mkdir(), None)[2])
    return path


def test_sticky_directories(here: Path) -> None:
    path = sticky(here)
    for call in (
        lambda: os.unlink(path / "alice"),
        lambda: os.rmdir(path / "alice.d"),
        lambda: os.rename(path / "alice", path / "new"),
        lambda: os.rename(path / "alice.d", path / "new"),
        lambda: os.rename(path / "bob", path / "alice"),
        lambda: os.rename(path / "bob.d", path / "alice.d"),
    ):
        assert by(BOB, call) == "EPERM"
    for call in (
        lambda: os.rename(path / "bob", path / "mine"),
        lambda: os.unlink(path / "mine"),
        lambda: os.rmdir(path / "bob.d"),
    ):
        assert by(BOB, call) == "ok"
    os.chown(path, BOB, BOB)
    assert by(BOB, lambda: os.unlink(path / "alice")) == "ok"  # the directory's owner may
    os.chown(path, 0, 0)
    os.chmod(path, 0o777)
    assert by(BOB, lambda: os.rmdir(path / "alice.d")) == "ok"  # without the bit everybody may


def test_moving_a_directory_needs_a_right_to_change_it(here: Path) -> None:
    """Its entry `..` changes when it gets another parent."""
    (here / "p").mkdir()
    (here / "q").mkdir()
    for name in ("p", "q"):
        os.chmod(here / name, 0o777)
    (here / "p/d").mkdir(0o755)
    assert by(BOB, lambda: os.rename(here / "p/d", here / "q/d")) == "EACCES"
    assert by(BOB, lambda: os.rename(here / "p/d", here / "p/e")) == "ok"
    assert (here / "p/e").is_dir()


def test_open_exclusive_asks_for_no_right_on_what_is_there(here: Path) -> None:
    (here / "f").write_text("x")
    os.chmod(here / "f", 0)
    with refuses(errno.EEXIST):
        as_user(BOB, lambda: os.open(here / "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    with refuses(errno.EACCES):
        as_user(BOB, lambda: os.open(here / "f", os.O_CREAT | os.O_WRONLY))


def test_path_search_rights(here: Path) -> None:
    (here / "a/b").mkdir(parents=True)
    (here / "a/b/f").write_text("x")
    os.chmod(here / "a", 0o700)
    for call in (
        lambda: os.stat(here / "a/b/f"),
        lambda: os.open(here / "a/b/f", os.O_RDONLY),
        lambda: os.mkdir(here / "a/b/n"),
        lambda: os.unlink(here / "a/b/f"),
        lambda: os.rename(here / "a/b/f", here / "f"),
        lambda: os.chmod(here / "a/b/f", 0),
        lambda: os.truncate(here / "a/b/f", 0),
        lambda: os.utime(here / "a/b/f"),
    ):
        assert by(BOB, call) == "EACCES"
    assert (here / "a/b/f").read_text() == "x"
