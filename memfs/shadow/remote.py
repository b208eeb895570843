"""Brings the store's changes to the disk. A file that was changed there as well is left to the commit, which merges."""

import contextlib
import os

from memfs.model.content import Sha256
from memfs.model.errors import MemfsError, Unavailable
from memfs.replica.commit import may_pass
from memfs.replica.errors import NameTaken
from memfs.replica.tree import File, Head
from memfs.shadow.baseline import Entry
from memfs.shadow.disk import ChangedMeanwhile, Facts, NotPlain, has_writer, look, move, put, take_away
from memfs.shadow.pair import Pair


class Deferred(Exception):
    """Not now: somebody has the file open for writing, or just changed it."""


class Remote:
    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    async def fetch(self, name: str, head: Head, expected: Facts | None) -> None:
        """Bring `head` to the disk, in place of what is expected there. Raises `Deferred`, and what the service raises."""
        content = await self.pair.replica.attached.content(head)
        self.write(name, head, content, expected)

    def write(self, name: str, head: Head, content: bytes, expected: Facts | None) -> None:
        """As `fetch`, with the bytes at hand. Raises `NameTaken` when something else has the place."""
        pair = self.pair
        place = pair.place(name)
        if expected is not None and has_writer(place):
            raise Deferred
        mode = pair.file_mode() if expected is None else expected.mode
        try:
            facts = put(place, content, expected=expected, mode=mode, mtime_ns=head.updated_ns, work=pair.work)
        except ChangedMeanwhile:
            raise Deferred from None
        except (NotADirectoryError, FileExistsError, IsADirectoryError) as error:
            raise NameTaken(f"{place} cannot be written ({error.strerror}): move away what is in its place") from None
        except OSError as error:
            raise Unavailable(f"{place} cannot be written ({error.strerror}): mend that, it is tried again") from None
        pair.agreed(name, head, self._path(name), head.sha256, facts)

    def _path(self, name: str) -> str:
        node = self.pair.node(name)
        return node.path if isinstance(node, File) else f"/{name}"

    def remove(self, entry: Entry) -> None:
        """The store has the memory no more. Raises `Deferred` when the file is not what it was."""
        pair = self.pair
        place = pair.place(entry.name)
        if has_writer(place):
            raise Deferred
        try:
            take_away(place, expected=entry.facts, work=pair.work)
        except ChangedMeanwhile:
            raise Deferred from None
        except OSError as error:
            raise Unavailable(f"{place} cannot be removed ({error.strerror}): mend that, it is tried again") from None
        pair.baseline.remove(entry.name)
        parent = place.parent
        with contextlib.suppress(OSError):
            while parent != pair.top:
                parent.rmdir()
                parent = parent.parent

    def follow(self, entry: Entry, name: str) -> None:
        """The memory of `entry` was renamed in the store: its file takes the new name. Raises `Deferred` when that is taken."""
        pair = self.pair
        try:
            move(pair.place(entry.name), pair.place(name))
            facts = look(pair.place(name))
        except ChangedMeanwhile:
            raise Deferred from None
        except (OSError, NotPlain) as error:
            raise Unavailable(f"{pair.place(name)} cannot be written ({error}): mend that, it is tried again") from None
        if facts is not None:
            pair.baseline.remove(entry.name)
            kept = Facts(facts.ino, entry.facts.size, entry.facts.mtime_ns, entry.facts.mode)
            pair.baseline.put(
                Entry(name, self._path(name), entry.memory_id, entry.version_id, entry.sha256, kept, entry.content)
            )
        with contextlib.suppress(OSError):
            os.removedirs(pair.place(entry.name).parent)


def base_of(entry: Entry) -> Head:
    """What the bytes on the disk derive from, as a commit's base: with the hash of those bytes."""
    return Head(entry.memory_id, entry.version_id, Sha256(entry.sha256), entry.facts.size, 0, 0)


def is_refusal(error: MemfsError) -> bool:
    """Whether an error lasts for as long as the file is what it is."""
    return not may_pass(error) and not isinstance(error, NameTaken)
