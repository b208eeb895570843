"""What was written here and is not in the store, and what never goes there: one SQLite database for a store and mount point.

It survives kill -9: a change is on its way to the disk (in the kernel's hands) when the call that makes it returns. `sync`
makes it survive a loss of power too. The database and its files lie in a directory of mode 0700 that one daemon holds locked
at a time.
"""

import contextlib
import fcntl
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memfs.model.content import Sha256
from memfs.model.errors import MemfsError
from memfs.model.ids import MemoryId, VersionId
from memfs.replica.errors import StateFailed, StateFull
from memfs.replica.tree import Inode, Meta

SPARE_BYTES = 256 * 1024
"""What the database itself may need beside the bytes of a draft: its log grows by whole pages."""

_SCHEMA = """
-- Files that are not memories (now). The bytes are in files/KEY.
CREATE TABLE IF NOT EXISTS local_files (
    key INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,      -- in the store's tree, /notes/.a.md.swp
    kind TEXT NOT NULL,             -- 'scratch', or 'settling' when it would have become a memory
    number INTEGER NOT NULL,        -- inode number
    mode INTEGER, uid INTEGER, gid INTEGER
);
-- Scratch directories. What they hold is in trees/KEY.
CREATE TABLE IF NOT EXISTS scratch_trees (
    key INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
);
-- Directories of which this mount knows more than the store does.
CREATE TABLE IF NOT EXISTS directories (
    path TEXT PRIMARY KEY,
    kept INTEGER NOT NULL,          -- 1: exists until rmdir, though nothing may lie below it
    number INTEGER,                 -- inode number, where it is not that of the path (the directory was renamed)
    mode INTEGER, uid INTEGER, gid INTEGER, mtime_ns INTEGER, atime_ns INTEGER
) WITHOUT ROWID;
-- What chmod, chown and utimens set on memories.
CREATE TABLE IF NOT EXISTS attributes (
    memory_id TEXT PRIMARY KEY,
    number INTEGER,                 -- inode number, where it is not that of the id (a service that gives the id at create)
    mode INTEGER, uid INTEGER, gid INTEGER,
    sha256 TEXT,                    -- the times hold for this content only
    mtime_ns INTEGER, atime_ns INTEGER
) WITHOUT ROWID;
-- Written bytes that are not confirmed by the store.
CREATE TABLE IF NOT EXISTS drafts (
    key INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    memory_id TEXT,                 -- NULL: a new memory
    base_version TEXT,              -- the version that the bytes derive from; NULL: none
    base_sha256 TEXT,
    content BLOB NOT NULL,
    append_only INTEGER NOT NULL,
    since_ns INTEGER NOT NULL,
    refused TEXT                    -- why the content cannot be stored as it is; NULL: it can
);
-- Drafts that lack a part of what was written, because a write was refused: they are never stored as they are.
CREATE TABLE IF NOT EXISTS cut_drafts (
    draft INTEGER PRIMARY KEY,
    error TEXT NOT NULL             -- the kind of the refusal
);
-- Contents of drafts that were sent, and of which nobody knows yet whether they were stored.
CREATE TABLE IF NOT EXISTS sent (
    draft INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (draft, sha256)
) WITHOUT ROWID;
-- Names that were taken from a memory whose fate is open for a moment.
CREATE TABLE IF NOT EXISTS parks (
    memory_id TEXT PRIMARY KEY,
    path TEXT NOT NULL,             -- the name in the store
    sha256 TEXT NOT NULL,           -- the content that was seen when the name was taken
    new_path TEXT                   -- where it was renamed to; NULL: it was unlinked
) WITHOUT ROWID;
-- Renames of a memory over another one under way: when the other has the content, the memory itself is to be deleted.
CREATE TABLE IF NOT EXISTS replacements (
    memory_id TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL,           -- its content in the store
    target_id TEXT NOT NULL,        -- the memory that takes its content
    content_sha256 TEXT NOT NULL    -- the content that the target gets
) WITHOUT ROWID;
-- Where this is: for whoever lists what waits, and for the next mount of the store at another place.
CREATE TABLE IF NOT EXISTS place (
    mountpoint TEXT NOT NULL,
    name TEXT NOT NULL              -- the store's directory there
);
-- Directory renames under way: every memory below old is to go below new.
CREATE TABLE IF NOT EXISTS directory_renames (
    key INTEGER PRIMARY KEY,
    old TEXT NOT NULL,
    new TEXT NOT NULL
);
"""


