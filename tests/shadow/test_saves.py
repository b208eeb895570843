"""One save is one version on the same memory, whatever the tool did to save it; work files never reach the store."""

import time

from tests.harness.waiting import eventually
from tests.shadow.conftest import Shadow

SAVES = {
    "redirection": "echo two > a.md",
    "append": "echo two >> a.md",
    "sed -i": "sed -i s/one/two/ a.md",
    "sed -i.bak": "sed -i.bak s/one/two/ a.md && rm a.md.bak",
    "perl -i": "perl -i -pe s/one/two/ a.md",
    "atomic writer": "echo two > .a.md.tmp && mv .a.md.tmp a.md",
    "mkstemp": "t=$(mktemp -p . XXXXXX) && echo two > $t && mv $t a.md",
    "backup by rename, as vim and emacs": "mv a.md a.md~ && echo two > a.md && rm a.md~",
    "remove and create": "rm a.md && echo two > a.md",
    "install": "echo two > ../../new && install -m 644 ../../new a.md",
    "cp": "echo two > ../../new && cp ../../new a.md",
    "dd in pieces": "printf 'two\\nthree\\n' | dd of=a.md bs=1 status=none",
    "python": "python3 -c \"open('a.md', 'w').write('two')\"",
    "patch": "printf -- '--- a.md\\n+++ a.md\\n@@ -1 +1 @@\\n-one\\n+two\\n' | patch -s a.md && rm -f a.md.orig",
    "slow writer": "{ echo two; sleep 0.5; echo three; } > a.md",
}


def test_one_save_is_one_version_of_the_same_memory(shadow: Shadow) -> None:
    folders = {tool: f"t{number}" for number, tool in enumerate(SAVES)}
    for folder in folders.values():
        shadow.sh(f"mkdir {folder} && echo one > {folder}/a.md")
    shadow.sync()
    ids = {path: memory.id for path, memory in shadow.inspector.heads().items()}
    for tool, folder in folders.items():
        shadow.sh(f"cd {folder} && {SAVES[tool]}")
    expected = shadow.files()
    assert len(expected) == len(SAVES)
    assert not [tool for tool, folder in folders.items() if expected[f"/{folder}/a.md"] == "one\n"]
    eventually(lambda: shadow.inspector.memories(), expected, within=8)
    shadow.sync()
    assert shadow.inspector.memories() == expected
    assert {path: memory.id for path, memory in shadow.inspector.heads().items()} == ids
    operations = {tool: shadow.inspector.operations(f"/{folder}/a.md") for tool, folder in folders.items()}
    assert operations == {tool: ["created", "modified"] for tool in SAVES}


def test_a_rename_keeps_the_memory_and_so_does_one_of_a_directory(shadow: Shadow) -> None:
    shadow.sh("mkdir d && echo 1 > d/1 && echo 2 > d/2 && echo x > a")
    shadow.sync()
    ids = {path: memory.id for path, memory in shadow.inspector.heads().items()}
    shadow.sh("mv d e && mv a b")
    eventually(lambda: sorted(shadow.inspector.memories()), ["/b", "/e/1", "/e/2"], within=6)
    moved = {path: memory.id for path, memory in shadow.inspector.heads().items()}
    assert (moved["/e/1"], moved["/e/2"], moved["/b"]) == (ids["/d/1"], ids["/d/2"], ids["/a"])
    assert [version.operation for version in shadow.inspector.history()] == ["created"] * 3 + ["modified"] * 3


def test_a_new_file_with_the_inode_of_a_removed_one_is_a_memory_of_its_own(shadow: Shadow) -> None:
    shadow.sh("echo old > a")
    shadow.sync()
    old = shadow.inspector.memory_id("/a")
    shadow.sh("rm a && echo another > b")
    eventually(lambda: shadow.inspector.memories(), {"/b": "another\n"}, within=6)
    assert shadow.inspector.memory_id("/b") != old


def test_work_files_stay_here(shadow: Shadow) -> None:
    shadow.sh(
        "touch .a.swp x~ '#y#' .#z 4913 a.tmp && mkdir .git node_modules && echo g > .git/config && echo n > node_modules/n"
    )
    shadow.sh("echo real > real.md")
    shadow.sync()
    assert shadow.inspector.memories() == {"/real.md": "real\n"}
    shadow.sh("rm -r .git")
    shadow.stop()
    assert len(shadow.inspector.history()) == 1


def test_a_file_that_looks_temporary_and_stays_becomes_a_memory(shadow: Shadow) -> None:
    shadow.sh("umask 077 && echo text > keep")
    time.sleep(1)
    assert shadow.inspector.memories() == {}
    eventually(lambda: shadow.inspector.memories(), {"/keep": "text\n"}, within=5)


def test_a_long_running_log_reaches_the_store_while_it_is_written(shadow: Shadow) -> None:
    shadow.sh("(for i in $(seq 30); do echo $i; sleep 0.1; done) > log & sleep 2.2; true")
    assert shadow.inspector.content("/log").startswith("1\n2\n")
    eventually(lambda: shadow.inspector.content("/log").endswith("30\n"), True, within=6)
    assert len(shadow.inspector.operations("/log")) <= 6


def test_an_empty_file_and_one_that_is_emptied(shadow: Shadow) -> None:
    shadow.sh("touch empty && echo x > full")
    shadow.sync()
    shadow.sh(": > full")
    eventually(lambda: shadow.inspector.memories(), {"/empty": "", "/full": ""}, within=5)


def test_a_removal_is_one_version_and_rm_r_removes_everything(shadow: Shadow) -> None:
    shadow.sh("mkdir -p d/e && for i in 1 2 3; do echo $i > d/e/$i; done")
    shadow.sync()
    shadow.sh("rm -r d")
    eventually(lambda: shadow.inspector.memories(), {}, within=6)
    assert [version.operation for version in shadow.inspector.history()].count("deleted") == 3


def test_a_file_becomes_a_directory(shadow: Shadow) -> None:
    shadow.sh("echo x > a")
    shadow.sync()
    shadow.sh("rm a && mkdir a && echo y > a/b")
    eventually(lambda: shadow.inspector.memories(), {"/a/b": "y\n"}, within=8)
