"""The FUSE operations: find the node, ask its replica, shape the answer."""

import errno
import json
import os
import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyfuse3

from memfs.fuse.base import Base, DirectoryHandle, ViewHandle, operation, unanswered
from memfs.fuse.root import MountRoot, ViewEntry
from memfs.model.content import MAX_CONTENT_BYTES
from memfs.model.errors import ContentNotText, NotSupported
from memfs.model.objects import format_time
from memfs.replica.errors import CrossesBorder, InvalidArgument, IsDirectory, NameTaken, NoSuchName, NotDirectory
from memfs.replica.handles import Handle
from memfs.replica.names import look_up_name
from memfs.replica.scratchtree import ScratchHandle, ScratchNode, ScratchTree
from memfs.replica.tree import NAME_MAX, Directory, File, Meta, Node
from memfs.views.tree import ViewDirectory, ViewFile

XATTR_PREFIX = b"user.memory."
METADATA = XATTR_PREFIX + b"meta."
DISCARD = XATTR_PREFIX + b"unstored"
"""Removing this attribute gives up what was written to a file and is not stored. It is listed nowhere, so that no tool that
copies attributes removes it by chance."""
UNLIMITED = 1 << 40
"""What `df` shows as the limit of a store that has none."""

_IN_STORE = (File, Directory)
"""A union would be made anew, and take longer to look at, with every request."""

Entries = pyfuse3.EntryAttributes
Context = pyfuse3.RequestContext


