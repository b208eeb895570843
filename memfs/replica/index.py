"""A full-text index over one attached store: what its memories hold now.

Made at the first search and kept from then on by what the tree learns from the change feed: a search brings in what changed
before it looks. It lives in memory, as long as the mount. Only heads are in it, and a head cannot be redacted; the words of
what is no head any more are removed before the next answer, and wiped soon after.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import trio

from memfs.model.content import Sha256
from memfs.model.errors import MemfsError, NotFound, Unavailable
from memfs.model.ids import MemoryId
from memfs.model.objects import Memory
from memfs.replica import index_text
from memfs.replica.attached import Attached
from memfs.replica.changes import Feed
from memfs.replica.listing import Listing
from memfs.replica.tree import Directory, File, Head, Kind
from memfs.stores.base import MAX_FULL_LIMIT

PATH_WEIGHT, HEADING_WEIGHT, BODY_WEIGHT = 4.0, 3.0, 1.0
FEW = 8
"""So many contents are asked for one by one; more come with whole pages of the listing."""
AT_ONCE = 100
"""So many texts are indexed at once, in another thread: about 10 ms."""
WIPE_SECONDS = 2.0
"""How long after a removal the words of removed texts are wiped from the index's own memory."""


Text = tuple[Head, str, bytes]
"""A memory's head, its path and its content."""


@dataclass(frozen=True)
class Hit:
    """A memory that was found."""

    path: str
    score: float
    """Greater is better; comparable within one answer."""
    snippet: str
    head: Head


@dataclass(frozen=True)
class Found:
    hits: list[Hit]
    """Best first."""
    searched: int
    """How many memories were looked at."""
    missing: int
    """How many the index does not have yet: a later answer will be more complete."""
    reason: str = ""
    """Why they are missing, where that is not only a matter of time."""


@dataclass(frozen=True)
class _Row:
    number: int
    path: str
    sha256: Sha256


