"""Reads ahead where a program walks through a store: `find`, `ls -R`, `grep -r`, `cp -r`.

A walk shows itself by directories that are read shortly after the one above them. Then one listing of all below, page by
page, takes the place of one request a directory; and when files are read along the way, those pages carry their contents, 20
at a time, in place of one request a file. A walk that nobody waits for any more ends by itself. Stores where a request costs
nothing need none.

Who reads the root of a store, or the first directory below one that he read just now, may be at the beginning of a walk, or
may want that directory alone: it is asked for as always, and at the same time one page of the walk; the rest waits until he
goes on.
"""

from collections.abc import Callable, Iterator

import trio

from memfs.replica.attached import Attached
from memfs.replica.tree import Directory, File, Head

WALK_SECONDS = 5.0
"""A directory that is read so long after the one above it still belongs to one walk."""
MISS_SECONDS = 1.0
"""Two contents of one directory that are missed within this time are read by something that reads all of it."""
PATIENCE_SECONDS = 1.0
"""So long somebody waits for a walk before he asks himself."""
ABANDONED_SECONDS = 2.0
"""A walk that nobody waited for so long ends."""
SAMPLE = 500
"""How many files are looked at to see whether a walk would fetch what is cached."""
WORTH_SHARE = 0.1
"""Fewer missing contents than this are fetched one by one."""


class Abandoned(Exception):
    """Nobody waits for the walk."""


class Walk:
    """One listing of all below `top` (or, with `shallow`, of its own files), under way."""

    def __init__(self, top: Directory, *, full: bool, shallow: bool, pages: float = float("inf")) -> None:
        self.top = top
        self.full = full
        self.shallow = shallow
        self.pages = pages
        """So many more may be fetched; finite while this may be no walk at all."""
        self.begun = False
        """Its first page has come."""
        self.finished = False
        self.wanted_at = trio.current_time()
        self._page = trio.Event()
        self._allowed = trio.Event()

    def covers(self, directory: Directory) -> bool:
        if self.shallow:
            return directory is self.top
        above: Directory | None = directory
        while above is not None and above is not self.top:
            above = above.parent
        return above is not None

    def allow(self, pages: float) -> None:
        self.pages += pages
        self.wanted_at = trio.current_time()
        allowed, self._allowed = self._allowed, trio.Event()
        allowed.set()

    def give_up(self) -> None:
        """Another walk is better than this one."""
        self.allow(float("inf"))
        self.wanted_at = float("-inf")

    async def page_done(self) -> None:
        """A page is in the tree: return when the next one is wanted. Raises `Abandoned` when that is enough."""
        self.begun = True
        self._wake()
        self.pages -= 1
        with trio.move_on_after(WALK_SECONDS):
            while self.pages < 1:
                await self._allowed.wait()
        if self.pages < 1 or trio.current_time() - self.wanted_at > ABANDONED_SECONDS:
            raise Abandoned

    def end(self) -> None:
        self.finished = True
        self._wake()

    def _wake(self) -> None:
        page, self._page = self._page, trio.Event()
        page.set()

    async def wait_until(self, reached: Callable[[], bool]) -> None:
        """Return when `reached`, when the walk ends, or when patience does."""
        with trio.move_on_after(PATIENCE_SECONDS):
            while not self.finished and not reached():
                self.wanted_at = trio.current_time()
                await self._page.wait()


