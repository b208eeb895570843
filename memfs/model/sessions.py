"""Sessions and the stores they attach (contract section 7)."""

from typing import Literal

from pydantic import Field, field_validator

from memfs.model.ids import SessionId, StoreId
from memfs.model.objects import Access, Model, Time

MAX_STORES = 8
"""How many memory stores one session may attach."""
MAX_INSTRUCTIONS = 4_096
"""Characters of one attachment's instructions."""
MOUNT_ROOT = "/mnt/memory"


class MemoryStoreResource(Model):
    """A store as a session attaches it; name, description and mount path are those of the moment it was attached."""

    type: Literal["memory_store"] = "memory_store"
    memory_store_id: StoreId
    access: Access = "read_write"
    instructions: str | None = None
    name: str = ""
    description: str = ""
    mount_path: str | None = None

    @field_validator("access", mode="before")
    @classmethod
    def _known_access(cls, value: object) -> object:
        """Absent means read_write; an access that this program does not know yet is not taken for the right to write."""
        if value is None:
            return "read_write"
        return value if value == "read_write" else "read_only"

    @field_validator("name", "description", mode="before")
    @classmethod
    def _text(cls, value: object) -> object:
        return "" if value is None else value

    @property
    def directory_name(self) -> str | None:
        """The last segment of `mount_path`; None when the service told none."""
        return self.mount_path.rstrip("/").rpartition("/")[2] or None if self.mount_path else None


class OtherResource(Model):
    """A resource that is no memory store, such as a repository; memfs leaves it alone."""

    type: str


class Session(Model):
    """A session as far as memory stores go."""

    id: SessionId
    type: Literal["session"] = "session"
    status: str = "idle"
    title: str | None = None
    resources: list[MemoryStoreResource | OtherResource] = Field(default_factory=list)
    created_at: Time
    updated_at: Time
    archived_at: Time | None = None

    @property
    def memory_stores(self) -> list[MemoryStoreResource]:
        return [resource for resource in self.resources if isinstance(resource, MemoryStoreResource)]
