"""Random reads, writes, truncations and mappings of one file, each compared with a model of its bytes.

The same seed does the same operations again. All bytes are ASCII, and the file stays within what a memory holds.
"""

import mmap
import os
import random
from collections import deque
from pathlib import Path

from memfs.model.content import MAX_CONTENT_BYTES

LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \n"
KEPT = 40
"""How many of the last operations a failure names."""


class Exerciser:
    """Works on one file through several descriptors; `run` raises `AssertionError` at the first difference."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.seed = seed
        self.random = random.Random(seed)
        self.model = bytearray()
        self.done: deque[str] = deque(maxlen=KEPT)
        self.descriptors: list[int] = []
        self.operations = (
            (self.write, 20),
            (self.append, 6),
            (self.read, 20),
            (self.read_anew, 6),
            (self.truncate, 8),
            (self.truncate_by_path, 3),
            (self.write_mapped, 10),
            (self.read_mapped, 10),
            (self.copy_within, 4),
            (self.sync, 4),
            (self.reopen, 8),
            (self.rename, 2),
            (self.replace, 1),
            (self.check_size, 8),
        )

    def run(self, count: int) -> None:
        self.path.write_bytes(b"")
        self.descriptors = [os.open(self.path, os.O_RDWR) for _ in range(2)]
        names, weights = zip(*self.operations, strict=True)
        try:
            for number in range(count):
                operation = self.random.choices(names, weights)[0]
                self.done.append(f"{number}: {operation.__name__}")
                try:
                    operation()
                except (OSError, ValueError, IndexError) as error:
                    raise AssertionError(self.story(repr(error))) from error
            self.read_anew()
        finally:
            for descriptor in self.descriptors:
                os.close(descriptor)

    def story(self, what: str) -> str:
        return f"{what}\nseed {self.seed}; the last operations were\n" + "\n".join(self.done)

    def note(self, text: str) -> None:
        self.done[-1] += f" {text}"

    # What the operations choose from

    def any(self) -> int:
        return self.random.choice(self.descriptors)

    def length(self) -> int:
        return self.random.choice((self.random.randint(1, 20), self.random.randint(1, 5000), self.random.randint(1, 60_000)))

    def within(self) -> tuple[int, int]:
        """Offset and length of a part of the file; length 0 for an empty one."""
        if not self.model:
            return 0, 0
        offset = self.random.randrange(len(self.model))
        if self.random.random() < 0.3:
            offset -= offset % 4096
        return offset, min(self.length(), len(self.model) - offset)

    def text(self, length: int) -> bytes:
        piece = bytes(self.random.choices(LETTERS, k=61))
        return (piece * (length // len(piece) + 1))[:length]

    def same(self, found: bytes, offset: int, length: int) -> None:
        expected = bytes(self.model[offset : offset + length])
        if found == expected:
            return
        pairs = enumerate(zip(found, expected, strict=False))
        first = next((i for i, (a, b) in pairs if a != b), min(len(found), len(expected)))
        raise AssertionError(
            self.story(
                f"{len(found)} of {len(expected)} bytes at {offset} of {len(self.model)} differ from {offset + first} on: "
                f"{found[first : first + 20]!r}, expected {expected[first : first + 20]!r}"
            )
        )

    # Operations

    def write(self) -> None:
        offset = self.random.choice((self.within()[0], self.random.randrange(MAX_CONTENT_BYTES)))
        data = self.text(min(self.length(), MAX_CONTENT_BYTES - offset))
        self.note(f"{len(data)} at {offset} of {len(self.model)}")
        written = os.pwrite(self.any(), data, offset)
        assert written == len(data), self.story(f"{written} of {len(data)} bytes written")
        if offset > len(self.model):
            self.model.extend(bytes(offset - len(self.model)))
        self.model[offset : offset + len(data)] = data

    def append(self) -> None:
        data = self.text(min(self.random.randint(1, 300), MAX_CONTENT_BYTES - len(self.model)))
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        self.model.extend(data)

    def read(self) -> None:
        offset, length = self.within()
        length += self.random.choice((0, 0, 1, 5000))
        self.note(f"{length} at {offset} of {len(self.model)}")
        self.same(os.pread(self.any(), length, offset), offset, length)

    def read_anew(self) -> None:
        self.same(self.path.read_bytes(), 0, len(self.model) + 1)

    def resize(self, size: int) -> None:
        del self.model[size:]
        self.model.extend(bytes(size - len(self.model)))

    def truncate(self) -> None:
        size = self.random.choice((0, self.within()[0], self.random.randint(0, MAX_CONTENT_BYTES)))
        self.note(f"from {len(self.model)} to {size}")
        os.ftruncate(self.any(), size)
        self.resize(size)

    def truncate_by_path(self) -> None:
        size = self.random.randint(0, MAX_CONTENT_BYTES)
        self.note(f"from {len(self.model)} to {size}")
        os.truncate(self.path, size)
        self.resize(size)

    def write_mapped(self) -> None:
        offset, length = self.within()
        if not length:
            return
        self.note(f"{length} at {offset} of {len(self.model)}")
        data = self.text(length)
        with mmap.mmap(self.any(), len(self.model)) as mapping:
            mapping[offset : offset + length] = data
            if self.random.random() < 0.3:
                mapping.flush()
        self.model[offset : offset + length] = data

    def read_mapped(self) -> None:
        offset, length = self.within()
        if not length:
            return
        self.note(f"{length} at {offset} of {len(self.model)}")
        with mmap.mmap(self.any(), len(self.model), access=mmap.ACCESS_READ) as mapping:
            self.same(mapping[offset : offset + length], offset, length)

    def copy_within(self) -> None:
        offset, length = self.within()
        target = self.random.randrange(MAX_CONTENT_BYTES)
        if abs(target - offset) < length:  # the two must not overlap
            return
        length = min(length, MAX_CONTENT_BYTES - target)
        self.note(f"{length} from {offset} to {target} of {len(self.model)}")
        descriptor = self.any()
        data = bytes(self.model[offset : offset + length])
        copied = 0
        while copied < length:
            count = os.copy_file_range(descriptor, descriptor, length - copied, offset + copied, target + copied)
            assert count > 0, self.story("nothing copied")
            copied += count
        if not length:
            return
        if target > len(self.model):
            self.model.extend(bytes(target - len(self.model)))
        self.model[target : target + length] = data

    def sync(self) -> None:
        (os.fsync if self.random.random() < 0.5 else os.fdatasync)(self.any())

    def reopen(self) -> None:
        place = self.random.randrange(len(self.descriptors))
        os.close(self.descriptors[place])
        flags = os.O_RDWR
        if self.random.random() < 0.1:
            flags |= os.O_TRUNC
            self.model.clear()
            self.note("and truncate")
        self.descriptors[place] = os.open(self.path, flags)

    def rename(self) -> None:
        other = self.path.with_name("moved" if self.path.name != "moved" else "moved back")
        os.rename(self.path, other)
        self.path = other

    def replace(self) -> None:
        """An atomic save by somebody else: the descriptors that were open go on with the old file, so they are opened anew."""
        data = self.text(self.length())
        temporary = self.path.with_name("saved.tmp")
        temporary.write_bytes(data)
        os.rename(temporary, self.path)
        self.same(os.pread(self.descriptors[0], len(self.model) + 1, 0), 0, len(self.model) + 1)
        self.model[:] = data
        for place, descriptor in enumerate(self.descriptors):
            os.close(descriptor)
            self.descriptors[place] = os.open(self.path, os.O_RDWR)

    def check_size(self) -> None:
        sizes = {os.fstat(descriptor).st_size for descriptor in self.descriptors} | {self.path.stat().st_size}
        assert sizes == {len(self.model)}, self.story(f"{sizes} bytes, expected {len(self.model)}")
