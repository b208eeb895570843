"""What a person should know about a mount: errors and conflicts, newest last, bounded."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

KEPT = 1000


@dataclass(frozen=True)
class Notice:
    """One event. `message` is a sentence without content or credentials."""

    time: datetime
    store: str
    """The store's directory name on the mount; empty for the mount itself."""
    path: str
    operation: str
    error: str
    """The errno's name, or the kind of error where no caller waited for it."""
    message: str


@dataclass(frozen=True)
class ConflictNotice:
    """Two sessions changed the same lines: the head kept theirs, `sidecar` holds ours."""

    time: datetime
    store: str
    path: str
    sidecar: str
    our_session: str
    their_actor: dict[str, object] | None
    their_version: str


@dataclass
class Notices:
    errors: deque[Notice] = field(default_factory=lambda: deque(maxlen=KEPT))
    conflicts: deque[ConflictNotice] = field(default_factory=lambda: deque(maxlen=KEPT))

    def error(self, *, store: str, path: str, operation: str, error: str, message: str) -> None:
        self.errors.append(Notice(datetime.now(UTC), store, path, operation, error, message))

    def conflict(
        self,
        *,
        store: str,
        path: str,
        sidecar: str,
        our_session: str,
        their_actor: dict[str, object] | None,
        their_version: str,
    ) -> None:
        self.conflicts.append(ConflictNotice(datetime.now(UTC), store, path, sidecar, our_session, their_actor, their_version))
