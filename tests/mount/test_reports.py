"""What users of other mounts have reported, each as a check on this one; the number is that of the report.

All of them run on the embedded store and on one over HTTP, but for those that only a network can bring about.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.server.credentials import Keyring
from tests.faults.proxy import FINE, REFUSED_500, TOO_MANY_FOR_A_WHILE, Fault, fine
from tests.faults.worlds import drained, lines_of, status
from tests.harness.errnos import refuses
from tests.harness.inspector import Database
from tests.harness.mounts import Mount, Place, launch, settle
from tests.harness.waiting import eventually
from tests.mount.shaky import BadNetwork, Shaky, shaken
from tests.mount.tool_table import holds

pytestmark = pytest.mark.over_http_too

CHANGES = ("create_memory", "update_memory", "delete_memory")


@pytest.fixture(scope="module")
def other(mount: Mount) -> Iterator[Mount]:
    """The module's store mounted again, by another session."""
    with launch(mount.root, mount.inspector, database=mount.database, name="other") as running:
        yield running


@pytest.fixture
def shaky(database: Database) -> Iterator[Shaky]:
    """The test's own service with ways to spoil it."""
    with shaken(database) as made:
        yield made


def changes_sent(mount: Mount) -> int:
    """How many requests that change something were sent; the embedded store sends none."""
    return sum(status(mount)["requests"].get(name, 0) for name in CHANGES)


