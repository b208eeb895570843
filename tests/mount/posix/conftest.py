"""Where the POSIX tables run: each on a plain directory too, so that an assertion which no file system keeps cannot stand."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.mounts import Mount, launch, new_database
from tests.harness.names import own_name


@pytest.fixture(scope="package")
def open_mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    """A mount that other users may use too, and beside it a directory of an ordinary file system."""
    root = tmp_path_factory.mktemp("posix")
    root.chmod(0o711)
    database = new_database(root)
    with launch(root, database.create_store("Notes"), database=database, options=["--allow-other"]) as running:
        running.plain.chmod(0o711)
        yield running


@pytest.fixture(params=["plain", "mount"])
def here(open_mount: Mount, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory of the test's own that everybody may write to, on the one and on the other."""
    above = open_mount.plain if request.param == "plain" else open_mount.store
    yield from _own(above, request)


@pytest.fixture
def there(open_mount: Mount, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The same on the mount only, for what differs from an ordinary file system by design."""
    yield from _own(open_mount.store, request)


def _own(above: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = above / f"{request.path.stem.removeprefix('test_')}-{own_name(request)}"
    path.mkdir()
    path.chmod(0o777)
    umask = os.umask(0o022)
    yield path
    os.umask(umask)
