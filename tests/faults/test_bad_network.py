"""A network that loses, cuts, delays and refuses: afterwards the store has what was acknowledged, and nothing twice."""

import errno
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.proxy import (
    APPLIED_500,
    CUT_ANSWER,
    LOST_ANSWER,
    LOST_REQUEST,
    REFUSED_500,
    TOO_MANY,
    TOO_MANY_FOR_A_WHILE,
    Fault,
    Script,
    fine,
    sometimes,
)
from tests.faults.worlds import World, drained, each_content_once, lines_of, no_version_twice, rounds, status
from tests.harness.errnos import refuses
from tests.harness.mounts import Mount
from tests.harness.waiting import eventually

WORKER = Path(__file__).with_name("worker.py")
SECONDS = float(rounds("NETWORK_SECONDS", 4))
OUTAGE_SECONDS = float(rounds("OUTAGE_SECONDS", 4))
STALL_SECONDS = float(rounds("STALL_SECONDS", 4))

Possible = dict[str, set[str | None]]


def follow(ledger: str) -> tuple[Possible, int, int]:
    """What each file may hold by what a patient worker was told; how many steps were acknowledged, and refused."""
    possible: Possible = {}
    done = failed = 0
    begun: list[dict[str, str | None]] = []
    for line in ledger.splitlines():
        word, changes, _ = json.loads(line)
        if word == "try":
            begun.append(changes)
            continue
        if word == "done":
            possible.update({path: {text} for path, text in changes.items()})
            done += 1
        else:
            for stage in begun:
                for path, text in stage.items():
                    possible[path] = possible.get(path, {None}) | {text}
            failed += 1
        begun = []
    return possible, done, failed


def work(world: World, mount: Mount, seed: int, seconds: float) -> subprocess.Popen[bytes]:
    ledger = world.root / f"ledger-{seed}"
    arguments = [str(mount.store), str(ledger), str(seed), str(seed * 1_000_000), str(seconds), "patient"]
    return subprocess.Popen([sys.executable, str(WORKER), *arguments], cwd=world.root, start_new_session=True)


