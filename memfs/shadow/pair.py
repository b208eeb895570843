"""A directory and the store that it shadows: what both sides' changes share."""

import os
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from memfs.model.content import Sha256
from memfs.model.errors import InvalidPath, MemfsError, PathNotUnicode, PathTooLong
from memfs.model.paths import MemoryPath, check_path
from memfs.replica.commit import Committer
from memfs.replica.replica import Replica
from memfs.replica.tree import NAME_MAX, Directory, File, Head, Kind, Node
from memfs.shadow.baseline import Baseline, Entry
from memfs.shadow.disk import Facts


@dataclass(frozen=True)
class Refusal:
    """A file that no memory can hold as it is."""

    facts: Facts | None
    """Of the file that was refused: another one is tried again."""
    reason: str


@dataclass
class Pair:
    """`names` below are relative to `top`, with slashes."""

    replica: Replica
    top: Path
    work: Path
    """A directory of the same file system, for files that are not in their place yet."""
    baseline: Baseline
    refused: dict[str, Refusal] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    """Names whose change could not be stored for now, with the reason."""

    @property
    def committer(self) -> Committer:
        return self.replica.committer

    def place(self, name: str) -> Path:
        return self.top / name

    def memory_path(self, name: str) -> MemoryPath:
        """The path of the memory that a file of this name becomes. Raises `InvalidPath` and what derives from it."""
        try:
            text = os.fsencode(name).decode("utf-8")
        except UnicodeDecodeError:
            raise PathNotUnicode("its name is not UTF-8: rename it") from None
        try:
            return check_path(f"/{unicodedata.normalize('NFC', text)}")
        except PathTooLong:
            raise
        except InvalidPath as error:
            raise InvalidPath(f"{error.message}: rename it") from None

    def node(self, name: str) -> Node | None:
        """What the store has under the name that is shown so."""
        node: Node | None = self.replica.root
        for part in name.split("/"):
            node = node.children.get(unicodedata.normalize("NFC", part)) if isinstance(node, Directory) else None
        return node

    def head(self, name: str) -> Head | None:
        node = self.node(name)
        return node.head if isinstance(node, File) and node.kind is Kind.MEMORY else None

    def names(self) -> dict[str, Head]:
        """Every memory of the store by the name that it is shown under."""
        return dict(_heads_below(self.replica.root, ""))

    def name_of(self, file: File) -> str:
        parts: list[str] = []
        node: Node | None = file
        while node is not None and node.parent is not None:
            parts.append(node.name)
            node = node.parent
        return "/".join(reversed(parts))

    def directory(self, path: str) -> Directory:
        """The tree's directory of a memory path's parent, made where it is not known."""
        directory = self.replica.root
        for segment in path.split("/")[1:-1]:
            directory = self.replica.attached.tree.ensure_directory(directory, segment)
            directory.listed = True
        return directory

    def agreed(self, name: str, head: Head, path: str, sha256: Sha256, facts: Facts, content: bytes | None = None) -> None:
        """Both sides have been alike: `content` where the disk's bytes (of hash `sha256`) are not the version's."""
        self.pending.pop(name, None)
        self.refused.pop(name, None)
        kept = content if sha256 != head.sha256 else None
        self.baseline.put(Entry(name, path, head.memory_id, head.version_id, sha256, facts, kept))

    def report(self, name: str, operation: str, error: MemfsError) -> None:
        self.replica.attached.report(operation, f"/{name}", error)

    def file_mode(self) -> int:
        return 0o444 if self.replica.attached.read_only else 0o666 & ~self.replica.attached.umask


def is_shown(name: str) -> bool:
    """Whether a file system can have this name: each part of it fits."""
    return all(len(os.fsencode(part)) <= NAME_MAX for part in name.split("/"))


def _heads_below(directory: Directory, above: str) -> list[tuple[str, Head]]:
    found: list[tuple[str, Head]] = []
    for name, node in directory.children.items():
        if isinstance(node, Directory):
            found += _heads_below(node, f"{above}{name}/")
        elif isinstance(node, File) and node.head is not None and node.kind is Kind.MEMORY:
            found.append((f"{above}{name}", node.head))
    return found
