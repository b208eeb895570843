"""A program that changes files of a mount at random and writes down what it was told; run by the tests, in a process of its own.

    python worker.py DIRECTORY LEDGER SEED START SECONDS [patient]

Each step goes to the ledger before it is begun (`try`) and after it was acknowledged (`done`) or refused (`failed`), as one JSON
line: the files it changes and what each holds then, null when it is gone. Without `patient` the first refusal ends the program.
"""

import json
import os
import random
import sys
import time
from typing import Any

FILES = 8
DIRECTORIES = ("", "d/", "d/e/")


def write(path: str, text: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_WRONLY | os.O_CREAT)
    try:
        data = text.encode()
        half = len(data) // 2
        os.write(descriptor, data[:half])
        os.write(descriptor, data[half:])
    finally:
        os.close(descriptor)


def main(directory: str, ledger: str, seed: str, start: str, seconds: str, *patient: str) -> None:
    os.chdir(directory)
    choose = random.Random(int(seed))
    count = int(start)
    known: dict[str, str] = {}
    end = time.monotonic() + float(seconds)
    out = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(word: str, changes: dict[str, str | None], why: str = "") -> None:
        os.write(out, json.dumps([word, changes, why]).encode() + b"\n")

    for folder in DIRECTORIES[1:]:
        os.makedirs(folder, exist_ok=True)
    for folder in DIRECTORIES:
        for name in os.listdir(folder or "."):
            path = folder + name
            if name.startswith("f") and "." not in name and os.path.isfile(path):
                with open(path) as file:
                    known[path] = file.read()
    while time.monotonic() < end:
        count += 1
        path = choose.choice(DIRECTORIES) + f"f{choose.randrange(FILES)}"
        other = choose.choice(DIRECTORIES) + f"f{choose.randrange(FILES)}"
        text = f"{count} " + "x" * choose.randrange(2000) + "\n"
        way = choose.randrange(8)
        changes: dict[str, str | None]
        action: Any
        if way <= 1 or path not in known:
            changes, action = {path: text}, lambda: write(path, text, os.O_TRUNC)
        elif way == 2:
            changes, action = {path: known[path] + text}, lambda: write(path, text, os.O_APPEND)
            if len(known[path]) > 50_000:
                continue
        elif way == 3:

            def action() -> None:
                write(path + ".tmp", text, os.O_TRUNC)
                os.replace(path + ".tmp", path)

            changes = {path: text}
        elif way == 4:
            changes, action = {path: None}, lambda: os.unlink(path)
        elif way == 5 and path != other:
            changes, action = {path: None, other: known[path]}, lambda: os.rename(path, other)
        elif way == 6:

            def action() -> None:
                os.unlink(path)
                write(path, text, os.O_EXCL)

            changes = {path: text}
            say("try", {path: None})
        else:
            changes, action = {path: text}, lambda: write(path, text, 0)
            if len(text) < len(known[path]):
                text += "y" * (len(known[path]) - len(text))
                changes = {path: text}
        say("try", changes)
        try:
            action()
        except OSError as error:
            say("failed", changes, error.strerror or "")
            if not patient:
                return
            for changed in changes:
                known.pop(changed, None)  # not known until it is written anew
            continue
        say("done", changes)
        for changed, content in changes.items():
            if content is None:
                known.pop(changed, None)
            else:
                known[changed] = content


main(*sys.argv[1:])
