"""Runs one mount from the first request to the last."""

from collections.abc import Awaitable, Callable

from memfs.fuse.options import MountOptions
from memfs.stores.base import MemoryStore


def run(
    options: MountOptions,
    open_service: Callable[[], Awaitable[MemoryStore]],
    ready: Callable[[], None],
) -> None:
    """Mount, call `ready` once the kernel answers, and serve until SIGTERM, SIGINT or an unmount; drain before returning.

    `open_service` is awaited inside the event loop (trio). Raises `MemfsError` when the mount cannot be made, and
    `memfs.replica.errors.DrainIncomplete` when something written could not be stored: the message says what is kept where.
    """
    raise NotImplementedError
