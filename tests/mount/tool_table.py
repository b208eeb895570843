"""The table of tools in docs/semantics.md: which tests hold each row, told by the tests themselves.

``python -m tests.mount.tool_table`` writes it; a test compares it with what the document has.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])

DOCUMENT = Path(__file__).parents[2] / "docs" / "semantics.md"
HEAD = "| tool | works | tests |\n|---|---|---|\n"
ROWS = {
    "shells": ("shells, `cp`, `mv`, `tee`, `sed -i`, `perl -i`, `awk`, `ed`, `patch`", "one save, one version"),
    "editors": ("vim, emacs, nano, with and without backups", "one save, one version; their litter stays on this machine"),
    "git": (
        "git: init, clone, edit, commit, checkout, merge, gc, fsck",
        "yes; the working tree is memories, `.git` is scratch",
    ),
    "rsync": ("rsync -a --delete", "yes, and a second run has nothing to do"),
    "archives": ("tar, zip, unzip -o, cp -a", "yes; unpacked over the same files they make no version"),
    "searching": ("rg, rg --mmap, grep -r, fd, find, wc", "yes"),
    "paging": ("less, head, tail, tac, sort", "yes"),
    "following": ("tail -f, tail -F, watch", "yes, also what other sessions write"),
    "json": ("jq, python -m json.tool, sponge", "yes"),
    "python": ("Python: open, tempfile, shutil, pathlib, mmap", "yes"),
    "node": ("Node: fs, promises, streams", "yes"),
    "npm": ("npm init, install, ci, run", "yes; `node_modules` is scratch"),
    "sqlite3": ("sqlite3", "refused (`EILSEQ`, with a sentence in `.memfs/errors`); works in a scratch directory"),
}
"""What each row says, in the table's order."""
MODULES = ("mount/test_saves", "mount/test_reports", "mount/posix/test_tools", "mount/posix/test_mmap")
"""Where the tests are that hold the rows."""

_tests: dict[str, dict[str, None]] = {key: {} for key in ROWS}


def holds(*rows: str) -> Callable[[Test], Test]:
    """The test that is decorated holds these `ROWS`."""

    def note(test: Test) -> Test:
        module = test.__module__.removeprefix("tests.").replace(".", "/")
        for row in rows:
            _tests[row][f"`{module}::{test.__name__}`"] = None
        return test

    return note


def table() -> str:
    """The table, by the tests of `MODULES`."""
    for module in MODULES:
        importlib.import_module(f"tests.{module.replace('/', '.')}")
    lines = [f"| {tools} | {how} | {' '.join(sorted(_tests[key]))} |\n" for key, (tools, how) in ROWS.items()]
    return HEAD + "".join(lines)


def written() -> str:
    """The table as the document has it."""
    text = DOCUMENT.read_text()
    begin = text.index(HEAD)
    return text[begin : text.index("\n\n", begin) + 1]


if __name__ == "__main__":
    from tests.mount import tool_table  # the one that the tests know

    DOCUMENT.write_text(DOCUMENT.read_text().replace(tool_table.written(), tool_table.table()))
