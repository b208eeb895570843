"""When a change on the disk has come to rest, so that one save becomes one version. Pure.

A mount hears every open and close; a directory that is only watched shows what is there by now. So a change waits until nothing
happened to the file for a moment and nobody has it open for writing; names and modes of temporary files, and names that went
away, wait as long as on a mount (`memfs.replica.scratch`).
"""

from collections.abc import Callable

from memfs.replica.scratch import (
    RENAME_PARK_SECONDS,
    SCRATCH_DIRECTORIES,
    SETTLE_SECONDS,
    SHARED_COMMIT_SECONDS,
    ScratchRules,
    looks_temporary,
)
from memfs.shadow.disk import Facts

QUIET_SECONDS = 0.2
"""Tools write one file in steps that are far closer together."""
_PRIVATE_MODES = (0o600, 0o700)


def is_local(name: str, rules: ScratchRules) -> bool:
    """Whether a file of this name (relative to the store's directory) never reaches the store."""
    parts = name.split("/")
    return rules.is_scratch(parts[-1]) or any(part in SCRATCH_DIRECTORIES for part in parts[:-1])


def rest_seconds(
    name: str, facts: Facts | None, *, known: bool, exists: Callable[[str], bool], rules: ScratchRules, umask: int
) -> float:
    """How long after its last change a name is left alone.

    `facts` None: the file is gone. `known`: the store has a memory for it. `exists` tells whether a sibling is a memory.
    """
    if facts is None:
        return RENAME_PARK_SECONDS
    last = name.rpartition("/")[2]
    if known:
        return QUIET_SECONDS
    private = facts.mode in _PRIVATE_MODES and 0o666 & ~umask != 0o600
    if private or looks_temporary(last, exists) or rules.is_backup(last):
        return SETTLE_SECONDS
    return QUIET_SECONDS


def is_long_running(seconds_since_first_change: float) -> bool:
    """Whether a file that never comes to rest is stored as it is by now, as a ``>> log`` that goes on and on."""
    return seconds_since_first_change >= SHARED_COMMIT_SECONDS
