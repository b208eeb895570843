"""A mount on each kind of service, one directory a test; nothing may hang."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.names import own_name
from tests.history.sites import KINDS, Site, site


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A mount of one store, on each kind of service in turn."""
    with site(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


@pytest.fixture
def place(shared: Site, request: pytest.FixtureRequest) -> Site:
    """A directory of the shared store that no other test uses."""
    made = replace(shared, corner=own_name(request))
    made.here.mkdir()
    return made


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Site]:
    """A mount of the test's own of one empty store in the default database."""
    with site("sql", tmp_path) as made:
        yield made
