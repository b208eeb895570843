"""Files behave as files: handles, offsets, sizes, mappings, locks."""

import errno
import fcntl
import os
import subprocess
import time

import pytest

from tests.harness.errnos import refuses
from tests.harness.mounts import Place
from tests.harness.waiting import eventually

# Mappings are used in processes of their own: a page fault that nobody answers would hold the interpreter's lock.


def python(place: Place, program: str) -> str:
    return place.sh(f"python3 - <<'EOF'\n{program}\nEOF")


def test_shorter_text_leaves_no_tail(place: Place) -> None:
    place.sh("seq 1000 > p.md && echo x > p.md")
    assert place.sh("cat p.md; stat -c %s p.md") == "x\n2\n"
    assert place.memories() == {"p.md": "x\n"}


def test_write_at_an_offset_changes_only_that(place: Place) -> None:
    (place / "a").write_text("0123456789" * 1000)
    descriptor = os.open(place / "a", os.O_RDWR)
    os.pwrite(descriptor, b"xyz", 5003)
    assert os.pread(descriptor, 5, 5001) == b"12xyz"[:5]
    os.close(descriptor)
    expected = "0123456789" * 500 + "012xyz6789" + "0123456789" * 499
    assert place.memories() == {"a": expected}


def test_a_hole_reads_as_zeros(place: Place) -> None:
    descriptor = os.open(place / "sparse", os.O_CREAT | os.O_RDWR)
    os.pwrite(descriptor, b"end", 5000)
    assert os.fstat(descriptor).st_size == 5003
    assert os.pread(descriptor, 10, 4995) == b"\0" * 5 + b"end"
    os.close(descriptor)
    assert place.memories() == {"sparse": "\0" * 5000 + "end"}


def test_truncate_both_ways(place: Place) -> None:
    (place / "a").write_text("0123456789")
    os.truncate(place / "a", 4)
    assert place.memories() == {"a": "0123"}
    os.truncate(place / "a", 6)
    assert place.memories() == {"a": "0123\0\0"}
    assert (place / "a").read_bytes() == b"0123\0\0"
    os.truncate(place / "a", 6)
    assert place.operations("a") == ["created", "modified", "modified"]


def test_truncate_of_an_open_file_goes_out_with_its_close(place: Place) -> None:
    (place / "a").write_text("0123456789")
    descriptor = os.open(place / "a", os.O_RDWR)
    os.write(descriptor, b"XY")
    os.ftruncate(descriptor, 5)
    os.truncate(place / "a", 4)
    os.close(descriptor)
    assert place.memories() == {"a": "XY23"}
    assert place.operations("a") == ["created", "modified"]


def test_the_empty_state_of_a_redirection_is_never_published(place: Place) -> None:
    (place / "a").write_text("before\n")
    writer = subprocess.Popen(
        ["bash", "-c", "(read -r line; echo $line) > a"], cwd=place.path, stdin=subprocess.PIPE, text=True
    )
    assert writer.stdin is not None
    try:
        eventually(lambda: (place / "a").stat().st_size, 0, within=2)
        time.sleep(0.3)
        assert place.memories() == {"a": "before\n"}
        writer.stdin.write("after\n")
        writer.stdin.close()
        assert writer.wait(10) == 0
    finally:
        writer.kill()
        writer.wait()
    assert place.memories() == {"a": "after\n"}
    assert place.operations("a") == ["created", "modified"]


def test_append_after_append(place: Place) -> None:
    place.sh("printf foo > a; for i in 1 2 3; do printf $i >> a; done")
    assert place.memories() == {"a": "foo123"}
    assert place.operations("a") == ["created"] + ["modified"] * 3


def test_two_processes_append_and_lose_nothing(place: Place) -> None:
    place.sh("( for i in $(seq 100); do echo L$i >> log; done ) & ( for i in $(seq 100); do echo R$i >> log; done ) & wait")
    lines = place.memories()["log"].splitlines()
    assert sorted(lines) == sorted(f"{side}{i}" for side in "LR" for i in range(1, 101))
    assert [line for line in lines if line[0] == "L"] == [f"L{i}" for i in range(1, 101)]


def test_two_open_handles_append_to_one_file(place: Place) -> None:
    first, second = (os.open(place / "a", os.O_CREAT | os.O_WRONLY | os.O_APPEND) for _ in range(2))
    for number in range(20):
        os.write(first, f"f{number}\n".encode())
        os.write(second, f"s{number}\n".encode())
    os.close(first)
    os.close(second)
    assert place.memories()["a"] == "".join(f"f{n}\ns{n}\n" for n in range(20))


def test_a_reader_sees_what_another_handle_has_not_closed_yet(place: Place) -> None:
    descriptor = os.open(place / "a", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"half")
    assert (place / "a").read_text() == "half"
    assert place.sh("cat a; stat -c %s a") == "half4\n"
    os.write(descriptor, b" done")
    assert (place / "a").read_text() == "half done"
    os.close(descriptor)
    # Starting `cat` closed a copy of the handle: it counts as shared, and its last close stores it after close(2) returned.
    eventually(lambda: place.memories(), {"a": "half done"}, within=1.5)


def test_fsync_stores_and_does_not_make_a_version_at_close(place: Place) -> None:
    descriptor = os.open(place / "a", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"one")
    os.fsync(descriptor)
    assert place.memories() == {"a": "one"}
    os.fdatasync(descriptor)
    os.close(descriptor)
    assert place.operations("a") == ["created"]


