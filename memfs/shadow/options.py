"""What a shadow is asked to be; the command line fills it in."""

from dataclasses import dataclass, field
from pathlib import Path

from memfs.model.ids import SessionId
from memfs.model.objects import Access, Store


@dataclass(frozen=True)
class ShadowedStore:
    store: Store
    name: str
    """The directory's name."""
    access: Access


@dataclass(frozen=True)
class ShadowOptions:
    """Times are in seconds."""

    directory: Path
    url: str
    """Without credentials."""
    session_id: SessionId
    stores: tuple[ShadowedStore, ...]
    state_directory: Path
    """Where the journal and what was last alike are kept; one folder a store and directory below it."""
    status_file: Path
    index: str | None = None
    """The text of MEMORY.md; None: there is none."""
    max_staleness: float = 2.0
    timeout: float = 8.0
    umask: int = 0o022
    scratch_patterns: tuple[str, ...] = field(default=())
