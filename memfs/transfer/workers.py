"""Runs the same work on many things, a few at a time."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import trio

from memfs.transfer.pace import WORKERS

Item = TypeVar("Item")


async def each(items: Iterable[Item], work: Callable[[Item], Awaitable[None]]) -> None:
    """Await `work` on every item, `WORKERS` at a time, begun in their order. Raises the first failure; the rest is cancelled.

    (As a bare exception: whoever calls knows nothing of the tasks here.)
    """
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            await work(item)

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(WORKERS):
                nursery.start_soon(worker)
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
