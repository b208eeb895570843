"""What the memories of a store had when a mount last saw them, kept beside its journal.

The disk cache outlives a mount. What was superseded meanwhile may have been redacted meanwhile, and then nobody can tell its
hash any more; this can. It is written now and then and when a mount ends; after a kill it is older, and more versions are
looked at.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from memfs.model.content import Sha256, is_sha256
from memfs.model.ids import MemoryId
from memfs.model.objects import format_time


class Former:
    def __init__(self, directory: Path) -> None:
        """Read what an earlier mount left in `directory`; a file that is damaged counts as none."""
        self._path = directory / "heads.json"
        self.newest: datetime | None = None
        """The earlier mount knew of all versions up to then; None: there was no such mount."""
        self.heads: dict[MemoryId, Sha256] = {}
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            value = json.loads(self._path.read_text("utf-8"))
            heads = {MemoryId(str(memory)): Sha256(str(sha256)) for memory, sha256 in value["heads"].items()}
            if all(is_sha256(sha256) for sha256 in heads.values()):
                self.newest, self.heads = datetime.fromisoformat(value["newest"]), heads

    def superseded(self, memory_id: MemoryId, sha256: Sha256 | None) -> Sha256 | None:
        """A memory has the content `sha256` now, or is gone: the content that it had, where that is another. Tells it once."""
        if self.heads.get(memory_id) in (None, sha256):
            return None
        return self.heads.pop(memory_id)

    def save(self, newest: datetime, heads: Mapping[MemoryId, Sha256]) -> None:
        """Keep `heads`, and what was known before of other memories; the failures of a disk are passed over."""
        temporary = self._path.with_suffix(".new")
        with suppress(OSError):
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump({"newest": format_time(newest), "heads": {**self.heads, **heads}}, file)
            os.replace(temporary, self._path)
