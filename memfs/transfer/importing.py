"""Brings a source into a store.

Nothing is kept between two runs: each compares hashes with the store's listing and sends what differs, so that a run that was
cut off is finished by the next. Every request is one that may be repeated: a create whose answer was lost finds its own bytes
(contract section 3.3), an update and a delete carry the hash of what was seen, so that nobody is overwritten unseen.
"""

from memfs.model.content import decode
from memfs.model.errors import (
    ConcurrentModification,
    InvalidRequest,
    MemfsError,
    NotFound,
    PathConflict,
    PermissionDenied,
    PreconditionFailed,
    StoreArchived,
    StoreFull,
    Unauthenticated,
    Unavailable,
)
from memfs.model.objects import Memory, Store
from memfs.stores.base import MemoryStore
from memfs.transfer.contents import all_heads
from memfs.transfer.pace import Paces
from memfs.transfer.plan import plan_import
from memfs.transfer.scan import Item
from memfs.transfer.sources import Source
from memfs.transfer.steps import Listener, Step
from memfs.transfer.workers import each

_HOPELESS = (Unavailable, Unauthenticated, PermissionDenied, StoreArchived)
"""What will befall every other request too: the import ends, and the next run goes on."""
_MEANWHILE = "another session changed it meanwhile: run this again"


async def import_into(
    service: MemoryStore,
    store: Store | None,
    source: Source,
    paces: Paces,
    listener: Listener,
    *,
    delete: bool = False,
    dry_run: bool = False,
) -> None:
    """Make `store` hold what `source` has, and with `delete` nothing else. None: it is not made yet, and this is a dry run.

    Raises `Unavailable`, `Unauthenticated`, `PermissionDenied` and `StoreArchived`, which end it half way; what concerns one
    file alone is a step that is refused.
    """
    if store is not None and store.archived_at is not None and not dry_run:
        raise StoreArchived(f"the store {store.name!r} is archived and can only be read: import into another")
    items, left_out = await source.look()
    listed = await all_heads(service, store.id, paces.reads) if store is not None else []
    heads = {memory.path: memory for memory in listed}
    refused = [step.path for step in left_out if step.action == "refused"]
    plan = plan_import(items, heads, delete=delete, keep=_kept(refused, heads))
    finished = [*left_out, *plan.steps]
    listener.expect(len(finished) + len(plan.create) + len(plan.update) + len(plan.clear) + len(plan.delete))
    for step in finished:
        listener.step(step)
    if dry_run or store is None:
        for memory in (*plan.clear, *plan.delete):
            listener.step(Step(memory.path, "deleted"))
        for item in plan.create:
            listener.step(Step(item.path, "created"))
        for item, _ in plan.update:
            listener.step(Step(item.path, "updated"))
        return
    run = _Import(service, store, paces, listener, {item.path: head for item, head in plan.update})
    await each(plan.clear, run.delete)
    await source.read([*plan.create, *(item for item, _ in plan.update)], run.put, listener.step)
    await each(plan.delete, run.delete)
    await service.sync()


def _kept(refused: list[str], heads: dict[str, Memory]) -> set[str]:
    """The memories that the refused names stand for: a file that cannot be read is no reason to delete its memory."""
    kept = {path for path in refused if path in heads}
    directories = [path.rstrip("/") + "/" for path in refused if path not in heads]
    return kept | {path for path in heads if any(path.startswith(directory) for directory in directories)}


class _Import:
    def __init__(self, service: MemoryStore, store: Store, paces: Paces, listener: Listener, heads: dict[str, Memory]) -> None:
        self.service = service
        self.store = store
        self.pace = paces.writes
        self.listener = listener
        self.heads = heads
        self.full: StoreFull | None = None

    async def put(self, item: Item, content: bytes) -> None:
        head = self.heads.get(item.path)
        text = decode(content)
        try:
            if head is not None:
                await self.pace.call(
                    lambda: self.service.update_memory(self.store.id, head.id, content=text, precondition=head.content_sha256)
                )
                self.listener.step(Step(item.path, "updated"))
            else:
                await self._create(item, text)
                self.listener.step(Step(item.path, "created"))
        except _HOPELESS:
            raise
        except StoreFull as error:
            self.full = error
            self._refuse(item.path, error.message)
        except (PreconditionFailed, NotFound, ConcurrentModification):
            self._refuse(item.path, _MEANWHILE)
        except MemfsError as error:
            self._refuse(item.path, error.message)

    async def _create(self, item: Item, text: str) -> None:
        if self.full is not None:
            raise self.full  # no need to ask for every one of the rest
        try:
            await self.pace.call(lambda: self.service.create_memory(self.store.id, item.path, text))
        except PathConflict as conflict:
            if conflict.memory_id is not None and conflict.path == item.path:
                memory = await self.service.retrieve_memory(self.store.id, conflict.memory_id, view="basic")
                if memory.content_sha256 == item.sha256:
                    return
                raise PreconditionFailed(_MEANWHILE) from conflict
            blocker = conflict.path or "another memory"
            raise InvalidRequest(f"{blocker} is in the way: rename or remove one of the two, then run this again") from conflict

    async def delete(self, memory: Memory) -> None:
        try:
            await self.pace.call(
                lambda: self.service.delete_memory(self.store.id, memory.id, expected_content_sha256=memory.content_sha256)
            )
        except PreconditionFailed:
            self._refuse(memory.path, _MEANWHILE)
            return
        except NotFound:
            pass
        self.listener.step(Step(memory.path, "deleted"))

    def _refuse(self, path: str, reason: str) -> None:
        self.listener.step(Step(path, "refused", reason))
