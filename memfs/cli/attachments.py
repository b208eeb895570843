"""Which stores a mount attaches, and how each is called."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memfs.cli.service import all_stores, find_store
from memfs.model.errors import InvalidRequest, MemfsError
from memfs.model.slugs import slug

if TYPE_CHECKING:
    from memfs.fuse.options import Attachment
    from memfs.model.ids import SessionId
    from memfs.model.objects import Access, Store
    from memfs.stores.base import MemoryStore
    from memfs.stores.managed import ManagedMemoryStore

FIRST_STORE = "Memory"
"""The name of the store that is made when there is none."""


def parse_store(text: str) -> "tuple[str, Access | None]":
    """``NAME_OR_ID[:ro]``: which store, and the access asked for."""
    for suffix, access in ((":ro", "read_only"), (":rw", "read_write")):
        if text.endswith(suffix) and text != suffix:
            return text.removesuffix(suffix), "read_only" if access == "read_only" else "read_write"
    return text, None


async def attachments(
    service: "MemoryStore", wanted: Sequence[str], *, session_id: "SessionId | None", read_only: bool
) -> "tuple[Attachment, ...]":
    """What to mount: of a service with sessions what the session attaches, else every active store.

    `wanted` picks from that by ``NAME_OR_ID[:ro]``. Where there is no store at all a first one is made. An archived store
    is attached read-only. Raises `MemfsError` when two would have one name, or there is nothing to attach.
    """
    from memfs.stores.managed import ManagedMemoryStore

    if session_id is not None and isinstance(service, ManagedMemoryStore):
        chosen = await _of_session(service, session_id, wanted)
    elif wanted:
        chosen = [await _wanted(service, text) for text in wanted]
    else:
        stores = await all_stores(service) or [await service.create_store(FIRST_STORE)]
        chosen = [_attachment(store, None) for store in stores]
    if not chosen:
        raise MemfsError(f"session {session_id} attaches no memory store: attach one when you create a session")
    _check_names(chosen)
    if read_only or service.capabilities.read_only:
        chosen = [replace(attachment, access="read_only") for attachment in chosen]
    return tuple(sorted(chosen, key=lambda attachment: attachment.name))


def _attachment(store: "Store", access: "Access | None") -> "Attachment":
    from memfs.fuse.options import Attachment

    if store.archived_at is not None:
        if access == "read_write":
            raise InvalidRequest(f"store {store.name!r} is archived and can only be read: attach it as {store.id}:ro")
        access = "read_only"
    return Attachment(store, slug(store.name, store.id), access or "read_write")


async def _wanted(service: "MemoryStore", text: str) -> "Attachment":
    name_or_id, access = parse_store(text)
    return _attachment(await find_store(service, name_or_id), access)


async def _of_session(service: "ManagedMemoryStore", session_id: "SessionId", wanted: Sequence[str]) -> "list[Attachment]":
    from memfs.fuse.options import Attachment

    session = await service.retrieve_session(session_id)
    attached = []
    for resource in session.memory_stores:
        store = await service.retrieve_store(resource.memory_store_id)
        name = resource.directory_name or slug(resource.name or store.name, store.id)
        attached.append(Attachment(store, name, resource.access, resource.instructions or ""))
    if not wanted:
        return attached
    picked = []
    for text in wanted:
        name_or_id, access = parse_store(text)
        found = [a for a in attached if name_or_id in (a.store.id, a.store.name, a.name)]
        if not found:
            names = ", ".join(a.name for a in attached) or "none"
            raise InvalidRequest(f"session {session_id} does not attach {name_or_id!r}: it attaches {names}")
        if access == "read_write" and found[0].access == "read_only":
            raise InvalidRequest(f"session {session_id} attaches {name_or_id!r} read_only: leave out :rw")
        picked.append(replace(found[0], access=access or found[0].access))
    return picked


def _check_names(chosen: "Sequence[Attachment]") -> None:
    """A session with two stores of one name is refused too (contract section 14, choice 20)."""
    by_name: dict[str, Attachment] = {}
    for attachment in chosen:
        other = by_name.setdefault(attachment.name, attachment)
        if other is attachment:
            continue
        if other.store.id == attachment.store.id:
            raise InvalidRequest(f"store {attachment.store.name!r} is named twice: name it once")
        raise InvalidRequest(
            f"stores {other.store.id} and {attachment.store.id} would both be the directory {attachment.name!r}: "
            f"mount one of them with --store, or rename one with `memfs stores update {attachment.store.id} --name ...`"
        )