_TABLES = (
    *("local_files", "scratch_trees", "directories", "attributes", "drafts", "cut_drafts", "sent", "parks", "replacements"),
    *("place", "directory_renames"),
)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class JournalBusy(MemfsError):
    """Another daemon holds this state directory."""


class _Database(sqlite3.Connection):
    """A connection whose failures are `StateFull` or `StateFailed`, which a caller understands."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(sql, parameters)
        except sqlite3.Error as error:
            raise _failure(error) from error


def _failure(error: sqlite3.Error) -> MemfsError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):  # a full disk shows as either, by what was being written
        return StateFull(f"the disk that holds the state of the mount is full, or fails ({error}): make room there")
    return StateFailed(f"the state of the mount cannot be kept: {error}")


@dataclass(frozen=True)
class LocalFile:
    key: int
    path: str
    kind: str
    number: Inode
    meta: Meta


@dataclass(frozen=True)
class KeptDirectory:
    path: str
    kept: bool
    number: Inode | None
    meta: Meta


@dataclass(frozen=True)
class MemoryAttributes:
    number: Inode | None
    sha256: Sha256 | None
    meta: Meta


@dataclass(frozen=True)
class JournalledDraft:
    key: int
    path: str
    memory_id: MemoryId | None
    base_version: VersionId | None
    base_sha256: Sha256 | None
    content: bytes
    append_only: bool
    since_ns: int
    refused: str | None
    cut: str | None
    """The class of the error that cut it short; None: it is all that was written."""


@dataclass(frozen=True)
class JournalledPark:
    memory_id: MemoryId
    path: str
    sha256: Sha256
    new_path: str | None


@dataclass(frozen=True)
class JournalledReplacement:
    memory_id: MemoryId
    sha256: Sha256
    target_id: MemoryId
    content_sha256: Sha256


class Journal:
    """The state of one store under one mount point, in `directory`."""

    def __init__(self, directory: Path) -> None:
        """Open it, made when it is not there.

        Raises `JournalBusy` while another daemon holds it; `StateFull` and `StateFailed` when it cannot be made.
        """
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.chmod(0o700)
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise JournalBusy(f"another memfs daemon uses the state in {directory}: unmount it first") from None
        (directory / "files").mkdir(exist_ok=True, mode=0o700)
        (directory / "trees").mkdir(exist_ok=True, mode=0o700)
        self._removed = True
        """Its files may hold bytes of drafts that were removed or written anew; an earlier daemon may have left some."""
        self.damage: str | None = None
        """What was wrong with the journal when it was opened, as a sentence; None: nothing."""
        try:
            self._database = self._open()
        except BaseException:
            os.close(self._lock)
            raise
        self._clear_nameless()
        self._next_key = self._first_free_key()
        self._attributes = {
            MemoryId(row[0]): MemoryAttributes(row[1], row[5], Meta(row[2], row[3], row[4], row[6], row[7]))
            for row in self._database.execute(
                "SELECT memory_id, number, mode, uid, gid, sha256, mtime_ns, atime_ns FROM attributes"
            )
        }

    def _open(self) -> sqlite3.Connection:
        """The database; one that is damaged is set aside, and what can be read of it taken over."""
        path = self.directory / "journal.db"
        try:
            return _connect(path)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                raise _failure(error) from error
        aside = self.directory / f"journal.db.damaged-{time.time_ns()}"
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{path}{suffix}", f"{aside}{suffix}")
        database = _connect(path)
        taken = _salvage(aside, database)
        self.damage = (
            f"the journal was damaged: {taken} entries of it could be read and were taken over, "
            f"the damaged file is kept as {aside}"
        )
        return database

    def close(self) -> None:
        self._database.close()
        os.close(self._lock)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside are made, or none."""
        if self._database.in_transaction:
            yield
            return
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:  # SQLite may have undone it by itself
                self._database.execute("ROLLBACK")
            raise

    def check_room(self, size: int) -> None:
        """Raise `StateFull` when the disk could not take a draft of `size` bytes: better now than when it is closed."""
        disk = os.statvfs(self.directory)
        if disk.f_bavail * disk.f_frsize < 2 * size + SPARE_BYTES:
            raise StateFull(f"the disk that holds the state of the mount ({self.directory}) is full: make room there")

    def set_place(self, mountpoint: str, name: str) -> None:
        """Note whose state this is."""
        if self._database.execute("SELECT mountpoint, name FROM place").fetchall() != [(mountpoint, name)]:
            with self.transaction():
                self._database.execute("DELETE FROM place")
                self._database.execute("INSERT INTO place VALUES (?, ?)", (mountpoint, name))

    def sync(self) -> None:
        """Return when everything in it would survive a loss of power."""
        descriptor = os.open(self.directory / "journal.db-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def wipe_removed(self) -> None:
        """Let nothing of a draft that was removed be found in the files any more; waits for the disk where there was one.

        SQLite overwrites what is deleted (`secure_delete`), but its log keeps older pages until it is cut.
        """
        if self._removed:
            (busy, _, _) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._removed = bool(busy)

    # Local files

    def file_path(self, key: int) -> Path:
        return self.directory / "files" / str(key)

    def _clear_nameless(self) -> None:
        """Delete the files without a row: they had lost their names, and who had them open is gone with the last daemon.

        Where the journal was damaged or is a new one it may be the row that was lost: then the bytes stay, as KEY.lost.
        """
        whole = self.damage is None and self._database.execute("SELECT count(*) FROM place").fetchone() != (0,)
        known = {str(key) for (key,) in self._database.execute("SELECT key FROM local_files")}
        files = self.directory / "files"
        nameless = [files / name for name in os.listdir(files) if name.isdecimal() and name not in known]
        for path in nameless:
            with contextlib.suppress(OSError):  # it is in nobody's way
                path.unlink() if whole else path.rename(f"{path}.lost")
        if nameless and not whole:
            lost = f"the names of {len(nameless)} local files are lost, their bytes are kept as {files}/*.lost"
            self.damage = f"{self.damage or 'the journal is gone'}; {lost}"

    def _first_free_key(self) -> int:
        """Above every row and every file, KEY.lost too: none of those that are kept may be written over."""
        (highest,) = self._database.execute("SELECT max(key) FROM local_files").fetchone()
        left = [int(key) for name in os.listdir(self.directory / "files") if (key := name.partition(".")[0]).isdecimal()]
        return max([highest or 0, *left]) + 1

    def add_local_file(self, path: str, kind: str, number: Inode, meta: Meta | None) -> int:
        """The key of a new local file at `path`; no other file had it while this journal is open, nor has one now."""
        meta = meta or Meta()
        key, self._next_key = self._next_key, self._next_key + 1
        self._database.execute(
            "INSERT OR REPLACE INTO local_files (key, path, kind, number, mode, uid, gid) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (key, path, kind, number, meta.mode, meta.uid, meta.gid),
        )
        return key

    def change_local_file(self, key: int, *, path: str, kind: str, meta: Meta | None) -> None:
        """Another one that had `path` loses it."""
        meta = meta or Meta()
        self._database.execute(
            "UPDATE OR REPLACE local_files SET path = ?, kind = ?, mode = ?, uid = ?, gid = ? WHERE key = ?",
            (path, kind, meta.mode, meta.uid, meta.gid, key),
        )

    def remove_local_file(self, key: int) -> None:
        self._database.execute("DELETE FROM local_files WHERE key = ?", (key,))

    def local_files(self) -> list[LocalFile]:
        rows = self._database.execute("SELECT key, path, kind, number, mode, uid, gid FROM local_files ORDER BY key")
        return [LocalFile(row[0], row[1], row[2], row[3], Meta(row[4], row[5], row[6])) for row in rows]

    # Scratch trees

    def tree_path(self, key: int) -> Path:
        return self.directory / "trees" / str(key)

    def add_scratch_tree(self, path: str) -> int:
        cursor = self._database.execute("INSERT INTO scratch_trees (path) VALUES (?)", (path,))
        assert cursor.lastrowid is not None
        self.tree_path(cursor.lastrowid).mkdir(mode=0o700)
        return cursor.lastrowid

    def move_scratch_tree(self, key: int, path: str) -> None:
        self._database.execute("UPDATE scratch_trees SET path = ? WHERE key = ?", (path, key))

    def remove_scratch_tree(self, key: int) -> None:
        self._database.execute("DELETE FROM scratch_trees WHERE key = ?", (key,))
        shutil.rmtree(self.tree_path(key), ignore_errors=True)

    def scratch_trees(self) -> list[tuple[int, str]]:
        return list(self._database.execute("SELECT key, path FROM scratch_trees ORDER BY path"))

    # Directories

    def put_directory(self, path: str, *, kept: bool, number: Inode | None, meta: Meta | None) -> None:
        meta = meta or Meta()
        self._database.execute(
            "INSERT OR REPLACE INTO directories VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (path, kept, number, meta.mode, meta.uid, meta.gid, meta.mtime_ns, meta.atime_ns),
        )

    def remove_directory(self, path: str) -> None:
        self._database.execute("DELETE FROM directories WHERE path = ?", (path,))

    def directories(self) -> list[KeptDirectory]:
        rows = self._database.execute(
            "SELECT path, kept, number, mode, uid, gid, mtime_ns, atime_ns FROM directories ORDER BY path"
        )
        return [KeptDirectory(row[0], bool(row[1]), row[2], Meta(*row[3:])) for row in rows]

    def move_below(self, old: str, new: str) -> None:
        """Everything local that lies at or below the directory `old` now lies below `new`."""
        with self.transaction():
            for table in ("local_files", "scratch_trees", "directories", "drafts"):
                self._database.execute(
                    f"UPDATE OR REPLACE {table} SET path = ?2 || substr(path, ?3) "
                    "WHERE path = ?1 OR (path >= ?1 || '/' AND path < ?1 || '0')",
                    (old, new, len(old) + 1),
                )

    # Attributes of memories

    def attributes(self, memory_id: MemoryId) -> MemoryAttributes | None:
        return self._attributes.get(memory_id)

    def put_attributes(self, memory_id: MemoryId, *, number: Inode | None, sha256: Sha256 | None, meta: Meta | None) -> None:
        """Remember them, or forget them when all is None."""
        meta = meta.copy() if meta is not None else Meta()
        if number is None and meta.empty:
            if self._attributes.pop(memory_id, None) is not None:
                self._database.execute("DELETE FROM attributes WHERE memory_id = ?", (memory_id,))
            return
        self._attributes[memory_id] = MemoryAttributes(number, sha256, meta)
        self._database.execute(
            "INSERT OR REPLACE INTO attributes VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (memory_id, number, meta.mode, meta.uid, meta.gid, sha256, meta.mtime_ns, meta.atime_ns),
        )

    # Drafts

    def put_draft(
        self,
        key: int | None,
        *,
        path: str,
        memory_id: MemoryId | None,
        base_version: VersionId | None,
        base_sha256: Sha256 | None,
        content: bytes,
        append_only: bool,
        since_ns: int,
        refused: str | None,
        cut: str | None,
    ) -> int:
        """Keep a draft, new or under its `key`; return the key."""
        self._removed = True
        cursor = self._database.execute(
            "INSERT OR REPLACE INTO drafts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (key, path, memory_id, base_version, base_sha256, content, append_only, since_ns, refused),
        )
        assert cursor.lastrowid is not None
        if cut is not None:
            self._database.execute("INSERT OR REPLACE INTO cut_drafts VALUES (?, ?)", (cursor.lastrowid, cut))
        elif key is not None:
            self._database.execute("DELETE FROM cut_drafts WHERE draft = ?", (key,))
        return cursor.lastrowid

    def move_draft(self, key: int, path: str) -> None:
        self._database.execute("UPDATE drafts SET path = ? WHERE key = ?", (path, key))

    def remove_draft(self, key: int) -> None:
        with self.transaction():
            self._database.execute("DELETE FROM drafts WHERE key = ?", (key,))
            self._database.execute("DELETE FROM cut_drafts WHERE draft = ?", (key,))
            self._database.execute("DELETE FROM sent WHERE draft = ?", (key,))

    def add_sent(self, key: int, sha256: Sha256) -> None:
        """`sha256` is about to be sent for the draft `key`."""
        self._database.execute("INSERT OR IGNORE INTO sent VALUES (?, ?)", (key, sha256))

    def remove_sent(self, key: int, sha256: Sha256) -> None:
        """`sha256` was certainly not stored."""
        self._database.execute("DELETE FROM sent WHERE draft = ? AND sha256 = ?", (key, sha256))

    def sent(self, key: int) -> set[Sha256]:
        return {Sha256(row[0]) for row in self._database.execute("SELECT sha256 FROM sent WHERE draft = ?", (key,))}

    def drafts(self) -> list[JournalledDraft]:
        rows = self._database.execute(
            "SELECT key, path, memory_id, base_version, base_sha256, content, append_only, since_ns, refused, error "
            "FROM drafts LEFT JOIN cut_drafts ON draft = key ORDER BY key"
        )
        return [
            JournalledDraft(
                key=row[0],
                path=row[1],
                memory_id=row[2],
                base_version=row[3],
                base_sha256=row[4],
                content=row[5],
                append_only=bool(row[6]),
                since_ns=row[7],
                refused=row[8],
                cut=row[9],
            )
            for row in rows
        ]

    def waits(self) -> bool:
        """Whether anything is on its way to the store."""
        return any(
            self._database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
            for table in ("drafts", "parks", "replacements", "directory_renames")
        )

    # Parks

    def put_park(self, memory_id: MemoryId, path: str, sha256: Sha256, new_path: str | None) -> None:
        self._database.execute("INSERT OR REPLACE INTO parks VALUES (?, ?, ?, ?)", (memory_id, path, sha256, new_path))

    def remove_park(self, memory_id: MemoryId) -> None:
        self._database.execute("DELETE FROM parks WHERE memory_id = ?", (memory_id,))

    def parks(self) -> list[JournalledPark]:
        rows = self._database.execute("SELECT memory_id, path, sha256, new_path FROM parks")
        return [JournalledPark(*row) for row in rows]

    # Replacements

    def put_replacement(self, replacement: "JournalledReplacement") -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO replacements VALUES (?, ?, ?, ?)",
            (replacement.memory_id, replacement.sha256, replacement.target_id, replacement.content_sha256),
        )

    def remove_replacement(self, memory_id: MemoryId) -> None:
        self._database.execute("DELETE FROM replacements WHERE memory_id = ?", (memory_id,))

    def replacements(self) -> "list[JournalledReplacement]":
        rows = self._database.execute("SELECT memory_id, sha256, target_id, content_sha256 FROM replacements")
        return [JournalledReplacement(*row) for row in rows]

    # Directory renames

    def begin_directory_rename(self, old: str, new: str) -> int:
        cursor = self._database.execute("INSERT INTO directory_renames (old, new) VALUES (?, ?)", (old, new))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def end_directory_rename(self, key: int) -> None:
        self._database.execute("DELETE FROM directory_renames WHERE key = ?", (key,))

    def directory_renames(self) -> list[tuple[int, str, str]]:
        return list(self._database.execute("SELECT key, old, new FROM directory_renames ORDER BY key"))


def _connect(path: Path) -> _Database:
    """The database at `path` with all its tables, checked. Raises `sqlite3.Error` and what `_Database` raises."""
    database = sqlite3.connect(path, isolation_level=None, factory=_Database)
    try:
        os.chmod(path, 0o600)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON"):
            sqlite3.Connection.execute(database, f"PRAGMA {pragma}")
        database.executescript(_SCHEMA)
        found = sqlite3.Connection.execute(database, "PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            damage = sqlite3.DatabaseError(str(found))
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage
    except BaseException:
        database.close()
        raise
    return database


def _salvage(damaged: Path, database: sqlite3.Connection) -> int:
    """Bring into `database` every row of the damaged one that can be read; return how many."""
    taken = 0
    source = sqlite3.connect(damaged, isolation_level=None)
    try:
        for table in _TABLES:
            with contextlib.suppress(sqlite3.Error, StateFailed):  # what cannot be read ends this table
                for row in source.execute(f"SELECT * FROM {table}"):
                    database.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
                    taken += 1
    finally:
        source.close()
    return taken
