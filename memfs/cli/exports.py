"""`memfs export`: a store into a directory."""

from pathlib import Path
from typing import Any

import click

from memfs.cli.imports import first_look, patiently_opened
from memfs.cli.mountpoints import EMPTY_PATH
from memfs.cli.progress import move_report
from memfs.cli.service import find_store, resolve_url, service_options


class Place(click.Path):
    """A directory that need not exist."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail(EMPTY_PATH, param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("store")
@click.argument("directory", type=Place())
@click.option("--delete", is_flag=True, help="Mirror: also remove the files that STORE does not have.")
@click.option("--overwrite", is_flag=True, help="Replace files that were changed in DIRECTORY, or are of no export.")
@click.option("--versions", is_flag=True, help="The history too, in DIRECTORY/.versions, as a mount shows it.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--rate", type=click.FloatRange(min=1), metavar="N", help="At most N requests a minute of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a file and line: path, action, reason.")
@service_options
def export(
    store: str,
    directory: Path,
    delete: bool,
    overwrite: bool,
    versions: bool,
    dry_run: bool,
    rate: float | None,
    as_json: bool,
    url: str | None,
    credentials_file: Path | None,
) -> int:
    """Bring STORE into DIRECTORY, a file for each memory.

    A file has its memory's bytes, and the time of its last change. Each file appears at once and whole. Run again, it fetches
    what has changed; cut off, it goes on where it was. A file that was changed in DIRECTORY since is kept and listed, until
    --overwrite. `memfs import DIRECTORY STORE` brings it all back.

    Fails when something was refused. Tools' own directories (.git) are left alone, also with --delete.

    \b
    Examples:
      memfs export Notes ~/notes
      memfs export Notes ~/backup --versions --delete
    """
    import trio

    from memfs.transfer.pace import Paces

    target = resolve_url(url)
    found = first_look(target, credentials_file, lambda service: find_store(service, store))

    async def main() -> int:
        from memfs.transfer.exporting import ExportOptions, export_to
        from memfs.transfer.history import export_history

        paces = Paces(target, rate)
        options = ExportOptions(delete=delete, overwrite=overwrite, dry_run=dry_run)
        async with patiently_opened(target, credentials_file) as service:
            with move_report("exporting", as_json=as_json) as report:
                await export_to(service, found, directory, paces, report, options)
                if versions:
                    await export_history(service, found, directory, paces.reads, report, dry_run=dry_run)
            return report.conclude(dry_run=dry_run)

    return trio.run(main)


COMMANDS = (export,)
