"""How the tools that agents and people use save a file: the table that the tests of saving run down."""

from collections.abc import Iterator
from dataclasses import dataclass, field

BEFORE = "alpha\nbeta\ngamma\n"
UPPER = "alpha\nBETA\ngamma\n"
LONGER = BEFORE + "delta\n"
HELLO = "hello\n"


@dataclass(frozen=True)
class Save:
    """How one tool saves `note.md`, which holds `BEFORE`. `$OUT` is a directory outside the mount with `hello.md` in it."""

    tool: str
    command: str
    expected: str
    most: int = 1
    """The most versions that the save may make; the least is one."""
    beside: dict[str, str] = field(default_factory=dict)
    """What else is in the store afterwards: backups with a name of their own."""
    local: frozenset[str] = frozenset()
    """What else the directory shows, though the store never hears of it."""
    keys: tuple[bytes, ...] = ()
    """Typed into the command in a terminal."""


def _vim() -> Iterator[Save]:
    for copy in ("yes", "no", "auto"):
        for backup in ("backup", "nobackup"):
            for write_backup in ("writebackup", "nowritebackup"):
                options = f"set {backup} {write_backup} backupcopy={copy} backupskip= swapfile"
                yield Save(
                    f"vim {copy} {backup} {write_backup}",
                    f"vim -Nu NONE -i NONE -es -c '{options}' -c '%s/beta/BETA/' -c wq note.md",
                    UPPER,
                    local=frozenset({"note.md~"}) if backup == "backup" else frozenset(),
                )


def _emacs() -> Iterator[Save]:
    for variant, settings in {
        "backup by rename": "(setq backup-by-copying nil backup-enable-predicate (lambda (_) t))",
        "backup by copy": "(setq backup-by-copying t backup-enable-predicate (lambda (_) t))",
        "no backup": "(setq make-backup-files nil)",
        "precious file": "(setq make-backup-files nil file-precious-flag t)",
    }.items():
        edit = '(progn (goto-char (point-max)) (insert "delta\\n") (save-buffer))'
        yield Save(
            f"emacs {variant}",
            f"emacs --batch -Q --eval '{settings}' note.md --eval '{edit}'",
            LONGER,
            local=frozenset({"note.md~"}) if "backup by" in variant else frozenset(),
        )


def _python(tool: str, program: str, expected: str, most: int = 1) -> Save:
    return Save(tool, f"python3 - <<'EOF'\n{program}\nEOF", expected, most)


DIFF = "diff -u note.md - >$OUT/change.diff <<<$'alpha\\nBETA\\ngamma'; "

