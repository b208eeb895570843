"""Namespaces, other users and sandboxes around a mount; nothing may hang."""

from collections.abc import Iterator

import pytest

from tests.mount.conftest import abort_after

WATCHDOG_SECONDS = 120.0


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """Abort every mount of a test that does not end."""
    yield from abort_after(WATCHDOG_SECONDS)