def memfs(mount: Mount, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours as who has made the mount."""
    return mount.run(f"memfs {command}", cwd=mount.root, **variables)


def stored(place: Place, name: str) -> str:
    return place.inspector.content(place.at(name))


def test_a01_vim_with_fsync_exits_cleanly(place: Place) -> None:
    place.sh("printf 'a\\n' > v.md; vim -Nu NONE -i NONE -es -c 'set fsync' -c '%s/a/b/' -c wq v.md")
    assert stored(place, "v.md") == "b\n"
    for target in (place / "v.md", place.path, place.mount.path):
        descriptor = os.open(target, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def test_a02_sed_in_place(place: Place) -> None:
    (place / "s.md").write_text("one\ntwo\n")
    before = place.ids()["s.md"]
    place.sh("sed -i 's/one/ONE/' s.md")
    assert place.memories() == {"s.md": "ONE\ntwo\n"}
    assert place.ids() == {"s.md": before}
    assert place.history() == [("created", "s.md"), ("modified", "s.md")]


@holds("editors")
def test_a03_editor_litter_stays_here(place: Place) -> None:
    litter = [".l.md.swp", "4913", "l.md~", ".#l.md", ".DS_Store", "._l.md"]
    options = "set backup writebackup swapfile backupskip="
    place.sh(f"vim -Nu NONE -i NONE -es -c '{options}' -c 'normal ihello' -c wq l.md; touch {' '.join(litter)}")
    settle()
    assert place.history() == [("created", "l.md")]
    assert set(litter) <= set(os.listdir(place.path))
    before = changes_sent(place.mount)
    place.sh(f"cat {' '.join(litter)} && rm {' '.join(litter)}")
    assert changes_sent(place.mount) == before
    assert place.history() == [("created", "l.md")]
    assert os.listdir(place.path) == ["l.md"]


def test_a04_a_file_does_not_change_after_its_save(place: Place) -> None:
    place.sh("echo x > t.md")
    before = place.sh("stat -c '%.Y %s %i' t.md")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        assert place.sh("stat -c '%.Y %s %i' t.md") == before
        time.sleep(0.5)


def test_a05_a_shorter_overwrite_keeps_no_tail(place: Place) -> None:
    place.sh("seq 3 > p.md; echo x > p.md")
    for _ in range(2):
        assert place.sh("cat p.md; stat -c%s p.md") == "x\n2\n"
        assert stored(place, "p.md") == "x\n"
        Path("/proc/sys/vm/drop_caches").write_text("3")


def test_a06_appending_loses_nothing(place: Place) -> None:
    place.sh("printf foo > a.md; for i in 1 2 3; do printf $i >> a.md; done")
    assert (place / "a.md").read_bytes() == b"foo123"
    place.sh("( for i in $(seq 50); do echo L$i >> log.md; done ) & ( for i in $(seq 50); do echo R$i >> log.md; done ) & wait")
    assert place.sh("wc -l < log.md").strip() == "100"
    assert len(set(stored(place, "log.md").splitlines())) == 100


def test_a07_rename_over_existing(place: Place) -> None:
    (place / "n.md").write_text("old\n")
    reader = subprocess.Popen(
        ["bash", "-c", 'while [ ! -e stop ]; do t=$(cat n.md) || exit 1; [ -n "$t" ] || exit 2; done'],
        cwd=place.path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for number in range(30):
            place.sh(f"echo new{number} > n.tmp; mv -f n.tmp n.md")
            assert (place / "n.md").read_text() == f"new{number}\n"
        (place / "stop").touch()
        assert reader.communicate(timeout=20)[1] == ""
        assert reader.returncode == 0
    finally:
        reader.kill()
        reader.wait()
    assert sorted(os.listdir(place.path)) == ["n.md", "stop"]
    assert stored(place, "n.md") == "new29\n"


def test_a08_rename_of_an_open_file(place: Place) -> None:
    program = "import os; f = open('.t', 'w'); f.write('hi'); f.flush(); os.rename('.t', 'o.md'); f.write('!'); f.close()"
    place.sh(f'python3 -c "{program}"')
    assert place.memories() == {"o.md": "hi!"}


def test_a09_finished_download_over_an_empty_target(fresh: Mount) -> None:
    fresh.sh("echo data > f.part; : > f.md; mv f.part f.md")
    assert fresh.stop() == 0
    assert fresh.inspector.memories() == {"/f.md": "data\n"}


def test_a10_directories_move(place: Place) -> None:
    place.sh("mkdir -p d/s; for i in $(seq 40); do echo $i > d/s/$i; done")
    before = place.ids()
    place.sh("mv d e")
    assert place.sh("find e -type f | wc -l").strip() == "40"
    assert place.ids() == {name.replace("d/", "e/", 1): memory_id for name, memory_id in before.items()}


@pytest.mark.over_http
@pytest.mark.parametrize("fault", ["one failure", "one memory", "away"])
def test_a10_a_move_that_fails_half_way(shaky: BadNetwork, database: Database, tmp_path: Path, fault: str) -> None:
    """One failure is repeated and never seen; more are told, nothing is lost or twice, and running `mv` again finishes it.

    The embedded store cannot fail for some memories of many.
    """
    store = database.create_store("Notes")
    texts = {f"/s/{number}": f"{number}\n" for number in range(40)}
    ids = {memory.path.removeprefix("/d"): memory.id for memory in store.put_all((f"/d{path}", t) for path, t in texts.items())}
    with launch(tmp_path, store, database=database, options=["--timeout", "1"]) as mount:
        mount.sh("find d -type f")
        left = iter([FINE] * 20 + [REFUSED_500] * (1 if fault == "one failure" else 10_000))

        def script(method: str, target: str) -> Fault:
            if fault == "one memory":
                return REFUSED_500 if ids["/s/7"] in target else FINE
            return next(left, FINE) if method == "POST" else FINE

        shaky.proxy.script = script
        done = mount.run("mv d e")
        if fault == "one failure":
            assert done.returncode == 0
        else:
            assert "Input/output error" in done.stderr
            assert {path.removeprefix("/d").removeprefix("/e"): text for path, text in store.memories().items()} == texts
            assert int(mount.sh("find . -type f | wc -l")) == 40
            shaky.proxy.script = fine
            mount.sh("mv d e")
        assert {path.removeprefix("/e"): memory.id for path, memory in store.heads().items()} == ids
        assert mount.sh("find . -type f | wc -l; ls") == "40\ne\n"


def test_a11_deleted_files_stay_deleted(fresh: Mount) -> None:
    fresh.sh("echo x > z.md; rm z.md")
    fresh.remount()
    assert not (fresh.store / "z.md").exists()
    versions = fresh.inspector.versions("/z.md")
    assert [version.operation for version in versions] == ["created", "deleted"]
    assert f"session_id='{fresh.session_id}'" in str(versions[1].created_by)


def test_a12_unlink_of_an_open_file_leaves_nothing(place: Place) -> None:
    assert place.sh("echo data > u.md; exec 7<>u.md; rm u.md; cat <&7; ls -A; echo ghost >&7; exec 7>&-") == "data\n"
    time.sleep(0.5)
    assert place.memories() == {}
    assert os.listdir(place.path) == []


def test_a13_removal_of_a_big_directory(place: Place) -> None:
    place.sh("mkdir many; cd many; for i in $(seq 1500); do : > f$i; done", timeout=90)
    assert place.sh("ls many | sort -u | wc -l").strip() == "1500"
    result = place.run("rm -rf many; [ ! -e many ]", timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


def test_a14_a_large_directory_is_listed_quickly(database: Database, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    store.put_all((f"/m{number:04}.md", "text\n") for number in range(2000))
    with launch(tmp_path, store, database=database) as mount:
        assert mount.sh("ls -f | wc -l").strip() == "2002"
        pages = status(mount)["requests"].get("list_memories", 0)
        assert pages <= 20 + 1  # one looks ahead, should this be the beginning of a walk
        took = []
        for _ in range(5):
            began = time.monotonic()
            assert len(os.listdir(mount.store)) == 2000
            took.append(time.monotonic() - began)
        assert min(took) < 0.3
        assert status(mount)["requests"].get("list_memories", 0) == pages


def test_a15_copied_times_are_kept(place: Place) -> None:
    result = place.run("touch -d 2020-01-02 $TMPDIR/q; cp -p $TMPDIR/q q.md")
    assert (result.returncode, result.stderr) == (0, "")
    assert place.sh("stat -c %Y q.md; find . -name q.md -newer q.md") == "1577923200\n"
    place.sh("touch -d 2021-01-02 q.md; touch q.md")
    assert time.time() - (place / "q.md").stat().st_mtime < 10
    assert place.history() == [("created", "q.md")]


def test_a16_df_shows_room(place: Place) -> None:
    place.sh("df -h . && df -i .")
    block, length = place.sh("stat -f -c '%S %l' .").split()
    assert int(block) > 0
    assert int(length) == 255
    found = os.statvfs(place.path)
    assert min(found.f_blocks, found.f_bavail, found.f_files, found.f_favail) > 0


def test_a17_an_edit_of_the_same_size_elsewhere_shows(place: Place) -> None:
    place.sh("echo AAA > c.md; cat c.md")
    place.inspector.put(place.at("c.md"), "BBB\n")
    eventually(lambda: (place / "c.md").read_text(), "BBB\n", within=3)


def test_a18_read_only_is_read_only_for_everybody(database: Database, tmp_path: Path) -> None:
    store = database.create_store("Policy")
    store.put("/a.md", "a\n")
    with launch(tmp_path, store, database=database, options=["--store", "Policy:ro"]) as mount:
        for command in (
            "touch x",
            "echo >> a.md",
            "rm -f a.md",
            "mv a.md b",
            "mkdir d",
            "truncate -s0 a.md",
            "chmod 777 a.md",
            "ln -s / l",
        ):
            result = mount.run(command)
            assert result.returncode != 0, command
            assert "Read-only file system" in result.stderr, command
        assert changes_sent(mount) == 0
        assert "ro" in mount.sh(f"findmnt -no OPTIONS {mount.path}", cwd=tmp_path).strip().split(",")
    assert len(store.history()) == 1


def test_a19_other_users_are_let_in_when_asked_for(database: Database, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    store.put("/a.md", "a\n")
    as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    with launch(tmp_path, store, database=database, options=["--allow-other"]) as mount:
        assert mount.sh(f"{as_nobody} cat {mount.store}/a.md", cwd=tmp_path) == "a\n"
        assert "?" not in mount.sh(f"{as_nobody} ls -la {mount.store}", cwd=tmp_path)
        result = mount.run(f"{as_nobody} sh -c 'echo x > {mount.store}/b.md'", cwd=tmp_path)
        assert result.returncode != 0
        assert "Permission denied" in result.stderr
    with launch(tmp_path, store, database=database) as mount:
        result = mount.run(f"{as_nobody} cat {mount.store}/a.md", cwd=tmp_path)
        assert result.returncode != 0
        assert "Permission denied" in result.stderr


def test_a20_one_name_in_two_spellings(place: Place) -> None:
    composed = "café.md"
    decomposed = unicodedata.normalize("NFD", composed)
    (place / decomposed).write_text("1\n")
    assert os.listdir(place.path) == [composed]
    assert (place / composed).read_text() == "1\n"
    (place / composed).write_text("2\n")
    assert place.memories() == {composed: "2\n"}


def test_a21_names_that_differ_in_case(place: Place) -> None:
    place.inspector.put_all([(place.at("Todo.md"), "A\n"), (place.at("todo.md"), "B\n")])
    eventually(lambda: (place / "todo.md").exists() and (place / "Todo.md").exists(), True, within=4)
    assert place.sh("cat Todo.md todo.md; rm todo.md; cat Todo.md") == "A\nB\nA\n"
    eventually(lambda: place.memories(), {"Todo.md": "A\n"}, within=2)


def test_a22_names_that_the_store_cannot_hold(fresh: Mount) -> None:
    folder = os.fsencode(fresh.store)
    for name, number in ((b"a\x01b", errno.EINVAL), (b"bad\xff", errno.EILSEQ), (b"l" * 256, errno.ENAMETOOLONG)):
        with refuses(number):
            os.open(folder + b"/" + name, os.O_CREAT | os.O_WRONLY)
        with refuses(errno.ENOENT, errno.ENAMETOOLONG):
            os.stat(folder + b"/" + name)
    result = fresh.run("d=.; for i in $(seq 21); do d=$d/d; done; mkdir -p $d && echo x > $d/f")
    assert result.returncode != 0
    assert "File name too long" in result.stderr
    (fresh.store / "sibling.md").write_text("x")
    assert fresh.inspector.memories() == {"/sibling.md": "x"}
    assert changes_sent(fresh) == (fresh.database.kind == "http")


def test_a23_two_sessions_append_at_once(place: Place, other: Mount) -> None:
    there = Place(other, place.path.name)
    names = [f"w{turn}.md" for turn in range(10)]
    for name in names:
        (place / name).write_text("base\n")
    eventually(lambda: there.path.exists() and len(os.listdir(there.path)), len(names), within=5)
    for name in names:
        assert (there / name).read_text() == "base\n"
        a = subprocess.Popen(["bash", "-c", f"echo fromA >> {name}"], cwd=place.path)
        b = subprocess.Popen(["bash", "-c", f"echo fromB >> {name}"], cwd=there.path)
        assert a.wait(20) == b.wait(20) == 0
        lines = stored(place, name).splitlines()
        assert lines[0] == "base"
        assert sorted(lines[1:]) == ["fromA", "fromB"]


EDIT = """
import os, sys, time
key, turn, wait = sys.argv[1], sys.argv[2], float(sys.argv[3])
path = f'm{turn}.md'
text = open(path).read()
time.sleep(wait)
draft = f'.m.{turn}.{key}.tmp'
open(draft, 'w').write(text.replace(key + '=1', key + '=2'))
try: os.replace(draft, path)
except OSError as e: sys.exit(e.errno)
"""


def test_a24_two_sessions_read_replace_and_write(place: Place, other: Mount) -> None:
    there = Place(other, place.path.name)
    turns = 20
    for turn in range(turns):
        (place / f"m{turn}.md").write_text("x=1\nkept\nkept\ny=1\n")
    eventually(lambda: there.path.exists() and len(os.listdir(there.path)), turns, within=5)
    for turn in range(turns):
        assert (there / f"m{turn}.md").read_text() == "x=1\nkept\nkept\ny=1\n"
        edits = [
            subprocess.Popen([sys.executable, "-c", EDIT, key, str(turn), str(0.02 * (turn % 10))], cwd=where.path)
            for key, where in (("x", place), ("y", there))
        ]
        statuses = [edit.wait(20) for edit in edits]
        assert set(statuses) <= {0, errno.EBUSY}
        words = "".join(text for name, text in place.memories().items() if name.startswith(f"m{turn}."))
        assert "x=2" in words, f"turn {turn}"
        assert "y=2" in words, f"turn {turn}"
        if statuses == [0, 0]:
            assert stored(place, f"m{turn}.md") == "x=2\nkept\nkept\ny=2\n"


def test_a25_flock_excludes(place: Place) -> None:
    assert place.sh("exec 8>k; flock -n 8; echo $?; exec 9>k; flock -n 9; echo $?") == "0\n1\n"
    with open(place / "k", "w") as first:
        fcntl.lockf(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        program = "import fcntl\ntry: fcntl.lockf(open('k', 'w'), 6)\nexcept BlockingIOError: print('held')"
        assert place.sh(f'python3 -c "{program}"') == "held\n"


@holds("sqlite3")
def test_a26_sqlite_is_refused_at_once(place: Place) -> None:
    result = place.run("sqlite3 x.db 'create table t(a); insert into t values(1);'")
    assert result.returncode != 0
    assert place.history() == []
    errors = (place.mount.path / ".memfs" / "errors").read_text().splitlines()
    assert any("x.db" in line and "UTF-8" in line for line in errors)


@holds("python", "searching")
def test_a27_shared_mappings_work(place: Place) -> None:
    program = (
        "import mmap; f = open('mm.md', 'w+b'); f.write(b'a' * 4096); f.flush();"
        " m = mmap.mmap(f.fileno(), 4096); m[:3] = b'xyz'; m.flush(); m.close(); f.close()"
    )
    place.sh(f'python3 -c "{program}"')
    assert stored(place, "mm.md")[:4] == "xyza"
    assert place.sh("rg --mmap -o xyz mm.md") == "xyz\n"


@holds("following")
def test_a28_following_what_others_write(place: Place) -> None:
    """Lines of this mount show at once, those of another session within the freshness bound and one look of `tail`."""
    (place / "tf.md").write_text("0\n")
    output = place.mount.plain / "a28"
    with output.open("wb") as stdout:
        process = subprocess.Popen(
            ["tail", "-n", "+1", "-f", "tf.md"], cwd=place.path, stdout=stdout, stderr=subprocess.DEVNULL
        )
    try:
        eventually(output.read_text, "0\n", within=5)
        place.inspector.put(place.at("tf.md"), "0\n1\n2\n")
        eventually(output.read_text, "0\n1\n2\n", within=6)
        place.sh("echo 3 >> tf.md")
        eventually(output.read_text, "0\n1\n2\n3\n", within=3)
    finally:
        process.kill()
        process.wait()
    assert "inotify" in memfs(place.mount, "mount --help").stdout


@pytest.mark.over_http
def test_a29_a_new_credential_needs_no_remount(database: Database, tmp_path: Path) -> None:
    """The embedded store has no credentials."""
    store = database.create_store("Notes")
    store.put("/never-read.md", "text\n")
    keyring = Keyring(database.url)
    admission = database.admit([store])
    credentials = tmp_path / "token"
    credentials.write_text(admission.environment["MEMFS_AUTH_TOKEN"])
    options = ["--credentials-file", str(credentials), "--max-staleness", "1"]
    with launch(tmp_path, store, database=database, session_id=admission.session_id, options=options) as mount:
        mount.sh("echo x > x.md; ls")
        with contextlib.closing(sqlite3.connect(database.url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute("UPDATE memfs_session_tokens SET expires_at = 1")
        for command in ("cat never-read.md", "echo y | cat > y.md"):
            assert "Permission denied" in mount.run(command).stderr, command
        eventually(lambda: "credential was refused" in mount.sh("stat x.md > $TMPDIR/x; cat ../.memfs/status"), True, within=5)
        assert mount.sh("cat y.md") == "y\n"
        credentials.write_text(keyring.create_token(admission.session_id).secret)
        keyring.close()
        eventually(lambda: mount.run("cat never-read.md").stdout, "text\n", within=5)
        mount.sh("echo z | cat > z.md")
        drained(mount, within=30)
        assert store.memories() == {"/never-read.md": "text\n", "/x.md": "x\n", "/y.md": "y\n", "/z.md": "z\n"}


@pytest.mark.over_http
def test_a30_a_service_that_asks_for_patience_gets_it(shaky: BadNetwork, database: Database, tmp_path: Path) -> None:
    """No request of the embedded store can be one too many."""
    store = database.create_store("Notes")
    refusals = itertools.chain([TOO_MANY_FOR_A_WHILE] * 3, itertools.repeat(FINE))
    with launch(tmp_path, store, database=database) as mount:
        mount.sh("ls")
        shaky.proxy.script = lambda method, target: next(refusals) if method == "POST" else FINE
        began = time.monotonic()
        mount.sh("echo z | cat > z.md")
        assert 3 <= time.monotonic() - began < 8
        assert store.operations("/z.md") == ["created"]
        assert shaky.proxy.count("POST") <= 4


def test_a31_a_dead_daemon_does_not_block_the_mount_point(fresh: Mount) -> None:
    fresh.sh("echo safe > s1.md")
    fresh.kill9()
    result = fresh.run(f"ls {fresh.path}", cwd=fresh.root)
    assert result.returncode != 0
    fresh.start()
    assert fresh.sh("cat s1.md") == "safe\n"


def test_a32_unmounting_stores_what_waits(shaky: Shaky, database: Database, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database) as mount:
        mount.sh("ls")
        with shaky.slow(3.5):
            writing = subprocess.Popen(["bash", "-c", f"echo last > {mount.store}/last.md"], cwd=tmp_path)
            eventually(lambda: len(status(mount)["unsaved"]), 1, within=5)
            done = memfs(mount, f"umount {mount.path}")
        assert (done.returncode, done.stderr) == (0, "memfs: waiting for 1 change of notes to be stored\n")
        assert mount.ended(within=5) == writing.wait(5) == 0
    assert store.memories() == {"/last.md": "last\n"}


def test_a32_unmounting_names_what_it_could_not_store(shaky: Shaky, database: Database, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database, options=["--timeout", "1", "--drain-timeout", "1"]) as mount:
        mount.sh("ls")
        with shaky.away():
            names = [f"{number}.md" for number in range(2)]
            for name in names:
                with refuses(errno.EIO):
                    (mount.store / name).write_text("text\n")
            done = memfs(mount, f"umount {mount.path}")
            assert done.returncode == 1
            assert [name for name in names if f"notes/{name}" not in done.stderr] == []
            assert mount.ended(within=5) == 1
        mount.start()
        eventually(store.memories, {f"/{name}": "text\n" for name in names}, within=10)


def test_a33_a_container_that_was_there_first_sees_the_mount(database: Database, tmp_path: Path) -> None:
    shared = tmp_path / "p"
    shared.mkdir()
    subprocess.run(["mount", "--bind", shared, shared], check=True)
    try:
        subprocess.run(["mount", "--make-rshared", shared], check=True)
        script = f"echo ready; read go; cat {shared}/m/notes/a.md"
        container = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert container.stdout is not None
        assert container.stdout.readline() == "ready\n"
        store = database.create_store("Notes")
        store.put("/a.md", "text\n")
        with launch(shared, store, database=database) as mount:
            assert container.communicate("go\n", timeout=20)[0] == "text\n"
            assert "rslave" in memfs(mount, "mount --help").stdout
    finally:
        subprocess.run(["umount", "-R", "-l", shared], check=True)


def test_a34_what_could_not_be_stored_is_told(shaky: Shaky, database: Database, tmp_path: Path) -> None:
    """bash itself does not look at what `close` answers (its `echo` ends with 0): the next thing that looks is told."""
    store = database.create_store("Notes")
    with launch(tmp_path, store, database=database, options=["--timeout", "1"]) as mount:
        mount.sh("echo kept > kept.md; ls")
        with shaky.away():
            began = time.monotonic()
            assert "Input/output error" in mount.run("echo q | cat > q2.md").stderr
            assert time.monotonic() - began < 10
            assert "Input/output error" in mount.run("echo q > q3.md; sync q3.md").stderr
            mount.sh("rm kept.md")
            text = mount.sh("cat ../.memfs/status")
            for name in ("q2.md", "q3.md"):
                assert re.search(rf"^  pending  /{name}  2 bytes since \S+Z: \S.{{20}}", text, re.MULTILINE), text
            assert "pending  /q2.md" in memfs(mount, f"status {mount.path}").stdout
            assert mount.sh("cat q2.md q3.md") == "q\nq\n"
            eventually(lambda: "/kept.md" in [line["path"] for line in lines_of(mount, "errors")], True, within=8)
            assert {line["error"] for line in lines_of(mount, "errors")} == {"EIO"}
        drained(mount, within=30)
        eventually(store.memories, {"/q2.md": "q\n", "/q3.md": "q\n"}, within=10)
        assert mount.stop() == 0
        with shaky.unusable():
            done = mount.run(shlex.join(["memfs", *mount.arguments()]), cwd=tmp_path)
            assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


@holds("git")
def test_a35_git_works_inside(place: Place) -> None:
    before = status(place.mount)["scratch_directories"]
    place.sh("mkdir g && cd g && git init -q . && echo 1 > f && git add f && git commit -qm m && git fsck && pwd")
    place.sh("cd g && : > .git/index.lock && rm -f .git/index.lock && git status --porcelain && /bin/pwd")
    assert place.memories() == {"g/f": "1\n"}
    assert not any("/.git" in path for path in place.inspector.heads())
    assert status(place.mount)["scratch_directories"] == before + 1


def test_a36_nothing_leads_out_of_a_store(place: Place) -> None:
    with refuses(errno.EPERM):
        os.symlink("/etc/passwd", place / "l")
    assert place.history() == []
    kept = [Path(place.mount.environment[f"XDG_{kind}_HOME"]) / "memfs" for kind in ("STATE", "CACHE", "DATA")]
    modes = {str(folder): folder.stat().st_mode & 0o777 for folder in kept if folder.exists()}
    assert modes
    assert set(modes.values()) == {0o700}


def test_a36_a_hostile_path_is_left_out_and_noted(database: Database, tmp_path: Path) -> None:
    store = database.create_store("Notes")
    store.put_all([("/good.md", "good\n"), ("/bad.md", "evil\n")])
    with contextlib.closing(sqlite3.connect(database.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE memories SET path = '/../../tmp/evil' WHERE path = '/bad.md'")
    with launch(tmp_path, store, database=database) as mount:
        assert mount.sh("find . -type f; cat good.md") == "./good.md\ngood\n"
        assert any("/../" in line["message"] for line in lines_of(mount, "errors"))
        assert not (tmp_path / "tmp").exists()
