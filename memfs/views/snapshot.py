"""A whole store as it was at one instant, made out of its history alone; pure."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from memfs.model.paths import parent_prefix
from memfs.replica.tree import NAME_MAX, escape
from memfs.views.timeline import Change


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A memory as it was: its newest version then, and since when it had that content."""

    change: Change
    since: Change
    """The version that brought the content: a rename does not change a file's time."""


@dataclass
class SnapshotFolder:
    """A prefix as it was, with all names that a listing shows."""

    children: "dict[str, SnapshotFile | SnapshotFolder]" = field(default_factory=dict)
    time: int = 0
    """Of the newest change below, in microseconds since the epoch."""


def snapshot(lineages: Iterable[Sequence[Change]], instant: int) -> Iterator[SnapshotFolder | None]:
    """Yield None now and then, so that a long work can be interleaved with others, and at last the root as of `instant`.

    `lineages` are the changes of each memory, oldest first; `instant` counts microseconds since the epoch, and a change of
    that very microsecond had happened. A memory whose version then is redacted is shown where the nearest version says it was,
    unless another memory was there.
    """
    root = SnapshotFolder()
    folders = {"/": root}
    guessed: list[tuple[str, SnapshotFile]] = []
    for number, lineage in enumerate(lineages):
        if number % 1_000 == 999:
            yield None
        count = bisect_right(lineage, instant, key=lambda change: change.time)
        if count == 0 or lineage[count - 1].operation == "deleted":
            continue
        change = lineage[count - 1]
        file = SnapshotFile(change, _since(lineage, count - 1))
        if change.path is not None:
            _place(folders, change.path, file)
        elif path := _nearest_path(lineage, count - 1):
            guessed.append((path, file))
    for path, file in guessed:
        if _is_free(folders, path):
            _place(folders, path, file)
    yield root


def _since(lineage: Sequence[Change], place: int) -> Change:
    sha256 = lineage[place].sha256
    while sha256 is not None and place > 0 and lineage[place - 1].sha256 == sha256:
        place -= 1
    return lineage[place]


def _nearest_path(lineage: Sequence[Change], place: int) -> str | None:
    for change in (*reversed(lineage[:place]), *lineage[place + 1 :]):
        if change.path is not None:
            return change.path
    return None


def _is_free(folders: dict[str, SnapshotFolder], path: str) -> bool:
    """Whether nothing was at, above or below `path`."""
    if f"{path}/" in folders:
        return False
    while path:
        prefix = parent_prefix(path)
        folder = folders.get(prefix)
        if folder is not None:
            return path[len(prefix) :] not in folder.children
        path = prefix[:-1]
    return True


def _place(folders: dict[str, SnapshotFolder], path: str, file: SnapshotFile) -> None:
    prefix = parent_prefix(path)
    folder = _folder(folders, prefix)
    segment = path[len(prefix) :]
    name = _short(segment)
    if name in folder.children:  # a memory and a prefix of one name, from a lenient service
        name = escape(f"{segment}/")
    folder.children[name] = file
    while True:
        folder.time = max(folder.time, file.change.time)
        if prefix == "/":
            return
        prefix = parent_prefix(prefix[:-1])
        folder = folders[prefix]


def _folder(folders: dict[str, SnapshotFolder], prefix: str) -> SnapshotFolder:
    folder = folders.get(prefix)
    if folder is None:
        folder = folders[prefix] = SnapshotFolder()
        above = parent_prefix(prefix[:-1])
        parent = _folder(folders, above)
        segment = prefix[len(above) : -1]
        name = _short(segment)
        occupant = parent.children.pop(name, None)
        if occupant is not None:
            parent.children[escape(f"{segment}/")] = occupant
        parent.children[name] = folder
    return folder


def _short(segment: str) -> str:
    return escape(segment) if len(segment) > NAME_MAX // 4 and len(segment.encode()) > NAME_MAX else segment
