"""Mixed load on one directory, for as long as it is told; the tests run several of these as processes, on several mounts.

    python soak.py DIRECTORY SEED SECONDS LIMIT

Prints one JSON object: how many operations of each kind, the longest of each in seconds, and what went wrong beside what is to
be expected when others change the same names: an operation over LIMIT seconds, or an unexpected error.
"""

import errno
import fcntl
import json
import mmap
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable

EXPECTED = {
    *(errno.ENOENT, errno.EEXIST, errno.EBUSY, errno.ESTALE, errno.EIO, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR),
    *(errno.EWOULDBLOCK, errno.EXDEV, errno.EINVAL),
}
FILES = 20
FULL = 50_000


class Load:
    """The operations. Names are few, so that all processes meet at them."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.seed = seed
        self.count = 0

    def name(self) -> str:
        return self.choose.choice(("", "d/", "e/", "d/f/")) + f"s{self.choose.randrange(FILES)}"

    def text(self) -> bytes:
        self.count += 1
        return f"{self.seed}-{self.count} ".encode() + b"x" * self.choose.randrange(3000) + b"\n"

    def _write(self, flags: int, *, sync: bool = False) -> None:
        descriptor = os.open(self.name(), os.O_WRONLY | os.O_CREAT | flags)
        try:
            if os.fstat(descriptor).st_size < FULL:
                os.write(descriptor, self.text())
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write(self) -> None:
        self._write(os.O_TRUNC)

    def append(self) -> None:
        self._write(os.O_APPEND)

    def overwrite(self) -> None:
        self._write(0, sync=True)

    def replace(self) -> None:
        name = self.name()
        temporary = f"{name}.tmp"
        with open(temporary, "wb") as file:
            file.write(self.text())
        os.replace(temporary, name)

    def read(self) -> None:
        with open(self.name(), "rb") as file:
            file.read()

    def map(self) -> None:
        # A file of this process alone: to touch a mapping of one that another process has just cut is a bus error anywhere.
        with open(f"own-{os.getpid()}", "w+b") as file:
            text = self.text()
            file.write(text)
            file.flush()
            with mmap.mmap(file.fileno(), len(text)) as mapping:
                mapping[0:1] = b"m"
                assert mapping[1:] == text[1:]

    def rename(self) -> None:
        os.rename(self.name(), self.name())

    def back_up(self) -> None:
        name = self.name()
        os.rename(name, f"{name}~")

    def unlink(self) -> None:
        os.unlink(self.name())

    def truncate(self) -> None:
        os.truncate(self.name(), self.choose.randrange(2000))

    def stat(self) -> None:
        os.stat(self.name())

    def walk(self) -> None:
        for folder, _, names in os.walk("."):
            for name in names:
                os.stat(os.path.join(folder, name))

    def folders(self) -> None:
        folder = f"g{self.choose.randrange(4)}"
        if self.choose.random() < 0.5:
            os.mkdir(folder)
        else:
            os.rmdir(folder)

    def move_folder(self) -> None:
        os.rename(f"g{self.choose.randrange(4)}", f"g{self.choose.randrange(4)}")

    def lock(self) -> None:
        with open(self.name(), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def sync(self) -> None:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def attributes(self) -> None:
        name = self.name()
        os.chmod(name, self.choose.choice((0o600, 0o644, 0o755)))
        for attribute in os.listxattr(name):
            os.getxattr(name, attribute)

    def operations(self) -> list[Callable[[], None]]:
        often = (self.write, self.append, self.overwrite, self.replace, self.read, self.stat)
        seldom = (self.map, self.rename, self.back_up, self.unlink, self.truncate, self.walk, self.folders)
        rarely = (self.move_folder, self.lock, self.sync, self.attributes)
        return [*often * 4, *seldom * 2, *rarely]


def main(directory: str, seed: str, seconds: str, limit: str) -> None:
    os.chdir(directory)
    for folder in ("d", "e", "d/f"):
        os.makedirs(folder, exist_ok=True)
    load = Load(int(seed))
    operations = load.operations()
    counts: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    longest: dict[str, float] = {}
    wrong: list[str] = []
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        operation = load.choose.choice(operations)
        name = operation.__name__
        began = time.monotonic()
        try:
            operation()
        except OSError as error:
            errors[errno.errorcode[error.errno or 0]] += 1
            if error.errno not in EXPECTED:
                wrong.append(f"{name}: {error}")
        took = time.monotonic() - began
        counts[name] += 1
        longest[name] = max(longest.get(name, 0.0), round(took, 3))
        if took > float(limit):
            wrong.append(f"{name} took {took:.1f} s")
    json.dump({"counts": counts, "errors": errors, "longest": longest, "wrong": wrong}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
