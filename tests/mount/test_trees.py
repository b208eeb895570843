"""Whole trees of real files: copied in, searched, renamed, edited, compared, and the same after a remount."""

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs.model.content import MAX_CONTENT_BYTES
from memfs.model.errors import MemfsError
from memfs.model.paths import check_path
from tests.harness.mounts import Mount, Place, launch, new_database
from tests.harness.waiting import eventually

SOURCES = [Path("/usr/share/doc"), Path("/usr/share/perl"), Path(sysconfig.get_path("stdlib"))]
WANTED = 1_200


def holdable(path: str, file: Path) -> bool:
    """Whether the contract can hold `file` at `path`: a regular text file of a size and name that it allows, and no scratch."""
    try:
        check_path(path)
    except MemfsError:
        return False
    if (
        path.endswith(("~", ".tmp", ".swp"))
        or file.is_symlink()
        or not file.is_file()
        or file.stat().st_size > MAX_CONTENT_BYTES
    ):
        return False
    try:
        file.read_bytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def texts() -> Iterator[tuple[Path, str]]:
    """Text files of this machine, and where in the tree they go."""
    found = 0
    for source in SOURCES:
        for folder, _, names in os.walk(source):
            for name in sorted(names):
                file = Path(folder) / name
                relative = f"{source.name}/{file.relative_to(source)}"
                if holdable(f"/tree/{relative}", file):
                    yield file, relative
                    found += 1
                    if found == WANTED:
                        return


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of over a thousand text files on an ordinary file system, with their times and modes."""
    root = tmp_path_factory.mktemp("original") / "tree"
    for file, relative in texts():
        target = root / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
        status = file.stat()
        target.chmod(status.st_mode & 0o777)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    return root


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, original: Path) -> Iterator[Mount]:
    """A mount with the whole tree copied into its store."""
    root = tmp_path_factory.mktemp("trees")
    database = new_database(root)
    with launch(root, database.create_store("Notes"), database=database) as mount:
        mount.sh("cp -a $ORIGINAL .", timeout=120, ORIGINAL=str(original))
        yield mount


def contents(root: Path) -> dict[str, str]:
    return {f"/{file.relative_to(root.parent)}": file.read_bytes().decode() for file in root.rglob("*") if file.is_file()}


def facts(mount: Mount) -> str:
    """Number, time, size and mode of everything in the tree."""
    return mount.sh("find tree -printf '%p %i %T@ %s %m %U %G\\n' | sort")


def test_the_copied_tree_is_equal_here_and_in_the_store(tree: Mount, original: Path) -> None:
    expected = contents(original)
    assert len(expected) == WANTED
    assert tree.sh("diff -r $ORIGINAL tree && rsync -ain $ORIGINAL/ tree/", ORIGINAL=str(original)) == ""
    eventually(lambda: tree.inspector.memories("/tree/") == expected, True, within=4)
    history = tree.inspector.history("/tree/")
    assert [version.operation for version in history] == ["created"] * WANTED


def test_grep_and_find_say_the_same(tree: Mount, original: Path) -> None:
    for search in (
        "grep -rci the . | sort",
        "grep -rlE 'copyright|license' . | sort",
        "find . -type f | sort",
        "find . -type f -size +8k -printf '%p %s\\n' | sort",
        "rg -c --sort path -uuu perl . || true",
        "find . -type f -print0 | sort -z | xargs -0 sha256sum",
        "wc -c $(find . -name '*.pm' | sort | head -50)",
        "ls -lR --time-style=full-iso . | grep -v ^total | grep -v ^d | tr -s ' ' | cut -d' ' -f1,3-",
    ):
        here = tree.sh(search, cwd=tree.store / "tree", timeout=60)
        assert here == tree.sh(search, cwd=original, timeout=60), search
        assert here, search


def test_a_remount_shows_the_same_tree(tree: Mount, original: Path) -> None:
    before = facts(tree)
    tree.remount()
    assert facts(tree) == before
    assert tree.sh("diff -r $ORIGINAL tree", ORIGINAL=str(original), timeout=60) == ""


def test_a_tree_that_is_renamed_keeps_every_id_number_and_time(tree: Mount) -> None:
    ids = {path: memory.id for path, memory in tree.inspector.heads("/tree/").items()}
    before = facts(tree)
    versions = len(tree.inspector.history())
    tree.sh("mv tree moved", timeout=120)
    assert {path: memory.id for path, memory in tree.inspector.heads("/moved/").items()} == {
        path.replace("/tree/", "/moved/", 1): memory_id for path, memory_id in ids.items()
    }
    assert len(tree.inspector.history()) == versions + len(ids)
    tree.sh("mv moved tree", timeout=120)
    assert facts(tree) == before
    assert len(tree.inspector.history()) == versions + 2 * len(ids)


def test_an_edit_of_every_file_is_one_version_each(tree: Mount) -> None:
    versions = len(tree.inspector.history())
    edit = "find $TREE -type f -size -90k -print0 | sort -z | head -z -n 300 | xargs -0 sed -i -e '$a edited here'"
    tree.sh("rm -rf $EDITED && mkdir $EDITED && cp -a tree $EDITED/", EDITED=str(tree.plain / "edited"), timeout=120)
    tree.sh(edit, TREE="tree", timeout=120)
    tree.sh(edit, cwd=tree.plain / "edited", TREE="tree")
    assert tree.sh("diff -r $EDITED tree", EDITED=str(tree.plain / "edited" / "tree"), timeout=60) == ""
    history = tree.inspector.history()[versions:]
    assert [version.operation for version in history] == ["modified"] * 300
    assert len({version.memory_id for version in history}) == 300
    assert tree.inspector.memories("/tree/") == contents(tree.plain / "edited" / "tree")


TREE = (
    "mkdir -p src/a/b src/empty src/c && echo one > src/a/one && echo two > src/a/b/two && : > src/c/nothing"
    " && printf 'no newline' > src/c/three && printf '#!/bin/sh\\necho ran\\n' > src/run && chmod 755 src/run"
    " && chmod 600 src/a/one && chmod 750 src/a && touch -d 2020-01-02T03:04:05 src/a/one src/c && seq 20000 > src/c/long"
    " && head -c 100000 src/c/long > src/c/t && mv src/c/t src/c/long && touch -d 2021-01-01 src/c/long src/a src"
)
COPIES = {
    "cp -a": "cp -a $SRC/. dst",
    "cp -r": "cp -r $SRC dst",
    "rsync -a": "rsync -a $SRC/ dst",
    "rsync -a twice": "rsync -a $SRC/ dst && rsync -a $SRC/ dst",
    "rsync --delete": "mkdir -p dst/a dst/gone && echo old > dst/a/one && echo x > dst/gone/x && rsync -a --delete $SRC/ dst",
    "tar": "mkdir dst && tar c -C $SRC . | tar xp -C dst",
    "tar twice": "mkdir dst && for i in 1 2; do tar c -C $SRC . | tar xp -C dst; done",
    "tar of a list": "mkdir dst && (cd $SRC && find . -depth -print0 | tar c --null --no-recursion -T -) | tar xp -C dst",
    "zip": "(cd $SRC && zip -qr $OUT/t.zip .) && mkdir dst && unzip -q $OUT/t.zip -d dst",
    "git clone": "git init -q $OUT/r && cp -a $SRC/. $OUT/r && git -C $OUT/r add . && git -C $OUT/r commit -qm 1"
    " && git clone -q $OUT/r dst && rm -rf dst/.git && mkdir dst/empty",
    "mv": "cp -a $SRC $OUT/moved && mv $OUT/moved dst",
}
KEEPS_TIMES = ("cp -a", "rsync -a", "rsync -a twice", "rsync --delete", "tar", "tar twice", "mv")


@pytest.mark.parametrize("copy", COPIES)
def test_a_tree_is_copied_without_a_complaint(place: Place, copy: str, tmp_path: Path) -> None:
    place.mount.sh(TREE, cwd=tmp_path)
    result = place.run(COPIES[copy], SRC=str(tmp_path / "src"), OUT=str(tmp_path))
    assert (result.returncode, result.stderr) == (0, "")
    assert place.sh("diff -r $SRC dst", SRC=str(tmp_path / "src")) == ""
    if copy in KEEPS_TIMES:
        assert place.sh("rsync -ain --delete $SRC/ dst/", SRC=str(tmp_path / "src")) == ""
    assert place.sh("./dst/run") == "ran\n"
    source = tmp_path / "src"
    expected = {f"dst/{path.relative_to(source)}": path.read_text() for path in source.rglob("*") if path.is_file()}
    eventually(place.memories, expected, within=2)  # what was removed is parked for a moment
    live = place.ids().values()
    made = [name for name, version in place.named_versions() if version.memory_id in live and version.operation == "created"]
    assert sorted(made) == sorted(expected)


def test_a_tree_is_copied_back_out(place: Place, tmp_path: Path) -> None:
    place.mount.sh(TREE, cwd=tmp_path)
    source, out = str(tmp_path / "src"), str(tmp_path)
    copy = "cp -a $SRC dst && cp -a dst $OUT/back && diff -r $SRC $OUT/back && tar c dst | tar x -C $OUT"
    place.sh(copy, SRC=source, OUT=out)
    assert place.sh("rsync -ain --delete $SRC/ $OUT/back/", SRC=source, OUT=out) == ""
    assert place.sh("diff -r $SRC $OUT/dst", SRC=source, OUT=out) == ""
