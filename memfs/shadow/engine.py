"""Looks at each name where something may have happened, on either side, and decides what is to be done about it.

A name is *touched* by an event of the watcher, by a look at the whole directory, or by the store's feed. When it has come to
rest its two sides are compared with what they last agreed on: changed on one side, the other follows; on both, the commit
merges.
"""

import os
import stat

import trio

from memfs.model.content import sha256_of
from memfs.model.errors import MemfsError, Unavailable
from memfs.model.ids import MemoryId
from memfs.model.objects import Memory
from memfs.replica.errors import Busy, DrainIncomplete
from memfs.replica.scratch import SCRATCH_DIRECTORIES, SHARED_COMMIT_SECONDS
from memfs.replica.tree import File, Kind
from memfs.shadow.baseline import Entry
from memfs.shadow.disk import ChangedMeanwhile, Facts, NotPlain, Unknowable, facts_of, has_writer, is_there, look
from memfs.shadow.local import Local
from memfs.shadow.pair import Pair, Refusal, is_shown
from memfs.shadow.remote import Deferred, Remote, is_refusal
from memfs.shadow.rules import QUIET_SECONDS, is_local, is_long_running, rest_seconds
from memfs.transfer.contents import all_heads, read_contents
from memfs.transfer.pace import Pace

SCAN_SECONDS = 30.0
"""How often the whole directory is looked at, for what the watcher may have missed."""
POLL_SECONDS = 0.1
"""How often a store is looked at where looking is cheap."""
FIRST_RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 30.0
AT_ONCE = 8
DRAIN_ROUNDS = 200


class DirectoryGone(MemfsError):
    """The directory itself was removed or replaced: that is not taken for the removal of every memory."""