SAVES = [
    Save("echo >", "echo hello > note.md", HELLO),
    Save("echo >>", "echo delta >> note.md", LONGER),
    Save("echo >|", "set -C; echo hello >| note.md", HELLO),
    Save("printf | tee", "printf 'hello\\n' | tee note.md", HELLO),
    Save("tee -a", "echo delta | tee -a note.md", LONGER),
    Save("cat <<", "cat > note.md <<'EOF'\nhello\nEOF", HELLO),
    Save("group of built-ins", "{ echo one; echo two; } > note.md", "one\ntwo\n"),
    Save("group of children", "{ date -d @0 +%Y; date -d @0 +%m; } > note.md", "1970\n01\n", most=2),
    Save("subshell of children", "( date -d @0 +%Y; date -d @0 +%m; ) > note.md", "1970\n01\n", most=2),
    Save("exec 3>", "exec 3> note.md; echo one >&3; echo two >&3; exec 3>&-", "one\ntwo\n", most=2),
    Save("cp", "cp $OUT/hello.md note.md", HELLO),
    Save("cp -p", "cp -p $OUT/hello.md note.md", HELLO),
    Save("cp --remove-destination", "cp --remove-destination $OUT/hello.md note.md", HELLO),
    Save("cp --backup", "cp --backup=simple $OUT/hello.md note.md", HELLO, local=frozenset({"note.md~"})),
    Save("mv", "echo hello > note.md.tmp; mv note.md.tmp note.md", HELLO),
    Save("mv from another file system", "mv $OUT/hello.md note.md", HELLO),
    Save("install", "install -m 644 $OUT/hello.md note.md", HELLO),
    Save("sed -i", "sed -i 's/beta/BETA/' note.md", UPPER),
    Save("sed -i.bak", "sed -i.bak 's/beta/BETA/' note.md", UPPER, beside={"note.md.bak": BEFORE}),
    Save("sed -i under umask 077", "umask 077; sed -i 's/beta/BETA/' note.md", UPPER),
    Save("perl -pi", "perl -pi -e 's/beta/BETA/' note.md", UPPER),
    Save("perl -pi.orig", "perl -pi.orig -e 's/beta/BETA/' note.md", UPPER, beside={"note.md.orig": BEFORE}),
    Save("awk and mv", "awk '{sub(/beta/, \"BETA\")} 1' note.md > note.md.tmp && mv note.md.tmp note.md", UPPER),
    *_vim(),
    *_emacs(),
    Save("nano", "nano -I note.md", "X" + BEFORE, keys=(b"X", b"\x0f", b"\r", b"\x18")),
    Save(
        "nano -B",
        "nano -I -B note.md",
        "X" + BEFORE,
        keys=(b"X", b"\x0f", b"\r", b"\x18"),
        local=frozenset({"note.md~"}),
    ),
    Save("vim in a terminal", "vim -Nu NONE -i NONE note.md", "X" + BEFORE, keys=(b"iX\x1b", b":wq\r")),
    Save("ed", "printf '2s/beta/BETA/\\nw\\nq\\n' | ed -s note.md", UPPER),
    _python("open", "open('note.md', 'w').write('hello\\n')", HELLO),
    _python("open to append", "open('note.md', 'a').write('delta\\n')", LONGER),
    _python("open for update", "f = open('note.md', 'r+'); f.seek(6); f.write('BETA'); f.close()", UPPER),
    _python("many writes", "f = open('note.md', 'w', buffering=1)\nfor i in 'abc': f.write(i + '\\n')\nf.close()", "a\nb\nc\n"),
    _python(
        "fsync before close", "import os\nf = open('note.md', 'w'); f.write('hello\\n'); f.flush(); os.fsync(f.fileno())", HELLO
    ),
    _python(
        "mkstemp and replace",
        "import os, tempfile\n"
        "fd, name = tempfile.mkstemp(dir='.')\n"
        "os.write(fd, b'hello\\n'); os.fsync(fd); os.close(fd); os.replace(name, 'note.md')",
        HELLO,
    ),
    _python(
        "NamedTemporaryFile and replace",
        "import os, tempfile\n"
        "with tempfile.NamedTemporaryFile('w', dir='.', prefix='note.md', delete=False) as f: f.write('hello\\n')\n"
        "os.chmod(f.name, 0o644); os.replace(f.name, 'note.md')",
        HELLO,
    ),
    _python(
        "replace before close",
        "import os\n"
        "f = open('note.md.tmp', 'w'); f.write('hel'); f.flush()\n"
        "os.replace('note.md.tmp', 'note.md'); f.write('lo\\n')",
        HELLO,
        most=2,
    ),
    _python(
        "a child between two flushed writes",
        "import subprocess\n"
        "f = open('note.md', 'w'); f.write('one\\n'); f.flush()\n"
        "subprocess.run(['true'], check=True, close_fds=False); f.write('two\\n'); f.close()",
        "one\ntwo\n",
        most=2,
    ),
    _python(
        "a child between two buffered writes",
        "import subprocess\n"
        "f = open('note.md', 'w'); f.write('one\\n')\n"
        "subprocess.run(['true'], check=True, close_fds=False); f.write('two\\n'); f.close()",
        "one\ntwo\n",
    ),
    _python(
        "mmap",
        "import mmap\nwith open('note.md', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[6:10] = b'BETA'; m.flush()",
        UPPER,
    ),
    Save("node writeFileSync", "node -e \"require('fs').writeFileSync('note.md', 'hello\\n')\"", HELLO),
    Save(
        "node writeFile and rename",
        "node -e \"const fs = require('fs'); fs.writeFileSync('.note.md.tmp-1', 'hello\\n');"
        " fs.renameSync('.note.md.tmp-1', 'note.md')\"",
        HELLO,
    ),
    Save("write-file-atomic", "node -e \"require('write-file-atomic').sync('note.md', 'hello\\n')\"", HELLO),
    Save(
        "write-file-atomic, asynchronous",
        "node -e \"require('write-file-atomic')('note.md', 'hello\\n').then(() => {}, e => { throw e })\"",
        HELLO,
    ),
    Save("patch", DIFF + "patch -s note.md $OUT/change.diff", UPPER),
    Save("patch -b", DIFF + "patch -s -b note.md $OUT/change.diff", UPPER, beside={"note.md.orig": BEFORE}),
    Save(
        "git apply",
        DIFF + "sed -i 's/^--- .*/--- a\\/note.md/; s/^+++ .*/+++ b\\/note.md/' $OUT/change.diff; "
        "GIT_CEILING_DIRECTORIES=$PWD git apply $OUT/change.diff",
        UPPER,
    ),
    Save("rsync", "rsync $OUT/hello.md ./note.md", HELLO),
    Save("rsync -a", "mv $OUT/hello.md $OUT/note.md; rsync -a $OUT/note.md .", HELLO),
    Save("rsync --inplace", "rsync --inplace $OUT/hello.md ./note.md", HELLO),
    Save("rsync --delay-updates", "mkdir $OUT/d; mv $OUT/hello.md $OUT/d/note.md; rsync -r --delay-updates $OUT/d/ ./", HELLO),
    Save("rsync --backup", "rsync --backup $OUT/hello.md ./note.md", HELLO, local=frozenset({"note.md~"})),
    Save("tar x", "mv $OUT/hello.md $OUT/note.md; tar c -C $OUT note.md | tar x", HELLO),
    Save("tar x --overwrite", "mv $OUT/hello.md $OUT/note.md; tar c -C $OUT note.md | tar x --overwrite", HELLO),
    Save("unzip -o", "cd $OUT && mv hello.md note.md && zip -q n.zip note.md && cd - >&2 && unzip -qo $OUT/n.zip", HELLO),
    Save(
        "git checkout",
        "export GIT_DIR=$OUT/repository GIT_WORK_TREE=. && cd $OUT && git init -q && cp hello.md note.md && git add note.md"
        " && git commit -qm 1 && cd - >&2 && git checkout -q -f HEAD -- note.md",
        HELLO,
    ),
    Save("sponge", "sed 's/beta/BETA/' note.md | sponge note.md", UPPER),
    Save("sort -o", "sort -r -o note.md note.md", "gamma\nbeta\nalpha\n"),
    Save("dd conv=notrunc", "printf ALPHA | dd of=note.md conv=notrunc status=none", "ALPHA\nbeta\ngamma\n"),
    Save("dd in small blocks", "printf hello | dd of=note.md bs=1 status=none", "hello"),
    Save("truncate", "truncate -s 5 note.md", "alpha"),
    Save("truncate to nothing", "truncate -s 0 note.md", ""),
    Save(": >", ": > note.md", ""),
    Save("jq and mv", "jq -Rr . note.md > note.md.tmp-1 && mv note.md.tmp-1 note.md && echo delta >> note.md", LONGER),
    Save("sqlite3 .output", "sqlite3 :memory: '.output note.md' \"select 'hello'\"", HELLO),
]

