"""What a daemon does around its event loop: one error out of many tasks, and signals that end nothing unstored."""

import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVarTuple

import trio

from memfs.model.errors import MemfsError

Arguments = TypeVarTuple("Arguments")


def run_loop(main: Callable[[*Arguments], Awaitable[None]], *arguments: *Arguments) -> None:
    """Run `main` on trio. A `MemfsError` that ended one of its tasks is raised as itself, not in a group."""
    try:
        trio.run(main, *arguments)
    except BaseExceptionGroup as group:
        known = first_known(group)
        if known is None:
            raise
        raise known from group


def first_known(error: BaseException) -> MemfsError | None:
    """The first error that memfs raised on purpose: `error` itself, or one of the group that it is; None if none."""
    if isinstance(error, BaseExceptionGroup):
        return next((known for inner in error.exceptions if (known := first_known(inner)) is not None), None)
    return error if isinstance(error, MemfsError) else None


@contextlib.contextmanager
def ending_signals() -> Iterator[AsyncIterator[int]]:
    """SIGTERM and SIGINT as they come. From here on they never end the process by themselves: what waits is stored first, and
    one that comes when all is stored must not make that look like a failure."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # what the receiver below puts back at its end
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        yield signals
