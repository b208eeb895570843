"""`memfs stores`: create, look at and end stores."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memfs.cli.output import print_object, print_table, printable, say
from memfs.cli.service import all_stores, call, find_store, opener, operator, resolve_url, service_options

if TYPE_CHECKING:
    from memfs.model.objects import Store
    from memfs.stores.base import MemoryStore, Usage


@click.group()
def stores() -> None:
    """Create, look at and end memory stores.

    A STORE is given by its id, its name or its directory's name.

    \b
    Example:
      memfs stores create 'User preferences' --description 'What the user likes'
      memfs stores list
    """


as_json = click.option("--json", "as_json", is_flag=True, help="Print the contract's objects, one a line.")


@stores.command("list")
@click.option("--all", "include_archived", is_flag=True, help="Archived stores too.")
@as_json
@service_options
def list_(include_archived: bool, as_json: bool, url: str | None, credentials_file: Path | None) -> None:
    """List the stores, newest first.

    \b
    Example: memfs stores list --json | jq -r .id
    """

    async def work(service: "MemoryStore") -> "list[Store]":
        return await all_stores(service, include_archived=include_archived)

    found = call(_open(url, credentials_file), work)
    if as_json:
        for store in found:
            print_object(store)
        return
    if not found:
        say("there is no store yet: `memfs stores create NAME` makes one, `memfs mount` a first one by itself")
        return
    rows = [
        (store.id, store.name, f"{store.created_at:%Y-%m-%d}", "archived" if store.archived_at else "active", store.description)
        for store in found
    ]
    print_table(("ID", "NAME", "CREATED", "STATE", "DESCRIPTION"), rows)


@stores.command()
@click.argument("name")
@click.option("--description", default="", help="What it is for, up to 1,024 characters; agents read it.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A key of your own, repeatable.")
@as_json
@service_options
def create(
    name: str, description: str, metadata: tuple[str, ...], as_json: bool, url: str | None, credentials_file: Path | None
) -> None:
    """Create a store and print its id.

    \b
    Example: memfs stores create 'User preferences' --description 'What the user likes'
    """
    pairs = _pairs(metadata)

    async def work(service: "MemoryStore") -> "Store":
        return await service.create_store(name, description=description, metadata=pairs)

    store = call(_open(url, credentials_file), work)
    if as_json:
        print_object(store)
    else:
        print(store.id)


@stores.command()
@click.argument("store")
@as_json
@service_options
def show(store: str, as_json: bool, url: str | None, credentials_file: Path | None) -> None:
    """Show one store and how much it holds.

    \b
    Example: memfs stores show 'User preferences'
    """

    async def work(service: "MemoryStore") -> "tuple[Store, Usage | None]":
        found = await find_store(service, store)
        return found, await service.usage(found.id)

    found, usage = call(_open(url, credentials_file), work)
    if as_json:
        print_object(found)
        return
    from memfs.model.objects import format_time
    from memfs.model.slugs import slug

    facts = {
        "id": found.id,
        "name": found.name,
        "directory": slug(found.name, found.id),
        "description": found.description,
        "created": format_time(found.created_at),
        "updated": format_time(found.updated_at),
        "archived": format_time(found.archived_at) if found.archived_at else "no",
        **{f"metadata {key}": value for key, value in sorted(found.metadata.items())},
    }
    if usage is not None:
        facts["holds"] = f"{usage.memories:,} memories, {usage.content_bytes:,} bytes"
    for name, value in facts.items():
        print(f"{name + ':':<13} {printable(value)}".rstrip())


@stores.command()
@click.argument("store")
@click.option("--name", help="A new name; mounts that run keep their directory.")
@click.option("--description", help="A new description; an empty one clears it.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Set a key, repeatable.")
@click.option("--unset", multiple=True, metavar="KEY", help="Remove a key of the metadata, repeatable.")
@as_json
@service_options
def update(
    store: str,
    name: str | None,
    description: str | None,
    metadata: tuple[str, ...],
    unset: tuple[str, ...],
    as_json: bool,
    url: str | None,
    credentials_file: Path | None,
) -> None:
    """Change a store's name, description or metadata.

    \b
    Example: memfs stores update Memory --name 'User preferences' --metadata team=support
    """
    patch: dict[str, str | None] = {**_pairs(metadata), **dict.fromkeys(unset)}
    if name is None and description is None and not patch:
        raise click.UsageError("nothing to change: give --name, --description, --metadata or --unset")

    async def work(service: "MemoryStore") -> "Store":
        found = await find_store(service, store)
        return await service.update_store(found.id, name=name, description=description, metadata=patch or None)

    changed = call(_open(url, credentials_file), work)
    if as_json:
        print_object(changed)


@stores.command()
@click.argument("store")
@as_json
@service_options
def archive(store: str, as_json: bool, url: str | None, credentials_file: Path | None) -> None:
    """Make a store read-only for good; its memories stay readable. There is no way back.

    \b
    Example: memfs stores archive 'User preferences'
    """

    async def work(service: "MemoryStore") -> "Store":
        found = await find_store(service, store)
        return await service.archive_store(found.id)

    archived = call(_open(url, credentials_file), work)
    if as_json:
        print_object(archived)


@stores.command()
@click.argument("store")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@service_options
def delete(store: str, yes: bool, as_json: bool, url: str | None, credentials_file: Path | None) -> None:
    """Delete a store with all its memories and their history. There is no way back.

    \b
    Example: memfs stores delete 'User preferences' --yes
    """
    open_it = _open(url, credentials_file)

    async def look(service: "MemoryStore") -> "tuple[Store, Usage | None]":
        found = await find_store(service, store)
        return found, await service.usage(found.id)

    found, usage = call(open_it, look)
    if not yes:
        holding = f", {usage.memories:,} memories" if usage is not None else ""
        _ask(f"Delete {printable(found.name)} ({found.id}{holding}) and its whole history?")

    async def work(service: "MemoryStore") -> None:
        deleted = await service.delete_store(found.id)
        if as_json:
            print_object(deleted)

    call(open_it, work)


def _ask(question: str) -> None:
    """Return when the person at the terminal says yes. Raises `click.ClickException` when not, or when there is no terminal."""
    if not sys.stdin.isatty():
        raise click.ClickException("this asks first, and there is no terminal to ask at: add --yes to go ahead")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing was deleted")


def _pairs(metadata: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in metadata:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--metadata")
        pairs[key] = value
    return pairs


def _open(url: str | None, credentials_file: Path | None) -> "Callable[[], Awaitable[MemoryStore]]":
    return opener(resolve_url(url), actor=operator(), credentials_file=credentials_file)


COMMANDS = (stores,)
