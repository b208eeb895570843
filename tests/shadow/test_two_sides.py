"""What others store appears; what both sides change is merged or kept apart; nothing of anybody's is overwritten."""

import json
import os
import subprocess

from tests.cli.conftest import Program
from tests.harness.inspector import Inspector
from tests.harness.serving import serving
from tests.harness.waiting import eventually
from tests.shadow.conftest import Shadow, shadowing


def test_what_others_store_appears_with_its_time_and_goes_with_its_directory(shadow: Shadow) -> None:
    shadow.inspector.put("/d/e/a.md", "one")
    eventually(shadow.files, {"/d/e/a.md": "one"}, within=4)
    head = shadow.inspector.heads()["/d/e/a.md"]
    assert abs((shadow.store / "d/e/a.md").stat().st_mtime - head.updated_at.timestamp()) < 0.001
    shadow.inspector.put("/d/e/a.md", "two")
    eventually(shadow.files, {"/d/e/a.md": "two"}, within=4)
    shadow.inspector.delete("/d/e/a.md")
    eventually(lambda: os.listdir(shadow.store), [], within=4)
    shadow.sync()
    assert [version.operation for version in shadow.inspector.history()] == ["created", "modified", "deleted"]


def test_a_rename_by_others_moves_the_file(shadow: Shadow) -> None:
    shadow.sh("echo x > a")
    shadow.sync()
    inode = (shadow.store / "a").stat().st_ino
    memory = shadow.inspector.memory_id("/a")
    shadow.inspector.database.call(lambda service: service.update_memory(shadow.inspector.id, memory, path="/sub/b"))
    eventually(shadow.files, {"/sub/b": "x\n"}, within=4)
    assert (shadow.store / "sub/b").stat().st_ino == inode
    shadow.sync()
    assert len(shadow.inspector.history()) == 2


def test_edits_of_both_sides_end_in_one_file(shadow: Shadow) -> None:
    lines = "".join(f"line {number}\n" for number in range(9))
    (shadow.store / "a.md").write_text(lines)
    shadow.sync()
    # The other session stores within the moment in which the shadow still waits for ours to come to rest.
    (shadow.store / "a.md").write_text(lines.replace("line 1\n", "ours\n"))
    shadow.inspector.put("/a.md", lines.replace("line 7\n", "theirs\n"))
    merged = lines.replace("line 1\n", "ours\n").replace("line 7\n", "theirs\n")
    eventually(lambda: shadow.inspector.content("/a.md"), merged, within=5)
    eventually(shadow.files, {"/a.md": merged}, within=3)
    shadow.sync()
    assert shadow.inspector.operations("/a.md") == ["created", "modified", "modified"]


def test_lines_that_both_append_are_both_kept(shadow: Shadow) -> None:
    (shadow.store / "log").write_text("start\n")
    shadow.sync()
    with (shadow.store / "log").open("a") as file:
        file.write("ours\n")
    shadow.inspector.put("/log", "start\ntheirs\n")
    eventually(lambda: shadow.inspector.content("/log"), "start\ntheirs\nours\n", within=5)
    eventually(shadow.files, {"/log": "start\ntheirs\nours\n"}, within=3)


def test_what_overlaps_stands_beside_it_and_is_told(shadow: Shadow) -> None:
    (shadow.store / "a.md").write_text("one\n")
    shadow.sync()
    (shadow.store / "a.md").write_text("ours\n")
    shadow.inspector.put("/a.md", "theirs\n")
    eventually(lambda: sorted(shadow.files().values()), ["ours\n", "theirs\n"], within=5)
    shadow.sync()
    found = shadow.files()
    assert found.pop("/a.md") == "theirs\n"
    ((sidecar, ours),) = found.items()
    assert ".conflict-" in sidecar
    assert ours == "ours\n"
    assert shadow.inspector.memories() == {"/a.md": "theirs\n", sidecar: "ours\n"}
    conflicts = shadow.root / ".memfs/conflicts"
    eventually(lambda: len(conflicts.read_text().splitlines()), 1, within=3)
    assert json.loads(conflicts.read_text())["sidecar"] == sidecar


def test_a_name_that_both_sides_make_at_once(shadow: Shadow) -> None:
    (shadow.store / "same").write_text("equal\n")
    shadow.inspector.put("/same", "equal\n")
    (shadow.store / "new").write_text("ours\n")
    shadow.inspector.put("/new", "theirs\n")
    eventually(lambda: sorted(shadow.files().values()), ["equal\n", "ours\n", "theirs\n"], within=5)
    shadow.sync()
    assert shadow.inspector.memories() == shadow.files()
    assert shadow.inspector.operations("/same") == ["created"]


def test_a_file_that_another_session_changed_is_not_removed(shadow: Shadow) -> None:
    (shadow.store / "a").write_text("one")
    shadow.sync()
    (shadow.store / "a").unlink()
    shadow.inspector.put("/a", "two")
    eventually(shadow.files, {"/a": "two"}, within=6)
    shadow.sync()
    errors = shadow.root / ".memfs/errors"
    eventually(lambda: "changed it after you saw it" in errors.read_text(), True, within=3)


def test_what_is_edited_here_and_deleted_elsewhere_is_made_anew(shadow: Shadow) -> None:
    (shadow.store / "a").write_text("one")
    shadow.sync()
    (shadow.store / "a").write_text("worth keeping")
    shadow.inspector.delete("/a")
    eventually(lambda: shadow.inspector.memories(), {"/a": "worth keeping"}, within=5)
    assert shadow.files() == {"/a": "worth keeping"}


