"""The tools that agents and people use, at work in a store. How they save one file is in the tests of saving."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.mounts import Place, settle
from tests.harness.terminal import type_into
from tests.harness.waiting import eventually
from tests.mount.tool_table import holds

PROJECT = {
    "README.md": "# Project\n\nalpha\nbeta\n",
    "src/main.py": "print('hello')\n",
    "src/lib/tools.py": "def tool():\n    return 42\n",
    "notes/день.md": "заметки\n",
    "data/values.json": '{"b": 1, "a": [1, 2, 3]}\n',
    "empty.txt": "",
}


@pytest.fixture
def project(place: Place) -> Place:
    for name, text in PROJECT.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


@holds("git")
def test_git_clone_edit_commit_and_fsck(place: Place) -> None:
    """The repository's own files are scratch; the working tree is memories, one version an edit."""
    place.sh(
        """
        rm -rf $TMPDIR/origin; git init -q -b main $TMPDIR/origin && cd $TMPDIR/origin
        for i in 1 2 3 4 5; do mkdir -p d$i; echo "text $i" > d$i/f$i.md; git add -A; git commit -qm "commit $i"; done
        git branch other HEAD~2
        """
    )
    place.sh("git clone -q $TMPDIR/origin clone")
    assert place.memories() == {f"clone/d{n}/f{n}.md": f"text {n}\n" for n in range(1, 6)}
    place.sh(
        """
        cd clone
        test -z "$(git status --porcelain)"
        echo more >> d1/f1.md; sed -i s/text/TEXT/ d2/f2.md; git mv d3/f3.md d3/moved.md; git rm -q d4/f4.md
        git commit -qam edited && git push -q origin HEAD:edited
        git checkout -q other && test ! -e d4 && git checkout -q main && git merge -q other
        git stash list; git gc -q; git fsck --strict --full
        git log --oneline | wc -l
        test -z "$(git status --porcelain)"
        """
    )
    settle()
    assert place.memories() == {
        "clone/d1/f1.md": "text 1\nmore\n",
        "clone/d2/f2.md": "TEXT 2\n",
        "clone/d3/moved.md": "text 3\n",
        "clone/d5/f5.md": "text 5\n",
    }


@holds("rsync")
def test_rsync_with_delete(project: Place) -> None:
    project.sh("mkdir $TMPDIR/r && rsync -a --delete ./ $TMPDIR/r/ && diff -r . $TMPDIR/r")
    before = len(project.history())
    assert project.sh("rsync -ai --delete $TMPDIR/r/ ./") == ""
    assert len(project.history()) == before
    project.sh("echo changed > $TMPDIR/r/README.md; rm -r $TMPDIR/r/src/lib; echo new > $TMPDIR/r/new.md; touch $TMPDIR/r/*")
    project.sh("rsync -a --delete $TMPDIR/r/ ./ && diff -r . $TMPDIR/r")
    assert project.sh("rsync -ai --delete $TMPDIR/r/ ./") == ""
    project.sh("rsync -a --delete --delay-updates --checksum $TMPDIR/r/ ./ && rm -rf $TMPDIR/r")
    expected = {**PROJECT, "README.md": "changed\n", "new.md": "new\n"}
    del expected["src/lib/tools.py"]
    eventually(project.memories, expected, within=4)


@pytest.mark.parametrize(
    ("pack", "unpack"),
    [
        ("tar cf $TMPDIR/p.tar .", "tar xf $TMPDIR/p.tar"),
        ("tar cpzf $TMPDIR/p.tar .", "tar xpzf $TMPDIR/p.tar"),
        ("zip -qr $TMPDIR/p.zip .", "unzip -qo $TMPDIR/p.zip"),
        ("cp -a . $TMPDIR/p.dir", "cp -a $TMPDIR/p.dir/. ."),
    ],
    ids=["tar", "tar with modes", "zip", "cp -a"],
)
@holds("archives")
def test_archives_out_and_back(project: Place, pack: str, unpack: str) -> None:
    """Unpacked over what is there, nothing changes: no new version, the same files."""
    eventually(lambda: sorted(project.ids()), sorted(PROJECT), within=2)
    ids = project.ids()
    project.sh(pack)
    project.sh(unpack)
    project.sh("rm -rf $TMPDIR/p.*")
    settle()
    assert project.memories() == PROJECT
    assert project.ids() == ids
    assert [operation for operation, _ in project.history()] == ["created"] * len(PROJECT)


