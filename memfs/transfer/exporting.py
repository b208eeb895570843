"""Brings a store into a directory, as plain files.

Each file is put in place at once, whole, with the time of its content. A run that was cut off is finished by the next, which
compares hashes and fetches what differs. A file that somebody changed since it was exported is only overwritten when asked for.
"""

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memfs.model.content import MAX_CONTENT_BYTES, Sha256, sha256_of
from memfs.model.errors import InvalidRequest
from memfs.model.objects import Memory, Store, format_time
from memfs.replica.scratch import SCRATCH_DIRECTORIES
from memfs.stores.base import MemoryStore
from memfs.transfer.contents import all_heads, read_contents
from memfs.transfer.layout import EXPORT_NAME, VERSIONS_NAME, file_names
from memfs.transfer.manifest import Entry, Manifest, exported_store, written
from memfs.transfer.pace import Paces
from memfs.transfer.steps import Action, Listener, Step

FileState = Literal["absent", "same", "ours", "changed", "blocked"]


@dataclass(frozen=True)
class ExportOptions:
    delete: bool = False
    """Remove every file that the store does not hold."""
    overwrite: bool = False
    """Replace files that were changed here, or that no export wrote."""
    dry_run: bool = False


async def export_to(
    service: MemoryStore, store: Store, directory: Path, paces: Paces, listener: Listener, options: ExportOptions
) -> None:
    """Make `directory` hold what `store` does.

    Raises `InvalidRequest` when another export works there, or one of another store was made there; `Unavailable` and what
    else the service says. What concerns one file alone is a step that is refused.
    """
    _check_directory(directory, store, options)
    heads = await all_heads(service, store.id, paces.reads)
    if options.dry_run:
        export = _Export(directory, listener, options, None)
        export.plan(heads)
        return
    with _alone(directory), contextlib.closing(Manifest(directory)) as manifest:
        export = _Export(directory, listener, options, manifest)
        wanted = export.plan(heads)
        gone = await read_contents(service, store.id, wanted, total=len(heads), pace=paces.reads, take=export.take)
        for memory in gone:
            listener.step(Step(memory.path, "skipped", "it was deleted meanwhile"))
        manifest.finish(store.model_dump_json())
        os.sync()


