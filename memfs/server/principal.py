"""Who a request comes from, and what that credential may reach (contract section 8)."""

from collections.abc import Mapping
from dataclasses import dataclass

from memfs.model.errors import NotFound, PermissionDenied
from memfs.model.ids import ApiKeyId, SessionId, StoreId
from memfs.model.objects import Access, Actor, ApiActor, SessionActor

LOCAL_KEY_ID = ApiKeyId("apikey_local")
"""Recorded for requests that a server without keys accepts from its own machine."""


@dataclass(frozen=True)
class Principal:
    """An authenticated credential."""

    actor: Actor
    attachments: Mapping[StoreId, Access] | None
    """The stores within reach and how; None: all of them, for everything."""

    @property
    def session_id(self) -> SessionId | None:
        return self.actor.session_id if isinstance(self.actor, SessionActor) else None

    def check_store(self, store_id: StoreId, *, write: bool) -> None:
        """Raise `NotFound` for a store that is not attached, `PermissionDenied` for a write to one attached read_only."""
        if self.attachments is None:
            return
        access = self.attachments.get(store_id)
        if access is None:
            raise NotFound("memory store not found")
        if write and access == "read_only":
            raise PermissionDenied("this session attaches the memory store read_only")

    def check_administrator(self) -> None:
        """Raise `PermissionDenied` for a session: it edits memories, and nothing else."""
        if self.attachments is not None:
            raise PermissionDenied("a session token does not allow this; use an API key")


def local_principal() -> Principal:
    return Principal(ApiActor(api_key_id=LOCAL_KEY_ID), None)
