"""Things to do a little later, unless they are done sooner: parks, settling files, shared commits, retries."""

import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable

import trio

log = logging.getLogger(__name__)

Action = Callable[[], Awaitable[None]]


def _ignore(error: Exception) -> None:
    pass


class Timers:
    """Actions by the time they are due, on trio's clock. `run` carries them out one after the other in tasks of `nursery`.

    An action reports its own failures; what it raises all the same is a surprise, and goes to `surprised`.
    """

    def __init__(self) -> None:
        self.surprised: Callable[[Exception], None] = _ignore
        self._due: list[tuple[float, int, Action]] = []
        self._counter = itertools.count()
        self._sooner = trio.Event()

    def after(self, seconds: float, action: Action) -> None:
        due = trio.current_time() + seconds
        heapq.heappush(self._due, (due, next(self._counter), action))
        if self._due[0][0] == due:
            self._sooner.set()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                self._sooner = trio.Event()
                wait = self._due[0][0] - trio.current_time() if self._due else float("inf")
                if wait > 0:
                    with trio.move_on_after(wait):
                        await self._sooner.wait()
                    continue
                _, _, action = heapq.heappop(self._due)
                nursery.start_soon(self._act, action)

    async def _act(self, action: Action) -> None:
        try:
            await action()
        except Exception as error:
            log.exception("something that was to be done later failed", exc_info=error)
            self.surprised(error)