@holds("searching")
def test_searching(project: Place) -> None:
    expected = ["README.md:alpha"]
    assert project.sh("rg -N --no-heading alpha .").splitlines() == ["./README.md:alpha"]
    assert project.sh("rg -N --no-heading --mmap alpha README.md src --with-filename").splitlines() == expected
    assert project.sh("grep -rn tool . | sort").splitlines() == ["./src/lib/tools.py:1:def tool():"]
    assert project.sh("fdfind -e py | sort").splitlines() == ["src/lib/tools.py", "src/main.py"]
    assert project.sh("rg --files --hidden --no-ignore | sort").splitlines() == sorted(PROJECT)
    assert project.sh("find . -newer README.md -o -name '*.py' -type f | sort | tail -1") == "./src/main.py\n"
    assert project.sh("find . -empty -type f") == "./empty.txt\n"
    assert project.sh("wc -c $(rg -l заметки .)").split() == ["15", "./notes/день.md"]


@holds("paging")
def test_paging(project: Place) -> None:
    assert project.sh("less -F README.md | cat") == PROJECT["README.md"]
    keys = (b"G", b"/alpha\r", b"q")
    assert type_into(["less", "README.md"], keys, cwd=project.path, environment=project.mount.environment) == 0
    assert project.sh("head -n 3 README.md | tail -n 1; tac README.md | head -1") == "alpha\nbeta\n"
    assert project.sh("sort README.md | uniq | wc -l") == "4\n"


@pytest.fixture
def follower(place: Place) -> Iterator[Path]:
    """What `tail -F` of a log prints; it looks every tenth of a second."""
    (place / "log.md").write_text("one\n")
    output = place.mount.plain / "followed"
    with output.open("wb") as stdout:
        command = ["tail", "-n", "+1", "-s", "0.1", "-F", "log.md"]
        process = subprocess.Popen(command, cwd=place.path, stdout=stdout, stderr=subprocess.DEVNULL)
    yield output
    process.kill()
    process.wait()


@holds("following")
def test_following_a_log(place: Place, follower: Path) -> None:
    """What this mount appends, what another session appends, and what takes the file's place shows."""
    expected = "one\n"
    eventually(follower.read_text, expected, within=5)
    place.sh("echo two >> log.md")
    expected += "two\n"
    eventually(follower.read_text, expected, within=5)
    place.inspector.put(place.at("log.md"), "one\ntwo\nthree\n")
    expected += "three\n"
    eventually(follower.read_text, expected, within=5)
    for number in range(4):
        place.sh(f"cat log.md && echo replaced {number} > log.md.tmp && mv log.md.tmp log.md")
        expected += f"replaced {number}\n"
        eventually(follower.read_text, expected, within=5)
    place.sh("rm log.md; sleep 0.3; echo again > log.md")
    expected += "again\n"
    eventually(follower.read_text, expected, within=5)


@holds("following")
def test_watching(place: Place) -> None:
    (place / "f").write_text("first\n")
    # In a process group of its own, as timeout would have it, watch is in the background of its terminal, and is stopped.
    command = "script -qec 'timeout --foreground -k 2 2 watch -n 0.3 cat f' /dev/null || true"
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=place.path, env={**os.environ, "TERM": "xterm"}, stdout=subprocess.PIPE, text=True
    )
    time.sleep(0.8)
    (place / "f").write_text("second\n")
    shown, _ = process.communicate(timeout=10)
    assert "first" in shown
    assert "second" in shown


@holds("json")
def test_json_in_place(project: Place) -> None:
    project.sh("jq '.b += 1' data/values.json > data/values.json.tmp && mv data/values.json.tmp data/values.json")
    assert json.loads((project / "data/values.json").read_text())["b"] == 2
    project.sh("python3 -m json.tool --sort-keys data/values.json data/values.json")
    assert (project / "data/values.json").read_text().startswith('{\n    "a": [')
    project.sh("jq -S . data/values.json | sponge data/values.json")
    assert project.operations("data/values.json") == ["created", "modified", "modified", "modified"]


