"""What a session may attach, and as what (contract section 7)."""

from collections.abc import Sequence

from memfs.model.errors import InvalidRequest, StoreArchived
from memfs.model.sessions import MAX_STORES, MOUNT_ROOT, MemoryStoreResource
from memfs.model.slugs import slug
from memfs.server.wire import AttachStore
from memfs.stores.base import MemoryStore


async def attach(service: MemoryStore, wanted: Sequence[AttachStore]) -> list[MemoryStoreResource]:
    """The resources of a new session, with the stores' names and descriptions of this moment.

    Raises `NotFound` for an unknown store, `StoreArchived`, and `InvalidRequest` for more than eight stores, for one store
    twice and for two stores that would be mounted at one place (section 14, choices 20 and 22).
    """
    if len(wanted) > MAX_STORES:
        raise InvalidRequest(f"resources cannot contain more than {MAX_STORES} memory_store entries")
    attached: dict[str, MemoryStoreResource] = {}
    for element in wanted:
        store = await service.retrieve_store(element.memory_store_id)
        if store.archived_at is not None:
            raise StoreArchived(f"memory store {store.id} is archived and cannot be attached")
        mount_path = f"{MOUNT_ROOT}/{slug(store.name, store.id)}"
        if other := attached.get(mount_path):
            if other.memory_store_id == store.id:
                raise InvalidRequest(f"memory store {store.id} is attached twice")
            raise InvalidRequest(
                f"memory stores {other.memory_store_id} and {store.id} would both be mounted at {mount_path}: rename one"
            )
        attached[mount_path] = MemoryStoreResource(
            memory_store_id=store.id,
            access=element.access or "read_write",
            instructions=element.instructions,
            name=store.name,
            description=store.description,
            mount_path=mount_path,
        )
    return list(attached.values())
