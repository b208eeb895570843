"""Tasks that a mount needs for as long as it lives: no surprise in one of them may end it."""

import logging
from collections.abc import Awaitable, Callable

import trio

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0


async def outlive(work: Callable[[], Awaitable[None]], note: Callable[[Exception], None]) -> None:
    """Run `work` until it returns or is cancelled; when it raises, tell `note` and begin it again after a pause."""
    while True:
        try:
            await work()
        except Exception as error:
            log.exception("a task of the mount failed and is begun again", exc_info=error)
            note(error)
            await trio.sleep(PAUSE_SECONDS)
        else:
            return