@holds("node")
def test_node(project: Place) -> None:
    """Node's ways to write and read, with callbacks, promises and streams, and what they leave in the store."""
    program = """
    const fs = require('fs'), assert = require('assert');
    (async () => {
      fs.writeFileSync('a.txt', 'sync\\n');
      await fs.promises.appendFile('a.txt', 'more\\n');
      fs.mkdirSync('x/y/z', {recursive: true});
      await fs.promises.writeFile('x/y/z/b.txt', 'deep\\n');
      await fs.promises.copyFile('a.txt', 'x/c.txt');
      const s = fs.createWriteStream('s.txt');
      for (let i = 0; i < 100; i++) s.write(i + '\\n');
      await new Promise((done) => s.end(done));
      fs.renameSync('x/c.txt', 'x/d.txt');
      fs.cpSync('src', 'copy', {recursive: true});
      const names = fs.readdirSync('.', {recursive: true}).map(String).sort();
      assert(names.includes('copy/lib/tools.py'));
      assert.strictEqual(fs.readFileSync('s.txt', 'utf8').split('\\n').length, 101);
      assert.strictEqual(fs.statSync('a.txt').size, 10);
      const f = await fs.promises.open('a.txt', 'r+'); await f.truncate(4);
      await f.write('!', 4); await f.sync(); await f.close();
      fs.rmSync('copy', {recursive: true});
    })().catch((error) => { console.error(error); process.exit(1); });
    """
    project.sh("cat > $TMPDIR/p.js && node $TMPDIR/p.js && rm $TMPDIR/p.js", stdin=program)
    settle()
    made = {name: text for name, text in project.memories().items() if name not in PROJECT}
    assert made == {
        "a.txt": "sync!",
        "x/y/z/b.txt": "deep\n",
        "x/d.txt": "sync\nmore\n",
        "s.txt": "".join(f"{n}\n" for n in range(100)),
    }


@holds("npm")
def test_npm_in_a_project_whose_text_lives_in_the_store(place: Place) -> None:
    place.sh(
        """
        mkdir -p lib app
        echo '{"name": "lib", "version": "1.0.0", "main": "index.js"}' > lib/package.json
        echo 'module.exports = () => "from lib";' > lib/index.js
        cd app
        npm init -y > $TMPDIR/npm 2>&1
        npm pkg set scripts.say='node main.js' > $TMPDIR/npm 2>&1
        npm install --offline --no-audit --no-fund ../lib > $TMPDIR/npm 2>&1
        echo 'console.log(require("lib")());' > main.js
        """,
        timeout=60,
    )
    assert place.sh("cd app && npm run --silent say", timeout=60) == "from lib\n"
    assert "lib@1.0.0" in place.sh("cd app && npm ls --offline", timeout=60)
    settle()
    memories = place.memories()
    assert sorted(memories) == ["app/main.js", "app/package-lock.json", "app/package.json", "lib/index.js", "lib/package.json"]
    assert json.loads(memories["app/package.json"])["dependencies"] == {"lib": "file:../lib"}
    assert (place / "app/node_modules/lib").is_symlink()
    place.sh("cd app && rm -rf node_modules && npm ci --offline --no-audit --no-fund > $TMPDIR/npm 2>&1", timeout=60)
    assert place.sh("cd app && npm run --silent say", timeout=60) == "from lib\n"


@holds("sqlite3")
def test_a_database_is_refused_in_words(place: Place) -> None:
    done = place.run("sqlite3 x.db 'CREATE TABLE t (a)'")
    assert done.returncode != 0
    assert done.stderr.strip() != ""
    last = json.loads((place.mount.path / ".memfs/errors").read_text().splitlines()[-1])
    assert "UTF-8" in last["message"]
    script = "CREATE TABLE t (a); INSERT INTO t VALUES (1); SELECT * FROM t"
    assert place.sh(f"mkdir node_modules && sqlite3 node_modules/x.db '{script}'") == "1\n"
