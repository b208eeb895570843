"""Inode numbers, times, modes, extended attributes and what `df` shows, within the life of a mount."""

import errno
import json
import os
import time
from pathlib import Path

from memfs.model.content import sha256_of
from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, Place, launch, new_database
from tests.harness.waiting import eventually


def identity(place: Place, name: str) -> tuple[int, int, int]:
    found = (place / name).stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def test_a_file_keeps_its_number_time_and_size_after_its_save(place: Place) -> None:
    (place / "a").write_text("text\n")
    before = identity(place, "a")
    time.sleep(2.5)
    assert identity(place, "a") == before
    place.inspector.put(place.at("beside"), "makes the mount look at the store")
    eventually(lambda: (place / "beside").exists(), True, within=4)
    assert identity(place, "a") == before


def test_the_time_of_a_handle_is_the_time_after_its_close(place: Place) -> None:
    with open(place / "a", "w") as file:
        file.write("text\n")
        file.flush()
        during = os.fstat(file.fileno()).st_mtime_ns
    assert abs((place / "a").stat().st_mtime_ns - during) < 50_000_000


def test_a_file_is_never_newer_than_now(place: Place) -> None:
    for number in range(20):
        (place / f"{number}").write_text("x")
        assert (place / f"{number}").stat().st_mtime_ns <= time.time_ns()
    place.sh("echo x > old; sleep 0.05; touch $TMPDIR/mark; sleep 0.05; echo x > new")
    place.sh("test new -nt $TMPDIR/mark -a old -ot $TMPDIR/mark")


def test_mtime_is_the_time_of_the_version(place: Place) -> None:
    place.inspector.put(place.at("a"), "text\n")
    eventually(lambda: (place / "a").exists(), True, within=4)
    updated = place.inspector.heads(place.prefix)[place.at("a")].updated_at
    assert abs((place / "a").stat().st_mtime - updated.timestamp()) < 0.001


def test_numbers_survive_renames_and_saves_in_place(place: Place) -> None:
    (place / "a").write_text("one\n")
    before = (place / "a").stat()
    place.sh("mv a b && echo two >> b && mkdir d && mv b d/c && mv d e")
    after = (place / "e/c").stat()
    assert after.st_ino == before.st_ino
    place.sh("mv e/c e/same")
    assert (place / "e/same").stat().st_mtime_ns == after.st_mtime_ns


def test_numbers_survive_atomic_saves(place: Place) -> None:
    (place / "a").write_text("alpha\nbeta\n")
    before = (place / "a").stat().st_ino
    for command in (
        "sed -i s/beta/BETA/ a",
        "printf two > a.tmp && mv a.tmp a",
        "perl -pi -e s/two/three/ a",
        "t=$(mktemp -p .) && echo four > $t && mv $t a",
        "echo five > $TMPDIR/a && rsync -I $TMPDIR/a a",
        "vim -Nu NONE -i NONE -es -c 's/five/six/' -c wq a",
    ):
        place.sh(command)
        eventually(lambda: (place / "a").stat().st_ino, before, within=2.5)
    assert (place / "a").read_text() == "six\n"
    assert place.sh("stat -c %i a; ls -i a").split()[:2] == [str(before)] * 2


def test_different_files_have_different_numbers(place: Place) -> None:
    place.sh("mkdir d; for i in $(seq 100); do echo $i > $i; echo $i > d/$i; done; echo s > .x.swp")
    numbers = place.sh("find . -printf '%i\\n'").split()
    assert len(numbers) == 203
    assert len(set(numbers)) == 203


def test_times_that_were_set_are_shown_and_make_no_version(place: Place) -> None:
    (place / "a").write_text("x")
    os.utime(place / "a", ns=(1_500_000_000_123_456_789, 1_577_923_200_987_654_321))
    assert (place / "a").stat().st_mtime_ns == 1_577_923_200_987_654_321
    place.sh("touch -d '2020-01-02 03:04:05' a && touch -r a b")
    assert place.sh("stat -c %y a b").splitlines() == ["2020-01-02 03:04:05.000000000 +0000"] * 2
    (place / "d").mkdir()
    os.utime(place / "d", (1, 2))
    assert (place / "d").stat().st_mtime == 2
    assert place.history() == [("created", "a"), ("created", "b")]