def test_a_file_that_is_held_open_for_writing_is_not_replaced_under_its_writer(shadow: Shadow) -> None:
    (shadow.store / "log").write_text("start\n")
    shadow.sync()
    with (shadow.store / "log").open("a", buffering=1) as held:
        shadow.inspector.put("/log", "start\ntheirs\n")
        held.write("first\n")
        eventually(lambda: shadow.inspector.content("/log"), "start\ntheirs\nfirst\n", within=6)
        held.write("second\n")
        assert (shadow.store / "log").read_text() == "start\nfirst\nsecond\n"
    eventually(lambda: shadow.inspector.content("/log"), "start\ntheirs\nfirst\nsecond\n", within=6)
    eventually(shadow.files, {"/log": "start\ntheirs\nfirst\nsecond\n"}, within=4)


def test_what_no_memory_can_hold_is_told_and_stays(shadow: Shadow, program: Program) -> None:
    (shadow.store / "big").write_bytes(b"x" * 102_401)
    (shadow.store / "binary").write_bytes(b"\xff\xfe")
    (shadow.store / "link").symlink_to("big")
    (shadow.store / "con\x07trol").write_text("x")
    (shadow.store / "good").write_text("x")
    done = program.run("sync", shadow.store)
    assert done.returncode == 1
    assert "not in the store" in done.stderr
    assert shadow.inspector.memories() == {"/good": "x"}

    def unsaved() -> dict[str, str]:
        (status,) = program.objects("status", shadow.root)  # as of the last second
        return {one["path"]: one["reason"] for one in status["stores"][0]["unsaved"]}

    eventually(lambda: set(unsaved()), {"/big", "/binary", "/link", "/con\x07trol"}, within=5)
    reasons = unsaved()
    assert all(":" in reason for reason in reasons.values())
    for name in ("big", "binary", "link", "con\x07trol"):
        (shadow.store / name).unlink()
    shadow.sync()


def test_a_read_only_store_gets_nothing_and_what_is_removed_comes_back(program: Program, inspector: Inspector) -> None:
    inspector.put("/a", "theirs")
    with shadowing(program, inspector, "shadow", "--store", "Notes:ro") as shadow:
        assert (shadow.store / "a").stat().st_mode & 0o222 == 0
        (shadow.store / "b").write_text("ours")
        (shadow.store / "a").unlink()
        eventually(lambda: shadow.files().get("/a"), "theirs", within=6)
        assert program.run("sync", shadow.store).returncode == 1
        assert inspector.memories() == {"/a": "theirs"}
        (shadow.store / "b").unlink()
        shadow.stop()


def test_two_shadows_and_a_session_each(program: Program, inspector: Inspector) -> None:
    with (
        shadowing(program, inspector, "one", "--session", "sesn_one") as one,
        shadowing(program, inspector, "two", "--session", "sesn_two") as two,
    ):
        (one.store / "a").write_text("1\n2\n3\n")
        eventually(two.files, {"/a": "1\n2\n3\n"}, within=5)
        (one.store / "a").write_text("1 one\n2\n3\n")
        (two.store / "a").write_text("1\n2\n3 two\n")
        for side in (one, two):
            eventually(side.files, {"/a": "1 one\n2\n3 two\n"}, within=6)
        authors = [version.model_dump()["created_by"]["session_id"] for version in inspector.versions("/a")]
        assert sorted(authors) == ["sesn_one", "sesn_one", "sesn_two"]
        one.stop()
        two.stop()


def test_the_directory_itself_removed_is_no_removal_of_its_memories(shadow: Shadow) -> None:
    (shadow.store / "a").write_text("x")
    shadow.sync()
    subprocess.run(["rm", "-r", shadow.store], check=True)
    process = shadow.pid
    eventually(lambda: os.path.exists(f"/proc/{process}/exe"), False, within=8)
    assert shadow.inspector.memories() == {"/a": "x"}
    assert "was removed or replaced" in shadow.log()


def test_over_http_and_through_an_outage(program: Program, inspector: Inspector) -> None:
    inspector.put_all((f"/d{number % 3}/{number}", str(number)) for number in range(60))
    database = inspector.database.url
    with serving(database, program.root) as server:
        _, secret = server.create_key()
        address = server.url.removeprefix("http://")
        program.environment |= {"MEMFS_URL": server.url, "MEMFS_API_KEY": secret}
        with shadowing(program, inspector, "shadow", "--max-staleness", "0.5", "--timeout", "2") as shadow:
            assert len(shadow.files()) == 60
            (shadow.store / "d0/0").write_text("ours")
            eventually(lambda: inspector.content("/d0/0"), "ours", within=5)
            inspector.put("/d1/1", "theirs")
            eventually(lambda: shadow.files()["/d1/1"], "theirs", within=5)
            server.stop()
            (shadow.store / "d2/2").write_text("during the outage")
            status = shadow.root / ".memfs/status"
            eventually(lambda: "pending  /d2/2" in status.read_text(), True, within=8)
            assert "STALE" in status.read_text()
            with serving(database, program.root, listen=address):
                eventually(lambda: inspector.content("/d2/2"), "during the outage", within=15)
                shadow.stop()
    assert inspector.operations("/d2/2") == ["created", "modified"]
