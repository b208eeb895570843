"""The floor: the least that a file system on pyfuse3 can cost. What memfs takes beyond it is memfs's own.

    python -m scripts.bench.floor MOUNTPOINT [--no-xattr] [--notes N] [--directories N]

Everything is in two dictionaries, nothing is checked and nothing stored; the kernel may keep what it is told for one second, as
on a mount of memfs with its default bound. It serves the agents' tree until it is unmounted (`fusermount3 -u`).
"""

import argparse
import errno
import itertools
import os
import stat
import time
from collections.abc import Sequence

import pyfuse3
import trio

from scripts.bench.tree import AGENTS, Tree

KEPT_SECONDS = 1.0


class Floor(pyfuse3.Operations):
    supports_dot_lookup = True

    def __init__(self, tree: Tree, *, xattr: bool) -> None:
        super().__init__()
        self.no_such_attribute = pyfuse3.ENOATTR if xattr else errno.ENOSYS  # the second ends all questions
        self.numbers = itertools.count(pyfuse3.ROOT_INODE + 1)
        self.names: dict[int, dict[bytes, int]] = {pyfuse3.ROOT_INODE: {}}
        self.contents: dict[int, bytearray] = {}
        self.started_ns = time.time_ns()
        for number in range(tree.notes):
            *above, name = tree.path(number).encode().split(b"/")
            directory: int = pyfuse3.ROOT_INODE
            for segment in above:
                directory = self.names[directory].get(segment) or self.new_directory(directory, segment)
            self.new_file(directory, name, tree.text(number).encode())

    def new_directory(self, parent: int, name: bytes) -> int:
        inode = next(self.numbers)
        self.names[inode] = {}
        self.names[parent][name] = inode
        return inode

    def new_file(self, parent: int, name: bytes, content: bytes = b"") -> int:
        inode = next(self.numbers)
        self.contents[inode] = bytearray(content)
        self.names[parent][name] = inode
        return inode

    def attributes(self, inode: int) -> pyfuse3.EntryAttributes:
        shown = pyfuse3.EntryAttributes()
        shown.st_ino = pyfuse3.InodeT(inode)
        shown.attr_timeout = shown.entry_timeout = KEPT_SECONDS
        content = self.contents.get(inode)
        if content is None:
            shown.st_mode = stat.S_IFDIR | 0o755
            shown.st_nlink = 2
        else:
            shown.st_mode = stat.S_IFREG | 0o644
            shown.st_nlink = 1
            shown.st_size = len(content)
        shown.st_uid = os.getuid()
        shown.st_gid = os.getgid()
        shown.st_atime_ns = shown.st_mtime_ns = shown.st_ctime_ns = self.started_ns
        return shown

    async def lookup(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        inode = self.names[parent_inode].get(name)
        if inode is not None:
            return self.attributes(inode)
        absent = pyfuse3.EntryAttributes()
        absent.st_ino = pyfuse3.InodeT(0)
        absent.entry_timeout = KEPT_SECONDS
        return absent

    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        return self.attributes(inode)

    async def setattr(
        self,
        inode: int,
        attr: pyfuse3.EntryAttributes,
        fields: pyfuse3.SetattrFields,
        fh: int | None,
        ctx: pyfuse3.RequestContext,
    ) -> pyfuse3.EntryAttributes:
        if fields.update_size:
            content = self.contents[inode]
            del content[attr.st_size :]
            content.extend(bytes(attr.st_size - len(content)))
        return self.attributes(inode)

    async def opendir(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileHandleT:
        return pyfuse3.FileHandleT(inode)

    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        entries = list(self.names[fh].items())
        for position in range(start_id, len(entries)):
            name, inode = entries[position]
            if not pyfuse3.readdir_reply(token, pyfuse3.FileNameT(name), self.attributes(inode), position + 1):
                return

    async def mkdir(self, parent_inode: int, name: bytes, mode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        return self.attributes(self.new_directory(parent_inode, name))

    async def rmdir(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        del self.names[parent_inode][name]

    async def unlink(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        del self.names[parent_inode][name]

    async def rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        ctx: pyfuse3.RequestContext,
    ) -> None:
        self.names[parent_inode_new][name_new] = self.names[parent_inode_old].pop(name_old)

    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: pyfuse3.RequestContext
    ) -> tuple[pyfuse3.FileInfo, pyfuse3.EntryAttributes]:
        inode = self.new_file(parent_inode, name)
        return pyfuse3.FileInfo(fh=pyfuse3.FileHandleT(inode), keep_cache=True), self.attributes(inode)

    async def open(self, inode: int, flags: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        if flags & os.O_TRUNC:
            self.contents[inode].clear()
        return pyfuse3.FileInfo(fh=pyfuse3.FileHandleT(inode), keep_cache=True)

    async def read(self, fh: int, off: int, size: int) -> bytes:
        return bytes(self.contents[fh][off : off + size])

    async def write(self, fh: int, off: int, buf: bytes) -> int:
        content = self.contents[fh]
        content.extend(bytes(max(0, off - len(content))))
        content[off : off + len(buf)] = buf
        return len(buf)

    async def flush(self, fh: int) -> None:
        pass

    async def release(self, fh: int) -> None:
        pass

    async def releasedir(self, fh: int) -> None:
        pass

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        pass

    async def getxattr(self, inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> bytes:
        raise pyfuse3.FUSEError(self.no_such_attribute)

    async def listxattr(self, inode: int, ctx: pyfuse3.RequestContext) -> Sequence[bytes]:
        if self.no_such_attribute == errno.ENOSYS:
            raise pyfuse3.FUSEError(errno.ENOSYS)
        return []

    async def statfs(self, ctx: pyfuse3.RequestContext) -> pyfuse3.StatvfsData:
        return pyfuse3.StatvfsData()


def main() -> None:
    parser = argparse.ArgumentParser(description="The floor of pyfuse3.")
    parser.add_argument("mountpoint")
    parser.add_argument("--no-xattr", action="store_true")
    parser.add_argument("--notes", type=int, default=AGENTS.notes)
    parser.add_argument("--directories", type=int, default=AGENTS.directories)
    arguments = parser.parse_args()
    floor = Floor(Tree(arguments.notes, arguments.directories), xattr=not arguments.no_xattr)
    pyfuse3.init(floor, arguments.mountpoint, {*pyfuse3.default_options, "fsname=floor"})
    try:
        trio.run(pyfuse3.main)
    finally:
        pyfuse3.close()


if __name__ == "__main__":
    main()
