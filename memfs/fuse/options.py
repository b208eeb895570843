"""What a mount is asked to be; the command line fills it in."""

from dataclasses import dataclass, field
from pathlib import Path

from memfs.model.ids import SessionId
from memfs.model.objects import Access, Store


@dataclass(frozen=True)
class Attachment:
    """One store as a directory of the mount."""

    store: Store
    name: str
    """The directory's name: the store's slug, or the last segment of the session's `mount_path`."""
    access: Access = "read_write"
    instructions: str = ""


@dataclass(frozen=True)
class MountOptions:
    """Times are in seconds, sizes in bytes."""

    mountpoint: Path
    url: str
    """Where the stores are, without credentials: for the status and the key of the local state."""
    session_id: SessionId
    attachments: tuple[Attachment, ...]
    state_directory: Path
    """Where journal, scratch files, modes and times live, mode 0700; one folder a store and mount point below it."""
    status_file: Path | None = None
    """Where the daemon keeps what `.memfs/status.json` shows, for commands that must not ask the mount itself."""
    cache_size: int | None = None
    """How many bytes of content the disk cache may hold; None: its own default."""
    cache_directory: Path | None = None
    """Where contents of stores over a network are kept, mode 0700, for all mounts of the user; None: in memory only."""
    max_staleness: float = 2.0
    timeout: float = 8.0
    drain_timeout: float = 60.0
    """How long the end of the mount waits until everything is stored."""
    read_only: bool = False
    allow_other: bool = False
    uid: int | None = None
    """Owner of everything that has none of its own; None: the daemon's user."""
    gid: int | None = None
    umask: int = 0o022
    xattr: bool = True
    index: bool = True
    scratch_patterns: tuple[str, ...] = field(default=())
    """Patterns to add to the built-in list of scratch names; one that begins with ``!`` takes a built-in one away."""
    fuse_debug: bool = False
