"""`memfs export`: a store into a directory."""

from pathlib import Path

import click

from memfs.cli.imports import TIMEOUT_SECONDS
from memfs.cli.progress import move_report
from memfs.cli.service import find_store, opener, operator, resolve_url, service_options


@click.command()
@click.argument("store")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
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
    """Bring STORE into DIRECTORY: a memory becomes a file, byte for byte, with the time of its last change.

    Each file appears at once and whole. Run again, it fetches what has changed; cut off, it goes on where it was. A file that
    was changed in DIRECTORY since is kept and listed, until --overwrite. `memfs import DIRECTORY STORE` brings it all back.

    Fails when something was refused. Tools' own directories (.git) are left alone, also with --delete.

    \b
    Examples:
      memfs export Notes ~/notes
      memfs export Notes ~/backup --versions --delete
    """
    import trio

    from memfs.transfer.pace import Paces

    target = resolve_url(url)
    open_it = opener(target, actor=operator(), credentials_file=credentials_file, timeout=TIMEOUT_SECONDS)

    async def main() -> int:
        from memfs.transfer.exporting import ExportOptions, export_to
        from memfs.transfer.history import export_history

        service = await open_it()
        paces = Paces(target, rate)
        options = ExportOptions(delete=delete, overwrite=overwrite, dry_run=dry_run)
        try:
            found = await find_store(service, store)
            with move_report("exporting", as_json=as_json) as report:
                await export_to(service, found, directory, paces, report, options)
                if versions:
                    await export_history(service, found, directory, paces.reads, report, dry_run=dry_run)
            return report.conclude(dry_run=dry_run)
        finally:
            with trio.CancelScope(shield=True):
                await service.aclose()

    return trio.run(main)


COMMANDS = (export,)
