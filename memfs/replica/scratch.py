"""Which files never are memories, and how saves that go through such files are recognised. The one place that knows.

Tools save in steps: a temporary file, a backup, a rename. The rules here, taken from traces of those tools, tell the steps from
the result, so that one save is one version. They are pure; `memfs.replica.parking` keeps their clocks.
"""

import os
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

UNLINK_PARK_SECONDS = 0.1
"""How long an unlinked name waits for a successor: `mv` from another file system, `tar x` and others need under 20 ms."""
RENAME_PARK_SECONDS = 2.0
"""How long a memory renamed to a backup name waits for its successor: editors write the new file in between."""
SETTLE_SECONDS = 2.0
"""When a file that looks temporary still stands this long after its last close, it was meant to stay."""
SHARED_COMMIT_SECONDS = 1.0
"""How often a file commits that several processes write through one handle."""

SCRATCH_PATTERNS = (
    ".*.sw?",
    ".*.sw??",
    "*~",
    "#*#",
    ".#*",
    "4913",
    "*.tmp",
    "*.tmp.*",
    "*.tmp-*",
    "*.part",
    "*.partial",
    "*.crdownload",
    "*.crswap",
    ".~lock*",
    ".goutputstream-*",
    ".fuse_hidden*",
    ".nfs*",
    "._*",
    ".DS_Store",
    ".Spotlight-V100",
    ".Trash-*",
    "Thumbs.db",
    "desktop.ini",
)
BACKUP_PATTERNS = ("*.bak", "*.orig", "*.old", "*.BAK", "*.ORIG", "*.OLD")
SCRATCH_DIRECTORIES = frozenset({".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", ".~tmp~"})
SYMLINK_DIRECTORIES = frozenset({"node_modules", ".venv"})
"""The scratch directories that may hold symbolic links; git probes for them in its own and would expect them everywhere."""

_PRIVATE_MODES = (0o600, 0o700)  # rsync makes the temporary file of an executable with 0700
_ORDINARY_EXTENSION = re.compile(r".\.[A-Za-z][A-Za-z0-9]{0,4}$")
_NUMBERED = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}\.[0-9]{9,}$")
_SUFFIX = re.compile(r"[._~-](tmp)?([0-9]{5,}|[A-Za-z0-9]{6,16})$")


class ScratchRules:
    """The rules with the patterns of one mount: `extra` adds to the built-in ones, ``!pattern`` takes one away."""

    def __init__(self, extra: Iterable[str] = ()) -> None:
        patterns = list(SCRATCH_PATTERNS)
        for pattern in extra:
            if pattern.startswith("!"):
                patterns = [kept for kept in patterns if kept != pattern[1:]]
            else:
                patterns.append(pattern)
        self.patterns = tuple(patterns)
        self.is_scratch: Callable[[str], bool] = lru_cache(maxsize=4096)(self._matches)
        """Whether a file of this name stays local as long as it bears it."""

    def _matches(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def is_backup(self, name: str) -> bool:
        """Whether a memory that gets this name may be the old state of a file that is about to be written anew."""
        return self.is_scratch(name) or any(fnmatchcase(name, pattern) for pattern in BACKUP_PATTERNS)


def is_mkstemp(flags: int, mode: int, umask: int, name: str) -> bool:
    """Whether a file created with these flags, mode (after the umask) and umask is a temporary one, as mkstemp(3) makes them.

    Under a umask of exactly 077 every new file has mode 0600: then a name with an ordinary extension is no temporary file.
    """
    if not flags & os.O_EXCL or flags & os.O_ACCMODE != os.O_RDWR or mode & 0o7777 not in _PRIVATE_MODES:
        return False
    return not (umask & 0o777 == 0o077 and _ORDINARY_EXTENSION.search(name))


def named_after(name: str, exists: Callable[[str], bool]) -> str | None:
    """The name of the memory that `name` is a temporary file for, or None.

    Such a name is the whole name of an existing memory (`exists`), perhaps after a dot, then one of ``._~-``, perhaps ``tmp``,
    then five or more digits, or 6 to 16 letters and digits that look random: npm's write-file-atomic, GNU patch, Java.
    """
    match = _SUFFIX.search(name)
    if match is None:
        return None
    if not match[2].isdigit() and not _looks_random(match[2]):
        return None
    stem = name[: match.start()]
    for target in (stem, stem[1:]) if stem.startswith(".") else (stem,):
        if target and exists(target):
            return target
    return None


def looks_temporary(name: str, exists: Callable[[str], bool]) -> bool:
    """Whether a new file is a temporary one by its name: that of an existing memory (`exists`) and something random behind it,
    or any with an extension and nine digits or more behind it, as npm's write-file-atomic makes for a new file."""
    return named_after(name, exists) is not None or _NUMBERED.search(name) is not None


def _looks_random(text: str) -> bool:
    """Whether `text` is no word: digits among letters, or capitals inside ("oAbC12", not "Debian", "draft", "BACKUP")."""
    letters = [character for character in text if character.isalpha()]
    if len(letters) < len(text):
        # A word with a number behind it ("version2") is a name; digits anywhere else, or hex, are not.
        return re.fullmatch(r"[A-Za-z][a-z]+[0-9]{1,4}", text) is None
    inner = text[1:]
    return any(character.isupper() for character in inner) and any(character.islower() for character in text)
