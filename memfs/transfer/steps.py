"""What a move did, or would do, to one memory or file each; and how a caller follows it."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

Action = Literal["created", "updated", "deleted", "unchanged", "skipped", "refused"]
"""skipped: left out on purpose, as the work files of editors are. refused: it should have been moved and could not be."""


@dataclass(frozen=True)
class Step:
    """One memory or file. A dry run tells the same steps, but does none of them."""

    path: str
    """The memory's path; of a file that can have none, its name in the directory."""
    action: Action
    reason: str = ""
    """Why it was skipped or refused, and what to do about it."""

    def as_object(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}


class Listener(Protocol):
    """Hears of a move as it goes on. Called from the event loop's thread; must not block for long."""

    def expect(self, steps: int) -> None:
        """So many more steps are to come."""
        ...

    def step(self, step: Step) -> None: ...
