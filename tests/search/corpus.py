"""Memories and what people would ask to find them: fifty memories, two questions each, between ten thousand others."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Judged:
    """One memory, and two questions that it answers better than any other."""

    path: str
    text: str
    queries: tuple[str, str]


JUDGED = tuple(
    Judged(one["path"], one["text"], (one["queries"][0], one["queries"][1]))
    for one in json.loads((_HERE / "judged.json").read_text("utf-8"))
)
_WORDS: dict[str, list[str]] = json.loads((_HERE / "words.json").read_text("utf-8"))


def others(count: int) -> Iterator[tuple[str, str]]:
    """Path and text of `count` memories about nothing in particular, half of them in Chinese; always the same ones."""
    chance = random.Random(10_000)
    english, chinese = _WORDS["english"], _WORDS["chinese"]
    for number in range(count):
        if number % 2:
            words = chance.choices(chinese, k=chance.randint(10, 60))
            text = f"# {words[0]}{words[1]}\n\n" + "".join(f"{word}{chance.choice(',。、 ')}" for word in words) + "\n"
        else:
            words = chance.choices(english, k=chance.randint(15, 120))
            text = f"# {words[0].title()} {words[1]}\n\n" + " ".join(words) + f", item {number}.\n"
        yield f"/archive/{number // 100:03}/{chance.choice(english)}-{number}.md", text