def finish(worker: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        assert worker.wait(seconds) == 0
    finally:
        worker.kill()
        worker.wait()


def check(world: World, mount: Mount, seed: int) -> None:
    possible, done, failed = follow((world.root / f"ledger-{seed}").read_text())
    memories = {path[1:]: text for path, text in world.store.memories().items()}
    assert done > 5
    for path, allowed in possible.items():
        assert memories.get(path) in allowed, (
            f"{path} holds {memories.get(path, '(nothing)')[:40]!r}, wanted one of {[str(text)[:40] for text in allowed]}"
        )
    assert set(memories) <= set(possible)
    shown = {path: (mount.store / path).read_text() for path in memories}
    assert shown == memories
    assert lines_of(mount, "conflicts") == []
    no_version_twice(world.store.history())
    each_content_once([version for version in world.store.history() if version.operation == "created"])
    print(f"{done} steps acknowledged, {failed} refused, {world.proxy.count()} requests")


WEATHER: dict[str, Script] = {
    "answers are lost": sometimes(1, 0.3, LOST_ANSWER),
    "answers are cut": sometimes(2, 0.3, CUT_ANSWER, LOST_ANSWER),
    "requests are lost": sometimes(3, 0.3, LOST_REQUEST),
    "too many requests": sometimes(4, 0.3, TOO_MANY, TOO_MANY_FOR_A_WHILE),
    "500, applied or not": sometimes(5, 0.4, APPLIED_500, REFUSED_500),
    "all of it": sometimes(6, 0.5, LOST_ANSWER, CUT_ANSWER, LOST_REQUEST, TOO_MANY, APPLIED_500, REFUSED_500),
}


@pytest.mark.parametrize("weather", WEATHER)
def test_work_in_bad_weather(bad: World, weather: str) -> None:
    with bad.mount("m", "--timeout", "2") as mount:
        bad.proxy.script = WEATHER[weather]
        finish(work(bad, mount, 1, SECONDS), SECONDS + 60)
        bad.proxy.script = fine
        drained(mount, within=40)
        time.sleep(1.5)  # past the bound, and past every park
        check(bad, mount, 1)


def test_stalls(bad: World) -> None:
    """Requests that nobody answers for longer than the mount waits, carried out or not.

    One that is carried out only after the mount has given up on it is another matter: no client can take it back.
    """
    with bad.mount("m", "--timeout", "1") as mount:
        late, lost = Fault(late=STALL_SECONDS), Fault(wait=STALL_SECONDS, passes=False, answer=0.0)
        bad.proxy.script = sometimes(7, 0.15, late, lost)
        finish(work(bad, mount, 2, SECONDS), SECONDS + 60)
        bad.proxy.script = fine
        time.sleep(STALL_SECONDS)  # whatever is still on its way arrives
        drained(mount, within=40)
        time.sleep(2.5)
        check(bad, mount, 2)


def test_an_outage_with_writes_going_on(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        worker = work(bad, mount, 3, OUTAGE_SECONDS + 6)
        time.sleep(3)
        bad.proxy.down = True
        time.sleep(OUTAGE_SECONDS)
        assert not status(mount)["reachable"]
        bad.proxy.down = False
        finish(worker, 60)
        drained(mount, within=60)
        eventually(lambda: status(mount)["reachable"], True, within=10)
        time.sleep(2.5)
        check(bad, mount, 3)


def test_a_save_that_times_out_is_stored_once_in_the_background(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "a").write_text("before\n")
        assert (mount.store / "a").read_text() == "before\n"
        bad.proxy.down = True
        began = time.monotonic()
        descriptor = os.open(mount.store / "a", os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, b"during\n")
        with refuses(errno.EIO):
            os.close(descriptor)
        with refuses(errno.EIO):
            (mount.store / "new").write_text("new\n")
        assert time.monotonic() - began < 5
        began = time.monotonic()
        assert (mount.store / "a").read_text() == "before\nduring\n"
        assert sorted(os.listdir(mount.store)) == ["a", "new"]
        assert os.getxattr(mount.store / "a", "user.memory.state") == b"pending"
        assert time.monotonic() - began < 3
        told = status(mount)
        assert told["pending"] == 2
        assert {one["path"] for one in told["unsaved"]} == {"/a", "/new"}
        assert all(one["reason"] for one in told["unsaved"])
        assert {line["path"] for line in lines_of(mount, "errors") if line["error"] == "EIO"} >= {"/a", "/new"}
        bad.proxy.down = False
        drained(mount, within=15)
        assert bad.store.memories() == {"/a": "before\nduring\n", "/new": "new\n"}
        assert bad.store.operations("/a") == ["created", "modified"]
        assert bad.store.operations("/new") == ["created"]


def test_an_append_whose_answer_was_lost_is_not_appended_again(bad: World) -> None:
    """It was stored, then somebody else appended: what looks like a conflict is our own line."""
    with bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "log").write_text("base\n")
        bad.proxy.script = lambda method, target: LOST_ANSWER
        descriptor = os.open(mount.store / "log", os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, b"ours\n")
        with refuses(errno.EIO):
            os.close(descriptor)
        assert bad.store.content("/log") == "base\nours\n"
        bad.store.put("/log", "base\nours\ntheirs\n")
        bad.proxy.script = fine
        drained(mount, within=15)
        assert bad.store.content("/log") == "base\nours\ntheirs\n"
        assert bad.store.operations("/log") == ["created", "modified", "modified"]


def test_the_same_after_a_kill(bad: World) -> None:
    with bad.mount("m", "--timeout", "1") as mount:
        (mount.store / "log").write_text("base\n")
        bad.proxy.script = lambda method, target: LOST_ANSWER
        for name, text in (("log", b"ours\n"), ("new", b"first\n")):
            descriptor = os.open(mount.store / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, text)
            with refuses(errno.EIO):
                os.close(descriptor)
        mount.kill9()
        bad.store.put("/log", "base\nours\ntheirs\n")
        bad.store.put("/new", "first\ntheirs\n")
        bad.proxy.script = fine
        mount.start()
        drained(mount, within=15)
        assert bad.store.memories() == {"/log": "base\nours\ntheirs\n", "/new": "first\ntheirs\n"}


def test_names_change_only_when_it_is_known_what_was_stored(bad: World) -> None:
    """A file whose creation may have happened is removed and another renamed: neither comes back under its old name."""
    with bad.mount("m", "--timeout", "1") as mount:
        assert os.listdir(mount.store) == []
        bad.proxy.script = lambda method, target: LOST_ANSWER
        for name in ("gone", "moved"):
            with refuses(errno.EIO):
                (mount.store / name).write_text(f"{name}\n")
        with refuses(errno.EIO):
            os.unlink(mount.store / "gone")
        bad.proxy.script = fine
        eventually(lambda: (mount.store / "gone").exists(), True, within=5)
        os.unlink(mount.store / "gone")
        os.rename(mount.store / "moved", mount.store / "there")
        drained(mount, within=15)
        time.sleep(2.5)
        assert bad.store.memories() == {"/there": "moved\n"}
        assert os.listdir(mount.store) == ["there"]


def test_looks_do_not_wait_for_a_service_that_is_away(bad: World) -> None:
    with bad.mount("m", "--timeout", "3", "--max-staleness", "0.5") as mount:
        for number in range(20):
            (mount.store / f"f{number}").write_text(f"{number}\n")
        bad.proxy.down = True
        time.sleep(0.6)
        os.stat(mount.store / "f0")  # the first look finds out, and may wait for the time-out
        began = time.monotonic()
        for _ in range(5):
            time.sleep(0.6)
            for number in range(20):
                assert (mount.store / f"f{number}").read_text() == f"{number}\n"
        assert time.monotonic() - began < 5 * 3  # not the time-out each time
        assert "STALE" in (mount.path / ".memfs" / "status").read_text()
        bad.proxy.down = False
        bad.store.put("/f0", "changed\n")
        eventually(lambda: (mount.store / "f0").read_text(), "changed\n", within=6)


def test_refused_credentials_keep_what_is_written_until_there_are_new_ones(bad: World, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    session = bad.server.create_session(bad.store.id)
    credentials.write_text(session["token"])
    with bad.mount("m", "--timeout", "1", "--credentials-file", str(credentials), session=session) as mount:
        (mount.store / "a").write_text("one\n")
        credentials.write_text("sk-memfs-sesn01-of-another-day")
        bad.proxy.script = lambda method, target: Fault(passes=False, status=401)
        with refuses(errno.EACCES):
            (mount.store / "a").write_text("two\n")
        assert status(mount)["pending"] == 1
        bad.proxy.script = fine
        credentials.write_text(session["token"])
        drained(mount, within=20)
        assert bad.store.memories() == {"/a": "two\n"}
        assert status(mount)["refused"] == 0


def test_many_writers_at_once_in_bad_weather(bad: World) -> None:
    """Sixteen threads, each with files of its own: nothing waits for another's request."""
    with bad.mount("m", "--timeout", "2") as mount:
        bad.proxy.script = WEATHER["all of it"]

        def write(number: int) -> str | None:
            try:
                (mount.store / f"w{number}").write_text(f"{number}\n")
            except OSError as error:
                return errno.errorcode[error.errno or 0]
            return None

        with ThreadPoolExecutor(16) as pool:
            refused = [error for error in pool.map(write, range(64)) if error is not None]
        bad.proxy.script = fine
        drained(mount, within=40)
        assert bad.store.memories() == {f"/w{number}": f"{number}\n" for number in range(64)}
        assert set(refused) <= {"EIO"}
        assert len(bad.store.history()) == 64
