"""Every test that a document names exists."""

import ast
import re
from pathlib import Path

import pytest

from tests.mount import tool_table

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("docs/semantics.md", "docs/containers.md")
NAMED = re.compile(r"`([a-z0-9_/]+)::(test_[a-z0-9_]+)`")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_test_that_is_named_exists(document: str) -> None:
    named = NAMED.findall((ROOT / document).read_text())
    assert len(named) > 5
    missing = [f"{module}::{test}" for module, test in named if test not in functions_of(module)]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_row_names_a_test(document: str) -> None:
    rows = [line for line in (ROOT / document).read_text().splitlines() if line.startswith("|") and not line.startswith("|---")]
    heads = re.compile(r"\| *tests \|$")
    assert [row for row in rows if not heads.search(row) and not NAMED.search(row)] == []


def test_the_table_of_tools_is_that_of_the_tests() -> None:
    assert tool_table.written() == tool_table.table(), "python -m tests.mount.tool_table writes it"


@pytest.mark.parametrize(
    "tool",
    [
        *("git: init, clone", "commit", "fsck", "rsync -a --delete", "tar", "unzip", "cp -a", "rg", "rg --mmap", "fd", "less"),
        *("tail -f", "watch", "sqlite3", "vim", "emacs", "nano", "jq", "python -m json.tool", "Node", "npm"),
    ],
)
def test_what_agents_use_has_a_row(tool: str) -> None:
    assert any(re.search(rf"(?<![\w-]){re.escape(tool)}(?![\w-])", tools) for tools, _ in tool_table.ROWS.values())


def functions_of(module: str) -> set[str]:
    path = ROOT / "tests" / f"{module}.py"
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
