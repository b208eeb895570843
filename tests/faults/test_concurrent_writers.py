"""Several mounts write the same file at once: no word is lost, and none stands there twice."""

import contextlib
import os
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memfs.stores.base import MAX_FULL_LIMIT, MemoryStore
from tests.faults.proxy import Fault, fine
from tests.faults.worlds import World, drained, lines_of, no_version_twice, rounds
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