class Engine:
    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.remote = Remote(pair)
        self.local = Local(pair, self.remote)
        self._due: dict[str, float] = {}
        self._since: dict[str, float] = {}
        """When the change of a name that has not come to rest yet was first seen."""
        self._last: dict[str, float] = {}
        """When something last happened to it."""
        self._working = trio.Lock()
        self._retry_seconds: dict[str, float] = {}
        self._woken = trio.Event()
        self._polls = -1
        self._edition = -1
        self._draining = False
        self.local_files = self.local_bytes = 0
        self._top_inode = os.stat(pair.top).st_ino

    # What happened

    def touch(self, name: str, after: float = QUIET_SECONDS) -> None:
        """Something may have happened to `name`: look in so many seconds, counted anew from now; 0: the disk did not change."""
        now = trio.current_time()
        since = self._since.setdefault(name, now)
        if after:
            self._last[name] = now
        # What goes on and on is looked at all the same.
        self._due[name] = min(now + after, max(since + SHARED_COMMIT_SECONDS, now))
        self._woken.set()

    def event(self, place: str) -> None:
        """The watcher says that something happened to `place`, an absolute path below the directory."""
        name = os.path.relpath(place, self.pair.top)
        if name == "." or name.startswith("../"):
            return
        try:
            mode = os.lstat(place).st_mode
        except OSError:
            mode = 0
        if stat.S_ISDIR(mode):
            self.scan(name)
            if self.pair.baseline.get(name) is not None:  # it was a file
                self.touch(name)
            return
        self.touch(name)
        if not mode and self.pair.baseline.get(name) is None:  # a directory, perhaps: it took all below it away
            for entry in self.pair.baseline:
                if entry.name.startswith(f"{name}/"):
                    self.touch(entry.name)

    def scan(self, below: str = "") -> None:
        """Touch every name whose file is not what both sides agreed on, at or below a directory."""
        pair = self.pair
        seen: set[str] = set()
        unreadable: list[str] = []
        files = size = 0
        top = str(pair.top / below) if below else str(pair.top)
        for folder, directories, names in os.walk(top, onerror=lambda error: unreadable.append(str(error.filename))):
            directories[:] = [name for name in directories if name not in SCRATCH_DIRECTORIES]
            prefix = os.path.relpath(folder, pair.top)
            for last in names:
                name = last if prefix == "." else f"{prefix}/{last}"
                seen.add(name)
                try:
                    facts = facts_of(os.lstat(os.path.join(folder, last)))
                except OSError:
                    continue
                if is_local(name, pair.replica.attached.rules):
                    files += 1
                    size += facts.size
                    continue
                entry = pair.baseline.get(name)
                if entry is None or entry.facts != facts:
                    self._touch_if_new(name, facts)
        hidden = [os.path.relpath(folder, pair.top) for folder in unreadable]
        for entry in pair.baseline:
            inside = not below or entry.name.startswith(f"{below}/")
            if inside and entry.name not in seen and not any(entry.name.startswith(f"{folder}/") for folder in hidden):
                self._touch_if_new(entry.name, None)
        if not below:
            self.local_files, self.local_bytes = files, size

    def _touch_if_new(self, name: str, facts: Facts | None) -> None:
        refusal = self.pair.refused.get(name)
        if name not in self._due and (refusal is None or refusal.facts != facts):
            self.touch(name)

    async def look_at_store(self) -> None:
        """Touch every name that the store has changed since both sides agreed. Raises nothing: a stale store shows as such."""
        pair = self.pair
        replica = pair.replica
        await replica.feed.look()
        if replica.feed.polls == self._polls and replica.attached.edition == self._edition:
            return
        self._polls, self._edition = replica.feed.polls, replica.attached.edition
        await replica.listing.below(replica.root)
        heads = pair.names()
        for name, head in heads.items():
            entry = pair.baseline.get(name)
            same = entry is not None and entry.version_id == head.version_id and entry.sha256 == head.sha256
            if not same and name not in self._due:
                self.touch(name, 0)
        for entry in pair.baseline:
            if entry.name not in heads and entry.name not in self._due:
                self.touch(entry.name, 0)

    # The first look

    async def start(self) -> None:
        """Bring the store to the disk, where that has nothing yet; what differs is touched. Raises what the service raises."""
        pair = self.pair
        replica = pair.replica
        await replica.listing.below(replica.root)
        heads = pair.names()
        missing: dict[MemoryId, str] = {}
        for name, head in heads.items():
            if pair.baseline.get(name) is None and is_shown(name) and not is_there(pair.place(name)):
                missing[head.memory_id] = name
        wanted = [memory for memory in await self._memories(missing) if memory.id in missing]

        async def take(memory: Memory, content: bytes) -> None:
            name = missing[memory.id]
            try:
                self.remote.write(name, replica.attached.head(memory), content, None)
            except (Deferred, MemfsError):
                self.touch(name)

        await read_contents(
            replica.attached.service, replica.attached.store_id, wanted, total=len(heads), pace=Pace(), take=take
        )
        self.scan()
        await self.look_at_store()

    async def _memories(self, missing: dict[MemoryId, str]) -> list[Memory]:
        if not missing:
            return []
        attached = self.pair.replica.attached
        return await all_heads(attached.service, attached.store_id, Pace())

    # What is done about it

    async def run(self) -> None:
        """Keep the two alike until cancelled. Raises `DirectoryGone`."""
        replica = self.pair.replica
        local = replica.attached.service.capabilities.change_token
        # A look asks the service only when the bound has passed; looking more often finds what the feed learnt by itself.
        interval = POLL_SECONDS if local else max(replica.feed.bound / 4, POLL_SECONDS)
        next_poll = next_scan = trio.current_time()
        next_scan += SCAN_SECONDS
        while True:
            now = trio.current_time()
            if now >= next_poll:
                await self.look_at_store()
                next_poll = trio.current_time() + interval
            if now >= next_scan:
                self.scan()
                next_scan = trio.current_time() + SCAN_SECONDS
            await self.work()
            self._woken = trio.Event()
            wake = min([next_poll, next_scan, *self._due.values()])
            with trio.move_on_at(wake):
                await self._woken.wait()

    async def work(self) -> None:
        """Deal with every name that is due, several at a time."""
        now = trio.current_time()
        if not any(at <= now for at in self._due.values()):
            return
        async with self._working:
            due = [name for name, at in self._due.items() if at <= now]
            self._check_top()
            for name in due:
                del self._due[name]
            limit = trio.CapacityLimiter(AT_ONCE)
            async with trio.open_nursery() as nursery:
                for name in sorted(due):
                    nursery.start_soon(self._one, name, limit)

    def _check_top(self) -> None:
        try:
            status = os.stat(self.pair.top)
        except OSError:
            status = None
        if status is None or status.st_ino != self._top_inode:
            raise DirectoryGone(
                f"{self.pair.top} was removed or replaced; nothing was removed from the store: "
                f"start `memfs shadow` again, and it comes back"
            )

    async def _one(self, name: str, limit: trio.CapacityLimiter) -> None:
        async with limit:
            try:
                wait = await self._reconcile(name)
            except (Deferred, ChangedMeanwhile):
                wait = QUIET_SECONDS
            except FileNotFoundError:
                wait = 0.0
            except Busy as error:
                self.pair.report(name, "remove", error)
                wait = 0.0
            except Unknowable as error:
                self._refuse(name, None, MemfsError(f"it cannot be read ({error.strerror}): make it readable"))
                wait = None
            except MemfsError as error:
                wait = self._failed(name, error)
            if wait is not None:
                self._due.setdefault(name, trio.current_time() + wait)
            elif name not in self._due:
                for kept in (self._since, self._last, self._retry_seconds):
                    kept.pop(name, None)

    def _failed(self, name: str, error: MemfsError) -> float | None:
        """What cannot be stored now is tried again; what can never be stored as it is waits for another content."""
        pair = self.pair
        if not is_refusal(error):
            if pair.pending.get(name) != error.message:
                pair.report(name, "save", error)
            pair.pending[name] = error.message
            wait = self._retry_seconds.get(name, FIRST_RETRY_SECONDS)
            self._retry_seconds[name] = min(wait * 2, MAX_RETRY_SECONDS)
            return wait
        try:
            facts = look(pair.place(name))
        except (NotPlain, Unknowable):
            facts = None
        self._refuse(name, facts, error)
        return None

    def _refuse(self, name: str, facts: Facts | None, error: MemfsError) -> None:
        pair = self.pair
        known = pair.refused.get(name)
        if known is None or known.reason != error.message:
            pair.report(name, "save", error)
        pair.pending.pop(name, None)
        pair.refused[name] = Refusal(facts, error.message)

    async def _reconcile(self, name: str) -> float | None:
        """Bring the two sides of `name` together; None when they are, else in how many seconds to look again."""
        pair = self.pair
        if is_local(name, pair.replica.attached.rules):
            return None
        entry = pair.baseline.get(name)
        try:
            facts = look(pair.place(name))
        except NotPlain as other:
            return await self._not_plain(name, entry, other)
        if facts is None:
            return await self._absent(name, entry)
        if self._is_same(name, entry, facts):
            assert entry is not None
            return await self._unchanged(name, entry, facts)
        wait = self._still_moving(name, entry, facts)
        if wait > 0:
            return wait
        content, facts = self.local.read(name)
        sha256 = sha256_of(content)
        if entry is not None and sha256 == entry.sha256:
            pair.baseline.put(Entry(name, entry.path, entry.memory_id, entry.version_id, entry.sha256, facts, entry.content))
            return await self._unchanged(name, pair.baseline.get(name) or entry, facts)
        if entry is None:
            moved = pair.baseline.of_inode(facts.ino)
            if moved is not None and _is_renamed(moved, facts) and not is_there(pair.place(moved.name)):
                await self.local.rename(moved, name)
                self._due.pop(moved.name, None)
                return 0.0
            head = pair.head(name)
            if head is not None and head.sha256 == sha256:
                node = pair.node(name)
                assert isinstance(node, File)
                pair.agreed(name, head, node.path, sha256, facts)
                return None
        await self.local.save(name, entry, content, facts)
        return None

    def _is_same(self, name: str, entry: Entry | None, facts: Facts) -> bool:
        """Whether the file is certainly what both sides agreed on: not one written within the clock's last step."""
        if entry is None or entry.facts != facts:
            return False
        content, _ = self.local.read(name)
        return sha256_of(content) == entry.sha256

    def _still_moving(self, name: str, entry: Entry | None, facts: Facts) -> float:
        """In how many seconds a changed file may have come to rest; 0: it has."""
        if self._draining:
            return 0.0
        pair = self.pair
        now = trio.current_time()
        since = self._since.setdefault(name, now)
        attached = pair.replica.attached
        last = self._last.get(name, since)
        parent = name.rpartition("/")[0]

        def exists(sibling: str) -> bool:
            return pair.head(f"{parent}/{sibling}" if parent else sibling) is not None

        rest = rest_seconds(name, facts, known=entry is not None, exists=exists, rules=attached.rules, umask=attached.umask)
        if rest == QUIET_SECONDS and is_long_running(now - since):
            return 0.0
        if now - last < rest:
            return last + rest - now
        return QUIET_SECONDS if has_writer(pair.place(name)) else 0.0

    async def _absent(self, name: str, entry: Entry | None) -> float | None:
        """There is no file of this name."""
        pair = self.pair
        head = pair.head(name)
        if entry is None:
            pair.refused.pop(name, None)
            pair.pending.pop(name, None)
            if head is None or not is_shown(name):
                return None
            if self._moves_here(head.memory_id, name):
                return QUIET_SECONDS
            await self.remote.fetch(name, head, None)
            return None
        now = trio.current_time()
        rest = (
            0.0
            if self._draining
            else rest_seconds(name, None, known=True, exists=lambda _: False, rules=pair.replica.attached.rules, umask=0)
        )
        since = self._since.setdefault(name, now)
        if now - since < rest:
            return since + rest - now
        known = pair.replica.attached.tree.by_id.get(entry.memory_id)
        await self.local.delete(entry, known.head if known is not None else None)
        return None

    def _moves_here(self, memory_id: MemoryId, name: str) -> bool:
        """Whether another file here is the memory that the store has under `name`: its rename is seen at its old name."""
        for entry in self.pair.baseline:
            if entry.memory_id == memory_id and entry.name != name:
                if entry.name not in self._due:
                    self.touch(entry.name, 0)
                return True
        return False

    async def _unchanged(self, name: str, entry: Entry, facts: Facts) -> float | None:
        """The disk has what both agreed on: follow the store."""
        pair = self.pair
        file = pair.replica.attached.tree.by_id.get(entry.memory_id)
        if file is not None and file.head is not None and file.kind is Kind.MEMORY:
            now_called = pair.name_of(file)
            if now_called != name and pair.node(now_called) is file:
                if not is_shown(now_called):
                    return None
                self.remote.follow(entry, now_called)
                self.touch(now_called, 0)
                return None
        head = pair.head(name)
        if head is None:
            self.remote.remove(entry)
        elif head.sha256 != entry.sha256:
            await self.remote.fetch(name, head, facts)
        elif head.version_id != entry.version_id or head.memory_id != entry.memory_id:
            node = pair.node(name)
            assert isinstance(node, File)
            pair.agreed(name, head, node.path, entry.sha256, facts)
        pair.pending.pop(name, None)
        pair.refused.pop(name, None)
        return None

    async def _not_plain(self, name: str, entry: Entry | None, other: NotPlain) -> float | None:
        pair = self.pair
        if other.what == "directory":
            if entry is not None:
                known = pair.replica.attached.tree.by_id.get(entry.memory_id)
                await self.local.delete(entry, known.head if known is not None else None)
            elif pair.head(name) is not None:
                raise MemfsError(f"a directory is in the place of the memory /{name}: rename one of the two")
            return None
        self._refuse(name, None, MemfsError(f"a {other.what} cannot be a memory: put a plain file in its place"))
        return None

    # The end, and what is left

    async def sync(self) -> None:
        """Store everything that the disk has by now, also what has not come to rest.

        Raises `DrainIncomplete` with what is left.
        """
        pair = self.pair
        self._draining = True
        try:
            self.scan()
            for name in [*pair.pending, *pair.refused]:
                self.touch(name)
            for _ in range(DRAIN_ROUNDS):
                for name in self._due:
                    self._due[name] = float("-inf")
                await self.work()
                if not self._due and not self._working.locked():
                    break
                if set(self._due) <= set(pair.pending):
                    await trio.sleep(QUIET_SECONDS)
                else:
                    await trio.sleep(0.02)
            await pair.replica.attached.service.sync()
        except Unavailable as error:
            raise DrainIncomplete(f"{pair.replica.name}: {error.message}") from error
        finally:
            self._draining = False
        self.complain()

    def complain(self) -> None:
        """Raise `DrainIncomplete` when something on the disk is not in the store."""
        pair = self.pair
        left = {**pair.pending, **{name: refusal.reason for name, refusal in pair.refused.items()}}
        if left:
            shown = "; ".join(f"{pair.replica.name}/{name}: {reason}" for name, reason in sorted(left.items())[:10])
            raise DrainIncomplete(f"{len(left)} change(s) are in the directory and not in the store: {shown}")

    @property
    def waiting(self) -> int:
        """Names whose change on the disk is not in the store yet, but for the refused ones."""
        return len(set(self._due) | set(self.pair.pending))


def _is_renamed(entry: Entry, facts: Facts) -> bool:
    """Whether a file is that of `entry` under another name. The number alone does not tell: it is used again at once."""
    return (facts.ino, facts.size, facts.mtime_ns) == (entry.facts.ino, entry.facts.size, entry.facts.mtime_ns)
