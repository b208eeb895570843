"""What a mount shows is what the next mount shows."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.harness.inspector import Database
from tests.harness.mounts import Mount, Place, launch, settle

pytestmark = pytest.mark.every_service


@dataclass(frozen=True)
class Fact:
    """Something done in a directory, and a command whose output must be the same before and after a remount."""

    prepare: str
    probe: str
    expected: str | None = None
    """What the probe prints, where that is known beforehand."""


FACTS = {
    "content": Fact("echo text > a", "cat a", "text\n"),
    "empty file": Fact("touch a", "stat -c %s a", "0\n"),
    "inode number": Fact("echo text > a", "stat -c %i a; ls -i a"),
    "inode number after atomic saves": Fact("echo x > a; sed -i s/x/y/ a; printf z > a.tmp; mv a.tmp a", "stat -c %i a; cat a"),
    "inode number after renames": Fact("echo x > a; mkdir d; mv a d/b; mv d e", "stat -c %i e/b"),
    "inode number of a directory": Fact("mkdir d; echo x > d/a", "stat -c %i d; stat -c %i ."),
    "time": Fact("echo text > a", "stat -c %.Y a"),
    "time after a rename": Fact("echo x > a; sleep 0.1; mv a b", "stat -c %.Y b"),
    "time after an atomic save": Fact("echo x > a; sed -i s/x/y/ a", "stat -c %.Y a"),
    "time that was set": Fact(
        "echo x > a; touch -d '2020-01-02 03:04:05.678 UTC' a", "stat -c %y a", "2020-01-02 03:04:05.678000000 +0000\n"
    ),
    "time that was set before a rename": Fact("echo x > a; touch -d 2020-01-02 a; mv a b", "stat -c %Y b", "1577923200\n"),
    "time of a directory": Fact("mkdir d; touch -d 2020-01-02 d", "stat -c %Y d", "1577923200\n"),
    "mode": Fact("echo x > a; chmod 750 a", "stat -c %a a", "750\n"),
    "mode of a directory": Fact("mkdir d; chmod 700 d", "stat -c %a d", "700\n"),
    "mode after an atomic save": Fact("echo x > a; chmod 600 a; sed -i s/x/y/ a", "stat -c %a a; cat a", "600\ny\n"),
    "owner": Fact("echo x > a; chown 1234:4321 a", "stat -c %u:%g a", "1234:4321\n"),
    "empty directory": Fact("mkdir -p d/e/f", "find . | sort", ".\n./d\n./d/e\n./d/e/f\n"),
    "removed directory": Fact("mkdir -p d/e; rmdir d/e", "find . | sort", ".\n./d\n"),
    "moved directory": Fact("mkdir -p d/e; echo x > d/a; mv d f", "find . | sort", ".\n./f\n./f/a\n./f/e\n"),
    "removed file": Fact("echo x > a; echo y > b; rm a", "ls", "b\n"),
    "scratch file": Fact("printf '\\377\\376' > .a.swp; chmod 640 .a.swp", "od -c .a.swp; stat -c '%a %.Y' .a.swp"),
    "backup file": Fact("echo x > a; cp a a~; echo y > a", "cat a a~", "y\nx\n"),
    "backup of vim": Fact(
        "echo x > a; vim -Nu NONE -i NONE -es -c 'set backup backupcopy=no backupskip=' -c s/x/y/ -c wq a", "cat a a~", "y\nx\n"
    ),
    "scratch directory": Fact(
        "mkdir -p .git/o; head -c 300000 /dev/urandom > .git/o/p; chmod 444 .git/o/p; touch -d 2020-01-02 .git/o/p",
        "sha256sum .git/o/p; stat -c '%a %Y' .git/o/p; find . | sort",
    ),
    "symbolic link": Fact(
        "mkdir -p node_modules/.bin; ln -s ../x node_modules/.bin/x", "readlink node_modules/.bin/x", "../x\n"
    ),
    "git": Fact(
        "git init -q .; echo 1 > f; git add f; git commit -qm m", "git status --porcelain; git log --format=%s; git fsck", "m\n"
    ),
    "archive": Fact(
        "mkdir -p $TMPDIR/t/s; echo 1 > $TMPDIR/t/s/a; touch -d 2021-03-04 $TMPDIR/t/s/a; chmod 640 $TMPDIR/t/s/a; "
        "cp -a $TMPDIR/t .",
        "stat -c '%a %Y' t/s/a; rsync -ain $TMPDIR/t/ t/",
        "640 1614816000\n",
    ),
    "odd names": Fact("echo x > 'a b'; echo x > -- -n; echo x > é; echo x > '\"'", "ls -A | sort"),
    "set-gid directory": Fact("mkdir d; chmod 2775 d", "stat -c %a d", "2775\n"),
    "attributes": Fact("echo x > a", "getfattr -d a"),
}


@dataclass
class Probe:
    before: str
    after: str
    listed_before: list[str]
    listed_after: list[str]


@pytest.fixture(scope="module")
def probes(shared: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Probe]]:
    """Every fact is made, then the mount is taken down and made again."""
    with launch(tmp_path_factory.mktemp("remounts"), shared.create_store("Facts"), database=shared) as mount:
        places = {fact: Place(mount, f"fact-{number:02}") for number, fact in enumerate(FACTS)}
        for fact, place in places.items():
            place.path.mkdir()
            place.sh(FACTS[fact].prepare)
        settle()
        before = {fact: (_probe(place, fact), _listing(place)) for fact, place in places.items()}
        versions = len(mount.inspector.history())
        mount.remount()
        yield {
            fact: Probe(before[fact][0], _probe(place, fact), before[fact][1], _listing(place))
            for fact, place in places.items()
        }
        assert len(mount.inspector.history()) == versions


def _probe(place: Place, fact: str) -> str:
    result = place.run(FACTS[fact].probe)
    return result.stdout + result.stderr


def _listing(place: Place) -> list[str]:
    return sorted(os.listdir(place.path))


@pytest.mark.parametrize("fact", FACTS)
def test_a_remount_shows_the_same(probes: dict[str, Probe], fact: str) -> None:
    probe = probes[fact]
    expected = FACTS[fact].expected
    if expected is not None:
        assert probe.before == expected
    assert probe.after == probe.before
    assert probe.listed_after == probe.listed_before


def test_a_mount_that_is_taken_down_as_soon_as_it_is_ready(fresh: Mount) -> None:
    (fresh.store / "a").write_text("x")
    for _ in range(3):
        fresh.remount()
    assert (fresh.store / "a").read_text() == "x"


def test_what_another_session_did_meanwhile_is_there_after_the_remount(fresh: Mount) -> None:
    fresh.sh("echo one > a; echo one > b; mkdir d; chmod 600 a; touch -d 2020-01-02 b")
    assert fresh.stop() == 0
    fresh.inspector.put("/a", "two\n")
    fresh.inspector.put("/d/c", "three\n")
    fresh.inspector.delete("/b")
    fresh.start()
    assert fresh.sh("find . -type f | sort | xargs tail -n +1") == "==> ./a <==\ntwo\n\n==> ./d/c <==\nthree\n"
    fresh.inspector.put("/b", "another\n")
    fresh.remount()
    assert fresh.sh("stat -c %Y b") != "1577923200\n"


def test_a_settling_file_is_stored_at_the_unmount(fresh: Mount) -> None:
    fresh.sh("t=$(mktemp -p . keepXXXXXX) && echo text > $t && echo old > a && mv a a.bak && echo gone > b && rm b")
    assert fresh.stop() == 0
    memories = fresh.inspector.memories()
    assert sorted(memories.values()) == ["old\n", "text\n"]
    assert "/a.bak" in memories
    assert fresh.inspector.operations("/b") == ["created", "deleted"]
    fresh.start()
    assert len(os.listdir(fresh.store)) == 2


def test_an_unflushed_file_is_stored_at_the_unmount(fresh: Mount) -> None:
    descriptor = os.open(fresh.store / "a", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"written, never closed\n")
    assert fresh.stop() == 0
    assert fresh.inspector.memories() == {"/a": "written, never closed\n"}
    with contextlib.suppress(OSError):  # the mount below it is gone
        os.close(descriptor)
