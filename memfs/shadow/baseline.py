"""What directory and store last agreed on, file by file: the base of the next change on either side.

An SQLite database in the state directory. It need not know everything: where it is behind (after a kill, a loss of power) a
file looks changed, and the commit finds its own bytes in the store or merges. So nothing is lost, and nothing stored twice.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memfs.model.content import Sha256
from memfs.model.errors import MemfsError
from memfs.model.ids import MemoryId, VersionId
from memfs.shadow.disk import Facts

_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    name TEXT PRIMARY KEY,          -- relative to the store's directory
    path TEXT NOT NULL,             -- the memory's
    memory_id TEXT NOT NULL,
    version_id TEXT NOT NULL,       -- the version that the directory's side derives from
    sha256 TEXT NOT NULL,           -- of the bytes that lay on the disk then
    ino INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, mode INTEGER NOT NULL,
    content BLOB                    -- those bytes, where the version holds others (ours were merged into it)
) WITHOUT ROWID;
-- Contents that were sent while nobody knew whether they were stored.
CREATE TABLE IF NOT EXISTS sent (
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (name, sha256)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Entry:
    name: str
    path: str
    memory_id: MemoryId
    version_id: VersionId
    sha256: Sha256
    facts: Facts
    content: bytes | None = None


class Baseline:
    def __init__(self, path: Path) -> None:
        """Raises `MemfsError` when the database cannot be used."""
        try:
            self._database = sqlite3.connect(path, isolation_level=None)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.executescript(_SCHEMA)
            rows = self._database.execute(
                "SELECT name, path, memory_id, version_id, sha256, ino, size, mtime_ns, mode, content FROM files"
            ).fetchall()
        except sqlite3.Error as error:
            raise MemfsError(f"{path} cannot be used ({error}): move it away; what differs is then merged anew") from None
        self._entries = {row[0]: _entry(row) for row in rows}
        self._by_ino = {entry.facts.ino: entry.name for entry in self._entries.values()}

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: str) -> Entry | None:
        return self._entries.get(name)

    def of_inode(self, ino: int) -> Entry | None:
        """The file that had this inode number."""
        name = self._by_ino.get(ino)
        return self._entries.get(name) if name is not None else None

    def put(self, entry: Entry) -> None:
        """What was sent for this name is certain now."""
        facts = entry.facts
        with self._transaction():
            self._database.execute(
                "REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(entry.name, entry.path, entry.memory_id, entry.version_id, entry.sha256),
                    *(facts.ino, facts.size, facts.mtime_ns, facts.mode, entry.content),
                ),
            )
            self._database.execute("DELETE FROM sent WHERE name = ?", (entry.name,))
        self._forget(entry.name)
        self._entries[entry.name] = entry
        self._by_ino[facts.ino] = entry.name

    def remove(self, name: str) -> None:
        with self._transaction():
            self._database.execute("DELETE FROM files WHERE name = ?", (name,))
            self._database.execute("DELETE FROM sent WHERE name = ?", (name,))
        self._forget(name)

    def _forget(self, name: str) -> None:
        old = self._entries.pop(name, None)
        if old is not None and self._by_ino.get(old.facts.ino) == name:
            del self._by_ino[old.facts.ino]

    def note_sent(self, name: str, sha256: Sha256) -> None:
        self._database.execute("INSERT OR IGNORE INTO sent VALUES (?, ?)", (name, sha256))

    def sent(self, name: str) -> set[Sha256]:
        rows = self._database.execute("SELECT sha256 FROM sent WHERE name = ?", (name,)).fetchall()
        return {Sha256(row[0]) for row in rows}

    def _transaction(self) -> "_Transaction":
        return _Transaction(self._database)

    def close(self) -> None:
        self._database.close()


def _entry(row: tuple[Any, ...]) -> Entry:
    name, path, memory_id, version_id, sha256, ino, size, mtime_ns, mode, content = row
    return Entry(name, path, memory_id, version_id, sha256, Facts(ino, size, mtime_ns, mode), content)


class _Transaction:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._database.execute("COMMIT" if kind is None else "ROLLBACK")
