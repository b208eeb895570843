"""`memfs export`: byte for byte, only what changed, and nothing of anybody else's overwritten."""

import json
import os
from datetime import datetime
from pathlib import Path

import trio

from memfs.model.objects import UserActor
from memfs.stores.open import open_service
from tests.cli.conftest import Program
from tests.harness.serving import serving_in_thread
from tests.move.conftest import tree_of, write_tree
from tests.move.test_import import new_store, steps, store_called


def test_a_memory_becomes_a_file_with_its_bytes_and_time(program: Program) -> None:
    store = new_store(program)
    content = {"/a.md": "a\r\n", "/d/é/f": "ü", "/empty": "", "/.hidden": "\x00\x1b"}
    store.put_all(content.items())
    out = program.root / "out"
    program.ok("export", "Notes", out)
    assert tree_of(out) == {path[1:]: text.encode() for path, text in content.items()}
    head = store.heads()["/a.md"]
    assert abs((out / "a.md").stat().st_mtime - head.updated_at.timestamp()) < 0.001


def test_a_second_export_fetches_what_changed(program: Program) -> None:
    store = new_store(program)
    store.put_all([("/a", "1"), ("/b", "2"), ("/c", "3")])
    out = program.root / "out"
    program.ok("export", "Notes", out)
    store.put("/a", "one")
    store.put("/d", "4")
    store.delete("/c")
    done = steps(program.ok("export", "Notes", out, "--json"))
    assert {path: step["action"] for path, step in done.items()} == {"/a": "updated", "/b": "unchanged", "/d": "created"}
    assert (out / "c").exists()
    done = steps(program.ok("export", "Notes", out, "--delete", "--json"))
    assert done["/c"]["action"] == "deleted"
    assert tree_of(out) == {"a": b"one", "b": b"2", "d": b"4"}


def test_what_was_changed_here_is_kept_until_asked(program: Program) -> None:
    store = new_store(program)
    store.put_all([("/a", "1"), ("/b", "1")])
    out = write_tree(program.root / "out", {"b": "mine, before any export"})
    done = program.run("export", "Notes", out)
    assert done.returncode == 1
    assert "--overwrite" in done.stdout
    (out / "a").write_text("mine, after it")
    store.put("/a", "2")
    dry = program.run("export", "Notes", out, "--dry-run", "--json")
    done = program.run("export", "Notes", out, "--json")
    assert (done.returncode, dry.stdout) == (1, done.stdout)
    assert tree_of(out) == {"a": b"mine, after it", "b": b"mine, before any export"}
    program.ok("export", "Notes", out, "--overwrite")
    assert tree_of(out) == {"a": b"2", "b": b"1"}


def test_an_old_export_is_its_own_also_without_the_end_of_the_manifest(program: Program) -> None:
    store = new_store(program)
    store.put_all([("/a", "1"), ("/b", "1")])
    out = program.root / "out"
    program.ok("export", "Notes", out)
    with (out / ".memfs-export/manifest.jsonl").open("a") as manifest:
        manifest.write('{"file": "a", "cont')  # what a kill leaves
    store.put("/a", "2")
    program.ok("export", "Notes", out)
    assert tree_of(out) == {"a": b"2", "b": b"1"}
    for line in (out / ".memfs-export/manifest.jsonl").read_text().splitlines():
        assert json.loads(line)["content_sha256"]


def test_delete_leaves_tools_directories_alone_and_a_dry_run_everything(program: Program) -> None:
    new_store(program).put("/a", "1")
    out = write_tree(program.root / "out", {"x/y/z": "foreign", ".git/config": "git", "a/b": "in the way"})
    before = tree_of(out)
    program.run("export", "Notes", out, "--delete", "--dry-run")
    assert tree_of(out) == before
    program.ok("export", "Notes", out, "--delete")
    assert tree_of(out) == {"a": b"1", ".git/config": b"git"}
    assert not (out / "x").exists()


def test_nothing_is_written_through_a_link_or_over_a_directory(program: Program) -> None:
    store = new_store(program)
    store.put_all([("/d/a", "1"), ("/e", "2"), ("/f/g", "3"), ("/ok", "4")])
    outside = write_tree(program.root / "outside", {})
    out = write_tree(program.root / "out", {"e/file": "x", "f": "a file"})
    (out / "d").symlink_to(outside)
    done = program.run("export", "Notes", out)
    assert done.returncode == 1
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == {"/d/a", "/e", "/f/g"}
    assert os.listdir(outside) == []
    assert (out / "ok").read_text() == "4"


