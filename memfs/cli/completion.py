"""`memfs completion`: what a shell needs to complete commands, options, stores, mounts and versions."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from memfs.cli.main import COMPLETION

if TYPE_CHECKING:
    from memfs.model.objects import MemoryVersion, Store
    from memfs.stores.base import MemoryStore

TIMEOUT_SECONDS = 1.0
"""Nobody waits longer for a completion."""
SHOWN_VERSIONS = 50

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    `memfs setup-system` installs all three for everybody.

    \b
    Examples:
      echo 'eval "$(memfs completion bash)"' >> ~/.bashrc
      echo 'eval "$(memfs completion zsh)"' >> ~/.zshrc
      memfs completion fish > ~/.config/fish/completions/memfs.fish
    """
    print(script(shell))


def script(shell: str) -> str:
    """The completion script for `shell`: bash, zsh or fish."""
    made = get_completion_class(shell)
    assert made is not None
    # Not `source()`: it asks the installed bash for its version, and the script may be for another machine.
    complete = made(click.Command("memfs"), {}, "memfs", COMPLETION)
    return complete.source_template % complete.source_vars()


def attach(group: click.Group) -> None:
    """Make the parameters of every command below `group` complete, by what they are called."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            attach(command)
            continue
        for parameter in command.params:
            completer = _COMPLETERS.get(parameter.name or "")
            if completer is not None:
                parameter._custom_shell_complete = completer


def _silently(complete: Completer) -> Completer:
    """A completion that fails completes nothing: there is no place for a message in the middle of a command line."""

    def completer(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            return complete(ctx, parameter, incomplete)
        except Exception:  # noqa: BLE001  whatever it is: see above
            return []

    return completer


@_silently
def _stores(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from memfs.cli.service import all_stores, call, new_database, opener, operator, resolve_url

    url = resolve_url(ctx.params.get("url") or os.environ.get("MEMFS_URL"))
    if new_database(url) is not None:
        return []  # looking must not make a database
    open_it = opener(url, actor=operator(), credentials_file=ctx.params.get("credentials_file"), timeout=TIMEOUT_SECONDS)

    async def work(service: "MemoryStore") -> "list[Store]":
        return await all_stores(service)

    found = call(open_it, work)
    return [CompletionItem(store.name, help=store.description) for store in found if store.name.startswith(incomplete)]


@_silently
def _mounts(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from memfs.cli.registry import Registry

    places = [record.mountpoint for record in Registry.of_user().records()]
    found = [CompletionItem(place, help="mount") for place in places if place.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="dir")]


@_silently
def _versions(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The newest versions of the path that was given before."""
    import unicodedata

    from memfs.cli.past import in_store
    from memfs.cli.registry import Registry
    from memfs.cli.service import call, every_version, opener, operator, service_of_mount
    from memfs.cli.targets import the_mount_of_path

    record, place = the_mount_of_path(Registry.of_user(), ctx.params.get("path"))
    store, segments = in_store(record, place)
    if store is None or not segments:
        return []
    memory_path = unicodedata.normalize("NFC", "/" + "/".join(segments))
    open_it = opener(service_of_mount(record.url), actor=operator(), credentials_file=None, timeout=TIMEOUT_SECONDS)

    async def work(service: "MemoryStore") -> "list[MemoryVersion]":
        history = [version async for version in every_version(service, store.id)]
        had = {version.memory_id for version in history if version.path == memory_path}
        return [version for version in history if version.memory_id in had]

    found = call(open_it, work)[:SHOWN_VERSIONS]
    shown = [(version.id, f"{version.created_at:%Y-%m-%d %H:%M:%S} {version.operation}") for version in found]
    return [CompletionItem(value, help=text) for value, text in shown if value.startswith(incomplete)]


_COMPLETERS: dict[str, Completer] = {
    "store": _stores,
    "stores": _stores,
    "from_store": _stores,
    "mountpoint": _mounts,
    "version": _versions,
    "a": _versions,
    "b": _versions,
}

COMMANDS = (completion,)
