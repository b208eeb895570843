"""What a memory cannot be is refused at the system call that every tool checks; nothing is lost, nothing is half stored."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memfs.model.content import MAX_CONTENT_BYTES
from tests.harness.errnos import refuses
from tests.harness.inspector import Inspector
from tests.harness.mounts import Mount, Place, launch, new_database
from tests.harness.waiting import eventually

FULL = b"x" * MAX_CONTENT_BYTES


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    """A mount whose daemon ends with 1: it still has what was refused, names it, and keeps it."""
    root = tmp_path_factory.mktemp("refusals")
    database = new_database(root)
    with launch(root, database.create_store("Notes"), database=database) as running:
        yield running
        assert running.stop() == 1
        assert "could not be stored" in running.log()


def state(path: Path) -> str:
    return os.getxattr(path, "user.memory.state").decode()


# Content


def test_a_memory_of_exactly_the_limit(place: Place) -> None:
    (place / "full.md").write_bytes(FULL)
    assert place.memories() == {"full.md": FULL.decode()}
    place.sh("cp full.md copy.md && cmp full.md copy.md")


def test_the_write_that_crosses_the_limit_is_refused(place: Place) -> None:
    descriptor = os.open(place / "big.md", os.O_CREAT | os.O_RDWR)
    assert os.write(descriptor, FULL) == len(FULL)
    with refuses(errno.EFBIG):
        os.write(descriptor, b"y")
    with refuses(errno.EFBIG):
        os.fsync(descriptor)
    assert os.pread(descriptor, 200_000, 0) == FULL
    with refuses(errno.EFBIG):
        os.close(descriptor)
    assert (place / "big.md").read_bytes() == FULL
    assert state(place / "big.md") == "refused"
    assert place.memories() == {}


def test_a_refused_write_keeps_what_the_store_had(place: Place) -> None:
    (place / "note.md").write_text("kept\n")
    (place.mount.plain / "big").write_bytes(FULL * 2)
    result = place.run(f"cp {place.mount.plain}/big note.md")
    assert result.returncode == 1
    assert "File too large" in result.stderr
    assert place.memories() == {"note.md": "kept\n"}
    assert place.history() == [("created", "note.md")]
    place.sh("echo better > note.md")
    assert place.memories() == {"note.md": "better\n"}
    assert state(place / "note.md") == "stored"


def test_truncation_clears_a_refusal(place: Place) -> None:
    descriptor = os.open(place / "big.md", os.O_CREAT | os.O_RDWR)
    os.write(descriptor, FULL)
    with refuses(errno.EFBIG):
        os.pwrite(descriptor, b"yy", len(FULL) - 1)
    os.ftruncate(descriptor, 3)
    os.fsync(descriptor)
    os.close(descriptor)
    assert place.memories() == {"big.md": "xxx"}


def test_o_trunc_clears_a_refusal(place: Place) -> None:
    descriptor = os.open(place / "text.md", os.O_CREAT | os.O_WRONLY)
    with refuses(errno.EILSEQ):
        os.write(descriptor, b"\xff\xfe\xfd\xfc")
    with refuses(errno.EILSEQ):
        os.close(descriptor)
    (place / "text.md").write_text("text\n")
    assert place.memories() == {"text.md": "text\n"}


def test_a_truncate_over_the_limit_changes_nothing(place: Place) -> None:
    (place / "note.md").write_text("kept\n")
    for size in (MAX_CONTENT_BYTES + 1, 1 << 50):
        with refuses(errno.EFBIG):
            os.truncate(place / "note.md", size)
    with open(place / "note.md", "r+b") as file, refuses(errno.EFBIG):
        os.ftruncate(file.fileno(), MAX_CONTENT_BYTES + 1)
    assert (place / "note.md").read_text() == "kept\n"
    assert place.history() == [("created", "note.md")]
    os.truncate(place / "note.md", MAX_CONTENT_BYTES)
    assert place.memories()["note.md"] == "kept\n" + "\0" * (MAX_CONTENT_BYTES - 5)


def test_a_write_far_behind_the_limit(place: Place) -> None:
    descriptor = os.open(place / "far.md", os.O_CREAT | os.O_WRONLY)
    with refuses(errno.EFBIG):
        os.pwrite(descriptor, b"x", 1 << 40)
    with refuses(errno.EFBIG):
        os.close(descriptor)
    assert place.memories() == {}


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"text \xc3( more",
        b"\x80\x80\x80\x80",
        b"\xed\xa0\x80 surrogate",
        b"\xc0\xaf",
        b"\xf8\x88\x80\x80\x80 x",
    ],
    ids=["ff", "broken pair", "four continuations", "surrogate", "overlong", "five bytes"],
)
def test_bytes_that_are_no_text_are_refused_at_the_write(place: Place, data: bytes) -> None:
    (place / "note.md").write_text("kept\n")
    descriptor = os.open(place / "note.md", os.O_WRONLY | os.O_APPEND)
    with refuses(errno.EILSEQ):
        os.write(descriptor, data)
    with refuses(errno.EILSEQ):
        os.fsync(descriptor)
    with refuses(errno.EILSEQ):
        os.close(descriptor)
    assert place.memories() == {"note.md": "kept\n"}
    assert place.history() == [("created", "note.md")]


def test_characters_may_be_cut_between_writes(place: Place) -> None:
    text = "äöü 漢字 🙂\n" * 100
    descriptor = os.open(place / "text.md", os.O_CREAT | os.O_WRONLY)
    for byte in text.encode():
        os.write(descriptor, bytes([byte]))
    os.close(descriptor)
    assert place.memories() == {"text.md": text}


@pytest.mark.parametrize("data", [b"caf\xc3", b"\xf0\x9f\x99"], ids=["one of two", "three of four"])
def test_an_unfinished_character_is_refused_at_the_flush(place: Place, data: bytes) -> None:
    descriptor = os.open(place / "text.md", os.O_CREAT | os.O_RDWR)
    os.write(descriptor, data)
    with refuses(errno.EILSEQ):
        os.fsync(descriptor)
    with refuses(errno.EILSEQ):
        os.close(descriptor)
    assert (place / "text.md").read_bytes() == data
    assert place.memories() == {}
    (place / "text.md").write_bytes(b"text")
    assert place.memories() == {"text.md": "text"}


@pytest.mark.parametrize("data", [b"\xa9 tail", b"\x89PNG\r\n\x1a\n\0\0"], ids=["tail", "png"])
def test_a_text_that_begins_inside_a_character_is_refused_at_the_flush_at_the_latest(place: Place, data: bytes) -> None:
    descriptor = os.open(place / "text.md", os.O_CREAT | os.O_RDWR)
    with contextlib.suppress(OSError):
        os.write(descriptor, data)
    with refuses(errno.EILSEQ):
        os.fsync(descriptor)
    with refuses(errno.EILSEQ):
        os.close(descriptor)
    assert place.memories() == {}


def test_shells_and_tools_report_a_refusal(place: Place) -> None:
    for command in (
        "printf 'a\\377b' > x.md",
        "head -c 200000 /dev/zero | tr '\\0' a > x.md",
        "python3 -c \"with open('x.md', 'wb') as f: f.write(b'\\xff')\"",
        "head -c 1000 /bin/true | tee x.md >/dev/null",
        'awk \'BEGIN { printf "%c%c", 255, 254 > "x.md" }\' LC_ALL=C; cp /bin/true x.md',
        "dd if=/bin/true of=x.md status=none",
        "truncate -s 102401 x.md",
        "tar c -C /bin true | tar x",
    ):
        result = place.run(f"set -o pipefail; {command}", LC_ALL="C")
        assert result.returncode != 0, command
        assert result.stderr, command
    assert place.memories() in ({}, {"x.md": ""})


def test_every_refusal_has_a_line_in_the_errors(place: Place) -> None:
    place.run("printf 'a\\377b' > reason.md")
    lines = (place.mount.path / ".memfs" / "errors").read_text().splitlines()
    assert any("reason.md" in line and "UTF-8" in line for line in lines)


def test_binary_and_large_scratch_is_kept_and_fails_to_become_a_memory(place: Place) -> None:
    (place / "note.md").write_text("kept\n")
    (place / "binary.tmp").write_bytes(b"\xff\xfe" * 100)
    (place / "large.tmp").write_bytes(FULL * 2)
    for name, number in (("binary.tmp", errno.EILSEQ), ("large.tmp", errno.EFBIG)):
        for target in ("note.md", "other.md"):
            with refuses(number):
                os.rename(place / name, place / target)
    assert (place / "binary.tmp").read_bytes() == b"\xff\xfe" * 100
    assert (place / "large.tmp").read_bytes() == FULL * 2
    assert (place / "note.md").read_text() == "kept\n"
    assert place.history() == [("created", "note.md")]


def test_mapped_bytes_that_are_no_text_are_refused_at_msync_or_close(place: Place) -> None:
    (place / "note.md").write_text("kept text\n")
    result = place.run(
        'python3 -c "\nimport mmap, os\n'
        "f = os.open('note.md', os.O_RDWR); m = mmap.mmap(f, 0); m[0:2] = b'\\xff\\xff'\n"
        'try:\n    m.flush(); m.close(); os.fsync(f)\nexcept OSError as e: print(e.errno)\n"'
    )
    assert result.stdout == f"{errno.EILSEQ}\n"
    assert place.memories() == {"note.md": "kept text\n"}


# Names

LONG = "256 bytes"
ILLEGAL = {
    "control": (b"a\x01b", errno.EINVAL),
    "newline": (b"a\nb", errno.EINVAL),
    "delete": (b"a\x7fb", errno.EINVAL),
    "zero width joiner": ("a\u200db".encode(), errno.EINVAL),
    "byte order mark": ("\ufeffa".encode(), errno.EINVAL),
    "line separator": ("a\u2028b".encode(), errno.EINVAL),
    "paragraph separator": ("a\u2029b".encode(), errno.EINVAL),
    "not UTF-8": (b"bad\xff", errno.EILSEQ),
    "surrogate": (b"bad\xed\xa0\x80", errno.EILSEQ),
    LONG: (b"l" * 256, errno.ENAMETOOLONG),
    LONG + " of characters": ("ä".encode() * 128, errno.ENAMETOOLONG),
}


def _create(path: bytes) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


@pytest.mark.parametrize("kind", ILLEGAL)
def test_an_illegal_name_is_refused(place: Place, kind: str) -> None:
    name, number = ILLEGAL[kind]
    (place / "note.md").write_text("kept\n")
    path = os.fsencode(place.path) + b"/" + name
    for call in (_create, os.mkdir, lambda path: os.rename(os.fsencode(place / "note.md"), path)):
        with refuses(number):
            call(path)
    for look in (os.stat, os.unlink, os.rmdir, lambda path: os.open(path, os.O_RDONLY), os.listdir):
        # A name that is too long is no name anywhere; the others are names that this store has not.
        with refuses(errno.ENAMETOOLONG if kind.startswith(LONG) else errno.ENOENT):
            look(path)
    assert os.listdir(place.path) == ["note.md"]
    assert place.memories() == {"note.md": "kept\n"}
    (place / "sibling.md").write_text("saved\n")
    assert place.history() == [("created", "note.md"), ("created", "sibling.md")]


def test_names_that_look_odd_are_legal(place: Place) -> None:
    names = [
        "a b",
        " ",
        "-rf",
        "a\\b",
        "%41",
        "a*b?",
        ":",
        "~",
        "'\"",
        "$HOME",
        "漢字.md",
        "🙂",
        "é.md",
        ".hidden",
        "...",
        "l" * 255,
        "\ue000",
    ]
    for name in names:
        (place / name).write_text(name)
    scratch = {"~"}
    assert place.memories() == {name: name for name in names if name not in scratch}
    assert set(os.listdir(place.path)) == set(names)
    for name in names:
        assert (place / name).read_text() == name


def test_a_path_has_at_most_twenty_segments(place: Place) -> None:
    deepest = place.path.joinpath(*["d"] * 18)
    deepest.mkdir(parents=True)
    (deepest / "f").write_text("deep\n")
    assert place.memories() == {"d/" * 18 + "f": "deep\n"}
    with refuses(errno.ENAMETOOLONG):
        (deepest / "e").mkdir(exist_ok=True)
        (deepest / "e" / "f").write_text("deeper\n")
    with refuses(errno.ENAMETOOLONG):
        (deepest / "e" / "g").mkdir()
    assert len(place.memories()) == 1


def test_a_directory_that_would_be_too_deep_does_not_move(place: Place) -> None:
    place.path.joinpath(*["d"] * 10).mkdir(parents=True)
    bottom = place.path.joinpath(*["d"] * 10)
    moved = place.path.joinpath(*["m"] * 10)
    moved.mkdir(parents=True)
    (moved / "f").write_text("text\n")
    with refuses(errno.ENAMETOOLONG):
        os.rename(place / "m", bottom / "m")
    assert place.memories() == {"m/" * 10 + "f": "text\n"}
    assert place.history() == [("created", "m/" * 10 + "f")]
    assert (moved / "f").read_text() == "text\n"


def test_a_path_has_at_most_1024_bytes(place: Place) -> None:
    folder = place.path
    used = len(place.prefix)
    while used + 201 < 1000:
        folder = folder / ("n" * 200)
        used += 201
    folder.mkdir(parents=True)
    longest = "f" * (1024 - used)
    (folder / longest).write_text("text\n")
    with refuses(errno.ENAMETOOLONG):
        (folder / (longest + "f")).write_text("text\n")
    with refuses(errno.ENAMETOOLONG):
        os.rename(folder / longest, folder / (longest + "f"))
    assert list(place.memories().values()) == ["text\n"]


# Kinds of files


def test_links_and_devices_are_not_permitted(place: Place) -> None:
    (place / "note.md").write_text("kept\n")
    calls: list[Callable[[], None]] = [
        lambda: os.link(place / "note.md", place / "link"),
        lambda: os.symlink("note.md", place / "symlink"),
        lambda: os.symlink("/etc/passwd", place / "symlink"),
        lambda: os.mkfifo(place / "fifo"),
        lambda: os.mknod(place / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
        lambda: os.mknod(place / "socket", stat.S_IFSOCK | 0o600),
    ]
    for call in calls:
        with refuses(errno.EPERM):
            call()
    assert os.listdir(place.path) == ["note.md"]
    assert place.history() == [("created", "note.md")]


def test_attributes_cannot_be_set(place: Place) -> None:
    (place / "note.md").write_text("kept\n")
    for name in ("user.mine", "user.memory.id", "user.memory.new"):
        with refuses(errno.EOPNOTSUPP):
            os.setxattr(place / "note.md", name, b"1")
        with refuses(errno.EOPNOTSUPP):
            os.setxattr(place.path, name, b"1")
    with refuses(errno.EOPNOTSUPP):
        os.removexattr(place / "note.md", "user.memory.id")
    with refuses(errno.ENODATA):
        os.getxattr(place / "note.md", "user.mine")
    assert place.history() == [("created", "note.md")]


# Read-only


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    """A mount of a writable store and one attached read-only."""
    root = tmp_path_factory.mktemp("readonly")
    database = new_database(root)
    policy, notes = database.create_store("Policy"), database.create_store("Notes")
    for store in (policy, notes):
        store.put_all([("/a.md", "a\n"), ("/d/b.md", "b\n")])
    options = ["--store", f"{policy.id}:ro", "--store", notes.id]
    with launch(root, policy, notes, database=database, options=options) as mount:
        yield mount


def _mutations(folder: Path) -> dict[str, Callable[[], object]]:
    return {
        "open to write": lambda: os.open(folder / "a.md", os.O_WRONLY),
        "open for update": lambda: os.open(folder / "a.md", os.O_RDWR),
        "open to truncate": lambda: os.open(folder / "a.md", os.O_RDONLY | os.O_TRUNC),
        "create": lambda: os.open(folder / "new.md", os.O_CREAT | os.O_WRONLY),
        "create scratch": lambda: os.open(folder / ".new.swp", os.O_CREAT | os.O_WRONLY),
        "truncate": lambda: os.truncate(folder / "a.md", 0),
        "unlink": lambda: os.unlink(folder / "a.md"),
        "rename": lambda: os.rename(folder / "a.md", folder / "z.md"),
        "rename over": lambda: os.rename(folder / "a.md", folder / "d/b.md"),
        "rename a directory": lambda: os.rename(folder / "d", folder / "e"),
        "mkdir": lambda: os.mkdir(folder / "new"),
        "rmdir": lambda: os.rmdir(folder / "d"),
        "chmod": lambda: os.chmod(folder / "a.md", 0o777),
        "chmod of a directory": lambda: os.chmod(folder / "d", 0o777),
        "chown": lambda: os.chown(folder / "a.md", 1000, 1000),
        "utime": lambda: os.utime(folder / "a.md", (0, 0)),
        "link": lambda: os.link(folder / "a.md", folder / "l"),
        "symlink": lambda: os.symlink("a.md", folder / "l"),
        "mkfifo": lambda: os.mkfifo(folder / "l"),
    }


@pytest.mark.parametrize("call", _mutations(Path()))
def test_a_read_only_store_refuses(read_only: Mount, call: str) -> None:
    policy = read_only.stores[0]
    folder = read_only.directory(policy)
    with refuses(errno.EROFS):
        _mutations(folder)[call]()
    assert policy.memories() == {"/a.md": "a\n", "/d/b.md": "b\n"}
    assert len(policy.history()) == 2
    assert sorted(os.listdir(folder)) == ["a.md", "d"]


def test_a_read_only_store_refuses_what_comes_from_another(read_only: Mount) -> None:
    policy, notes = map(read_only.directory, read_only.stores)
    with refuses(errno.EROFS, errno.EXDEV):
        os.rename(notes / "a.md", policy / "n.md")
    with refuses(errno.EROFS, errno.EXDEV):
        os.rename(policy / "a.md", notes / "n.md")
    result = read_only.run(f"mv {policy}/a.md {notes}/moved.md")
    assert result.returncode != 0
    assert "Read-only file system" in result.stderr
    assert (policy / "a.md").read_text() == "a\n"


def test_the_store_beside_a_read_only_one_is_writable(read_only: Mount) -> None:
    notes = read_only.stores[1]
    (read_only.directory(notes) / "w.md").write_text("w\n")
    assert notes.content("/w.md") == "w\n"


def test_a_read_only_store_is_readable(read_only: Mount) -> None:
    folder = read_only.directory(read_only.stores[0])
    assert (
        read_only.sh("cat a.md d/b.md && grep -r b . && find . | sort", cwd=folder)
        == "a\nb\n./d/b.md:b\n.\n./a.md\n./d\n./d/b.md\n"
    )


ROOT_CALLS: dict[str, Callable[[Path], object]] = {
    "create": lambda root: os.open(root / "new", os.O_CREAT | os.O_WRONLY),
    "mkdir": lambda root: os.mkdir(root / "new"),
    "rmdir of a store": lambda root: os.rmdir(root / "notes"),
    "rename of a store": lambda root: os.rename(root / "notes", root / "other"),
    "rename of a memory": lambda root: os.rename(root / "notes" / "a.md", root / "a.md"),
    "symlink": lambda root: os.symlink("notes", root / "l"),
    "write the index": lambda root: os.open(root / "MEMORY.md", os.O_WRONLY),
    "truncate the index": lambda root: os.truncate(root / "MEMORY.md", 0),
    "unlink the index": lambda root: os.unlink(root / "MEMORY.md"),
    "chmod": lambda root: os.chmod(root, 0o777),
    "write the status": lambda root: os.open(root / ".memfs" / "status", os.O_WRONLY),
    "create in the state": lambda root: os.open(root / ".memfs" / "new", os.O_CREAT | os.O_WRONLY),
    "unlink the state": lambda root: os.unlink(root / ".memfs" / "status"),
}


@pytest.mark.parametrize("call", ROOT_CALLS)
def test_the_root_of_the_mount_is_read_only(read_only: Mount, call: str) -> None:
    with refuses(errno.EROFS, *([errno.EXDEV] if call == "rename of a memory" else [])):
        ROOT_CALLS[call](read_only.path)
    assert sorted(os.listdir(read_only.path)) == ["MEMORY.md", "notes", "policy"]


def test_a_whole_mount_can_be_read_only(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    store: Inspector = database.create_store("Notes")
    store.put_all([("/a.md", "a\n"), ("/d/b.md", "b\n")])
    with launch(tmp_path, store, database=database, options=["--read-only"]) as mount:
        for call in _mutations(mount.store).values():
            with refuses(errno.EROFS):
                call()
        assert "ro" in mount.sh(f"findmnt -no OPTIONS {mount.path}", cwd=tmp_path).strip().split(",")
    assert len(store.history()) == 2


def test_a_store_that_is_archived_meanwhile_becomes_read_only(fresh: Mount) -> None:
    (fresh.store / "a.md").write_text("a\n")
    with (fresh.store / "a.md").open("w") as early:  # before the mount can know
        fresh.inspector.archive()
        early.write("b\n")
        with pytest.raises(OSError, match="Read-only file system"):
            early.close()

    def attempt() -> int:
        try:
            (fresh.store / "a.md").write_text("c\n")
        except OSError as error:
            return error.errno or 0
        return 0

    eventually(attempt, errno.EROFS, within=5)
    for call in ("echo x > new.md", "rm a.md", "mkdir d", "mv a.md b.md"):
        result = fresh.run(call)
        assert result.returncode != 0, call
        assert "Read-only file system" in result.stderr
    assert fresh.inspector.memories() == {"/a.md": "a\n"}
    # What was written before the mount knew is kept for whoever wants it back: the daemon says so, and ends with 1.
    assert fresh.stop() == 1
    assert "a.md" in fresh.log()