SAME: dict[str, str] = {
    "cat": "cat note.md > $OUT/copy; cat $OUT/copy > note.md",
    "cp": "cp note.md $OUT/copy; cp $OUT/copy note.md",
    "mv from another file system": "cp note.md $OUT/copy; mv $OUT/copy note.md",
    "install": "install -m 600 note.md $OUT/copy; install -m 644 $OUT/copy note.md",
    "sed -i": "sed -i 's/nowhere/found/' note.md",
    "perl -pi": "perl -pi -e 's/nowhere/found/' note.md",
    "vim": "vim -Nu NONE -i NONE -es -c wq! note.md",
    "sponge": "cat note.md | sponge note.md",
    "rsync -I": "cp note.md $OUT/copy; rsync -I $OUT/copy ./note.md",
    "mkstemp and replace": "t=$(mktemp -p .); cat note.md > $t; mv $t note.md",
    "touch": "touch note.md; touch -d 2020-01-02 note.md",
    "chmod": "chmod 600 note.md; chmod 644 note.md",
    "append nothing": "printf '' >> note.md",
    "write and write back": "for c in X a; do printf $c | dd of=note.md conv=notrunc status=none; done",
}

NEW: dict[str, tuple[str, dict[str, str]]] = {
    "touch": ("touch new.md", {"new.md": ""}),
    ": >": (": > new.md", {"new.md": ""}),
    "echo >": ("echo hello > new.md", {"new.md": HELLO}),
    "cp": ("cp $OUT/hello.md new.md", {"new.md": HELLO}),
    "cp -a": ("cp -a $OUT/hello.md new.md", {"new.md": HELLO}),
    "mv": ("mv $OUT/hello.md new.md", {"new.md": HELLO}),
    "mv of a temporary": ("echo hello > new.md.tmp && mv new.md.tmp new.md", {"new.md": HELLO}),
    "rsync": ("rsync -a $OUT/hello.md new.md", {"new.md": HELLO}),
    "install": ("install -m 600 $OUT/hello.md new.md", {"new.md": HELLO}),
    "vim": ("vim -Nu NONE -i NONE -es -c 'normal ihello' -c wq new.md", {"new.md": HELLO}),
    "emacs": ("emacs --batch -Q new.md --eval '(progn (insert \"hello\\n\") (save-buffer))'", {"new.md": HELLO}),
    "mkstemp": ("t=$(mktemp -p . XXXXXX.md); echo hello > $t; mv $t new.md", {"new.md": HELLO}),
    "private file": ("umask 077; echo hello > new.md", {"new.md": HELLO}),
    "private exclusive file": (
        "umask 077; python3 -c \"import os; f = os.open('new.md', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600);"
        " os.write(f, b'hello\\n')\"",
        {"new.md": HELLO},
    ),
    "tar": ("mv $OUT/hello.md $OUT/new.md; tar c -C $OUT new.md | tar x", {"new.md": HELLO}),
    "temporary that stays": ("t=$(mktemp -p . keep.XXXXXXXX); echo hello > $t; mv $t keep", {"keep": HELLO}),
}
