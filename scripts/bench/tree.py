"""The agents' tree: short notes in Markdown, twenty to a directory. Nothing is random: every subject holds the same bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NOTE_BYTES = 2048
NEEDLE = "watermark"
"""A word of every hundredth note, for `grep` to find."""
NEEDLE_EVERY = 100

_SENTENCES = (
    "The user prefers short answers with the command first.",
    "The build needs the protocol compiler, version 25 or later.",
    "Retried the deployment after the quota was raised; it went through.",
    "Open question: who owns the staging database?",
    "Decided to keep the old endpoint until the end of the quarter.",
    "Tests of the billing module are slow because they start a browser.",
)


@dataclass(frozen=True)
class Tree:
    """`notes` notes, spread over `directories` directories; with `projects` above them where there are more than one."""

    notes: int
    directories: int
    projects: int = 1

    def paths(self) -> Iterator[str]:
        """Relative, in no particular order for a store or a directory."""
        for number in range(self.notes):
            yield self.path(number)

    def path(self, number: int) -> str:
        directory = number % self.directories
        below = f"topic-{directory:04}/note-{number:06}.md"
        return below if self.projects == 1 else f"project-{directory % self.projects:03}/{below}"

    def text(self, number: int) -> str:
        return text(number)

    @property
    def needles(self) -> int:
        return len(range(0, self.notes, NEEDLE_EVERY))

    def write(self, directory: Path) -> None:
        """Make the tree below an empty `directory`."""
        for number in range(self.notes):
            place = directory / self.path(number)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self.text(number))


def text(number: int, size: int = NOTE_BYTES) -> str:
    """The note of that number: `size` characters of ASCII, different for each."""
    lines = [f"# Note {number}", f"A {NEEDLE} stands here." if number % NEEDLE_EVERY == 0 else "", ""]
    length = sum(len(line) + 1 for line in lines)
    turn = number
    while length < size:
        lines.append(f"- {turn}: {_SENTENCES[turn % len(_SENTENCES)]}")
        length += len(lines[-1]) + 1
        turn += 1
    return "\n".join(lines)[: size - 1] + "\n"


AGENTS = Tree(notes=2000, directories=100)
SMALL = Tree(notes=300, directories=15)
