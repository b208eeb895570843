"""What a directory holds that can become memories, and what cannot, and why."""

import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memfs.model.content import MAX_CONTENT_BYTES, Sha256, decode, sha256_of
from memfs.model.errors import MemfsError
from memfs.model.paths import MemoryPath, check_path
from memfs.replica.scratch import SCRATCH_DIRECTORIES, ScratchRules
from memfs.transfer.layout import EXPORT_NAME, VERSIONS_NAME
from memfs.transfer.manifest import read_manifest
from memfs.transfer.steps import Step


@dataclass(frozen=True)
class Item:
    """Something that is to be a memory."""

    path: MemoryPath
    sha256: Sha256
    size: int


@dataclass
class Scan:
    """One look at a directory."""

    files: dict[MemoryPath, Path]
    items: list[Item]
    """Those of `files` that a memory can hold, in path order."""
    steps: list[Step]
    """What is left out: `skipped` or `refused`."""
    empty_directories: int = 0


def scan(directory: Path) -> Scan:
    """Look at all below `directory`; symbolic links are not followed.

    Names in decomposed form become the memory of the composed one, as on a mount. In an export each file gets back the path
    that its manifest tells, and its history is left alone.
    """
    own = {entry.file: entry.path for entry in read_manifest(directory)}
    is_export = (directory / EXPORT_NAME).is_dir()
    rules = ScratchRules()
    found = Scan({}, [], [])
    for name, entry in _walk(directory, "", found, skip={EXPORT_NAME, VERSIONS_NAME} if is_export else set()):
        shown = _shown(name)
        if entry.is_symlink():
            found.steps.append(Step(shown, "refused", "a symbolic link: copy what it points to in its place"))
            continue
        if not entry.is_file(follow_symlinks=False):
            found.steps.append(Step(shown, "refused", "not a plain file: a memory holds text"))
            continue
        if rules.is_scratch(entry.name):
            found.steps.append(Step(shown, "skipped", "a work file that never reaches a store: rename it to move it"))
            continue
        try:
            path = _memory_path(name, own)
            if path in found.files:
                raise MemfsError(f"it has the same name as {found.files[path]} once both are composed (NFC): rename one")
            content = read_file(Path(entry.path))
        except MemfsError as error:
            found.steps.append(Step(shown, "refused", error.message))
            continue
        found.files[path] = Path(entry.path)
        found.items.append(Item(path, sha256_of(content), len(content)))
    found.items.sort(key=lambda item: item.path)
    return found


def read_file(path: Path) -> bytes:
    """The bytes of a plain file that a memory can hold. Raises `MemfsError` with the reason why none can."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise MemfsError("it is no plain file any more: run this again")
            content = file.read(MAX_CONTENT_BYTES + 1)
            if len(content) > MAX_CONTENT_BYTES:
                size = max(status.st_size, len(content))
                raise MemfsError(f"too big: {size:,} bytes, a memory holds {MAX_CONTENT_BYTES:,}; split it into several files")
    except OSError as error:
        raise MemfsError(f"it cannot be read ({error.strerror}): make it readable, then run this again") from None
    try:
        decode(content)
    except MemfsError:
        raise MemfsError("not UTF-8 text: convert it (iconv -t UTF-8), or keep a binary file elsewhere") from None
    return content


def _walk(directory: Path, above: str, found: Scan, skip: set[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry below but directories, with its name relative to the top."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        reason = f"the directory cannot be read ({error.strerror}): make it readable, then run this again"
        found.steps.append(Step(_shown(above) or "/", "refused", reason))
        return
    if not entries and above:
        found.empty_directories += 1
    for entry in entries:
        name = f"{above}/{entry.name}" if above else entry.name
        if not entry.is_dir(follow_symlinks=False):
            yield name, entry
        elif entry.name in SCRATCH_DIRECTORIES:
            found.steps.append(Step(f"{_shown(name)}/", "skipped", "a tool's own directory that never reaches a store"))
        elif entry.name not in skip or above:
            yield from _walk(Path(entry.path), name, found, skip)


def _memory_path(name: str, own: dict[str, str]) -> MemoryPath:
    if name in own:
        return check_path(own[name])
    try:
        text = os.fsencode(name).decode("utf-8")
    except UnicodeDecodeError:
        raise MemfsError("bad name: its bytes are not UTF-8; rename it (convmv -t utf8)") from None
    try:
        return check_path(f"/{unicodedata.normalize('NFC', text)}")
    except MemfsError as error:
        raise MemfsError(f"bad name: {error.message}; rename it") from None


def _shown(name: str) -> str:
    """`name` as a path, whatever bytes it has."""
    return "/" + os.fsencode(name).decode("utf-8", "backslashreplace") if name else ""
