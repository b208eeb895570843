"""A program that changes files of a mount at random and writes down what it was told; the tests run it as a process.

    python worker.py DIRECTORY LEDGER SEED START SECONDS [patient]

Each step goes to the ledger before it is begun (`try`) and after it was acknowledged (`done`) or refused (`failed`), as one
JSON line: the files it changes and what each holds then, null when it is gone. Without `patient` the first refusal ends the
program.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable

FILES = 8
DIRECTORIES = ("", "d/", "d/e/")
FULL = 50_000
"""No file is appended to beyond so many characters."""

Changes = dict[str, str | None]


def write(path: str, text: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_WRONLY | os.O_CREAT)
    try:
        data = text.encode()
        half = len(data) // 2
        os.write(descriptor, data[:half])
        os.write(descriptor, data[half:])
    finally:
        os.close(descriptor)


def replace(path: str, text: str) -> None:
    """Save as most editors do."""
    write(path + ".tmp", text, os.O_TRUNC)
    os.replace(path + ".tmp", path)


def renew(path: str, text: str) -> None:
    """Save as tar does."""
    os.unlink(path)
    write(path, text, os.O_EXCL)


def step(choose: random.Random, known: dict[str, str], count: int) -> tuple[list[Changes], Callable[[], None]]:
    """What the next step changes, stage by stage, and the step."""
    path = choose.choice(DIRECTORIES) + f"f{choose.randrange(FILES)}"
    other = choose.choice(DIRECTORIES) + f"f{choose.randrange(FILES)}"
    text = f"{count} " + "x" * choose.randrange(2000) + "\n"
    way = choose.randrange(8)
    held = known.get(path)
    if held is None or way == 0 or len(held) > FULL:
        return [{path: text}], lambda: write(path, text, os.O_TRUNC)
    if way == 1:
        return [{path: held + text}], lambda: write(path, text, os.O_APPEND)
    if way == 2:
        return [{path: text}], lambda: replace(path, text)
    if way == 3:
        return [{path: None}], lambda: os.unlink(path)
    if way == 4 and path != other:
        return [{path: None, other: held}], lambda: os.rename(path, other)
    if way == 5:
        return [{path: None}, {path: text}], lambda: renew(path, text)
    if way == 6:
        longer = text + "y" * (len(held) - len(text))
        return [{path: longer}], lambda: write(path, longer, 0)
    return [{path: text}], lambda: write(path, text, os.O_TRUNC)


def seen() -> dict[str, str]:
    """What the files of this program hold now."""
    found = {}
    for folder in DIRECTORIES:
        for name in os.listdir(folder or "."):
            if name.startswith("f") and "." not in name:
                with open(folder + name) as file:
                    found[folder + name] = file.read()
    return found


def main(directory: str, ledger: str, seed: str, start: str, seconds: str, *patient: str) -> None:
    os.chdir(directory)
    out = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    choose, count = random.Random(int(seed)), int(start)
    end = time.monotonic() + float(seconds)

    def say(word: str, changes: Changes, why: str = "") -> None:
        os.write(out, json.dumps([word, changes, why]).encode() + b"\n")

    for folder in DIRECTORIES[1:]:
        os.makedirs(folder, exist_ok=True)
    known = seen()
    while time.monotonic() < end:
        count += 1
        stages, act = step(choose, known, count)
        for changes in stages:
            say("try", changes)
        try:
            act()
        except OSError as error:
            say("failed", stages[-1], error.strerror or "")
            if not patient:
                return
            for path in stages[-1]:
                known.pop(path, None)  # not known until it is written anew
            continue
        say("done", stages[-1])
        known.update({path: text for path, text in stages[-1].items() if text is not None})
        for path, text in stages[-1].items():
            if text is None:
                del known[path]


main(*sys.argv[1:])
