"""Which node each of the kernel's inode numbers means.

A node has one number that it shows for good (`Node.number`). The kernel may know it by another one for a while: after an
atomic save the name still points at the temporary file's inode, an *alias*. As soon as nobody holds either open, a look-up
answers with the node's own number, and the kernel lets the alias go.
"""

from memfs.replica.tree import File, Inode, Node, inode_for

ROOT = Inode(1)


class InodeTable:
    def __init__(self, root: Node) -> None:
        self._nodes: dict[int, Node] = {ROOT: root}
        self._lookups: dict[int, int] = {ROOT: 1}
        root.bound = ROOT
        root.number = ROOT
        self._aliases = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, inode: int) -> Node | None:
        return self._nodes.get(inode)

    def bind(self, node: Node) -> Inode:
        """The number by which the kernel is to know `node` in an answer that names it."""
        bound = node.bound
        wanted = node.number
        if bound == wanted:
            return wanted
        if (bound is None or node.handles == 0) and not self._is_taken(node):
            holder = self._nodes.get(wanted)
            if holder is None or holder is node or self._has_left(holder, wanted):
                node.bound = wanted
                self._nodes[wanted] = node
                return wanted
        if bound is not None:
            return bound
        self._aliases += 1
        alias = inode_for(f"alias:{self._aliases}:{wanted}")
        node.bound = alias
        self._nodes[alias] = node
        return alias

    @staticmethod
    def _is_taken(node: Node) -> bool:
        """Whether a file that had this number is gone, but still open."""
        return isinstance(node, File) and node.number in node.volume.attached.held

    @staticmethod
    def _has_left(holder: Node, number: Inode) -> bool:
        """Whether the kernel can reach `holder` by `number` no more, but for what it is about to forget."""
        return holder.handles == 0 and (holder.dead or holder.bound != number)

    def hand_over(self, old: Node, new: Node) -> None:
        """The kernel goes on to know `new` by the number by which it knew `old`."""
        if old.bound is not None and new.bound is None:
            new.bound = old.bound
            self._nodes[old.bound] = new
            old.bound = None

    def count(self, inode: Inode) -> None:
        """The kernel was given `inode` in an answer that it will have to forget once more."""
        self._lookups[inode] = self._lookups.get(inode, 0) + 1

    def forget(self, inode: int, count: int) -> Node | None:
        """The kernel gives `count` answers back; returns the node that it knows by this number no more."""
        left = self._lookups.get(inode, 0) - count
        if left > 0 or inode == ROOT:
            self._lookups[inode] = max(left, 1)
            return None
        self._lookups.pop(inode, None)
        node = self._nodes.pop(inode, None)
        if node is not None and node.bound == inode:
            node.bound = None
        return node