class Walks:
    """The walks through one store."""

    def __init__(self, attached: Attached, start: Callable[[Walk], None]) -> None:
        self.attached = attached
        self.start = start
        """Begins to list for a walk, in the background, and calls its `page_done` and `end`."""
        self.active: list[Walk] = []
        self._missed: dict[Directory, float] = {}

    async def list_by_walk(self, directory: Directory, *, reading: bool) -> None:
        """Make the children of `directory` known by a walk, if one is under way there or begins; else return at once.

        `reading`: somebody reads the directory's entries, which is what walks are told by.
        """
        walk = self._covering(directory)
        if reading and (walk is None or walk.pages < float("inf")):
            if self._is_second_step(directory):
                walk = walk or self._begin(self._top(directory), full=False, shallow=False)
                walk.allow(float("inf"))
            elif self._may_be_a_step(directory):
                if walk is None:
                    self._begin(self._top(directory), full=False, shallow=False, pages=1)
                    return
                walk.allow(1)
                if self.attached.service.capabilities.grouped_listing:
                    await walk.wait_until(lambda: walk.begun or directory.dead)  # that page may hold all of the directory
                return
        if walk is not None and not walk.shallow and walk.pages == float("inf"):
            await walk.wait_until(lambda: directory.listed or directory.dead)

    async def read_ahead(self, file: File, head: Head) -> None:
        """The content of `file` is missing: return when a walk has brought it, or when none will."""
        directory = file.parent
        if directory is None or file.dead:
            return
        walk = self._covering(directory, full=True)
        if walk is None:
            walk = self._begin_reading(directory)
        if walk is not None:
            await walk.wait_until(lambda: self.attached.blobs.has(head.sha256))

    def _begin_reading(self, directory: Directory) -> Walk | None:
        now = trio.current_time()
        missed = self._missed.get(directory, float("-inf"))
        self._missed[directory] = now
        if len(self._missed) > SAMPLE:
            del self._missed[next(iter(self._missed))]
        above = directory.parent
        if above is not None and self._was_read(directory) and self._was_read(above):
            top = self._top(directory)
            return self._begin(top, full=True, shallow=False) if self._is_worth_it(top) else None
        if now - missed <= MISS_SECONDS and self._is_worth_it(directory, shallow=True):
            return self._begin(directory, full=True, shallow=True)
        return None

    def _begin(self, top: Directory, *, full: bool, shallow: bool, pages: float = float("inf")) -> Walk:
        walk = Walk(top, full=full, shallow=shallow, pages=pages)
        for other in self.active:
            if full and not shallow and not other.full and walk.covers(other.top):
                other.give_up()
        self.active.append(walk)
        self.start(walk)
        return walk

    def ended(self, walk: Walk) -> None:
        walk.end()
        self.active.remove(walk)

    def _covering(self, directory: Directory, *, full: bool = False) -> Walk | None:
        covering = [walk for walk in self.active if walk.covers(directory) and (walk.full or not full)]
        return max(covering, key=lambda walk: walk.full, default=None)  # what brings contents brings names too

    @staticmethod
    def _was_read(directory: Directory) -> bool:
        return trio.current_time() - directory.read_at <= WALK_SECONDS

    def _is_second_step(self, directory: Directory) -> bool:
        """Whether the directory is the third read in a row, or a second one below one that is read."""
        above = directory.parent
        if above is None or not self._was_read(above):
            return False
        if above.parent is not None and self._was_read(above.parent):
            return True
        siblings = (node for node in above.children.values() if isinstance(node, Directory) and node is not directory)
        return any(self._was_read(sibling) for sibling in siblings)

    def _may_be_a_step(self, directory: Directory) -> bool:
        """Whether walks begin like this: in the root, or with the first directory of a listing."""
        above = directory.parent
        if above is None:
            return True
        if not self._was_read(above):
            return False
        return directory is next((node for node in above.children.values() if isinstance(node, Directory)), None)

    def _top(self, directory: Directory) -> Directory:
        top = directory
        while top.parent is not None and self._was_read(top.parent):
            top = top.parent
        return top

    def _is_worth_it(self, top: Directory, *, shallow: bool = False) -> bool:
        """Whether enough of the known contents are missing; a directory that is not known yet counts as missing."""
        looked = missing = 0
        for file in self._some_files(top, shallow):
            looked += 1
            missing += not self.attached.blobs.has(file.head.sha256) if file.head is not None else 0
            if looked == SAMPLE:
                break
        return missing > looked * WORTH_SHARE

    def _some_files(self, top: Directory, shallow: bool) -> Iterator[File]:
        if shallow:
            return (node for node in list(top.children.values()) if isinstance(node, File))
        return self.attached.tree.files_below(top)
