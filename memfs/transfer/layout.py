"""The names of an export: which file holds which memory. Pure.

A memory is the file of its path. A path that a file system cannot show gets a stable escaped name, as on a mount: a name over
255 bytes, a memory that has the name of a directory (a lenient service allows that), and the two names in the root that the
export keeps for itself. The manifest tells which is which, so that an import gives each memory its own path again.
"""

from collections.abc import Iterable

from memfs.model.paths import ancestors
from memfs.replica.tree import NAME_MAX, escape

EXPORT_NAME = ".memfs-export"
"""The folder of an export's manifest and unfinished files."""
VERSIONS_NAME = ".versions"
"""The folder of an export's history."""
RESERVED = frozenset({EXPORT_NAME, VERSIONS_NAME})


def file_names(paths: Iterable[str]) -> dict[str, str]:
    """The file, relative to the export's directory, of each memory path."""
    paths = list(paths)
    directories = {above for path in paths for above in ancestors(path)}
    return {path: _file_name(path, path in directories) for path in paths}


def _file_name(path: str, is_directory_too: bool) -> str:
    segments = path[1:].split("/")
    names = [escape(s) if len(s.encode()) > NAME_MAX or (i == 0 and s in RESERVED) else s for i, s in enumerate(segments)]
    if is_directory_too:
        names[-1] = escape(f"{segments[-1]}/")
    return "/".join(names)