class SearchIndex:
    """The index of one attached store."""

    def __init__(self, attached: Attached, listing: Listing, feed: Feed) -> None:
        self.attached = attached
        self.listing = listing
        self.feed = feed
        self._rows: dict[MemoryId, _Row] = {}
        self._heads: dict[int, Head] = {}
        """What each row of the index is about."""
        self._next = 1
        self._updating = trio.Lock()
        self._using = trio.Lock()
        """Held while the database is used; it is in another thread now and then."""
        self._wiping = False
        self._reason = ""
        self._complete_at: tuple[int, int] | None = None
        """The state of the tree of which all is indexed; None while something is missing."""
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA secure_delete = ON")
        # `text` holds what `words` was made from: to show a part of it, and to take its words out again.
        self._database.execute("CREATE TABLE text (number INTEGER PRIMARY KEY, path TEXT, body TEXT)")
        self._database.execute(
            "CREATE VIRTUAL TABLE words USING fts5 "
            "(path, heading, body, content='', tokenize=\"porter unicode61 remove_diacritics 2\")"
        )

    async def search(self, text: str, *, limit: int) -> Found:
        """The memories that fit `text` best (see `index_text.parse`), after all that was known to change is in the index.

        Waits at most for the mount's time-out; what is not indexed by then goes on in the background.
        """
        attached = self.attached
        with trio.move_on_after(attached.timeout * 0.8) as scope:
            await self._update()
        if scope.cancelled_caught:
            attached.timers.after(0, self._update)
        query = index_text.parse(text)
        missing = 0 if self._complete_at is not None else sum(1 for _ in self._missing())
        if query is None:
            return Found([], len(self._rows), missing, "there is no word in the query")
        async with self._using:
            hits = self._ask(query, limit)
        return Found(hits, len(self._rows), missing, self._reason)

    def _ask(self, query: index_text.Query, limit: int) -> list[Hit]:
        rows = self._database.execute(
            "SELECT rowid, bm25(words, ?, ?, ?) AS rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?",
            (PATH_WEIGHT, HEADING_WEIGHT, BODY_WEIGHT, query.expression, limit),
        ).fetchall()
        hits = []
        for number, rank in rows:
            (path, body) = self._database.execute("SELECT path, body FROM text WHERE number = ?", (number,)).fetchone()
            hits.append(Hit(path, -rank, index_text.snippet(body, query.terms), self._heads[number]))
        return hits

    # Keeping up

    def _memories(self) -> Iterator[tuple[Head, str]]:
        """Head and path of all that can be found: memories that hold text."""
        pending: list[tuple[Directory, str]] = [(self.attached.tree.root, "/")]
        while pending:
            directory, prefix = pending.pop()
            for node in directory.children.values():
                if isinstance(node, File):
                    if node.head is not None and node.kind is Kind.MEMORY and node.head.media_type is None:
                        yield node.head, prefix + node.segment
                elif isinstance(node, Directory):
                    pending.append((node, f"{prefix}{node.segment}/"))

    def _missing(self) -> Iterator[tuple[Head, str]]:
        for head, path in self._memories():
            if not self._has(head, path):
                yield head, path

    def _has(self, head: Head, path: str) -> bool:
        row = self._rows.get(head.memory_id)
        return row is not None and row.sha256 == head.sha256 and row.path == path

    async def _update(self) -> None:
        """Bring the index to what the tree says now. Raises nothing: what could not be fetched is missing, with a reason."""
        async with self._updating:
            self._reason = ""
            try:
                await self.feed.ensure()
                if self._state() == self._complete_at:
                    return
                self._complete_at = None
                await self.listing.below(self.attached.tree.root)
                state = self._state()  # what changes from here on may be left out
                await self._take_in()
                if next(self._missing(), None) is None:
                    self._complete_at = state
            except MemfsError as error:
                self._reason = error.message

    def _state(self) -> tuple[int, int]:
        """Differs from an earlier one when this mount or another session may have changed something since."""
        return self.attached.edition, self.attached.tree.changes

    async def _take_in(self) -> None:
        known = {head.memory_id for head, _ in self._memories()}
        async with self._using:
            for memory_id in self._rows.keys() - known:
                self._take_out(memory_id)
        fetch: list[tuple[Head, str]] = []
        found: list[Text] = []
        for head, path in list(self._missing()):
            content = await self._at_hand(head)
            if content is None:
                fetch.append((head, path))
                continue
            found.append((head, path, content))
            if len(found) == AT_ONCE:
                await self._put(found)
                found = []
        await self._put(found)
        if len(fetch) > FEW:
            await self._fetch_pages({head.memory_id for head, _ in fetch})
            fetch = list(self._missing())
        for head, path in fetch[: 2 * FEW]:
            await self._fetch(head, path)

    async def _at_hand(self, head: Head) -> bytes | None:
        """The bytes of a head where they cost no request: here already under another path, or in the cache."""
        row = self._rows.get(head.memory_id)
        if row is not None and row.sha256 == head.sha256:
            async with self._using:
                (body,) = self._database.execute("SELECT body FROM text WHERE number = ?", (row.number,)).fetchone()
            return str(body).encode()
        if not head.size:
            return b""
        return self.attached.blobs.get(head.sha256) if self.attached.blobs.has(head.sha256) else None

    async def _fetch(self, head: Head, path: str) -> None:
        try:
            content = await self.attached.content(head)
        except Unavailable:
            raise
        except MemfsError:
            return  # gone or changed meanwhile: the feed will tell
        await self._put([(head, path, content)])

    async def _fetch_pages(self, wanted: set[MemoryId]) -> None:
        """Index what whole pages of the listing hold, until all that is `wanted` was seen."""
        attached = self.attached
        local = attached.service.capabilities.local
        limit = min(attached.service.capabilities.max_limit, AT_ONCE) if local else MAX_FULL_LIMIT
        page: str | None = None
        while wanted:
            try:
                answer = await attached.service.list_memories(attached.store_id, limit=limit, page=page, view="full")
            except NotFound as error:
                raise Unavailable(error.message) from error
            found: list[Text] = []
            for item in answer.data:
                if not isinstance(item, Memory):
                    continue
                wanted.discard(item.id)
                file = attached.tree.by_id.get(item.id)
                head = file.head if file is not None else None
                if file is None or head is None or item.content is None:
                    continue
                if head.sha256 == item.content_sha256 and not self._has(head, file.path):
                    found.append((head, file.path, item.content.encode()))
            await self._put(found)
            page = answer.next_page
            if page is None:
                return

    async def _put(self, found: Sequence[Text]) -> None:
        """Take in these memories, in place of what was known of them."""
        texts = [
            (number, path, content.decode("utf-8", "replace")) for number, (_, path, content) in enumerate(found, self._next)
        ]
        self._next += len(found)
        async with self._using:
            for head, _, _ in found:
                self._take_out(head.memory_id)
            await trio.to_thread.run_sync(self._insert, texts)
            for (number, path, _), (head, _, _) in zip(texts, found, strict=True):
                self._rows[head.memory_id] = _Row(number, path, head.sha256)
                self._heads[number] = head

    def _insert(self, texts: Sequence[tuple[int, str, str]]) -> None:
        """Number, path and body of each; in one transaction, for each of them makes a part of the index that must be merged."""
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO text VALUES (?, ?, ?)", texts)
        words = ((number, *_columns(path, body)) for number, path, body in texts)
        self._database.executemany("INSERT INTO words (rowid, path, heading, body) VALUES (?, ?, ?, ?)", words)
        self._database.execute("COMMIT")

    def _take_out(self, memory_id: MemoryId) -> None:
        """For who holds the database."""
        row = self._rows.pop(memory_id, None)
        if row is None:
            return
        del self._heads[row.number]
        found = self._database.execute("SELECT path, body FROM text WHERE number = ?", (row.number,)).fetchone()
        self._database.execute(
            "INSERT INTO words (words, rowid, path, heading, body) VALUES ('delete', ?, ?, ?, ?)",
            (row.number, *_columns(*found)),
        )
        self._database.execute("DELETE FROM text WHERE number = ?", (row.number,))
        if not self._wiping:
            self._wiping = True
            self.attached.timers.after(WIPE_SECONDS, self._wipe)

    async def _wipe(self) -> None:
        """A removed word stays in the index's own structure until that is written anew."""
        self._wiping = False
        async with self._using:
            await trio.to_thread.run_sync(self._database.execute, "INSERT INTO words (words) VALUES ('optimize')")

    def dump(self) -> bytes:
        """All that the index holds, as a database file."""
        return bytes(self._database.serialize())


def _columns(path: str, body: str) -> tuple[str, str, str]:
    return index_text.indexed(path), index_text.indexed(index_text.headings(body)), index_text.indexed(body)
