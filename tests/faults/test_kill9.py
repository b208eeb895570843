"""kill -9 of the daemon under a working shell: what was acknowledged is there after the next mount, what was removed is not.

The shell writes down what it is about to do and, once the tool has ended with 0, that it was done. A tool counts only when it
checks its close, as cp, dd, mv, rm and sed do; the shell's own redirections do not. So at most one step of each run is in
doubt: it may have happened or not, but nothing in between.
"""

import contextlib
import os
import random
import subprocess
import time
from pathlib import Path

from tests.harness.mounts import Mount, launch, new_database
from tests.harness.waiting import eventually

RUNS = 50
FILES = 6

# step FILE VALUE COMMAND...: VALUE is what the file holds when the command has succeeded, "-" when it is gone. A copy that
# removes its target first may be cut off between the two.
WORKER = """
say() { echo "$*" >> "$JOURNAL"; }
step() { file=$1 value=$2; shift 2; say try $file $value; "$@" || exit 0; say done $file $value; }
write() { echo "$2" | dd of="$M/$1" status=none; }
atomic() { echo "$2" | dd of="$M/$1.tmp" status=none && mv -f "$M/$1.tmp" "$M/$1"; }
fresh() { say try $1 -; echo "$2" > "$OUT/new" && cp --remove-destination "$OUT/new" "$M/$1"; }
RANDOM=$SEED
n=$START
while :; do
    n=$((n + 1)) file=f$((RANDOM % FILES))
    case $((RANDOM % 6)) in
        0|1) step $file $n write $file $n ;;
        2) step $file $n atomic $file $n ;;
        3) step $file $n fresh $file $n ;;
        4) [ ! -e "$M/$file" ] || step $file $n sed -i "s/.*/$n/" "$M/$file" ;;
        5) [ ! -e "$M/$file" ] || step $file - rm "$M/$file" ;;
    esac
done
"""


class Expected:
    """What each file may hold: what was acknowledged last, or what was begun after that."""

    def __init__(self) -> None:
        self.possible: dict[str, set[str | None]] = {f"f{number}": {None} for number in range(FILES)}

    def follow(self, journal: str) -> int:
        """Take in what a worker wrote down; return how many steps it finished."""
        finished = 0
        for line in journal.splitlines():
            word, file, value = line.split()
            content = None if value == "-" else value
            if word == "try":
                self.possible[file] = self.possible[file] | {content}
            else:
                self.possible[file] = {content}
                finished += 1
        return finished

    def check(self, found: dict[str, str]) -> None:
        for file, possible in self.possible.items():
            content = found.get(file)
            assert content in possible, f"{file} holds {content!r} and not one of {possible!r}"
            self.possible[file] = {content}
        assert set(found) <= set(self.possible)


def held(mount: Mount) -> dict[str, str]:
    """What the mount shows under the names that the worker uses."""
    return {
        name: (mount.store / name).read_text().rstrip("\n")
        for name in os.listdir(mount.store)
        if not name.endswith(".tmp") and not name.startswith("sed")
    }


def test_nothing_acknowledged_is_lost_and_nothing_removed_comes_back(tmp_path: Path) -> None:
    chance = random.Random(20260825)
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    expected = Expected()
    finished = 0
    with launch(tmp_path, store, database=database) as mount:
        for run in range(RUNS):
            journal = tmp_path / "journal"
            journal.write_text("")
            worker = subprocess.Popen(
                ["bash", "-c", WORKER],
                cwd=tmp_path,
                env={
                    **mount.environment,
                    "M": str(mount.store),
                    "OUT": str(mount.plain),
                    "JOURNAL": str(journal),
                    "FILES": str(FILES),
                    "SEED": str(run),
                    "START": str(run * 10_000),
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                time.sleep(chance.uniform(0.05, 0.6))
                mount.kill9()
                assert worker.wait(10) == 0  # a tool that hangs on the dead mount would keep it
            finally:
                worker.kill()
                worker.wait()
            finished += expected.follow(journal.read_text())
            mount.start()
            shown = held(mount)
            expected.check(shown)
            memories = {path[1:]: text.rstrip("\n") for path, text in store.memories().items()}
            assert {name: text for name, text in memories.items() if not name.startswith("sed")} == shown, f"run {run}"
        assert finished > RUNS
        print(f"{finished} steps acknowledged over {RUNS} kills")


def test_a_settling_file_of_a_killed_daemon_stays_here_until_it_is_touched(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        mount.sh("t=$(mktemp -p . keepXXXXXX) && echo text > $t && echo y > .x.swp && mkdir -p .git && echo z > .git/z")
        mount.kill9()
        mount.start()
        (name,) = (entry for entry in os.listdir(mount.store) if entry.startswith("keep"))
        assert (mount.store / name).read_text() == "text\n"
        assert mount.sh("cat .x.swp .git/z") == "y\nz\n"
        time.sleep(2.6)
        assert store.memories() == {}
        mount.sh(f"echo more >> {name}")
        eventually(lambda: store.memories(), {f"/{name}": "text\nmore\n"}, within=4)


def test_a_parked_backup_of_a_killed_daemon_is_a_rename(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        mount.sh("echo text > a && mv a a.bak && echo text > b && mv b b~ && echo text > c && mv c c.old && echo new > c")
        mount.kill9()
        mount.start()
        assert mount.sh("cat a.bak b~ c.old c") == "text\ntext\ntext\nnew\n"
        assert not (mount.store / "a").exists()
        time.sleep(2.6)
        assert {path: text for path, text in store.memories().items() if path != "/b~"} == {
            "/a.bak": "text\n",
            "/c": "new\n",
            "/c.old": "text\n",
        }
        assert store.operations("/c") == ["created", "modified"]


def test_an_unlinked_memory_of_a_killed_daemon_stays_removed(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        mount.sh("for i in $(seq 20); do echo $i > $i; done")
        for name in range(1, 21):
            os.unlink(mount.store / str(name))
        mount.kill9()
        mount.start()
        assert os.listdir(mount.store) == []
        assert store.memories() == {}
        assert [version.operation for version in store.history()].count("deleted") == 20


def test_a_directory_rename_that_was_cut_off_is_finished(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    store.put_all((f"/d/{number:04}", f"{number}\n") for number in range(2000))
    ids = {path: memory.id for path, memory in store.heads().items()}
    with launch(tmp_path, store, database=database) as mount:
        mover = subprocess.Popen(["mv", "-T", "d", "e"], cwd=mount.store, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.15)
            mount.kill9()
            mover.wait(10)
        finally:
            mover.kill()
            mover.wait()
        mount.start()
        heads = store.heads()
        assert {memory.id for memory in heads.values()} == set(ids.values())
        folders = {path.split("/")[1] for path in heads}
        assert folders in ({"d"}, {"e"})
        (folder,) = folders
        assert sorted(os.listdir(mount.store)) == [folder]
        assert len(os.listdir(mount.store / folder)) == 2000


def test_what_a_flush_acknowledged_outlives_the_daemon(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        descriptor = os.open(mount.store / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        kept = ""
        for number in range(20):
            line = f"line {number}\n"
            os.write(descriptor, line.encode())
            os.close(os.dup(descriptor))  # a flush that returned 0
            kept += line
        mount.kill9()
        mount.start()
        assert (mount.store / "log").read_text() == kept
        assert store.memories() == {"/log": kept}
        with contextlib.suppress(OSError):  # the mount below it is gone
            os.close(descriptor)