def test_an_unlinked_file_is_readable_and_does_not_come_back(place: Place) -> None:
    (place / "u.md").write_text("data\n")
    descriptor = os.open(place / "u.md", os.O_RDWR)
    os.unlink(place / "u.md")
    assert os.pread(descriptor, 100, 0) == b"data\n"
    assert os.fstat(descriptor).st_nlink == 0
    os.pwrite(descriptor, b"ghost", 0)
    assert os.pread(descriptor, 100, 0) == b"ghost"
    assert os.listdir(place.path) == []
    os.close(descriptor)
    eventually(lambda: place.history(), [("created", "u.md"), ("deleted", "u.md")], within=2)
    time.sleep(0.3)
    assert place.memories() == {}
    assert os.listdir(place.path) == []


def test_a_replaced_file_is_readable_where_it_was_open(place: Place) -> None:
    (place / "a").write_text("old")
    descriptor = os.open(place / "a", os.O_RDONLY)
    place.sh("printf new > a.tmp && mv a.tmp a")
    assert os.pread(descriptor, 10, 0) == b"old"
    assert (place / "a").read_text() == "new"
    assert os.fstat(descriptor).st_nlink == 0
    os.close(descriptor)
    assert place.operations("a") == ["created", "modified"]


def test_exclusive_creation(place: Place) -> None:
    os.close(os.open(place / "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    with refuses(errno.EEXIST):
        os.open(place / "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    with refuses(errno.EEXIST):
        os.mkdir(place / "a")


def test_files_and_directories_are_told_apart(place: Place) -> None:
    (place / "f").write_text("f")
    (place / "d").mkdir()
    with refuses(errno.EISDIR):
        os.open(place / "d", os.O_WRONLY)
    with refuses(errno.ENOTDIR):
        os.open(place / "f/x", os.O_CREAT | os.O_WRONLY)
    with refuses(errno.ENOTDIR):
        os.mkdir(place / "f/x")
    with refuses(errno.ENOENT):
        os.open(place / "none/x", os.O_CREAT | os.O_WRONLY)
    with refuses(errno.EISDIR, errno.EINVAL):
        os.truncate(place / "d", 0)
    with refuses(errno.EISDIR):
        place.mount.store.write_text("an agent takes the store for a file")


def test_write_through_a_shared_mapping(place: Place) -> None:
    program = """
import mmap, os
f = open('m', 'w+b'); f.write(b'a' * 4096); f.flush()
m = mmap.mmap(f.fileno(), 4096)
if os.fork() == 0:
    m[:3] = b'xyz'; m.flush(); os._exit(0)
os.wait()
print(m[:4].decode(), open('m').read(4))
m.close(); f.close()
"""
    assert python(place, program) == "xyza xyza\n"
    assert place.memories() == {"m": "xyz" + "a" * 4093}


def test_a_mapping_outlives_its_handle(place: Place) -> None:
    (place / "m").write_text("a" * 100)
    program = """
import mmap
f = open('m', 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close()
m[:3] = b'xyz'; m.close()
"""
    python(place, program)
    eventually(lambda: place.memories(), {"m": "xyz" + "a" * 97}, within=3)


def test_a_private_mapping_reads(place: Place) -> None:
    (place / "m").write_text("needle in text\n")
    assert place.sh("rg --mmap -o needle m") == "needle\n"


def test_locks_work_between_processes_of_one_mount(place: Place) -> None:
    held = os.open(place / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert place.run("flock -n lock true").returncode == 1
    fcntl.flock(held, fcntl.LOCK_UN)
    assert place.run("flock -n lock true").returncode == 0
    fcntl.lockf(held, fcntl.LOCK_EX, 5)
    program = """
import fcntl
try: fcntl.lockf(open('lock', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: print('held')
"""
    assert python(place, program) == "held\n"
    os.close(held)
    assert python(place, program) == ""


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 65536, 102_400])
def test_every_size_comes_back(place: Place, size: int) -> None:
    text = ("0123456789abcde\n" * (size // 16 + 1))[:size]
    (place / "a").write_text(text)
    assert (place / "a").read_text() == text
    assert place.memories() == {"a": text}
    assert (place / "a").stat().st_size == size


@pytest.mark.parametrize(
    "text",
    ["line\r\nend\r", "\ufeffwith a mark", "no newline", "\0nul\0", "e\u0301 decomposed", "\x1b[31mred", "\U0010ffff"],
    ids=["crlf", "bom", "no newline", "nul", "nfd", "escape", "last character"],
)
def test_content_is_never_changed(place: Place, text: str) -> None:
    (place / "a").write_bytes(text.encode())
    assert (place / "a").read_bytes() == text.encode()
    assert place.memories() == {"a": text}


def test_a_closed_write_is_stored_when_close_returns(place: Place) -> None:
    for number in range(50):
        descriptor = os.open(place / "a", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.write(descriptor, f"{number}".encode())
        os.close(descriptor)
        assert place.inspector.content(place.at("a")) == f"{number}"


def test_copy_within_the_mount_and_out_of_it(place: Place) -> None:
    place.sh("seq 5000 > a && cp a b && cp --reflink=auto a c && cat a > d && cp a $TMPDIR/out && cmp a $TMPDIR/out")
    memories = place.memories()
    assert len(memories) == 4
    assert set(memories.values()) == {"".join(f"{i}\n" for i in range(1, 5001))}


def test_seek_beyond_the_end_reads_nothing(place: Place) -> None:
    (place / "a").write_text("abc")
    descriptor = os.open(place / "a", os.O_RDONLY)
    assert os.pread(descriptor, 10, 3) == b""
    assert os.pread(descriptor, 10, 1 << 40) == b""
    assert os.lseek(descriptor, 0, os.SEEK_END) == 3
    os.close(descriptor)
