"""The top of a mount: a read-only directory with one directory a store, the index, and the hidden state."""

from memfs.fuse.options import Attachment
from memfs.replica.replica import Replica
from memfs.replica.tree import Inode, Node
from memfs.views.tree import RenderedFile, ViewDirectory, ViewFile

INDEX_NAME = "MEMORY.md"
STATE_NAME = ".memfs"


class ViewEntry(Node):
    """A node of a view, as the kernel knows it."""

    __slots__ = ("above", "view")

    def __init__(self, view: ViewDirectory | ViewFile, number: Inode, above: "Node | None") -> None:
        super().__init__(None, "", None, number)
        self.view: ViewDirectory | ViewFile = view
        self.above = above


class MountRoot(Node):
    """`/mnt/memory`: its children are the stores' roots and the views beside them."""

    __slots__ = ("created_ns", "hidden", "replicas", "views")

    def __init__(self, replicas: list[Replica], created_ns: int) -> None:
        super().__init__(None, "", None, Inode(1))
        self.replicas = {replica.name: replica for replica in replicas}
        self.views: dict[str, ViewDirectory | ViewFile] = {}
        self.hidden: dict[str, ViewDirectory | ViewFile] = {}
        self.created_ns = created_ns


def index_file(attachments: tuple[Attachment, ...], created_ns: int) -> RenderedFile:
    """`MEMORY.md`: what an agent should know of each store before it looks."""
    text = index_text(attachments).encode()
    return RenderedFile("index", lambda: text, mtime_ns=created_ns)


def index_text(attachments: tuple[Attachment, ...]) -> str:
    lines = [
        "# Memory",
        "",
        "Each directory here is a memory store; every file in it is a memory. Reads and writes are plain file I/O.",
    ]
    for attachment in attachments:
        archived = ", archived" if attachment.store.archived_at is not None else ""
        access = "read-only" if attachment.access == "read_only" or archived else "read-write"
        lines += ["", f"## {attachment.name}/", "", f"{attachment.store.name} ({access}{archived})"]
        if attachment.store.description:
            lines += ["", attachment.store.description]
        if attachment.instructions:
            lines += ["", attachment.instructions]
    return "\n".join(lines) + "\n"
