"""`memfs import`: what goes in, what does not and why, and what a second run does."""

import json
import os
from pathlib import Path
from typing import Any

from memfs.model.objects import Store
from tests.cli.conftest import Program
from tests.harness.inspector import Database, Inspector
from tests.harness.serving import serving_in_thread
from tests.move.conftest import tree_of, write_tree

LIMIT = 102_400


def new_store(program: Program, name: str = "Notes") -> Inspector:
    program.database.parent.mkdir(parents=True, exist_ok=True)
    return Database(f"sqlite:///{program.database}").create_store(name)


def store_called(program: Program, name: str) -> Inspector:
    (shown,) = program.objects("stores", "show", name)
    return Inspector(Database(f"sqlite:///{program.database}"), Store.model_validate(shown))


def steps(output: str) -> dict[str, dict[str, Any]]:
    return {step["path"]: step for step in map(json.loads, output.splitlines())}


def test_files_become_memories_and_a_second_run_sends_nothing(program: Program) -> None:
    files: dict[str, str | bytes] = {
        "a.md": "a\n",
        "d/e/f.md": "é\r\n",
        "empty": "",
        ".hidden": "x",
        "full.txt": "x" * LIMIT,
        "bom.txt": b"\xef\xbb\xbfx",
    }
    directory = write_tree(program.root / "notes", files)
    store = new_store(program)
    done = program.run("import", directory, "Notes")
    assert (done.returncode, done.stdout) == (0, "")
    assert "6 created" in done.stderr
    expected = {f"/{name}": text if isinstance(text, str) else text.decode() for name, text in files.items()}
    assert store.memories() == expected
    assert "6 unchanged" in program.run("import", directory, "Notes").stderr
    assert len(store.history()) == 6


def test_a_changed_file_is_one_new_version_of_the_same_memory(program: Program) -> None:
    directory = write_tree(program.root / "notes", {"a.md": "one", "b.md": "same"})
    store = new_store(program)
    program.ok("import", directory, "Notes")
    before = store.heads()["/a.md"].id
    (directory / "a.md").write_text("two")
    assert steps(program.ok("import", directory, "Notes", "--json"))["/a.md"]["action"] == "updated"
    assert store.heads()["/a.md"].id == before
    assert store.operations("/a.md") == ["created", "modified"]
    assert store.operations("/b.md") == ["created"]


def test_what_cannot_go_in_is_listed_with_the_reason_and_the_rest_goes_in(program: Program) -> None:
    directory = write_tree(
        program.root / "notes",
        {
            "good.md": "x",
            "big": b"x" * (LIMIT + 1),
            "binary.png": b"\x89PNG\xff",
            "con\x07trol": "x",
            "/".join("d" * 21): "deep",
            "caf\u00e9": "composed",
            "cafe\u0301": "decomposed",
            ".a.md.swp": "x",
            "draft~": "x",
            ".git/config": "x",
        },
    )
    Path(os.fsdecode(os.fsencode(directory) + b"/latin\xe9")).write_text("x")
    (directory / "link").symlink_to("good.md")
    os.mkfifo(directory / "pipe")
    store = new_store(program)
    done = program.run("import", directory, "Notes")
    assert done.returncode == 1
    table = {path: (what, why) for path, what, why in (line.split("\t") for line in done.stdout.splitlines())}
    reasons = {
        "/big": "too big: 102,401 bytes",
        "/binary.png": "not UTF-8 text",
        "/con\\x07trol": "control characters",
        "/" + "/".join("d" * 21): "at most 20 segments",
        "/latin\\xe9": "not UTF-8",
        "/link": "a symbolic link",
        "/pipe": "not a plain file",
    }
    for path, reason in reasons.items():
        what, why = table.pop(path)
        assert what == "refused"
        assert reason in why
    for path in ("/.a.md.swp", "/draft~", "/.git/"):
        assert table.pop(path)[0] == "skipped"
    ((_, (what, why)),) = table.items()
    assert what == "refused"
    assert "NFC" in why
    assert sorted(store.memories()) == ["/caf\u00e9", "/good.md"]


