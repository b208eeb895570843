"""How fast requests may go out: as fast as they are answered, but within what a service allows a minute.

The contract (section 1.5) names 300 requests a minute that create and 1,200 that read, for a whole organisation. Other services
say when it is too much (429); then everything waits a while and goes on more slowly.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

import trio

from memfs.model.errors import RateLimited

Answer = TypeVar("Answer")

CLAUDE_HOST = "api.anthropic.com"
CLAUDE_WRITES_PER_MINUTE = 300
CLAUDE_READS_PER_MINUTE = 1_200
SHARE = 0.8
"""How much of an organisation's allowance one move takes: agents work at the same time."""

WORKERS = 8
"""Requests in flight at once."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
PATIENCE_SECONDS = 900.0
"""How long one request is tried again while the service says that it is too much."""


class Pace:
    """The times at which requests of one kind may begin."""

    def __init__(self, per_minute: float | None = None) -> None:
        """`per_minute` None: no limit until the service names one."""
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._next = float("-inf")

    async def turn(self) -> None:
        """Return when the next request may begin; turns are given in the order they are asked for."""
        start = max(trio.current_time(), self._next)
        self._next = start + self._interval
        await trio.sleep_until(start)

    async def call(self, request: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer to `request`, made when it is its turn, and again when the service says that it was too much.

        Raises what `request` raises; `RateLimited` only when that goes on for a quarter of an hour.
        """
        pause = FIRST_PAUSE_SECONDS
        deadline = trio.current_time() + PATIENCE_SECONDS
        while True:
            await self.turn()
            try:
                return await request()
            except RateLimited:
                if trio.current_time() + pause > deadline:
                    raise
                self._next = max(self._next, trio.current_time() + pause)
                self._interval = min(max(self._interval * 1.5, 0.05), LONGEST_PAUSE_SECONDS)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


class Paces:
    """Those of one service."""

    def __init__(self, url: str, per_minute: float | None = None) -> None:
        """`per_minute` is the user's own limit, for reads and for writes each."""
        claude = urlsplit(url).hostname == CLAUDE_HOST
        self.writes = Pace(per_minute or (CLAUDE_WRITES_PER_MINUTE * SHARE if claude else None))
        self.reads = Pace(per_minute or (CLAUDE_READS_PER_MINUTE * SHARE if claude else None))
