"""`memfs` with defects: while the file `$BREAK` names a handler or a task, that one raises.

The defect sits inside the handler, below everything that memfs does about errors.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memfs.fuse import base
from memfs.replica import changes, timers

BREAK = Path(os.environ["BREAK"])


class Defect(Exception):
    """What nobody has foreseen."""


def breakable(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def check() -> None:
        if BREAK.read_text() == name:
            raise Defect

    @functools.wraps(function)
    async def broken(*args: Any, **kwargs: Any) -> Any:
        check()
        return await function(*args, **kwargs)

    return broken


for wrapper in ("operation", "unanswered"):
    original = getattr(base, wrapper)

    def wrap(handler: Callable[..., Any], original: Callable[..., Any] = original) -> Callable[..., Any]:
        return original(breakable(handler.__name__, handler))  # type: ignore[no-any-return]

    setattr(base, wrapper, wrap)

changes.Feed._poll_or_note = breakable("poll", changes.Feed._poll_or_note)  # type: ignore[method-assign]
after = timers.Timers.after


def breakable_after(self: timers.Timers, seconds: float, action: timers.Action) -> None:
    after(self, seconds, breakable("timer", action))


timers.Timers.after = breakable_after  # type: ignore[method-assign]

if __name__ == "__main__":
    from memfs.cli.main import main

    sys.argv[0] = "memfs"
    main()
