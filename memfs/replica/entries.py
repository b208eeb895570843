"""Directory entries: what taking and giving a name does to the tree and to the local state; nothing here asks the store."""

from memfs.model.paths import check_length
from memfs.replica.attached import Attached
from memfs.replica.drafts import Draft, MemoryBuffer, now_ns
from memfs.replica.errors import Busy, NoSuchName
from memfs.replica.files import Files
from memfs.replica.scratchtree import ScratchNode
from memfs.replica.tree import Directory, File, Node


class Entries:
    def __init__(self, attached: Attached, files: Files) -> None:
        self.attached = attached
        self.files = files

    def check_child(self, directory: Directory, segment: str) -> str:
        """The path of a child to be. Raises `PathTooLong`, and `NoSuchName` in a directory that was removed."""
        if directory.dead:
            raise NoSuchName("the directory was removed")
        path = f"{directory.path}/{segment}"
        check_length(path, path.count("/"))
        return path

    def check_seen(self, file: File) -> None:
        """Raise `Busy` when the content is not the one that the caller could have seen."""
        if file.head is None or file.shown is None or file.draft is not None:
            return
        if file.shown.version_id != file.head.version_id and file.shown.sha256 != file.head.sha256:
            file.shown = file.head
            self.attached.attributes_changed(file)
            raise Busy(f"{file.path}: another session just changed it; look at it, then repeat")

    async def hold_for_readers(self, file: File) -> None:
        """Those who hold it open go on reading what it is now, whatever becomes of the memory."""
        if file.handles and file.draft is None and (file.shown or file.head) is not None:
            content = await self.files.whole(file)
            if file.draft is None:
                held = file.shown or file.head
                file.draft = Draft(MemoryBuffer(content), file.head, content)
                if held is not None:
                    file.draft.mtime_ns = held.updated_ns

    def detach(self, node: Node) -> None:
        """Take the node's name away; a directory that this empties stays until rmdir."""
        parent = node.parent
        self.attached.tree.detach(node)
        if parent is not None and not parent.children:
            self.attached.keep_directory(parent)

    def take_name(self, file: File) -> None:
        """`file` loses its name: it is dead, and nothing of its draft will be stored."""
        attached = self.attached
        self.detach(file)
        file.dead = True
        file.ctime_ns = now_ns()
        attached.forget_draft(file)
        if file.handles == 0:
            attached.end_local(file)
            file.draft = None
        elif file.local_key is not None:
            # The bytes stay for those who hold it open; a remount must not find the name again.
            attached.journal.remove_local_file(file.local_key)
        if file.handles:
            number = file.held_number = file.shown_number
            attached.held[number] = attached.held.get(number, 0) + 1
        if file.bound is not None:
            attached.attributes_changed(file)

    def drop_directory(self, parent: Directory, child: Directory) -> None:
        attached = self.attached
        path = child.path
        self.detach(child)
        child.dead = True
        attached.journal.remove_directory(path)
        attached.directory_changed(parent)

    def drop_scratch_tree(self, parent: Directory, root: ScratchNode) -> None:
        attached = self.attached
        self.detach(root)
        root.dead = True
        attached.journal.remove_scratch_tree(root.tree.key)
        attached.directory_changed(parent)

    def move(self, file: File, target: File | None, directory: Directory, segment: str) -> None:
        """Give `file` its new name in the tree and in the local state; `target` loses it."""
        attached = self.attached
        if target is not None:
            self.take_name(target)
        self.detach(file)
        attached.tree.add(directory, segment, file)
        file.segment = segment
        file.ctime_ns = now_ns()
        if file.local_key is not None:
            attached.journal.change_local_file(file.local_key, path=file.path, kind=file.kind.value, meta=file.meta)
        if file.journal_key is not None:
            attached.journal.move_draft(file.journal_key, file.path)
