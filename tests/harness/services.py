"""The services that a mount can stand on, each fresh and by its name."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.harness.dialects import DIALECTS, dialect
from tests.harness.inspector import Database
from tests.harness.mounts import new_database

SERVICES = ("sqlite", *DIALECTS)


@contextlib.contextmanager
def service(kind: str, root: Path) -> Iterator[Database]:
    """A service of that kind, one of `SERVICES`; what it needs on the disk is below `root`."""
    if kind == "sqlite":
        yield new_database(root)
        return
    with dialect(kind) as running:
        yield Database(running.url, kind=kind, environment=running.environment)