def test_a_dry_run_says_the_same_and_does_nothing(program: Program) -> None:
    directory = write_tree(program.root / "notes", {"new": "n", "changed": "2", "same": "s"})
    store = new_store(program)
    store.put_all([("/changed", "1"), ("/same", "s"), ("/surplus", "x")])
    before = store.history()
    dry = steps(program.ok("import", directory, "Notes", "--delete", "--dry-run", "--json"))
    assert {path: step["action"] for path, step in dry.items()} == {
        "/new": "created",
        "/changed": "updated",
        "/same": "unchanged",
        "/surplus": "deleted",
    }
    assert store.history() == before
    assert steps(program.ok("import", directory, "Notes", "--delete", "--json")) == dry


def test_delete_mirrors_also_where_a_file_became_a_directory(program: Program) -> None:
    directory = write_tree(program.root / "notes", {"a/b": "x", "c": "y"})
    store = new_store(program)
    store.put_all([("/a", "file"), ("/c/d", "below"), ("/c/e/f", "below"), ("/z", "z")])
    refused = program.run("import", directory, "Notes")
    assert refused.returncode == 1
    assert "/a is a memory already" in refused.stdout
    assert store.memories() == {"/a": "file", "/c/d": "below", "/c/e/f": "below", "/z": "z"}
    program.ok("import", directory, "Notes", "--delete")
    assert store.memories() == {"/a/b": "x", "/c": "y"}


def test_delete_spares_the_memory_of_a_file_that_cannot_go_in(program: Program) -> None:
    directory = write_tree(program.root / "notes", {"a": "x", "b": b"\xff"})
    store = new_store(program)
    store.put_all([("/a", "x"), ("/b", "text once"), ("/c", "gone")])
    assert program.run("import", directory, "Notes", "--delete").returncode == 1
    assert store.memories() == {"/a": "x", "/b": "text once"}


def test_a_store_that_does_not_exist_and_a_source_that_does_not(program: Program) -> None:
    directory = write_tree(program.root / "notes", {"a": "x"})
    assert "--create" in program.refused("import", directory, "Notes")
    assert "does not exist" in program.refused("import", program.root / "nowhere", "Notes", "--create")
    assert "would be: 1 created" in program.run("import", directory, "Notes", "--create", "--dry-run").stderr
    assert program.objects("stores", "list") == []
    program.ok("import", directory, "Notes", "--create")
    assert [store["name"] for store in program.objects("stores", "list")] == ["Notes"]
    program.ok("stores", "archive", "Notes")
    assert "archived" in program.refused("import", directory, "Notes")


def test_a_full_store_takes_what_it_can_and_says_so(program: Program) -> None:
    directory = write_tree(program.root / "notes", {f"{number:02}": str(number) for number in range(20)})
    (program.root / "server").mkdir()
    with serving_in_thread(f"sqlite:///{program.root}/server/db", max_memories=5) as server:
        _, minted = server.keyring.create_key("tests")
        variables = {"MEMFS_URL": server.url, "MEMFS_API_KEY": minted.secret}
        done = program.run("import", directory, "Notes", "--create", **variables)
        assert done.returncode == 1
        assert "5 created, 15 refused" in done.stderr
        assert len(done.stdout.splitlines()) == 15


def test_another_store_by_its_url_is_read_in_full_pages(program: Program) -> None:
    source = Database(f"sqlite:///{program.root}/other.db").create_store("Archive")
    content = {f"/d{number % 7}/{number}": f"text {number}\n" for number in range(120)}
    source.put_all(content.items())
    target = new_store(program)
    program.ok("import", source.database.url, "Notes")
    assert target.memories() == content
    source.database.create_store("Second")
    assert "--from-store" in program.refused("import", source.database.url, "Notes")
    source.put("/d0/0", "changed\n")
    with serving_in_thread(source.database.url) as server:
        _, minted = server.keyring.create_key("tests")
        key = program.root / "key"
        key.write_text(minted.secret)
        options = ("--from-store", "Archive", "--from-credentials-file", key, "--json")
        moved = steps(program.ok("import", server.url, "Notes", *options))
    assert [step["path"] for step in moved.values() if step["action"] == "updated"] == ["/d0/0"]
    assert target.memories() == source.memories()


def test_an_export_gives_every_memory_its_own_path_again(program: Program) -> None:
    long = "/" + "n" * 300 + ".md"
    content = {long: "long name", "/.versions/x": "a view's name", "/.memfs-export/y": "ours", "/a.md": "x"}
    store = new_store(program)
    store.put_all(content.items())
    program.ok("export", "Notes", program.root / "out", "--versions")
    assert len(tree_of(program.root / "out")) == 4
    program.ok("import", program.root / "out", "Copy", "--create")
    assert store_called(program, "Copy").memories() == content
