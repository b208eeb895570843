"""`.memfs-export/manifest.jsonl`: which file of an export holds which memory, and what it held when it was written.

One JSON object a line; of several for one file the last one counts. A line is added before its file is put in place, so that
after a kill whatever the export wrote is known as its own; at the end the lines are written anew, sorted, one a file.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from memfs.model.content import Sha256
from memfs.model.errors import InvalidRequest
from memfs.transfer.layout import EXPORT_NAME

MANIFEST_NAME = "manifest.jsonl"
STORE_NAME = "store.json"


@dataclass(frozen=True)
class Entry:
    file: str
    """Relative to the export's directory."""
    path: str
    """The memory's."""
    memory_id: str
    memory_version_id: str
    content_sha256: Sha256
    updated_at: str


class Manifest:
    """The manifest of the export in `directory`, open for adding. `close` it."""

    def __init__(self, directory: Path) -> None:
        """Makes the folder where there is none."""
        self.folder = directory / EXPORT_NAME
        self.folder.mkdir(exist_ok=True, mode=0o755)
        self.entries = {entry.file: entry for entry in read_manifest(directory)}
        self._file: IO[str] = (self.folder / MANIFEST_NAME).open("a", encoding="utf-8")
        if self._file.tell():
            self._file.write("\n")  # whatever half a line a kill has left

    def add(self, entry: Entry) -> None:
        self.entries[entry.file] = entry
        self._file.write(_line(entry))
        self._file.flush()

    def remove(self, file: str) -> None:
        """The export has this file no more; it counts when the manifest is finished."""
        self.entries.pop(file, None)

    def finish(self, store: str) -> None:
        """Write it anew: what the export holds now, and `store`, the store's own object in JSON."""
        _replace(self.folder / MANIFEST_NAME, (_line(self.entries[file]) for file in sorted(self.entries)))
        _replace(self.folder / STORE_NAME, [store, "\n"])

    def close(self) -> None:
        self._file.close()


def read_manifest(directory: Path) -> list[Entry]:
    """What the export in `directory` holds, by file; empty where there is no export."""
    return list({entry.file: entry for entry in _lines(directory / EXPORT_NAME / MANIFEST_NAME)}.values())


def written(directory: Path) -> dict[str, set[Sha256]]:
    """Every content that an export is known to have written to each file, also by lines that no longer count."""
    found: dict[str, set[Sha256]] = {}
    for entry in _lines(directory / EXPORT_NAME / MANIFEST_NAME):
        found.setdefault(entry.file, set()).add(entry.content_sha256)
    return found


def exported_store(directory: Path) -> dict[str, object] | None:
    """The store that was exported to `directory`, as the contract's object; None when no export there was ever finished.

    Raises `InvalidRequest` when the file that says so is damaged.
    """
    path = directory / EXPORT_NAME / STORE_NAME
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidRequest(f"{path} is damaged: remove it, then export again")
    return value


def _lines(path: Path) -> list[Entry]:
    try:
        text = path.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    found = []
    for line in text.split("\n"):
        try:
            found.append(Entry(**json.loads(line)))
        except (ValueError, TypeError):
            continue  # cut off by a kill: then its file was not put in place
    return found


def _line(entry: Entry) -> str:
    return json.dumps(asdict(entry), ensure_ascii=True) + "\n"


def _replace(path: Path, parts: Iterable[str]) -> None:
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
