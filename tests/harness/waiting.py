"""Waits for something that comes by itself, and no longer than it may take."""

import time
from collections.abc import Callable

_STEP_SECONDS = 0.05


def eventually(probe: Callable[[], object], wanted: object, within: float) -> float:
    """Ask `probe` until it answers `wanted`; return the seconds that took. Raises `AssertionError` with its last answer when it
    has not come after `within` seconds."""
    began = time.monotonic()
    while True:
        value = probe()
        passed = time.monotonic() - began
        if value == wanted:
            return passed
        assert passed < within, f"{wanted!r} has not come within {within:g} s, it is {value!r}"
        time.sleep(_STEP_SECONDS)
