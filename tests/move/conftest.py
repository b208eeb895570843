"""The real program, as in the tests of the command line, and directories to compare."""

import os
from pathlib import Path

from tests.cli.conftest import Program, program

__all__ = ["Program", "program"]


def write_tree(directory: Path, files: dict[str, str | bytes]) -> Path:
    """Make `directory` with these files, by relative name."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    directory.mkdir(exist_ok=True)
    return directory


def tree_of(directory: Path) -> dict[str, bytes]:
    """Every file below `directory` but for those that an export keeps for itself."""
    found = {}
    for folder, directories, names in os.walk(directory):
        if folder == str(directory):
            directories[:] = [name for name in directories if name not in (".memfs-export", ".versions")]
        for name in names:
            path = Path(folder, name)
            found[str(path.relative_to(directory))] = path.read_bytes()
    return found
