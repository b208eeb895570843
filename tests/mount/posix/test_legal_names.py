"""Names from hell: what the contract allows (section 4.1) shows, opens, renames and survives; what it does not is refused.

What a hostile service lists, and no file system can show, is left out and noted.
"""

import errno
import json
import os
import sqlite3
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memfs.replica.scratch import SCRATCH_DIRECTORIES, ScratchRules
from tests.harness.errnos import refuses
from tests.harness.mounts import Mount, Place, launch, new_database
from tests.harness.waiting import eventually

FORBIDDEN = ("Cc", "Cf", "Zl", "Zp", "Cs")
rules = ScratchRules()


def is_name(text: str) -> bool:
    return (
        text not in ("", ".", "..")
        and unicodedata.is_normalized("NFC", text)
        and len(text.encode()) <= 255
        and not rules.is_scratch(text)
        and text not in SCRATCH_DIRECTORIES
    )


characters = st.characters(exclude_categories=FORBIDDEN, exclude_characters="/")
awkward = st.sampled_from(
    [*"\\'\"`$&;|<>(){}[]*?!#~%^=+-_.,: \u00a0", "é", "ß", "漢", "😀", "א", "ع", "İ", "\U000e0100", "\ue000"]
)
segments = (
    st.text(characters | awkward, min_size=1, max_size=60).map(lambda text: unicodedata.normalize("NFC", text)).filter(is_name)
)

