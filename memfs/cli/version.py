"""`memfs version`."""

import platform
from importlib import metadata

import click

from memfs import __version__
from memfs.cli.output import print_json

SHOWN = ("pyfuse3", "trio", "httpx", "pydantic", "SQLAlchemy")
"""The packages whose versions a bug report needs."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def version(as_json: bool) -> None:
    """Show the version of memfs and of what it stands on.

    \b
    Example: memfs version --json
    """
    versions = {"memfs": __version__, "python": platform.python_version(), "kernel": platform.release()}
    for name in SHOWN:
        try:
            versions[name.lower()] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name.lower()] = "missing"
    if as_json:
        print_json(versions)
        return
    for name, value in versions.items():
        print(f"{name:<11} {value}")


COMMANDS = (version,)
