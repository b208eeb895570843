"""Directories: what a listing shows while it changes, and what is local to the mount."""

import errno
import os
import subprocess
import time

from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, Place
from tests.harness.waiting import eventually


def test_fifteen_hundred_files_are_listed_and_removed(place: Place) -> None:
    place.sh("mkdir many && cd many && for i in $(seq 1500); do : > f$i; done", timeout=90)
    assert place.sh("ls many | sort -u | wc -l; ls -f many | wc -l") == "1500\n1502\n"
    assert len(place.memories()) == 1500
    result = place.run("rm -rf many", timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    assert not (place / "many").exists()
    eventually(lambda: len(place.memories()), 0, within=5)


def test_every_entry_that_stays_is_listed_once_while_others_come_and_go(place: Place) -> None:
    for number in range(300):
        (place / f"{'stay' if number % 2 else 'go'}-{number:03}").write_text("x")
    stays = {entry.name for entry in place.path.iterdir() if entry.name.startswith("stay")}
    seen: list[str] = []
    with os.scandir(place.path) as entries:
        for count, entry in enumerate(entries):
            seen.append(entry.name)
            if count == 5:
                for number in range(0, 300, 2):
                    os.unlink(place / f"go-{number:03}")
                for number in range(100):
                    (place / f"new-{number:03}").write_text("x")
    assert len(seen) == len(set(seen))
    assert stays <= set(seen)
    assert stays | {f"new-{number:03}" for number in range(100)} == set(os.listdir(place.path))


def test_a_listing_that_is_rewound_is_listed_anew(place: Place) -> None:
    program = """
import os
d = os.open('.', os.O_RDONLY)
before = sorted(os.listdir(d))
open('b', 'w').close()
os.lseek(d, 0, os.SEEK_SET)
print(before, sorted(os.listdir(d)))
"""
    (place / "a").write_text("x")
    assert place.sh(f"python3 - <<'EOF'\n{program}\nEOF") == "['a'] ['a', 'b']\n"


def test_listings_have_the_right_kinds_and_numbers(place: Place) -> None:
    place.sh("mkdir d && echo x > f && echo y > d/g")
    with os.scandir(place.path) as entries:
        found = {entry.name: (entry.is_dir(follow_symlinks=False), entry.inode()) for entry in entries}
    assert found == {
        "d": (True, (place / "d").stat().st_ino),
        "f": (False, (place / "f").stat().st_ino),
    }
    assert place.sh("ls -a") == ".\n..\nd\nf\n"


def test_find_walks_with_and_without_counting_links(place: Place) -> None:
    assert place.sh("mkdir -p d/e d/f && echo x > d/e/g && find . | sort") == ".\n./d\n./d/e\n./d/e/g\n./d/f\n"
    assert place.sh("find . -type f; find . -noleaf -type f") == "./d/e/g\n./d/e/g\n"


def test_mkdir_is_local(place: Place) -> None:
    place.sh("mkdir -p a/b/c && ls -R . >/dev/null && rmdir a/b/c && ls a/b")
    assert place.history() == []
    with refuses(errno.EEXIST):
        os.mkdir(place / "a")
    with refuses(errno.ENOENT):
        os.mkdir(place / "none/x")


def test_a_directory_of_the_store_appears_and_goes_with_its_memories(place: Place) -> None:
    place.inspector.put(place.at("far/away/x.md"), "x\n")
    eventually(lambda: (place / "far/away/x.md").exists(), True, within=4)
    place.inspector.delete(place.at("far/away/x.md"))
    eventually(lambda: (place / "far").exists(), False, within=4)


def test_getcwd_works_everywhere(place: Place) -> None:
    place.sh('mkdir -p a/b && cd a/b && test "$(pwd -P)" = "$(/bin/pwd)" && cd .. && mv b c && cd c && /bin/pwd')


def test_creation_in_a_removed_directory(place: Place) -> None:
    (place / "d").mkdir()
    folder = os.open(place / "d", os.O_RDONLY)
    os.rmdir(place / "d")
    with refuses(errno.ENOENT):
        os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=folder)
    with refuses(errno.ENOENT):
        os.mkdir("x", dir_fd=folder)
    assert os.listdir(folder) == []
    os.close(folder)
    assert place.history() == []


def test_parent_times_move_with_their_entries(place: Place) -> None:
    (place / "d").mkdir()
    for change in ("echo x > d/a", "mv d/a d/b", "rm d/b", "mkdir d/e", "rmdir d/e"):
        before = (place / "d").stat().st_mtime_ns
        time.sleep(0.02)
        place.sh(change)
        assert (place / "d").stat().st_mtime_ns > before, change


def test_many_processes_walk_and_write_at_once(place: Place) -> None:
    walkers = [
        subprocess.Popen(
            ["bash", "-c", "for i in $(seq 15); do find . -type f -exec cat {} + >/dev/null || exit 1; done"],
            cwd=place.path,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    place.sh("mkdir d; for i in $(seq 200); do echo $i > d/$i; done")
    for walker in walkers:
        assert walker.communicate(timeout=60)[1] == ""
        assert walker.returncode == 0
    assert len(place.memories()) == 200


def test_the_root_lists_stores_and_hides_its_own(fresh: Mount) -> None:
    assert sorted(os.listdir(fresh.path)) == ["MEMORY.md", "notes"]
    assert fresh.sh("find . | sort; ls -A", cwd=fresh.path) == ".\n./MEMORY.md\n./notes\nMEMORY.md\nnotes\n"
    assert "notes" in (fresh.path / "MEMORY.md").read_text()
    assert os.listdir(fresh.store) == []
    status = (fresh.path / ".memfs" / "status").read_text()
    assert "notes" in status
    assert {"status", "status.json", "errors", "conflicts", "metrics"} <= set(os.listdir(fresh.path / ".memfs"))
    assert fresh.sh("cd .memfs && ls status && jq -r type status.json", cwd=fresh.path) == "status\nobject\n"
    assert ".memfs" not in fresh.sh("grep -rl . . ; tar c . | tar t", cwd=fresh.path)
