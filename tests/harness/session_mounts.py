"""A mount of what a session of `memfs serve` attaches, made and ended with the commands that users type."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.harness.mounts import force_unmount
from tests.harness.serving import memfs


@contextlib.contextmanager
def session_mount(url: str, session: dict[str, Any], directory: Path, *, secret: str | None = None) -> Iterator[Path]:
    """The mount point, in `directory`; `session` as `ServerProcess.create_session` gives it.

    Ends with an unmount that must find nothing unstored.
    """
    mountpoint = directory / "mnt"
    mountpoint.mkdir()
    environment = {"MEMFS_AUTH_TOKEN": secret or session["token"]}
    mounted = memfs("mount", str(mountpoint), "--url", url, "--session", session["id"], **environment)
    try:
        assert mounted.stdout == f"{mountpoint}\n"
        yield mountpoint
        memfs("umount", str(mountpoint))
    finally:
        force_unmount(mountpoint)
