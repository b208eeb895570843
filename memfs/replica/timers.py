"""Things to do a little later, unless they are done sooner: parks, settling files, shared commits, retries."""

import heapq
import itertools
from collections.abc import Awaitable, Callable

import trio

Action = Callable[[], Awaitable[None]]


class Timers:
    """Actions by the time they are due, on trio's clock. `run` carries them out one after the other in tasks of `nursery`.

    An action must not raise: it reports its own failures.
    """

    def __init__(self) -> None:
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
                nursery.start_soon(action)