def test_a_change_moves_a_time_that_was_set(place: Place) -> None:
    place.sh("echo x > a && touch -d 2020-01-02 a && echo y >> a")
    assert time.time() - (place / "a").stat().st_mtime < 10


def test_modes_and_owners_are_shown_and_make_no_version(place: Place) -> None:
    (place / "a").write_text("#!/bin/sh\necho ran\n")
    place.sh("chmod 750 a && mkdir d && chmod 1700 d && chown 1234:4321 a d && ./a")
    assert place.sh("stat -c '%a %u:%g' a d").splitlines() == ["750 1234:4321", "1700 1234:4321"]
    assert place.history() == [("created", "a")]
    place.sh("echo '#' >> a")
    assert place.sh("stat -c '%a %u:%g' a") == "750 1234:4321\n"


def test_the_umask_of_the_creator_counts(place: Place) -> None:
    place.sh("umask 027; echo x > a; mkdir d; umask 0; echo x > b")
    assert place.sh("stat -c %a a d b").split() == ["640", "750", "666"]


def test_a_directory_hands_down_its_group(place: Place) -> None:
    place.sh("mkdir d && chown :4321 d && chmod 2755 d && echo x > d/a && mkdir d/e")
    assert place.sh("stat -c '%g %a' d/a d/e").splitlines() == ["4321 644", "4321 2755"]


def test_a_write_by_others_clears_set_user_id(place: Place) -> None:
    place.sh("echo x > a && chmod 6755 a && chown 1234 a")
    assert place.sh("stat -c %a a") == "755\n"


def test_extended_attributes_name_the_version_and_its_author(place: Place) -> None:
    (place / "a").write_text("text\n")
    head = place.inspector.heads(place.prefix)[place.at("a")]

    def attribute(name: str) -> str:
        return os.getxattr(place / "a", f"user.memory.{name}").decode()

    assert attribute("id") == head.id
    assert attribute("version_id") == head.memory_version_id
    assert attribute("sha256") == sha256_of(b"text\n") == head.content_sha256
    assert attribute("session_id") == place.mount.session_id
    assert json.loads(attribute("created_by")) == {"type": "session_actor", "session_id": place.mount.session_id}
    assert attribute("state") == "stored"
    assert attribute("created_at").endswith("Z")
    assert attribute("updated_at").endswith("Z")
    assert {f"user.memory.{name}" for name in ("id", "version_id", "sha256", "created_by", "state")} <= set(
        os.listxattr(place / "a")
    )
    assert "user.memory.id" in place.sh("getfattr -d a")
    first = attribute("version_id")
    place.sh("echo more >> a")
    assert attribute("id") == head.id
    assert attribute("version_id") != first
    place.inspector.put(place.at("a"), "by another\n")
    eventually(lambda: attribute("session_id"), place.inspector.database.session_id, within=3)


def test_unsaved_text_is_pending(place: Place) -> None:
    with open(place / "a", "w") as file:
        file.write("x")
        file.flush()
        assert os.getxattr(place / "a", "user.memory.state") == b"pending"
    assert os.getxattr(place / "a", "user.memory.state") == b"stored"


def test_df_shows_what_is_used_and_free(fresh: Mount) -> None:
    before = os.statvfs(fresh.store)
    assert before.f_namemax == 255
    assert before.f_files > 0
    assert before.f_ffree > 0
    assert before.f_bavail > 0
    for number in range(10):
        (fresh.store / f"{number}").write_text("x" * 50_000)
    after = os.statvfs(fresh.store)
    assert before.f_ffree - after.f_ffree == 10
    assert 400_000 <= (before.f_bfree * before.f_frsize) - (after.f_bfree * after.f_frsize) <= 1_200_000
    assert os.statvfs(fresh.path) == after
    fresh.sh("df -h . && df -i . && stat -f .")


def test_without_attributes_none_are_answered(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    with launch(tmp_path, database.create_store("Notes"), database=database, options=["--no-xattr"]) as mount:
        (mount.store / "a").write_text("x")
        assert mount.sh("getfattr -d a 2>&1; cp -a a b; ls -l") != ""
        assert mount.inspector.memories() == {"/a": "x", "/b": "x"}
        with refuses(errno.EOPNOTSUPP):  # what the kernel makes of ENOSYS
            os.getxattr(mount.store / "a", "user.memory.id")
