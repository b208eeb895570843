"""/sbin/mount.memfs: what mount(8) runs for ``mount -t memfs SPEC DIRECTORY -o OPTIONS`` and for a line of fstab.

SPEC is the URL of the stores; ``memfs`` or ``none`` stands for the default one. Exit codes are those of mount(8): 0 done,
1 wrong usage, 32 not mounted.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from memfs.cli.main import DONE, USAGE, run
from memfs.cli.output import open_streams, say

WRONG_USAGE = 1
NOT_MOUNTED = 32

NO_SPEC = ("memfs", "none")

IGNORED_FLAGS = frozenset("snvw")
"""sloppy, no mtab, verbose, read-write: nothing to do for any of them."""


def arguments_of(given: Sequence[str]) -> list[str] | None:
    """The arguments for `memfs` that mean the same; None for a mount that is only to be faked.

    Raises `ValueError` with the reason for what mount(8) would not send.
    """
    places: list[str] = []
    options: list[str] = []
    fake = False
    rest = iter(given)
    for argument in rest:
        if argument in ("-o", "-t", "-N"):
            value = next(rest, None)
            if value is None:
                raise ValueError(f"{argument} needs a value")
            if argument == "-N":
                raise ValueError("another mount namespace is not supported: run memfs in it with nsenter")
            if argument == "-o":
                options += ["-o", value]
        elif argument.startswith("-") and len(argument) > 1:
            flags = set(argument[1:])
            if unknown := flags - IGNORED_FLAGS - {"f", "r"}:
                raise ValueError(f"there is no flag -{min(unknown)}")
            fake |= "f" in flags
            if "r" in flags:
                options += ["-o", "ro"]
        else:
            places.append(argument)
    if len(places) != 2:
        raise ValueError("expected two places, as in: mount.memfs memfs /mnt/memory -o ro")
    spec, directory = places
    url = [] if spec in NO_SPEC else ["--url", spec]
    return None if fake else ["mount", *url, *options, "--", directory]


def main() -> NoReturn:
    open_streams()
    try:
        arguments = arguments_of(sys.argv[1:])
    except ValueError as error:
        say(str(error))
        sys.exit(WRONG_USAGE)
    if arguments is None:
        sys.exit(DONE)
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        code = run(arguments)
    sys.exit(DONE if code == DONE else WRONG_USAGE if code == USAGE else NOT_MOUNTED)


if __name__ == "__main__":
    main()
