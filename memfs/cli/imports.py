"""`memfs import`: a directory, an export or another store into a store."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.output import say
from memfs.cli.progress import move_report
from memfs.cli.service import (
    Answer,
    all_stores,
    call,
    find_store,
    new_database,
    opened,
    opener,
    operator,
    resolve_url,
    service_options,
)
from memfs.model.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from memfs.model.objects import Store
    from memfs.stores.base import MemoryStore
    from memfs.transfer.sources import Source

TIMEOUT_SECONDS = 60.0
"""How long one request may take, with the pauses that the service asks for."""


@click.command("import")
@click.argument("source")
@click.argument("store")
@click.option("--delete", is_flag=True, help="Mirror: also delete the memories that SOURCE does not have.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--create", is_flag=True, help="Make STORE when there is none of that name.")
@click.option("--from-store", metavar="NAME_OR_ID", help="Which store to take, where SOURCE is a URL with several.")
@click.option(
    "--from-credentials-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The credential for a SOURCE that is a URL (else from the environment, as for STORE).",
)
@click.option("--rate", type=click.FloatRange(min=1), metavar="N", help="At most N requests a minute of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a file and line: path, action, reason.")
@service_options
def import_(
    source: str,
    store: str,
    delete: bool,
    dry_run: bool,
    create: bool,
    from_store: str | None,
    from_credentials_file: Path | None,
    rate: float | None,
    as_json: bool,
    url: str | None,
    credentials_file: Path | None,
) -> int:
    """Bring SOURCE into STORE, a memory for each file.

    A file that differs from its memory becomes a new version of it. SOURCE is a directory, an export of `memfs export`, or the
    URL of other stores. What cannot be a memory (over 102,400 bytes, not UTF-8, a bad name) is listed with the reason, and the
    rest goes in. Cut off, it goes on where it was when run again.

    Fails when something was refused. Work files of editors and tools' own directories (.git) are skipped.

    \b
    Examples:
      memfs import ~/notes Notes --create
      memfs import ~/notes Notes --delete --dry-run
      memfs import https://memory.example.com Notes --from-store Archive
    """
    import trio

    from memfs.transfer.pace import Paces

    target = resolve_url(url)
    chosen = _chosen(source, from_store, from_credentials_file)
    found = first_look(target, credentials_file, lambda service: _target(service, store, create=create, dry_run=dry_run))

    async def main() -> int:
        from memfs.transfer.importing import import_into

        async with (
            patiently_opened(target, credentials_file) as service,
            _source(source, chosen, from_credentials_file, rate) as origin,
        ):
            with move_report("importing", as_json=as_json) as report:
                await import_into(service, found, origin, Paces(target, rate), report, delete=delete, dry_run=dry_run)
            _say_empty(origin)
            return report.conclude(dry_run=dry_run)

    return trio.run(main)


def first_look(url: str, credentials_file: Path | None, look: "Callable[[MemoryStore], Awaitable[Answer]]") -> "Answer":
    """What `look` finds. A service that is not there at all is told after the usual time, not after that of a move."""
    return call(opener(url, actor=operator(), credentials_file=credentials_file), look)


def patiently_opened(url: str, credentials_file: Path | None) -> "AbstractAsyncContextManager[MemoryStore]":
    """The service at `url`, with the patience of a move."""
    return opened(opener(url, actor=operator(), credentials_file=credentials_file, timeout=TIMEOUT_SECONDS))


async def _target(service: "MemoryStore", name: str, *, create: bool, dry_run: bool) -> "Store | None":
    """None when it would be made, and this is a dry run."""
    try:
        return await find_store(service, name)
    except NotFound as error:
        if not create:
            raise NotFound(f"{error.message}, and so does --create here") from None
        return None if dry_run else await service.create_store(name)


def _chosen(text: str, store: str | None, credentials_file: Path | None) -> "Store | None":
    """The store that a SOURCE which is a URL means; None for a directory. Raises `MemfsError` when it is neither."""
    if "://" not in text:
        if store is not None:
            raise InvalidRequest("--from-store is for a SOURCE that is a URL: leave it out for a directory")
        _directory(text)
        return None
    url = resolve_url(text)
    if (missing := new_database(url)) is not None:
        raise NotFound(f"{missing} does not exist: name the directory to import, or the URL of other stores")
    return first_look(url, credentials_file, lambda service: find_store(service, store) if store else _only_store(service))


@asynccontextmanager
async def _source(
    text: str, chosen: "Store | None", credentials_file: Path | None, rate: float | None
) -> "AsyncIterator[Source]":
    from memfs.transfer.pace import Paces
    from memfs.transfer.sources import DirectorySource, StoreSource

    if chosen is None:
        yield DirectorySource(_directory(text))
        return
    url = resolve_url(text)
    async with patiently_opened(url, credentials_file) as service:
        yield StoreSource(service, chosen, Paces(url, rate).reads)


def _directory(text: str) -> Path:
    if not os.path.isdir(text):
        what = "is not a directory" if os.path.exists(text) else "does not exist"
        raise InvalidRequest(f"{text or 'an empty path'} {what}: name the directory to import, or the URL of other stores")
    return Path(text)


async def _only_store(service: "MemoryStore") -> "Store":
    stores = await all_stores(service)
    if len(stores) == 1:
        return stores[0]
    names = ", ".join(repr(store.name) for store in stores)
    raise InvalidRequest(f"say which store to take with --from-store: there {f'are {names}' if stores else 'is none'}")


def _say_empty(origin: "Source") -> None:
    from memfs.transfer.sources import DirectorySource

    if isinstance(origin, DirectorySource) and origin.empty_directories:
        count = origin.empty_directories
        say(f"{count:,} empty director{'y' if count == 1 else 'ies'} left out: a store has files only")


COMMANDS = (import_,)