def _check_directory(directory: Path, store: Store, options: ExportOptions) -> None:
    if directory.exists() and not directory.is_dir():
        raise InvalidRequest(f"{directory} is no directory: name another")
    if not directory.parent.is_dir():
        raise InvalidRequest(f"{directory.parent} does not exist: create it first (mkdir -p {directory.parent})")
    before = exported_store(directory)
    if before is not None and before.get("id") != store.id and not options.overwrite:
        raise InvalidRequest(
            f"{directory} is an export of another store, {before.get('name')!r}: name another directory, or add --overwrite"
        )


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the directory for this export, and clear away what an earlier one left unfinished."""
    folder = directory / EXPORT_NAME
    folder.mkdir(exist_ok=True, parents=True)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidRequest(f"another export to {directory} is at work: wait for it, or end it") from None
        shutil.rmtree(folder / "new", ignore_errors=True)
        (folder / "new").mkdir()
        yield
        shutil.rmtree(folder / "new", ignore_errors=True)


class _Export:
    def __init__(self, directory: Path, listener: Listener, options: ExportOptions, manifest: Manifest | None) -> None:
        self.directory = directory
        self.listener = listener
        self.options = options
        self.manifest = manifest
        """None: nothing is to be done."""
        self.files: dict[str, str] = {}
        """The file of each memory path that can be exported."""
        self.actions: dict[str, Action] = {}
        self._wrote = written(directory)
        self._parents: dict[Path, str] = {}

    def plan(self, heads: list[Memory]) -> list[Memory]:
        """Remove what is surplus, tell what needs no fetching, and return what does."""
        legal = [memory for memory in heads if is_legal(memory.path)]
        self.files = file_names(memory.path for memory in legal)
        surplus = self._surplus() if self.options.delete else []
        self.listener.expect(len(heads) + len(surplus))
        for memory in heads:
            if memory.path not in self.files:
                self._step(memory.path, "refused", "the service lists a path that no file can have: rename it there")
        for file in surplus:
            self._remove(file)
        wanted = []
        for memory in legal:
            state, reason = self._state(memory)
            if state == "same":
                if self.manifest is not None:
                    self._note(memory)
                self._step(memory.path, "unchanged")
            elif state == "blocked" or (state == "changed" and not self.options.overwrite):
                self._step(memory.path, "refused", reason)
            else:
                self.actions[memory.path] = "created" if state == "absent" else "updated"
                wanted.append(memory)
        if self.manifest is None:
            for memory in wanted:
                self._step(memory.path, self.actions[memory.path])
        return wanted

    def _step(self, path: str, action: Action, reason: str = "") -> None:
        self.listener.step(Step(path, action, reason))

    def _state(self, memory: Memory) -> tuple[FileState, str]:
        file = self.files[memory.path]
        path = self.directory / file
        if blocked := self._blocked(path.parent):
            return "blocked", blocked
        try:
            status = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return "absent", ""
        if not stat.S_ISREG(status.st_mode):
            what = "a directory" if stat.S_ISDIR(status.st_mode) else "no plain file"
            return "blocked", f"{path} is {what}: move it away, then run this again"
        try:
            sha256 = _hash(path, status.st_size, memory.content_size_bytes)
        except OSError as error:
            return "blocked", f"{path} cannot be read ({error.strerror}): make it readable, then run this again"
        if sha256 == memory.content_sha256:
            return "same", ""
        if sha256 not in self._wrote.get(file, ()):
            return "changed", "it was changed here, or no export wrote it: move it away, or add --overwrite to replace it"
        return "ours", ""

    def _blocked(self, parent: Path) -> str:
        """Why nothing can be written in `parent`, else empty; nothing is ever written through a symbolic link."""
        if parent == self.directory:
            return ""
        known = self._parents.get(parent)
        if known is None:
            known = self._blocked(parent.parent) or self._not_a_directory(parent)
            self._parents[parent] = known
        return known

    @staticmethod
    def _not_a_directory(path: Path) -> str:
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            return ""
        if stat.S_ISDIR(mode):
            return ""
        what = "a symbolic link" if stat.S_ISLNK(mode) else "a file"
        return f"{path} is {what} and should be a directory: move it away, then run this again"

    async def take(self, memory: Memory, content: bytes) -> None:
        """Put `content` in its place. The memory may have changed since it was listed, or moved: then it stays for the next
        run."""
        action = self.actions.get(memory.path)
        if action is None:
            self._step(memory.path, "skipped", "it was renamed meanwhile: run this again")
            return
        path = self.directory / self.files[memory.path]
        assert self.manifest is not None
        unfinished = self.manifest.folder / "new" / memory.id
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(content)
            seconds = memory.updated_at.timestamp()
            os.utime(unfinished, (seconds, seconds))
            self._note(memory)
            unfinished.replace(path)
        except OSError as error:
            self._step(memory.path, "refused", f"{path} cannot be written ({error.strerror}): mend that, then run this again")
            return
        self._step(memory.path, action)

    def _note(self, memory: Memory) -> None:
        assert self.manifest is not None
        file = self.files[memory.path]
        entry = Entry(
            file, memory.path, memory.id, memory.memory_version_id, memory.content_sha256, format_time(memory.updated_at)
        )
        if self.manifest.entries.get(file) != entry:
            self.manifest.add(entry)

    def _surplus(self) -> list[str]:
        """The files here that the store does not have; tools' own directories and the export's folders are none."""
        kept = set(self.files.values())
        found = []
        for folder, directories, names in os.walk(self.directory):
            at_top = folder == str(self.directory)
            own = {EXPORT_NAME, VERSIONS_NAME} if at_top else set()
            directories[:] = sorted(name for name in directories if name not in SCRATCH_DIRECTORIES | own)
            links = [name for name in directories if os.path.islink(os.path.join(folder, name))]
            for name in (*names, *links):
                file = os.path.relpath(os.path.join(folder, name), self.directory)
                if file not in kept:
                    found.append(file)
        return sorted(found)

    def _remove(self, file: str) -> None:
        path = self.directory / file
        shown = "/" + os.fsencode(file).decode("utf-8", "backslashreplace")
        if self.manifest is not None:
            try:
                path.unlink()
            except OSError as error:
                self._step(shown, "refused", f"{path} cannot be removed ({error.strerror}): remove it, then run this again")
                return
            self.manifest.remove(file)
            for parent in path.parents:
                if parent == self.directory:
                    break
                try:
                    parent.rmdir()
                except OSError:
                    break  # something is left in it
        self._step(shown, "deleted")


def is_legal(path: str) -> bool:
    """Whether `path` stays below the directory; a service may say anything."""
    return path.startswith("/") and not any(part in ("", ".", "..") or "\0" in part for part in path[1:].split("/"))


def _hash(path: Path, size: int, expected: int) -> Sha256:
    """The hash of a file; of one that is no memory's for its size alone, something that is no hash."""
    if size > MAX_CONTENT_BYTES and size != expected:
        return Sha256(f"{size} bytes")
    return sha256_of(path.read_bytes())