CHOSEN = (
    "back\\slash",
    "'single' \"double\" `tick`",
    " leading and trailing ",
    "-rf",
    "--help",
    ".hidden",
    "...",
    "..hidden",
    "a..b",
    "*",
    "?[x]",
    "$HOME;rm -rf ~x|y&z",
    "%s%n%d",
    "C:\\con.txt",
    "family 👨 flag 🇩🇪",
    "עברית-العربية",
    "Straße",
    "STRASSE",
    "strasse",
    "İstanbul",
    "ﬁ",
    "é",
    "Å",
    "漢字かな한글",
    "private \ue000 unassigned \u0378",
    "thin\u2009space and no\u00a0break",
    "~" + "x" * 20,
    "l" * 255,
    "漢" * 85,
    "😀" * 63,
    ".memfs",
    "MEMORY.md",
    "@log",
    "@2026-01-01",
    "CON",
    "nul",
    "lost+found",
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(names=st.lists(segments, min_size=1, max_size=12, unique=True), data=st.data())
def test_any_legal_name_lives_as_any_other(mount: Mount, names: list[str], data: st.DataObject) -> None:
    folder = mount.store / f"any{len(os.listdir(mount.store))}"
    (folder / "d").mkdir(parents=True)
    prefix = f"/{folder.name}/"
    expected = {}
    for number, name in enumerate(names):
        (folder / "d" / name).write_text(f"{number}\n")
        expected[name] = f"{number}\n"
    assert sorted(os.listdir(folder / "d")) == sorted(expected)
    assert {name: (folder / "d" / name).read_text() for name in expected} == expected
    assert mount.inspector.memories(prefix) == {f"{prefix}d/{name}": text for name, text in expected.items()}
    other = data.draw(segments.filter(lambda text: text not in expected))
    os.rename(folder / "d" / names[0], folder / "d" / other)
    expected[other] = expected.pop(names[0])
    os.rename(folder / "d", folder / names[0])  # a directory may have any of them too
    assert sorted(os.listdir(folder / names[0])) == sorted(expected)
    assert mount.inspector.memories(prefix) == {f"{prefix}{names[0]}/{name}": text for name, text in expected.items()}
    for name in expected:
        os.unlink(folder / names[0] / name)
    os.rmdir(folder / names[0])
    assert os.listdir(folder) == []


def test_chosen_names_survive_everything(fresh: Mount) -> None:
    for name in CHOSEN:
        if name != "MEMORY.md":
            (fresh.store / name).write_text(f"at the top {len(name)}\n")
    (fresh.store / "below").mkdir()
    for name in CHOSEN:
        (fresh.store / "below" / name).mkdir()
        (fresh.store / "below" / name / name).write_text("deep\n")
        assert fresh.sh('cat -- "$NAME"', cwd=fresh.store / "below" / name, NAME=name) == "deep\n"
    before = fresh.inspector.memories()
    assert len(before) == 2 * len(CHOSEN) - 1
    listed = fresh.sh("find . -type f -print0 | sort -z")
    assert listed.count("\0") == len(before)
    inodes = {path: os.lstat(fresh.store / path).st_ino for path in listed.split("\0")[:-1]}
    fresh.remount()
    assert fresh.sh("find . -type f -print0 | sort -z") == listed
    assert {path: os.lstat(fresh.store / path).st_ino for path in inodes} == inodes
    assert {"/" + path[2:]: (fresh.store / path).read_text() for path in inodes} == before
    assert fresh.inspector.memories() == before


@pytest.mark.parametrize("spelling", ["NFC", "NFD"])
def test_both_spellings_reach_the_same_file(place: Place, spelling: str) -> None:
    for word in ("é", "Ångström", "한글", "が", "ñandú"):
        name = unicodedata.normalize(spelling, word)
        (place / name).write_text("x")
        assert unicodedata.normalize("NFC", word) in os.listdir(place.path)
        for other in ("NFC", "NFD"):
            assert (place / unicodedata.normalize(other, word)).stat().st_ino == (place / name).stat().st_ino
        os.rename(place / name, place / f"{name} moved")
        assert sorted(place.memories()) == [unicodedata.normalize("NFC", f"{word} moved")]
        os.unlink(place / f"{name} moved")
        eventually(place.memories, {}, within=2)


ILLEGAL = {
    "line feed": b"a\nb",
    "carriage return": b"a\rb",
    "tab": b"a\tb",
    "escape": b"\x1b[31mred",
    "delete": b"a\x7fb",
    "right-to-left override": "a\u202eb".encode(),
    "zero-width joiner": "a\u200db".encode(),
    "soft hyphen": "a\u00adb".encode(),
    "byte order mark": "\ufeffa".encode(),
    "line separator": "a\u2028b".encode(),
    "paragraph separator": "a\u2029b".encode(),
    "next line": "a\u0085b".encode(),
}


@pytest.mark.parametrize("kind", ILLEGAL)
def test_names_that_no_memory_can_have(place: Place, kind: str) -> None:
    path = os.fsencode(place.path) + b"/" + ILLEGAL[kind]
    (place / "f").write_text("x")
    with refuses(errno.EINVAL):
        os.open(path, os.O_CREAT | os.O_WRONLY)
    with refuses(errno.EINVAL):
        os.mkdir(path)
    with refuses(errno.EINVAL):
        os.rename(place / "f", path)
    with refuses(errno.ENOENT):
        os.stat(path)
    assert os.listdir(place.path) == ["f"]


def test_bytes_that_are_no_text(place: Place) -> None:
    for name in (b"\xff", b"caf\xe9", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"):
        path = os.fsencode(place.path) + b"/" + name
        with refuses(errno.EILSEQ):
            os.open(path, os.O_CREAT | os.O_WRONLY)
        with refuses(errno.ENOENT):
            os.stat(path)
    assert os.listdir(place.path) == []


def test_the_longest_path(fresh: Mount) -> None:
    """1,024 bytes in 20 segments: made, found, edited and moved like any other; one byte more is refused."""
    folder = fresh.store
    segments = ["s" * 50] * 18 + ["t" * 52]
    for segment in segments:
        folder /= segment
    path = "/" + "/".join(segments)
    name = "n" * (1024 - len(path) - 1)
    folder.mkdir(parents=True)
    (folder / name).write_text("long\n")
    assert len(f"{path}/{name}") == 1024
    with refuses(errno.ENAMETOOLONG):
        (folder / f"{name}n").write_text("longer\n")
    with refuses(errno.ENAMETOOLONG):
        os.rename(folder / name, folder / f"{name}n")
    (folder / "d").mkdir()  # the twentieth segment
    with refuses(errno.ENAMETOOLONG):
        os.mkdir(folder / "d" / "e")
    fresh.sh(f"sed -i s/long/short/ {name} && mv {name} m && mv m {name}", cwd=folder)
    assert fresh.inspector.memories() == {f"{path}/{name}": "short\n"}
    fresh.remount()
    assert (folder / name).read_text() == "short\n"


HOSTILE = ("/../outside", "/a/../../etc/passwd", "/.", "/..", "//", "/a//b", "/a/", "", "relative", "/x/./y", "/nul\0l", "/")


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Mount]:
    """A mount of a store whose paths were changed behind everybody's back."""
    database = new_database(tmp_path)
    store = database.create_store("Notes")
    names = [f"/was{number}" for number in range(len(HOSTILE))]
    store.put_all((path, "evil\n") for path in [*names, "/good.md", "/b", "/c", "/line"])
    renamed = [*zip(names, HOSTILE, strict=True), ("/b", "/both"), ("/c", "/both/below"), ("/line", "/line\nfeed")]
    connection = sqlite3.connect(database.url.removeprefix("sqlite:///"))
    with connection:
        for old, new in renamed:
            connection.execute("UPDATE memories SET path = ? WHERE path = ?", (new, old))
            connection.execute("UPDATE memory_versions SET path = ? WHERE path = ?", (new, old))
    connection.close()
    with launch(tmp_path, store, database=database) as mount:
        yield mount


def test_what_a_hostile_service_lists_is_left_out_and_noted(hostile: Mount) -> None:
    shown = {str(path.relative_to(hostile.store)): path for path in hostile.store.rglob("*") if path.is_file()}
    contents = {name: path.read_text() for name, path in shown.items()}
    assert contents.pop("good.md") == "evil\n"
    assert contents.pop("both/below") == "evil\n"
    [beside] = [name for name in contents if name.startswith("both_")]
    assert beside.startswith("both_~")
    assert len(contents.pop(beside)) == 5
    assert all("\n" in name or "~" in name for name in contents), contents
    assert os.listdir(hostile.path) == ["notes", "MEMORY.md"]
    lines = [json.loads(line) for line in (hostile.path / ".memfs/errors").read_text().splitlines()]
    assert any(line["operation"] == "list" and "/../" in line["message"] for line in lines)
    (hostile.store / "good.md").write_text("still works\n")
    assert (hostile.store / "good.md").read_text() == "still works\n"
    assert os.path.realpath(hostile.store / "..") == str(hostile.path)
