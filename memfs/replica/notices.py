"""What a person should know about a mount: errors and conflicts, newest last, bounded."""

import contextlib
import json
import logging
import os
from collections import deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger(__name__)

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
    """The errno's name: what a caller got, or would have got where none waited."""
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


class Notices:
    """The newest `KEPT` of both kinds, those of earlier mounts too where they are kept in a file."""

    def __init__(self, path: Path | None = None) -> None:
        """`path`: the file that keeps them over remounts; what cannot be read of it, or written to it, is left out."""
        self.errors: deque[Notice] = deque(maxlen=KEPT)
        self.conflicts: deque[ConflictNotice] = deque(maxlen=KEPT)
        self._path = path
        self._lines = 0
        if path is not None:
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                for line in path.read_text("utf-8", errors="replace").splitlines() if path.exists() else ():
                    self._take(line)
                self._write_anew()

    def _take(self, line: str) -> None:
        try:
            value = json.loads(line)
            time = datetime.fromisoformat(value.pop("time"))
            if "sidecar" in value:
                self.conflicts.append(ConflictNotice(time=time, **value))
            else:
                self.errors.append(Notice(time=time, **value))
        except (ValueError, TypeError, KeyError, AttributeError):
            pass  # half a line that was being written when the machine stopped

    def _write_anew(self) -> None:
        assert self._path is not None
        notices: list[Notice | ConflictNotice] = [*self.errors, *self.conflicts]
        notices.sort(key=lambda notice: notice.time)
        temporary = self._path.with_suffix(".new")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(_line(notice) for notice in notices)
        temporary.replace(self._path)
        self._lines = len(notices)

    def _keep(self, notice: "Notice | ConflictNotice") -> None:
        if self._path is None:
            return
        self._lines += 1
        with contextlib.suppress(OSError):  # a full disk is what most notices are about then
            if self._lines > 4 * KEPT:
                self._write_anew()
                return
            with open(self._path, "ab") as file:
                file.write(_line(notice))

    def error(self, *, store: str, path: str, operation: str, error: str, message: str) -> None:
        notice = Notice(datetime.now(UTC), store, path, operation, error, message)
        self.errors.append(notice)
        self._keep(notice)
        log.warning("%s %s%s: %s: %s", operation, store, path, error, message)

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
        notice = ConflictNotice(datetime.now(UTC), store, path, sidecar, our_session, their_actor, their_version)
        self.conflicts.append(notice)
        log.warning("conflict %s%s: %s keeps the words of %s", store, path, sidecar, our_session)
        self._keep(notice)


def _line(notice: Notice | ConflictNotice) -> bytes:
    value = {**asdict(notice), "time": notice.time.isoformat()}
    return json.dumps(value, ensure_ascii=True).encode() + b"\n"
