"""O_APPEND beside what another session appends meanwhile."""

import os
import time
from pathlib import Path

from tests.harness.mounts import Mount
from tests.mount.posix.calls import opened


def test_an_appender_that_asks_for_no_size_overwrites_nothing(there: Path, open_mount: Mount) -> None:
    """The kernel takes an old size for the end; the words still go behind those of the other session."""
    file = there / "log.md"
    path = "/" + str(file.relative_to(open_mount.store))
    file.write_text("mine\n")
    with opened(file, os.O_WRONLY | os.O_APPEND) as log:
        for number in range(4):
            text = open_mount.inspector.content(path) + f"theirs {number}\n" * 10
            open_mount.inspector.put(path, text)
            time.sleep(0.5)  # the mount has seen it by then, and nobody has asked the mount
            os.write(log, b"mine %d\n" % number)
            os.write(log, b"again %d\n" % number)
            if number % 2:
                os.fsync(log)
    expected = "mine\n" + "".join(f"theirs {n}\n" * 10 + f"mine {n}\nagain {n}\n" for n in range(4))
    stored = open_mount.inspector.content(path)
    assert sorted(stored.splitlines()) == sorted(expected.splitlines())
    assert file.read_text() == stored