def test_the_history_in_the_layout_of_a_mount(program: Program) -> None:
    store = new_store(program)
    store.put("/d/a.md", "1")
    store.put("/d/a.md", "2")
    store.delete("/d/a.md")
    store.put("/b", "x")
    out = program.root / "out"
    program.ok("export", "Notes", out, "--versions")
    folder = out / ".versions/d/a.md"
    names = sorted(os.listdir(folder))
    assert [name.split("-")[1] for name in names] == ["created", "modified", "deleted"]
    assert [(folder / name).read_text() for name in names] == ["1", "2", ""]
    log = [json.loads(line) for line in (out / ".versions/@log.jsonl").read_text().splitlines()]
    assert [version["operation"] for version in log] == ["created", "deleted", "modified", "created"]
    assert {version["created_by"]["type"] for version in log} == {"session_actor"}
    stamp = names[0].partition("-")[0].removesuffix("Z")
    assert datetime.strptime(stamp, "%Y%m%dT%H%M%S.%f")
    again = steps(program.ok("export", "Notes", out, "--versions", "--json"))
    assert {step["action"] for step in again.values()} == {"unchanged"}


def test_a_redaction_reaches_the_exported_history(program: Program) -> None:
    store = new_store(program)
    store.put("/a", "secret")
    store.put("/a", "clean")
    out = program.root / "out"
    program.ok("export", "Notes", out, "--versions")
    old = store.versions("/a")[0]
    assert old.operation == "created"

    async def redact() -> None:
        service = await open_service(store.database.url, actor=UserActor(user_id="user_admin"))
        try:
            await service.redact_version(store.id, old.id)
        finally:
            await service.aclose()

    trio.run(redact)
    program.ok("export", "Notes", out, "--versions")
    assert [path.read_text() for path in (out / ".versions/a").iterdir()] == ["clean"]


def test_an_export_of_another_store_is_refused_and_so_are_two_at_once(program: Program) -> None:
    new_store(program).put("/a", "1")
    new_store(program, "Other").put("/b", "2")
    out = program.root / "out"
    program.ok("export", "Notes", out)
    assert "another store" in program.refused("export", "Other", out)
    assert "does not exist" in program.refused("export", "Notes", program.root / "no/where")
    assert "no store" in program.refused("export", "Nothing", out)


def test_ten_thousand_memories_come_back_byte_for_byte(program: Program) -> None:
    notes = program.root / "notes"
    for number in range(10_000):
        folder = notes / f"d{number % 40}" / f"e{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.md").write_bytes((f"Notiz {number} — ü 日本\r\n" * (number % 9)).encode())
    done = program.run("import", notes, "Notes", "--create")
    assert "10,000 created" in done.stderr, done.stdout + done.stderr
    out = program.root / "out"
    assert "10,000 created" in program.run("export", "Notes", out).stderr
    assert tree_of(out) == tree_of(notes)
    assert len(store_called(program, "Notes").history()) == 10_000


def test_over_http_a_first_export_reads_pages_and_a_small_one_single_memories(program: Program) -> None:
    store = new_store(program)
    content = {f"/d{number % 3}/{number}": str(number) for number in range(230)}
    store.put_all(content.items())
    out = program.root / "out"
    with serving_in_thread(store.database.url) as server:
        _, minted = server.keyring.create_key("tests")
        variables = {"MEMFS_URL": server.url, "MEMFS_API_KEY": minted.secret}
        program.ok("export", "Notes", out, "--versions", **variables)
        assert tree_of(out) == {path[1:]: text.encode() for path, text in content.items()}
        store.put("/d0/0", "changed")
        done = steps(program.ok("export", "Notes", out, "--versions", "--json", **variables))
    assert [step["path"] for step in done.values() if step["action"] == "updated"] == ["/d0/0"]
    assert len([step for step in done.values() if step["action"] == "created"]) == 1  # the new version
    assert len(list(Path(out, ".versions").rglob("2*T*Z-*"))) == 231