class Operations(Base):
    # Looking

    @operation
    async def lookup(self, parent_inode: int, name: bytes, ctx: Context) -> Entries:
        parent = self.node(parent_inode)
        if isinstance(parent, Directory) and parent.volume.feed.is_fresh():
            # The usual case, without a wait: the directory is known.
            known = parent.children.get(name.decode("ascii", "replace"))
            if known is not None:
                return self.answer(known, "")
        if name == b".":
            return self.answer(parent, "")
        if name == b"..":
            return self.answer(self._above(parent), "")
        child = await self._child(parent, name)
        if child is None:
            if len(name) > NAME_MAX:
                raise pyfuse3.FUSEError(errno.ENAMETOOLONG)
            absent = pyfuse3.EntryAttributes()
            absent.st_ino = pyfuse3.InodeT(0)
            seconds = parent.volume.feed.kernel_seconds if isinstance(parent, Directory) else self.attributes.timeout
            absent.entry_timeout = seconds if name.isascii() else 0
            return absent
        return self.answer(child, "" if name.isascii() else "\u00e9")

    async def _child(self, parent: Node, name: bytes) -> Node | None:
        if isinstance(parent, Directory):
            child: Node | None = await parent.volume.lookup(parent, name)
            if child is None and parent.parent is None:
                view = self.root_views(parent).get(os.fsdecode(name))
                return self.view_entry(view, parent, os.fsdecode(name)) if view is not None else None
            return child
        if isinstance(parent, ScratchNode):
            return parent.tree.lookup(parent, name)
        text = look_up_name(name)
        if text is None:
            return None
        if isinstance(parent, MountRoot):
            replica = parent.replicas.get(text)
            if replica is not None:
                return replica.root
            shown = parent.views.get(text) or parent.hidden.get(text)
            return self.view_entry(shown, parent, text) if shown is not None else None
        if isinstance(parent, ViewEntry) and isinstance(parent.view, ViewDirectory):
            found = await parent.view.lookup(text)
            return self.view_entry(found, parent, text) if found is not None else None
        raise NotDirectory("not a directory")

    def root_views(self, root: Directory) -> dict[str, ViewDirectory | ViewFile]:
        """The hidden views in the root of a store."""
        return self.store_views.get(root.volume.name, {})

    def _above(self, node: Node) -> Node:
        if isinstance(node, ScratchNode) and node.above is not None:
            return node.above
        if isinstance(node, ViewEntry) and node.above is not None:
            return node.above
        return node.parent if node.parent is not None else self.root

    @operation
    async def getattr(self, inode: int, ctx: Context) -> Entries:
        node = self.node(inode)
        if isinstance(node, _IN_STORE) and not node.volume.feed.is_fresh():
            await node.volume.feed.ensure()
        return self.attributes_of(node)

    @unanswered
    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        for inode, count in inode_list:
            self.drop(self.inodes.forget(inode, count))

    @operation
    async def setattr(self, inode: int, attr: Entries, fields: pyfuse3.SetattrFields, fh: int | None, ctx: Context) -> Entries:
        node = self.node(inode)
        if isinstance(node, MountRoot | ViewEntry):
            raise self.refuse("this part of the mount")
        change = Meta(
            mode=stat.S_IMODE(attr.st_mode) if fields.update_mode else None,
            uid=attr.st_uid if fields.update_uid else None,
            gid=attr.st_gid if fields.update_gid else None,
            mtime_ns=attr.st_mtime_ns if fields.update_mtime else None,
            atime_ns=attr.st_atime_ns if fields.update_atime else None,
        )
        if isinstance(node, ScratchNode):
            self._set_scratch(node, attr.st_size if fields.update_size else None, fh, change)
            return self.attributes_of(node)
        replica = self.replica_of(node)
        if fields.update_size:
            if not isinstance(node, File):
                raise IsDirectory("a directory has no size")
            handle = self.handles.get(fh) if fh is not None else None
            await replica.files.truncate(node, attr.st_size, handle if isinstance(handle, Handle) else None, ctx.pid)
        if isinstance(node, File):
            if (change.uid is not None or change.gid is not None) and change.mode is None:
                change.mode = self._without_setid(self.attributes.of(node).st_mode)
            if not change.empty:
                replica.files.set_meta(node, change)
        elif isinstance(node, Directory):
            replica.namespace.set_directory_meta(node, change)
        return self.attributes_of(node)

    @staticmethod
    def _without_setid(mode: int) -> int | None:
        """The permissions after a change of owner, which takes set-id bits away; None when there is nothing to take."""
        permissions = stat.S_IMODE(mode)
        kept = permissions & ~stat.S_ISUID
        if permissions & stat.S_IXGRP:
            kept &= ~stat.S_ISGID
        return None if kept == permissions else kept

    def _set_scratch(self, node: ScratchNode, size: int | None, fh: int | None, change: Meta) -> None:
        node.tree.attached.check_writable()
        handle = self.handles.get(fh) if fh is not None else None
        if size is not None:
            os.truncate(handle.descriptor if isinstance(handle, ScratchHandle) else node.real_path, size)
        node.set_meta(change)

    @operation
    async def readlink(self, inode: int, ctx: Context) -> bytes:
        node = self.node(inode)
        if not isinstance(node, ScratchNode):
            raise InvalidArgument("not a symbolic link")
        return os.fsencode(os.readlink(node.real_path))

    @operation
    async def statfs(self, ctx: Context) -> pyfuse3.StatvfsData:
        memories = content = limit = 0
        for replica in self.root.replicas.values():
            usage = await replica.known_usage()
            if usage is not None:
                memories += usage.memories
                content += usage.content_bytes
            else:
                known = replica.attached.tree.by_id
                memories += len(known)
                content += sum(file.head.size for file in known.values() if file.head is not None)
            limit += replica.maximum() or UNLIMITED // MAX_CONTENT_BYTES
        shown = pyfuse3.StatvfsData()
        shown.f_bsize = shown.f_frsize = 4096
        shown.f_blocks = limit * MAX_CONTENT_BYTES // 4096
        shown.f_bfree = shown.f_bavail = max(0, shown.f_blocks - -(-content // 4096))
        shown.f_files = limit
        shown.f_ffree = shown.f_favail = max(0, limit - memories)
        shown.f_namemax = NAME_MAX
        return shown

    # Directories

    @operation
    async def opendir(self, inode: int, ctx: Context) -> pyfuse3.FileHandleT:
        node = self.node(inode)
        node.handles += 1
        return self.new_handle(DirectoryHandle(node))

    @operation
    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        handle = self.handles[fh]
        assert isinstance(handle, DirectoryHandle)
        directory = handle.node
        if start_id == 0 or handle.entries is None:
            handle.entries = await self._entries(directory)
        dots = ((b".", directory), (b"..", self._above(directory)))
        for position, (name, node) in enumerate(dots):
            if start_id <= position and not pyfuse3.readdir_reply(
                token, pyfuse3.FileNameT(name), self.attributes.of(node), position + 1
            ):
                return
        children = directory.children if isinstance(directory, Directory) else None
        for position in range(max(start_id - 2, 0), len(handle.entries)):
            name, node = handle.entries[position]
            if children is not None:
                if children.get(node.name) is not node:
                    continue  # it went away since
            elif isinstance(node, ScratchNode) and (node.dead or not os.path.lexists(node.real_path)):  # noqa: ASYNC240
                continue
            inode = self.inodes.bind(node)
            entry = self.attributes.of(node, "" if name.isascii() else "\u00e9")
            entry.st_ino = pyfuse3.InodeT(inode)
            if not pyfuse3.readdir_reply(token, pyfuse3.FileNameT(name), entry, position + 3):
                return
            self.inodes.count(inode)

    async def _entries(self, directory: Node) -> list[tuple[bytes, Node]]:
        if isinstance(directory, Directory):
            if directory.dead:
                return []
            return [(os.fsencode(name), node) for name, node in await directory.volume.entries(directory)]
        if isinstance(directory, ScratchNode):
            return [(os.fsencode(name), node) for name, node in directory.tree.entries(directory)]
        if isinstance(directory, MountRoot):
            shown: list[tuple[bytes, Node]] = [
                (os.fsencode(name), replica.root) for name, replica in directory.replicas.items()
            ]
            for name, view in directory.views.items():
                shown.append((os.fsencode(name), self.view_entry(view, directory, name)))
            return shown
        if isinstance(directory, ViewEntry) and isinstance(directory.view, ViewDirectory):
            entries = await directory.view.entries()
            return [(os.fsencode(name), self.view_entry(view, directory, name)) for name, view in entries]
        raise NotDirectory("not a directory")

    @operation
    async def releasedir(self, fh: int) -> None:
        handle = self.handles.pop(fh)
        assert isinstance(handle, DirectoryHandle)
        handle.node.handles -= 1

    @operation
    async def fsyncdir(self, fh: int, datasync: bool) -> None:
        handle = self.handles[fh]
        assert isinstance(handle, DirectoryHandle)
        if isinstance(handle.node, Directory):
            await handle.node.volume.sync_below(handle.node)
        elif isinstance(handle.node, MountRoot):
            for replica in self.root.replicas.values():
                await replica.sync_below(replica.root)

    # Names

    def _owner(self, parent: Node, ctx: Context) -> tuple[int | None, int | None]:
        """Whom a new file belongs to, where it is not the mount's own user and group."""
        uid = None if self.options.uid is not None or ctx.uid == self.default_uid else ctx.uid
        gid = None if self.options.gid is not None or ctx.gid == self.default_gid else ctx.gid
        meta = parent.meta
        if meta is not None and meta.mode is not None and meta.mode & stat.S_ISGID:
            gid = meta.gid
        return uid, gid

    @operation
    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: Context
    ) -> tuple[pyfuse3.FileInfo, Entries]:
        parent = self.node(parent_inode)
        if isinstance(parent, ScratchNode):
            scratch = parent.tree.create(parent, name, mode, flags)
            return self._file_info(scratch), self.answer(scratch.node, "")
        if not isinstance(parent, Directory):
            raise self.refuse("this part of the mount")
        if parent.parent is None and os.fsdecode(name) in self.root_views(parent):
            raise IsDirectory(f"{os.fsdecode(name)} is a view of memfs")
        replica = self.replica_of(parent)
        file, handle = await replica.namespace.create(
            parent,
            name,
            mode=stat.S_IMODE(mode),
            flags=flags,
            umask=ctx.umask,
            owner=self._owner(parent, ctx),
            process=ctx.pid,
        )
        return self._file_info(handle), self.answer(file, "" if name.isascii() else "\u00e9")

    @operation
    async def mkdir(self, parent_inode: int, name: bytes, mode: int, ctx: Context) -> Entries:
        parent = self.node(parent_inode)
        mode = stat.S_IMODE(mode)
        if isinstance(parent, ScratchNode):
            return self.answer(parent.tree.make_directory(parent, name, mode), "")
        if not isinstance(parent, Directory):
            raise self.refuse("this part of the mount")
        if parent.parent is None and os.fsdecode(name) in self.root_views(parent):
            raise NameTaken(f"{os.fsdecode(name)} is a view of memfs")
        uid, gid = self._owner(parent, ctx)
        if parent.meta is not None and parent.meta.mode is not None and parent.meta.mode & stat.S_ISGID:
            mode |= stat.S_ISGID
        default = mode == stat.S_IMODE(self.attributes.directory_mode)
        meta = Meta(mode=None if default else mode, uid=uid, gid=gid)
        made = await self.replica_of(parent).namespace.make_directory(parent, name, None if meta.empty else meta)
        return self.answer(made, "" if name.isascii() else "\u00e9")

    @operation
    async def unlink(self, parent_inode: int, name: bytes, ctx: Context) -> None:
        parent = self.node(parent_inode)
        if isinstance(parent, ScratchNode):
            parent.tree.remove(parent, name, is_directory=False)
        elif isinstance(parent, Directory):
            await self.replica_of(parent).namespace.unlink(parent, name)
        else:
            raise self.refuse("this part of the mount")

    @operation
    async def rmdir(self, parent_inode: int, name: bytes, ctx: Context) -> None:
        parent = self.node(parent_inode)
        if isinstance(parent, ScratchNode):
            parent.tree.remove(parent, name, is_directory=True)
        elif isinstance(parent, Directory):
            await self.replica_of(parent).namespace.remove_directory(parent, name)
        else:
            raise self.refuse("this part of the mount")

    @operation
    async def rename(self, old_inode: int, old_name: bytes, new_inode: int, new_name: bytes, flags: int, ctx: Context) -> None:
        if flags & ~pyfuse3.RENAME_NOREPLACE:
            raise InvalidArgument("two names cannot be exchanged")
        old, new = self.node(old_inode), self.node(new_inode)
        replace = not flags & pyfuse3.RENAME_NOREPLACE
        if isinstance(old, MountRoot | ViewEntry) or isinstance(new, MountRoot | ViewEntry):
            raise self.refuse("this part of the mount")
        if isinstance(old, ScratchNode) and isinstance(new, ScratchNode) and old.tree is new.tree:
            old.tree.rename(old, old_name, new, new_name, replace=replace)
        elif isinstance(old, Directory) and isinstance(new, Directory) and old.volume is new.volume:
            if new.parent is None and os.fsdecode(new_name) in self.root_views(new):
                raise NameTaken(f"{os.fsdecode(new_name)} is a view of memfs")
            await self.replica_of(old).namespace.rename(old, old_name, new, new_name, replace=replace, process=ctx.pid)
        elif isinstance(old, ScratchNode) and isinstance(new, Directory) and old.tree.attached is new.volume.attached:
            await self._rename_out(old, old_name, new, new_name, replace, ctx.pid)
        else:
            for node in (old, new):
                if isinstance(node, Directory):
                    self.replica_of(node).attached.check_writable()
            raise CrossesBorder("a rename cannot leave a store or a scratch directory: copy, then remove")

    async def _rename_out(
        self, old: ScratchNode, old_name: bytes, new: Directory, new_name: bytes, replace: bool, process: int
    ) -> None:
        """A file leaves a scratch directory (rsync --delay-updates saves so)."""
        node = old.tree.lookup(old, old_name)
        if node is None:
            raise NoSuchName("nothing has this name")
        file = await self.replica_of(new).namespace.renames.rename_out(node, new, new_name, replace=replace, process=process)
        self.inodes.hand_over(node, file)

    @operation
    async def symlink(self, parent_inode: int, name: bytes, target: bytes, ctx: Context) -> Entries:
        parent = self.node(parent_inode)
        if isinstance(parent, ScratchNode):
            return self.answer(parent.tree.symlink(parent, name, target), "")
        await self._refuse_kind(parent, "symbolic links")
        raise AssertionError

    @operation
    async def link(self, inode: int, new_parent_inode: int, new_name: bytes, ctx: Context) -> Entries:
        await self._refuse_kind(self.node(new_parent_inode), "hard links")
        raise AssertionError

    @operation
    async def mknod(self, parent_inode: int, name: bytes, mode: int, rdev: int, ctx: Context) -> Entries:
        await self._refuse_kind(self.node(parent_inode), "special files")
        raise AssertionError

    async def _refuse_kind(self, parent: Node, what: str) -> None:
        if isinstance(parent, Directory):
            self.replica_of(parent).attached.check_writable()
        elif not isinstance(parent, ScratchNode):
            raise self.refuse("this part of the mount")
        raise NotSupported(f"a memory store has no {what}")

    # Files

    def _file_info(self, handle: Handle | ScratchHandle | ViewHandle) -> pyfuse3.FileInfo:
        return pyfuse3.FileInfo(fh=self.new_handle(handle), keep_cache=True)

    @operation
    async def open(self, inode: int, flags: int, ctx: Context) -> pyfuse3.FileInfo:
        node = self.node(inode)
        if isinstance(node, File):
            return self._file_info(await node.volume.files.open(node, flags, ctx.pid))
        if isinstance(node, ScratchNode):
            return self._file_info(node.tree.open(node, flags))
        if isinstance(node, ViewEntry) and isinstance(node.view, ViewFile):
            if flags & (os.O_ACCMODE | os.O_TRUNC) != os.O_RDONLY:
                raise self.refuse("this part of the mount")
            handle = ViewHandle(node, await node.view.open())
            node.handles += 1
            return pyfuse3.FileInfo(fh=self.new_handle(handle), keep_cache=node.view.immutable, direct_io=node.view.direct)
        raise IsDirectory("a directory is opened with opendir")

    @operation
    async def read(self, fh: int, offset: int, size: int) -> bytes:
        handle = self.handles[fh]
        if isinstance(handle, Handle):
            return await self.replica_of(handle.file).files.read(handle, offset, size)
        if isinstance(handle, ScratchHandle):
            return os.pread(handle.descriptor, size, offset)
        assert isinstance(handle, ViewHandle)
        return await handle.content.read(offset, size)

    @operation
    async def write(self, fh: int, offset: int, buf: bytes) -> int:
        handle = self.handles[fh]
        if isinstance(handle, Handle):
            return await self.replica_of(handle.file).files.write(handle, offset, buf)
        assert isinstance(handle, ScratchHandle)
        return os.pwrite(handle.descriptor, buf, offset)

    @operation
    async def flush(self, fh: int) -> None:
        handle = self.handles[fh]
        if isinstance(handle, Handle) and handle.writable:
            await self.replica_of(handle.file).files.flush(handle)

    @operation
    async def release(self, fh: int) -> None:
        handle = self.handles.pop(fh)
        if isinstance(handle, Handle):
            await self.replica_of(handle.file).files.release(handle)
        elif isinstance(handle, ScratchHandle):
            tree: ScratchTree = handle.node.tree
            tree.release(handle)
        elif isinstance(handle, ViewHandle):
            handle.node.handles -= 1

    @operation
    async def fsync(self, fh: int, datasync: bool) -> None:
        handle = self.handles[fh]
        if isinstance(handle, Handle):
            await self.replica_of(handle.file).files.fsync(handle)
        elif isinstance(handle, ScratchHandle):
            os.fsync(handle.descriptor)

    # Extended attributes

    @operation
    async def getxattr(self, inode: int, name: bytes, ctx: Context) -> bytes:
        if not self.options.xattr:
            raise pyfuse3.FUSEError(errno.ENOSYS)
        if not name.startswith(XATTR_PREFIX):
            raise pyfuse3.FUSEError(pyfuse3.ENOATTR)
        value = (await self._xattrs(self.node(inode), name)).get(name)
        if value is None:
            raise pyfuse3.FUSEError(pyfuse3.ENOATTR)
        return value

    @operation
    async def listxattr(self, inode: int, ctx: Context) -> list[bytes]:
        if not self.options.xattr:
            raise pyfuse3.FUSEError(errno.ENOSYS)
        return list(await self._xattrs(self.node(inode), None))

    async def _xattrs(self, node: Node, wanted: bytes | None) -> dict[bytes, bytes]:
        """All attributes, or enough of them to hold `wanted`: who made a version is asked for only then."""
        if isinstance(node, ViewEntry):
            return {name.encode(): value for name, value in node.view.xattrs.items()}
        if not isinstance(node, File):
            return {}
        attached = self.replica_of(node).attached
        shown: dict[str, str] = {"state": attached.state(node)}
        head = node.head
        if head is not None:
            shown |= {
                "id": head.memory_id,
                "version_id": head.version_id,
                "sha256": head.sha256,
                "created_at": format_time(_time(head.created_ns)),
                "updated_at": format_time(_time(head.updated_ns)),
                "created_by": "",
                "session_id": "",
                **{f"meta.{key}": value for key, value in head.metadata},
            }
            if head.media_type is not None:
                shown["media_type"] = head.media_type
            if wanted in (None, b"user.memory.created_by", b"user.memory.session_id"):
                actor = await self.replica_of(node).author(head)
                shown.pop("session_id")
                shown.pop("created_by")
                if actor is not None:
                    shown["created_by"] = json.dumps(actor)
                    if "session_id" in actor:
                        shown["session_id"] = str(actor["session_id"])
        return {XATTR_PREFIX + name.encode(): value.encode() for name, value in shown.items()}

    @operation
    async def setxattr(self, inode: int, name: bytes, value: bytes, ctx: Context) -> None:
        file, key = self._metadata(inode, name)
        try:
            text = value.decode()
        except UnicodeDecodeError:
            raise ContentNotText("metadata is text: these bytes are not UTF-8") from None
        await self.replica_of(file).set_metadata(file, key, text)

    @operation
    async def removexattr(self, inode: int, name: bytes, ctx: Context) -> None:
        node = self.node(inode)
        if name == DISCARD and isinstance(node, File):
            await self.replica_of(node).discard(node)
            return
        file, key = self._metadata(inode, name)
        if file.head is None or key not in dict(file.head.metadata):
            raise pyfuse3.FUSEError(pyfuse3.ENOATTR)
        await self.replica_of(file).set_metadata(file, key, None)

    def _metadata(self, inode: int, name: bytes) -> tuple[File, str]:
        """The file and the key of its metadata that an attribute stands for: no other attribute can be set."""
        node = self.node(inode)
        if not name.startswith(METADATA) or not isinstance(node, File) or not self.replica_of(node).keeps_metadata:
            raise pyfuse3.FUSEError(errno.EOPNOTSUPP)
        return node, name.removeprefix(METADATA).decode("utf-8", "replace")

    @operation
    async def access(self, inode: int, mode: int, ctx: Context) -> bool:
        return True


def _time(nanoseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)
