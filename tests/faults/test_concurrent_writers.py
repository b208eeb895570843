"""Several mounts write the same file at once: no word is lost, and none stands there twice."""

import contextlib
import os
import random
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memfs.stores.base import MAX_FULL_LIMIT, MemoryStore
from tests.faults.proxy import LOST_ANSWER, Fault, fine
from tests.faults.worlds import World, drained, lines_of, no_version_twice, rounds
from tests.harness.mounts import Mount, settle
from tests.harness.waiting import eventually

MOUNTS = 8
LINES = rounds("APPENDS", 50)
ROUNDS = rounds("EDITS", 12)
BASE = 12
"""Lines of the text that the editors work on."""


def test_eight_mounts_append_to_one_file(bad: World) -> None:
    with contextlib.ExitStack() as stack:
        mounts = [stack.enter_context(bad.mount(f"m{number}", direct=True)) for number in range(MOUNTS)]
        (mounts[0].store / "log").write_text("begin\n")
        for mount in mounts:
            eventually(lambda mount=mount: (mount.store / "log").exists(), True, within=5)  # type: ignore[misc]
        # The shell's own redirection does not tell a failed close, so that dd, which does, opens and closes for it.
        loop = "for i in $(seq $COUNT); do echo $NAME-$i | dd of=log oflag=append conv=notrunc status=none || exit 1; done"
        writers = [
            subprocess.Popen(
                ["bash", "-c", loop],
                cwd=mount.store,
                env={**mount.environment, "NAME": f"m{number}", "COUNT": str(LINES)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for number, mount in enumerate(mounts)
        ]
        try:
            for writer in writers:
                _, said = writer.communicate(timeout=LINES * 4)
                assert (writer.returncode, said) == (0, "")
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
        for mount in mounts:
            assert lines_of(mount, "errors") == []
            assert lines_of(mount, "conflicts") == []
    expected = sorted(["begin", *(f"m{number}-{line}" for number in range(MOUNTS) for line in range(1, LINES + 1))])
    assert sorted(bad.store.content("/log").splitlines()) == expected
    no_version_twice(bad.store.history())


def edit(path: Path, text: str, line: int, word: str, atomic: bool) -> bool:
    """Put `word` in place of one line of `text`, which was read before, and save it; whether the save was accepted."""
    lines = text.splitlines(keepends=True)
    lines[line % len(lines)] = f"{word}\n"
    try:
        if atomic:
            temporary = path.with_name(f"{path.name}.tmp")
            temporary.write_text("".join(lines))
            os.replace(temporary, path)
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(descriptor, "".join(lines).encode())
            finally:
                os.close(descriptor)
    except OSError:
        return False
    return True


def test_two_editors_of_one_file_lose_no_line(bad: World) -> None:
    chance = random.Random(20260901)
    written: list[str] = []
    refused = 0
    with bad.mount("m", "--max-staleness", "0.5") as here, bad.mount("n", "--max-staleness", "0.5") as there:
        (here.store / "plan.md").write_text("".join(f"line {number}\n" for number in range(BASE)))
        eventually(lambda: (there.store / "plan.md").exists(), True, within=5)
        for turn in range(ROUNDS):
            time.sleep(0.55)  # both look at the same head again
            bases = {mount.store: (mount.store / "plan.md").read_text() for mount in (here, there)}
            assert len(set(bases.values())) == 1, f"round {turn}: the mounts do not show the same"
            for number, mount in enumerate((here, there)):
                word = f"word-{turn}-{number}"
                line = chance.randrange(BASE)
                if not edit(mount.store / "plan.md", bases[mount.store], line, word, atomic=chance.random() < 0.5):
                    refused += 1
                written.append(word)
        named = {record["sidecar"] for mount in (here, there) for record in lines_of(mount, "conflicts")}
        assert len(named) >= refused
    memories = bad.store.memories()
    sidecars = {path for path in memories if path != "/plan.md"}
    assert sidecars == named
    # A later edit of the same line takes the word away again: then a version of the file has it.
    stored = {word for text in memories.values() for word in text.split()}
    ever = words_ever(bad)
    assert [word for word in written if word not in ever] == []
    assert {f"word-{ROUNDS - 1}-0", f"word-{ROUNDS - 1}-1"} <= stored
    no_version_twice(bad.store.history())
    print(f"{len(written)} edits, {refused} kept apart")


def words_ever(world: World) -> set[str]:
    """Every word that any version of any memory has had."""

    async def work(service: MemoryStore) -> set[str]:
        words: set[str] = set()
        page: str | None = None
        while True:
            answer = await service.list_versions(world.store.id, limit=MAX_FULL_LIMIT, page=page, view="full")
            for version in answer.data:
                words.update((version.content or "").split())
            page = answer.next_page
            if page is None:
                return words

    return world.store.database.call(work)


def test_what_is_written_while_the_draft_before_it_conflicts_is_stored_too(bad: World) -> None:
    """A sync by somebody else stores half a save, which conflicts; the other half arrives meanwhile."""
    with bad.mount("m", "--max-staleness", "60") as mount:
        (mount.store / "a").write_text("base\n")
        bad.store.put("/a", "theirs\n")
        began = len(bad.proxy.requests)
        descriptor = os.open(mount.store / "a", os.O_WRONLY | os.O_TRUNC)
        bad.proxy.script = lambda method, target: Fault(late=1.0) if method == "POST" else Fault()
        with ThreadPoolExecutor(1) as other:
            syncing = other.submit(sync_directory, mount.store)
            eventually(lambda: any(method == "POST" for _, method, _ in bad.proxy.requests[began:]), True, within=5)
            bad.proxy.script = fine
            os.write(descriptor, b"ours\n")
            os.close(descriptor)
            syncing.exception()
        drained(mount, within=10)
        texts = bad.store.memories()
        assert "theirs\n" in texts["/a"]
        assert any("ours\n" in text for text in texts.values()), texts
        assert (mount.store / "a").read_text() == texts["/a"]


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("command", ["echo ours >> new", "echo ours > new"])
def test_a_file_made_where_another_session_moved_one_is_that_one(bad: World, command: str) -> None:
    """This mount does not know of the move yet; when it stores its file it learns which memory has the name now."""
    with bad.mount("m", "--max-staleness", "600") as here, bad.mount("n") as there:
        (here.store / "old").write_text("theirs\n")
        eventually(lambda: (there.store / "old").exists(), True, within=5)
        assert sorted(os.listdir(here.store)) == ["old"]
        os.rename(there.store / "old", there.store / "new")
        here.run(command)
        assert sorted(os.listdir(here.store)) == ["new"] + [name.name for name in here.store.glob("new.conflict*")]
        kept = {path.read_text() for path in here.store.iterdir()}
        assert kept == ({"theirs\nours\n"} if ">>" in command else {"theirs\n", "ours\n"})
        assert bad.store.content("/new") == (here.store / "new").read_text()
        drained(here, within=5)


# What one mount does while it does not know yet what another session has just done.


@contextlib.contextmanager
def unequal(bad: World, *, bound: float = 0.4) -> Iterator[tuple[Mount, Mount]]:
    """Two mounts; the first asks through the proxy, so that its polls can be counted."""
    with (
        bad.mount("m", "--max-staleness", str(bound)) as here,
        bad.mount("n", "--max-staleness", "0.3", direct=True) as there,
    ):
        yield here, there


def polled(bad: World, here: Mount, times: int = 1) -> None:
    """Return just after `here` has asked for news so many times."""
    wanted = bad.proxy.count("GET", "memory_versions") + times

    def asked() -> bool:
        os.listdir(here.store)  # a mount that nobody uses does not ask
        return bad.proxy.count("GET", "memory_versions") >= wanted

    eventually(asked, True, within=15)
    time.sleep(0.15)  # the answer arrives


def shown(mount: Mount) -> dict[str, str]:
    return {f"/{path.relative_to(mount.store)}": path.read_text() for path in mount.store.rglob("*") if path.is_file()}


def begin(bad: World, here: Mount, there: Mount, **texts: str) -> None:
    """Both mounts show these files below `d`, and `here` has just asked for news."""
    (there.store / "d").mkdir()
    for name, text in texts.items():
        (there.store / "d" / name).write_text(text)
    wanted = {f"/d/{name}": text for name, text in texts.items()}
    eventually(lambda: shown(here), wanted, within=10)
    polled(bad, here)


def agreed(bad: World, here: Mount, there: Mount) -> dict[str, str]:
    """What the store has, when both mounts show just that."""
    drained(here, within=20)
    settle()
    polled(bad, here, 2)
    memories = bad.store.memories()
    assert shown(here) == memories
    assert shown(there) == memories
    assert "defect" not in (here.path / ".memfs" / "errors").read_text()
    return memories


def removed(bad: World, path: str) -> None:
    eventually(lambda: path in bad.store.heads(), False, within=5)


def test_the_same_bytes_are_stored_again_where_another_session_removed_them(bad: World) -> None:
    with unequal(bad) as (here, there):
        begin(bad, here, there, a="one\n")
        with (here.store / "d/a").open("w") as file:
            os.unlink(there.store / "d/a")
            removed(bad, "/d/a")
            polled(bad, here, 2)
            file.write("one\n")
        assert agreed(bad, here, there) == {"/d/a": "one\n"}


def test_a_move_of_what_another_session_just_saved_shows_its_words(bad: World) -> None:
    """They are as long as the old ones, so that only the time tells the kernel."""
    with unequal(bad, bound=3) as (here, there):
        begin(bad, here, there, a="one\n")
        polled(bad, here)
        (there.store / "d/a").write_text("two\n")
        os.rename(here.store / "d/a", here.store / "d/b")
        assert agreed(bad, here, there) == {"/d/b": "two\n"}


@pytest.mark.parametrize("moved", ["d/a", "d"])
def test_a_file_keeps_its_unstored_words_when_it_moves_after_another_session_removed_it(bad: World, moved: str) -> None:
    with unequal(bad, bound=3) as (here, there):
        begin(bad, here, there, a="one\n", k="kept\n")
        with (here.store / "d/a").open("a") as file:
            print("ours", file=file, flush=True)
            polled(bad, here)
            os.unlink(there.store / "d/a")
            removed(bad, "/d/a")
            os.rename(here.store / moved, here.store / "b")
        name = "/b" if moved == "d/a" else "/b/a"
        assert agreed(bad, here, there)[name] == "one\nours\n"


@pytest.mark.parametrize("moved", ["d/a", "d"])
def test_a_file_whose_name_another_one_takes_while_it_moves_is_a_file_as_before(bad: World, moved: str) -> None:
    with unequal(bad) as (here, there), ThreadPoolExecutor(1) as other:
        begin(bad, here, there, a="one\n")
        os.rename(there.store / "d/a", there.store / "c")
        (there.store / "d/a").write_text("another\n")
        bad.proxy.script = lambda method, target: Fault(late=2.0) if method == "POST" else Fault()
        moving = other.submit(os.rename, here.store / moved, here.store / "b")
        moving.exception()
        bad.proxy.script = fine
        with (here.store / ("b" if moved == "d/a" else "b/a")).open("a") as file:
            file.write("more\n")
        found = agreed(bad, here, there)
        assert "".join(found.values()).count("more\n") == 1
        assert "".join(found.values()).count("one\n") == 1


@pytest.mark.parametrize("change", ["mv a c", "rm a", "echo more >> a"])
@pytest.mark.parametrize("back", ["mv a~ a", "cp a~ a; rm a~"])
def test_a_backup_that_is_given_back_is_what_the_store_has_by_now(bad: World, change: str, back: str) -> None:
    with unequal(bad) as (here, there):
        begin(bad, here, there, a="one\n")
        os.rename(here.store / "d/a", here.store / "d/a~")
        there.sh(change, cwd=there.store / "d")
        polled(bad, here, 2)
        here.run(back, cwd=here.store / "d")
        agreed(bad, here, there)


@pytest.mark.parametrize("existing", [False, True])
def test_a_memory_whose_backup_name_another_session_takes_is_not_removed(bad: World, existing: bool) -> None:
    with unequal(bad) as (here, there):
        begin(bad, here, there, a="one\n", **({"a.bak": "old\n"} if existing else {}))
        os.rename(here.store / "d/a", here.store / "d/a.bak")
        (there.store / "d/a.bak").write_text("theirs\n")
        polled(bad, here, 2)
        assert agreed(bad, here, there) == {"/d/a": "one\n", "/d/a.bak": "theirs\n"}
        assert any(line["path"] == "/d/a" for line in lines_of(here, "errors"))


def test_a_directory_with_unstored_bytes_outlives_a_listing(bad: World) -> None:
    with unequal(bad) as (here, there):
        begin(bad, here, there, a="one\n")
        (here.store / "k").write_text("kept\n")
        with (here.store / "d/a").open("a") as file:
            print("ours", file=file, flush=True)
            os.unlink(there.store / "d/a")
            removed(bad, "/d/a")
            polled(bad, here, 2)
            bad.proxy.script = lambda method, target: LOST_ANSWER if method == "POST" else Fault()
            here.run("echo more >> k")  # after an answer that was lost all is listed again
            bad.proxy.script = fine
            eventually(lambda: bad.store.content("/k"), "kept\nmore\n", within=20)
            polled(bad, here, 4)
        assert agreed(bad, here, there) == {"/d/a": "one\nours\n", "/k": "kept\nmore\n"}


@pytest.mark.parametrize("closed", [False, True], ids=["held", "closed"])
def test_what_is_appended_to_a_log_after_it_was_put_aside_stays_in_it(bad: World, closed: bool) -> None:
    with unequal(bad) as (here, there):
        begin(bad, here, there, log="one\n")
        with (here.store / "d/log").open("a") as file:
            os.rename(here.store / "d/log", here.store / "d/log.old")
            print("late", file=file, flush=True)
            if closed:
                file.close()
            (here.store / "d/log").write_text("new\n")
        assert agreed(bad, here, there) == {"/d/log": "new\n", "/d/log.old": "one\nlate\n"}


def test_a_file_that_stood_beside_a_directory_of_its_name_gets_the_name_back(bad: World) -> None:
    with unequal(bad, bound=2) as (here, there):
        begin(bad, here, there, b="one\n")
        polled(bad, here)
        there.sh("rm b; mkdir b; echo in > b/x", cwd=there.store / "d")
        eventually(lambda: "/d/b/x" in bad.store.heads(), True, within=5)
        here.run("echo ours >> b", cwd=here.store / "d")
        polled(bad, here, 2)
        assert "in\n" in shown(here).values()
        there.sh("rm -r b", cwd=there.store / "d")
        assert agreed(bad, here, there) == {"/d/b": "one\nours\n"}


def test_a_backup_that_replaced_one_and_is_given_back_leaves_none(bad: World) -> None:
    with unequal(bad) as (here, there):
        begin(bad, here, there, **{"a": "one\n", "a.bak": "old\n"})
        os.rename(here.store / "d/a", here.store / "d/a.bak")
        os.rename(here.store / "d/a.bak", here.store / "d/a")
        assert agreed(bad, here, there) == {"/d/a": "one\n"}


@pytest.mark.parametrize("way", ["rm -r d", "mv d e", "mv d/x x"])
def test_a_directory_that_nobody_looked_into_goes_with_its_last_memory(bad: World, way: str) -> None:
    with bad.mount("m", "--max-staleness", "0.5") as here, bad.mount("n") as there:
        there.sh("mkdir -p d keep; echo one > d/x; echo two > keep/x")
        eventually(lambda: sorted(os.listdir(here.store)), ["d", "keep"], within=5)
        there.sh(f"{way}; sync .")
        wanted = sorted({path.split("/")[1] for path in bad.store.memories()})
        assert "d" not in wanted
        eventually(lambda: sorted(os.listdir(here.store)), wanted, within=5)
