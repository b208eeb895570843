"""The model tests take long when they find something: hypothesis then looks for the shortest way there."""

import os
from collections.abc import Iterator

import pytest

from tests.mount.conftest import abort_after

SHRINKING_SECONDS = 400.0
SECONDS_A_STEP = 0.2


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """As that of all mount tests, with more patience."""
    yield from abort_after(SHRINKING_SECONDS + SECONDS_A_STEP * int(os.environ.get("MODEL_STEPS", "300")))
