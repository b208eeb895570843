"""Brings the disk's changes into the store, by the rules of a mount: one commit path, merges, siblings for what overlaps."""

from memfs.model.content import MAX_CONTENT_BYTES, check_size, sha256_of
from memfs.model.errors import NotFound, PathConflict, PreconditionFailed, ReadOnly
from memfs.replica.commit import Intent, Overlapping
from memfs.replica.errors import Busy, Conflict, NameTaken
from memfs.replica.tree import File, Head
from memfs.shadow.baseline import Entry
from memfs.shadow.disk import Facts, read
from memfs.shadow.pair import Pair
from memfs.shadow.remote import Deferred, Remote, base_of


class Local:
    def __init__(self, pair: Pair, remote: Remote) -> None:
        self.pair = pair
        self.remote = remote

    async def save(self, name: str, entry: Entry | None, content: bytes, facts: Facts) -> None:
        """Store the bytes of a file: the next version of its memory, or a new one.

        Raises what the store refuses them for, and `Unavailable`; `Deferred` when what they were merged to must wait.
        """
        pair = self.pair
        attached = pair.replica.attached
        attached.check_writable()
        check_size(facts.size)
        path = entry.path if entry is not None else pair.memory_path(name)
        known = attached.tree.by_id.get(entry.memory_id) if entry is not None else None
        if known is not None:
            path = known.path
        base = base_of(entry) if entry is not None else None
        sha256 = sha256_of(content)
        if not attached.service.capabilities.local:
            pair.baseline.note_sent(name, sha256)
        intent = Intent(
            path=path,
            content=content,
            target=base,
            base=base,
            base_content=entry.content if entry is not None else None,
            append_only=False,
            memory_id=None,
            sent=pair.baseline.sent(name) - {sha256},
        )
        try:
            stored = await pair.committer.store(intent)
        except Overlapping as overlap:
            await self._keep_apart(name, path, content, facts, overlap)
            return
        self._show(stored.head, path)
        attached.blobs.put(stored.head.sha256, stored.content)
        pair.agreed(name, stored.head, path, sha256, facts, content)
        if stored.head.sha256 != sha256:
            self.remote.write(name, stored.head, stored.content, facts)

    async def _keep_apart(self, name: str, path: str, content: bytes, facts: Facts, overlap: Overlapping) -> None:
        """The file gets the other session's words, a sibling ours, in the store and so on the disk."""
        pair = self.pair
        directory = pair.directory(path)
        sidecar = await pair.committer.put_aside(directory, path.rpartition("/")[2], content, overlap)
        self._show(overlap.head, path)
        reason = f"{overlap.message}; the file has the other session's words, yours are in {sidecar}"
        pair.report(name, "save", Conflict(reason))
        pair.agreed(name, overlap.head, path, sha256_of(content), facts, content)
        await self.remote.fetch(name, overlap.head, facts)

    def _show(self, head: Head, path: str) -> None:
        """What the store holds now, in the tree."""
        attached = self.pair.replica.attached
        self.pair.directory(path)
        attached.note_change(head.memory_id)
        attached.note_version(head.version_id)
        attached.place(head, path)

    async def rename(self, entry: Entry, name: str) -> None:
        """The file of `entry` has another name now: the memory keeps its id. Raises what the store raises."""
        pair = self.pair
        attached = pair.replica.attached
        attached.check_writable()
        path = pair.memory_path(name)
        try:
            memory = await attached.service.update_memory(attached.store_id, entry.memory_id, path=path)
        except NotFound:
            pair.baseline.remove(entry.name)  # deleted meanwhile: what is here is worth a new memory
            raise Deferred from None
        except PathConflict as conflict:
            if conflict.memory_id is not None and conflict.path == path:
                pair.baseline.remove(entry.name)  # somebody has the name: the two meet as one memory
                raise Deferred from None
            raise NameTaken(f"/{name}: {conflict.message}") from conflict
        head = attached.head(memory)
        self._show(head, path)
        pair.baseline.remove(entry.name)
        pair.pending.pop(entry.name, None)
        # The disk's bytes are still those of the version they derive from; what was changed besides comes after this.
        version_id = head.version_id if head.sha256 == entry.sha256 else entry.version_id
        pair.baseline.put(Entry(name, path, head.memory_id, version_id, entry.sha256, entry.facts, entry.content))

    async def delete(self, entry: Entry, head: Head | None) -> None:
        """The file of `entry` was removed. Raises `Busy` when another session just changed the memory: it comes back."""
        pair = self.pair
        attached = pair.replica.attached
        if head is not None:
            try:
                self._check_deletable(entry)
                if head.sha256 != entry.sha256 and entry.content is None:
                    raise PreconditionFailed("changed")
                await attached.service.delete_memory(attached.store_id, entry.memory_id, expected_content_sha256=head.sha256)
            except NotFound:
                pass
            except PreconditionFailed:
                pair.baseline.remove(entry.name)
                raise Busy(
                    f"/{entry.name}: another session changed it after you saw it, so it was not removed; "
                    "read it, then remove it again"
                ) from None
            attached.note_change(entry.memory_id)
            file = attached.tree.by_id.get(entry.memory_id)
            if isinstance(file, File):
                attached.unplace(file)
                attached.forget(file)
        pair.baseline.remove(entry.name)
        pair.pending.pop(entry.name, None)

    def _check_deletable(self, entry: Entry) -> None:
        try:
            self.pair.replica.attached.check_writable()
        except ReadOnly as error:
            self.pair.baseline.remove(entry.name)
            raise Busy(f"/{entry.name}: {error.message}; the file comes back") from None

    def read(self, name: str) -> tuple[bytes, Facts]:
        """As `disk.read`; of a file that is too large only its beginning: its facts tell."""
        return read(self.pair.place(name), MAX_CONTENT_BYTES)
