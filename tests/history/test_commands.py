"""`memfs log`, `diff`, `restore` and `redact`, alike on every service."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memfs.model.objects import format_time
from tests.harness.terminal import type_into
from tests.harness.waiting import eventually
from tests.history.sites import Site, files_below, site


def test_log_of_a_file_a_directory_and_the_store(place: Site) -> None:
    place.sh("echo 1 > a.md && echo 2 > a.md && mkdir d && echo 3 > d/b.md && rm a.md && sleep 0.3 && echo 4 > a.md")
    every = [(version["operation"], version["path"]) for version in place.versions()]
    assert sorted(every) == [
        *[("created", f"{place.prefix}a.md")] * 2,
        ("created", f"{place.prefix}d/b.md"),
        ("deleted", f"{place.prefix}a.md"),
        ("modified", f"{place.prefix}a.md"),
    ]
    of_file = place.versions("a.md")
    assert sorted(version["operation"] for version in of_file) == ["created", "created", "deleted", "modified"]
    assert len({version["memory_id"] for version in of_file}) == 2, "the memory that is there, and the one that was"
    assert [version["path"] for version in place.versions("d")] == [f"{place.prefix}d/b.md"]
    times = [version["created_at"] for version in of_file]
    assert times == sorted(times, reverse=True)
    place.sh("rm -r d")
    assert sorted(version["operation"] for version in place.versions("d/b.md")) == ["created", "deleted"]
    assert "no history" in place.refused("log", place.here / "never.md")


def test_log_filters(place: Site) -> None:
    place.sh("echo 1 > a.md && echo 2 > a.md && echo 3 > b.md && rm b.md")
    log = ("log", place.here, "--json")

    def shown(*options: str) -> list[str]:
        lines = place.memfs(*log, *options).out.splitlines()
        return sorted(f"{json.loads(line)['operation']} {json.loads(line)['path']}" for line in lines)

    assert shown("--operation", "deleted") == [f"deleted {place.prefix}b.md"]
    assert len(shown("--limit", "2")) == 2
    assert len(shown("--since", "1h")) == 4
    assert len(shown("--since", format_time(datetime.now(UTC))[:10])) == 4, "a date begins with its first second"
    assert shown("--since", format_time(datetime.now(UTC) + timedelta(minutes=1))) == []
    if place.session_id is not None:
        assert len(shown("--session", place.session_id)) == 4
    assert shown("--session", "sesn_01somebodyelse") == []
    assert place.refused("log", place.here, "--since", "soon", code=2).startswith("Invalid value")


def test_diff_shows_what_changed(place: Site) -> None:
    place.sh("printf 'one\\ntwo\\nthree\\n' > a.md && printf 'one\\n2\\nthree' > a.md")
    new, old = (version["id"] for version in place.versions("a.md"))
    body = "@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+three\n\\ No newline at end of file\n"

    def diff(*arguments: str) -> str:
        return place.memfs("diff", place.here / "a.md", *arguments).out

    last = diff()
    assert last.splitlines()[:2] == [
        next(line for line in last.splitlines() if line.startswith(f"--- a/notes{place.prefix}a.md\t") and line.endswith(old)),
        next(line for line in last.splitlines() if line.startswith(f"+++ b/notes{place.prefix}a.md\t") and line.endswith(new)),
    ]
    assert last.split("\n", 2)[2] == body
    assert diff(old).split("\n", 2)[2] == body
    assert diff(old, new).split("\n", 2)[2] == body
    assert diff(new, old).split("\n", 2)[2] != body
    assert diff(new) == ""
    assert diff(old, "@0s").split("\n", 2)[2] == body
    assert diff("@1h", "@0s").startswith("--- /dev/null\t")
    place.sh("rm a.md")
    assert "\n+++ /dev/null\t" in diff()
    assert "is no version of" in place.refused("diff", place.here / "a.md", "memver_01no")
    assert "is no time" in place.refused("diff", place.here / "a.md", "@soon", code=2)


def test_the_diff_of_a_directory_is_a_patch_that_undoes_its_changes(place: Site) -> None:
    place.sh("mkdir d d/e && printf 'one\\n' > d/a.md && printf 'two\\n' > d/e/b.md && printf 'same\\n' > d/c.md")
    place.sh("sleep 1.1")  # OMA counts whole seconds
    then = format_time(datetime.now(UTC) - timedelta(seconds=1))
    before = files_below(place.here / "d")
    place.sh("printf '1\\n' > d/a.md && rm -r d/e && printf 'new\\n' > d/n.md")
    patch = place.memfs("diff", place.here / "d", f"@{then}").out
    assert "c.md" not in patch
    top = place.program.root / "copy"
    copy = top / "notes" / place.corner / "d"
    copy.parent.mkdir(parents=True)
    place.sh(f"cp -r d {copy}")
    (place.program.root / "patch").write_text(patch)
    place.sh(f"cd {top} && patch -R -p1 < {place.program.root / 'patch'}")
    assert files_below(copy) == before
    assert "say since when" in place.refused("diff", place.here / "d", code=2)


def test_diff_is_coloured_on_a_terminal_and_steers_it_not(local: Site) -> None:
    local.sh("printf 'plain\\n' > a.md && printf 'tab\\there \\033[31mred\\n' > a.md")
    out = local.program.root / "typescript"
    command = f"memfs diff {local.here / 'a.md'}"
    assert type_into(["script", "-qec", command, str(out)], [], cwd=local.program.root, environment=local.environment) == 0
    shown = out.read_text()
    assert "\x1b[31m-plain" in shown
    assert "\x1b[32m+tab\there \\x1b[31mred" in shown
    assert "\x1b" not in local.sh("memfs diff a.md | grep plain"), "a pipe gets no colours"


def test_restore_of_a_version_and_of_a_time(place: Site) -> None:
    place.sh("echo one > a.md && echo two > a.md && : > empty.md && echo x > empty.md")
    first = place.versions("a.md")[-1]
    assert place.memfs("restore", place.here / "a.md", first["id"]).out == f"{place.here}/a.md\n"
    assert place.sh("cat a.md") == "one\n"
    newest = place.versions("a.md")[0]
    assert (newest["operation"], newest["memory_id"]) == ("modified", first["memory_id"])
    if place.session_id is not None:
        assert newest["created_by"] == {"type": "session_actor", "session_id": place.session_id}
    before = len(place.versions())
    assert place.memfs("restore", place.here / "a.md", first["id"]).err.endswith("has all of it already\n")
    (empty,) = [version for version in place.versions("empty.md") if version["operation"] == "created"]
    place.memfs("restore", place.here / "empty.md", empty["id"])
    assert place.sh("cat empty.md") == ""
    assert len(place.versions()) == before + 1, "what is there already makes no version"


def test_restore_of_what_was_deleted(place: Site) -> None:
    place.sh("mkdir -p d/e && echo one > d/e/a.md")
    (created,) = place.versions("d/e/a.md")
    place.sh("rm -r d")
    deleted, _ = place.versions("d/e/a.md")
    refused = place.refused("restore", place.here / "d/e/a.md", deleted["id"])
    assert "choose the version before it" in refused
    printed = place.memfs("restore", place.here / "d/e/a.md", created["id"], "--json").out
    memory = json.loads(printed)
    assert place.sh("cat d/e/a.md") == "one\n"
    assert (memory["type"], memory["path"], memory["content_size_bytes"]) == ("memory", f"{place.prefix}d/e/a.md", 4)
    assert memory["id"] != created["memory_id"], "a new memory"
    newest = place.versions("d/e/a.md")[0]
    assert (newest["operation"], newest["memory_id"]) == ("created", memory["id"])


def test_restore_keeps_what_came_since_and_may_write_only_what_is_missing(place: Site) -> None:
    place.sh("mkdir d && echo 1 > d/a.md && echo 2 > d/b.md && sleep 2.1")
    then = f"@{format_time(datetime.now(UTC) - timedelta(seconds=1))}"
    place.sh("echo changed > d/a.md && rm d/b.md && echo new > d/c.md")
    would = place.memfs("restore", place.here / "d", then, "--dry-run").out.splitlines()
    assert would == [f"{place.here}/d/a.md", f"{place.here}/d/b.md"]
    assert place.sh("ls d") == "a.md\nc.md\n"
    place.memfs("restore", place.here / "d", then, "--missing")
    assert files_below(place.here / "d") == {"a.md": b"changed\n", "b.md": b"2\n", "c.md": b"new\n"}
    place.memfs("restore", place.here / "d", then)
    assert files_below(place.here / "d") == {"a.md": b"1\n", "b.md": b"2\n", "c.md": b"new\n"}
    assert "was nothing at" in place.refused("restore", place.here / "d", "@2020-01-01")


def test_what_stands_in_the_way_is_told_and_the_rest_is_restored(place: Site) -> None:
    place.sh("mkdir -p d/x && echo 1 > d/a.md && echo 2 > d/x/b.md && sleep 2.1")
    then = f"@{format_time(datetime.now(UTC) - timedelta(seconds=1))}"
    place.sh("rm -r d && mkdir d && echo file > d/x")
    said = place.memfs("restore", place.here / "d", then, code=1)
    assert said.out == f"{place.here}/d/a.md\n"
    assert said.err == f"memfs: {place.here}/d/x/b.md: something above it is a file now\n"


def test_one_command_undoes_the_removal_of_200_memories(place: Site) -> None:
    count = 50 if place.kind == "oma" else 200
    place.sh(f"mkdir -p notes/deep && for i in $(seq {count}); do echo text $i > notes/deep/$i.md; done; sleep 1.1")
    then = f"@{format_time(datetime.now(UTC) - timedelta(seconds=1))}"
    before = files_below(place.here)
    assert len(before) == count
    place.sh("rm -r notes")
    assert not (place.here / "notes").exists()
    assert len(place.memfs("restore", place.here / "notes", then).out.splitlines()) == count
    assert files_below(place.here) == before
    operations = [version["operation"] for version in place.versions("notes")]
    assert sorted(operations) == ["created"] * 2 * count + ["deleted"] * count
    if place.session_id is not None:
        assert {version["created_by"]["session_id"] for version in place.versions("notes")} == {place.session_id}


def test_a_store_that_can_only_be_read_is_not_restored(tmp_path: Path) -> None:
    with site("sql", tmp_path, "--store", "Notes:ro") as made:
        assert "attached read-only" in made.refused("restore", made.here / "a.md", "@1h")


def test_redact_asks_and_removes(place: Site) -> None:
    place.sh("echo secret > a.md && echo clean > a.md")
    head, old = place.versions("a.md")
    file = place.here / "a.md"
    assert "nobody can be asked" in place.refused("redact", file, old["id"], code=2, **place.administrator)
    environment = {**place.environment, **place.administrator}
    command = ["memfs", "redact", str(file), old["id"]]
    assert type_into(command, [b"n\n"], cwd=place.program.root, environment=environment) == 130
    assert place.versions("a.md")[1]["redacted_at"] is None
    assert type_into(command, [b"y\n"], cwd=place.program.root, environment=environment) == 0
    redacted = place.versions("a.md")[-1]
    assert (redacted["id"], redacted["path"], redacted["content_sha256"]) == (old["id"], None, None)
    assert redacted["redacted_at"] is not None
    again = json.loads(place.memfs("redact", file, old["id"], "--json", **place.administrator).out)
    assert again["redacted_at"] == redacted["redacted_at"], "once is enough"
    refused = place.refused("redact", file, head["id"], "--yes", **place.administrator)
    assert "cannot be redacted" in refused
    assert "write other content to the file or delete it" in refused
    place.sh("rm a.md")
    assert place.memfs("redact", file, head["id"], "--yes", **place.administrator).out == f"{head['id']} is redacted\n"
    assert "is no version of" in place.refused(
        "redact", place.here / "b.md", place.versions("a.md")[0]["id"], "--yes", **place.administrator
    )


def test_the_same_content_elsewhere_in_the_history_is_told(place: Site) -> None:
    place.sh("echo secret > a.md && mv a.md b.md && echo clean > b.md")
    created = next(version for version in place.versions("b.md") if version["operation"] == "created")
    moved = next(v for v in place.versions("b.md") if v["content_sha256"] == created["content_sha256"] and v != created)
    said = place.memfs("redact", place.here / "b.md", created["id"], "--yes", **place.administrator)
    assert f"the same content is still in {moved['id']}" in said.err


def test_a_session_cannot_redact(tmp_path: Path) -> None:
    with site("serve", tmp_path) as made:
        made.sh("echo secret > a.md && echo clean > a.md")
        _, old = made.versions("a.md")
        assert "for administrators" in made.refused("redact", made.here / "a.md", old["id"], "--yes")


@pytest.mark.parametrize("command", ["diff", "restore"])
def test_a_mount_that_is_gone(local: Site, command: str) -> None:
    local.sh("echo 1 > a.md")
    record = local.program.registry.find(str(local.mountpoint))
    assert record is not None
    os.kill(record.process.pid, 9)
    eventually(lambda: record.process.alive, False, within=5)
    assert "is not served any more" in local.refused(command, local.here / "a.md", "memver_01x")
    local.program.run("umount", "--force", local.mountpoint)
    local.mount()
