"""The end of a shadow, wanted or not: what is on the disk reaches the store, once."""

import os
import random
import signal
import subprocess
import time

from tests.cli.conftest import Program
from tests.harness.inspector import Inspector
from tests.harness.waiting import eventually
from tests.shadow.conftest import Shadow, shadowing

ROUNDS = int(os.environ.get("SHADOW_KILLS", "3"))


def test_the_end_stores_what_has_not_come_to_rest(shadow: Shadow) -> None:
    (shadow.store / "known").write_text("1")
    shadow.sync()
    (shadow.store / "new").write_text("new")
    (shadow.store / "known").unlink()
    shadow.stop()
    assert shadow.inspector.memories() == {"/new": "new"}
    assert shadow.files() == {"/new": "new"}


def test_what_cannot_be_stored_at_the_end_is_named_and_fails_it(shadow: Shadow) -> None:
    (shadow.store / "binary").write_bytes(b"\xff")
    assert shadow.end(signal.SIGTERM) == 1
    assert "notes/binary" in shadow.log()


def test_both_sides_go_on_where_they_were(shadow: Shadow) -> None:
    for name in ("both", "here", "there", "gone-here", "gone-there"):
        (shadow.store / name).write_text("1\n2\n3\n")
    shadow.stop()
    (shadow.store / "here").write_text("here\n")
    (shadow.store / "both").write_text("1 here\n2\n3\n")
    (shadow.store / "gone-here").unlink()
    shadow.inspector.put("/there", "there\n")
    shadow.inspector.put("/both", "1\n2\n3 there\n")
    shadow.inspector.delete("/gone-there")
    shadow.start()
    expected = {"/both": "1 here\n2\n3 there\n", "/here": "here\n", "/there": "there\n"}
    eventually(shadow.files, expected, within=6)
    shadow.sync()
    assert shadow.inspector.memories() == expected


def test_kill9_at_random_loses_nothing_and_stores_nothing_twice(shadow: Shadow) -> None:
    chance = random.Random(20260825)
    contents: dict[str, str] = {}
    versions = 0
    for number in range(ROUNDS):
        for name in range(40):
            if chance.random() < 0.6:
                text = f"round {number}\n" * chance.randrange(1, 50)
                (shadow.store / f"{name}.md").write_text(text)
                contents[f"/{name}.md"] = text
                versions += 1
            elif f"/{name}.md" in contents and chance.random() < 0.2:
                (shadow.store / f"{name}.md").unlink()
                del contents[f"/{name}.md"]
                versions += 1
        time.sleep(chance.uniform(0.1, 0.8))
        shadow.kill()
        shadow.start()
        shadow.sync()
        assert shadow.files() == contents, f"round {number}"
        assert shadow.inspector.memories() == contents, f"round {number}"
        assert len(shadow.inspector.history()) == versions, f"round {number}"


def test_status_umount_and_log_know_a_shadow(program: Program, inspector: Inspector) -> None:
    environment = {"MEMFS_URL": inspector.database.url}
    place = program.root / "shadow"
    assert program.ok("shadow", place, "--session", "sesn_day", **environment).strip() == str(place)
    assert "Notes" in (place / "MEMORY.md").read_text()
    (place / "notes/a.md").write_text("x")
    (version,) = program.objects("log", place / "notes/a.md")
    assert version["created_by"]["session_id"] == "sesn_day"
    (status,) = program.objects("status")
    assert (status["state"], status["stores"][0]["pending"]) == ("live", 0)
    for command in (("diff", place / "notes/a.md"), ("restore", place / "notes/a.md", version["id"])):
        assert "memfs export" in program.refused(*command)
    assert "grep -r" in program.refused("search", "x")
    assert "remove or mend it" in program.refused("pending", "discard", place / "notes/a.md")
    assert "is mounted already" in program.refused("shadow", place, **environment)
    program.ok("umount", place)
    assert (place / "notes/a.md").read_text() == "x"
    assert program.ok("status") == ""


def test_a_killed_shadow_is_shown_as_dead_and_goes_on(shadow: Shadow, program: Program) -> None:
    shadow.kill()
    (shadow.store / "a").write_text("x")
    done = program.run("status", shadow.root)
    assert done.returncode == 1
    assert "memfs shadow" in done.stdout
    shadow.start()
    shadow.sync()
    assert shadow.inspector.memories() == {"/a": "x"}


def test_files_of_no_shadow_are_not_taken_over(program: Program, inspector: Inspector) -> None:
    (program.root / "shadow/notes").mkdir(parents=True)
    (program.root / "shadow/notes/a").write_text("mine")
    message = program.refused("shadow", "-f", program.root / "shadow", MEMFS_URL=inspector.database.url)
    assert "memfs import" in message
    assert inspector.memories() == {}


def test_a_second_signal_does_not_cut_the_end_short(program: Program, inspector: Inspector) -> None:
    with shadowing(program, inspector) as shadow:
        for number in range(200):
            (shadow.store / str(number)).write_text(str(number))
        subprocess.run(["kill", "-TERM", str(shadow.pid)], check=True)
        shadow.stop()
        assert len(inspector.memories()) == 200
