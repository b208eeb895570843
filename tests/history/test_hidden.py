"""`.versions` is not in the way of tools that walk, and all that reads works inside it."""

import ctypes
import errno
import os
import struct
from pathlib import Path

from tests.harness.errnos import refuses
from tests.harness.terminal import type_into
from tests.history.sites import Site

_SYS_GETDENTS64 = 217
"""On x86-64."""


def fill(site: Site) -> None:
    site.sh("mkdir profile && echo black > profile/coffee.md && echo white > profile/coffee.md && echo green > tea.md")


def test_tools_that_walk_do_not_meet_it(local: Site) -> None:
    fill(local)
    local.sh("ls .versions/profile/coffee.md/ > /dev/null; cat .versions/@log > /dev/null")
    plain = local.program.root / "plain"
    plain.mkdir()
    assert local.sh("ls -a") == ".\n..\nprofile\ntea.md\n"
    assert local.sh("find . | sort") == ".\n./profile\n./profile/coffee.md\n./tea.md\n"
    assert local.sh("grep -r . . | sort") == "./profile/coffee.md:white\n./tea.md:green\n"
    assert local.sh("echo * .[!.]*") == "profile tea.md .[!.]*\n"
    assert local.sh("du -ab . | sort -k2 | cut -f2") == ".\n./profile\n./profile/coffee.md\n./tea.md\n"
    local.sh(f"rsync -a ./ {plain}/")
    assert sorted(str(path.relative_to(plain)) for path in plain.rglob("*")) == ["profile", "profile/coffee.md", "tea.md"]
    local.sh("git init -q . && git add -A")
    assert local.sh("git status --porcelain") == "A  profile/coffee.md\nA  tea.md\n"
    local.sh("rm -rf .git")


def test_it_takes_no_place_among_the_offsets_of_a_directory(local: Site) -> None:
    fill(local)
    local.sh("ls .versions > /dev/null")
    descriptor = os.open(local.here, os.O_RDONLY)
    try:
        entries = _entries(descriptor)
        assert [name for _, name in entries] == [".", "..", "profile", "tea.md"]
        for number, (offset, _) in enumerate(entries):
            os.lseek(descriptor, offset, os.SEEK_SET)
            assert _entries(descriptor) == entries[number + 1 :]
    finally:
        os.close(descriptor)


def _entries(descriptor: int) -> list[tuple[int, str]]:
    """What getdents64(2) gives from here to the end: the offset behind each entry, and its name."""
    found = []
    buffer = ctypes.create_string_buffer(65_536)
    libc = ctypes.CDLL(None, use_errno=True)
    while (size := libc.syscall(_SYS_GETDENTS64, descriptor, buffer, len(buffer))) > 0:
        place = 0
        while place < size:
            _, offset, length = struct.unpack_from("=QqH", buffer, place)
            found.append((offset, buffer.raw[place + 19 : place + length].split(b"\0")[0].decode()))
            place += length
    assert size == 0
    return found


def test_reading_tools_work_inside_it(local: Site) -> None:
    fill(local)
    out = local.program.root / "out"
    out.mkdir()
    directory = ".versions/profile/coffee.md"
    first, second = (f"{directory}/{name}" for name in local.sh(f"ls {directory}").split())
    assert local.sh(f"cat {first} {second}") == "black\nwhite\n"
    assert local.sh(f"diff {first} {second} > {out}/d; sed -n 1p {out}/d") == "1c1\n"
    assert local.run(f"cmp -s {second} profile/coffee.md").returncode == 0
    local.sh(f"cp -a {first} {out}/ && cp -r .versions/@0s {out}/now && tar cf {out}/t.tar -C .versions profile")
    assert (out / Path(first).name).read_text() == "black\n"
    assert (out / "now/profile/coffee.md").read_text() == "white\n"
    assert local.sh(f"tar tf {out}/t.tar | grep -c coffee.md/2") == "2\n"
    assert local.sh(f"less {first}") == "black\n"
    assert local.sh(f"head -c 3 {first}; tail -c 3 {first}; wc -c < {first}") == "black\n6\n"
    assert local.sh("head -n 1 .versions/@log | cut -f 3") == "/tea.md\n"
    assert local.sh("tail -n 1 .versions/@log.jsonl | jq -r .path") == "/profile/coffee.md\n"
    assert local.sh("cd .versions/profile && pwd -P").endswith("/notes/.versions/profile\n")


def test_a_person_at_a_terminal(local: Site) -> None:
    fill(local)
    out = local.program.root / "out"
    keys = [
        b"cd .versions\n",
        f"cat pro\tcof\t2\t*created* > {out}.completed\n".encode(),
        b"cd prof\tcoff\t\n",
        f"pwd > {out}.pwd; less 2*created*\n".encode(),
        b"q",
        f"echo $? > {out}.less; exit\n".encode(),
    ]
    bash = ["bash", "--norc", "--noprofile", "-i"]
    assert type_into(bash, keys, cwd=local.here, environment=local.environment, timeout=60) == 0
    # The name of a version is completed as far as both have it in common.
    assert Path(f"{out}.completed").read_text() == "black\n"
    assert Path(f"{out}.pwd").read_text() == f"{local.here}/.versions/profile/coffee.md\n"
    assert Path(f"{out}.less").read_text() == "0\n"


def test_nobody_writes_below_it(local: Site) -> None:
    fill(local)
    directory = local.history / "profile" / "coffee.md"
    first = sorted(directory.iterdir())[0]
    then = local.history / "@0s" / "tea.md"
    assert os.geteuid() == 0, "root is refused too; run these tests as root, as they mount"
    for file in (first, then, local.history / "@log"):
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC):
            with refuses(errno.EROFS):
                os.open(file, flags)
        with refuses(errno.EROFS):
            os.unlink(file)
    for command in (
        f"echo x >> {first}",
        f"touch {directory}/new",
        f"mkdir {directory}/new",
        f"rm -f {first}",
        f"mv {first} tea.md",
        f"mv tea.md {directory}/",
        f"cp tea.md {directory}/",
        f"chmod 777 {first}",
        "rm -rf .versions/profile",
    ):
        refused = local.run(command)
        assert refused.returncode != 0, command
        assert "Read-only file system" in refused.stderr, (command, refused.stderr)
    assert local.sh("cat tea.md profile/coffee.md") == "green\nwhite\n"
