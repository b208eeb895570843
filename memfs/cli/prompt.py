"""`memfs prompt`: what an agent should be told about a mount."""

from collections.abc import Sequence

import click

from memfs.cli.output import print_object
from memfs.cli.registry import AttachedStore, MountRecord, Registry
from memfs.cli.targets import the_mount

_ACCESS = {"read_write": "read and write", "read_only": "read only: writing fails"}


@click.command()
@click.argument("mountpoint", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the contract's memory_store resources, one a line.")
def prompt(mountpoint: str | None, as_json: bool) -> None:
    """Print a note on a mount for an agent's system prompt.

    It names each store with its place, access, description and instructions.

    \b
    Example:
      my-agent --append-system-prompt "$(memfs prompt /mnt/memory)"
    """
    record = the_mount(Registry.of_user(), mountpoint)
    if as_json:
        _print_resources(record)
    else:
        print(note(record.mountpoint, record.stores))


def note(mountpoint: str, stores: Sequence[AttachedStore]) -> str:
    """The note as Markdown, without a line break at its end."""
    parts = [
        f"# Memory\n\nThe directory {mountpoint} keeps what you should still know in later sessions: plain text files, one "
        "for each subject. Look there before you begin. Save what is worth keeping with the tools you use for any file; a "
        "saved file is stored at once, with its history, and other sessions see it. A file holds at most 102,400 bytes of "
        "UTF-8 text, and only the directories below can hold files."
    ]
    for store in stores:
        lines = [f"## {_one_line(store.title or store.name)}", f"Place: {mountpoint.rstrip('/')}/{store.name}"]
        lines.append(f"Access: {_ACCESS.get(store.access, store.access)}")
        if store.description:
            lines.append(f"Description: {store.description}")
        if store.instructions:
            lines.append(f"Instructions: {store.instructions}")
        parts.append("\n\n".join((lines[0], "\n".join(lines[1:]))))
    return "\n\n".join(parts)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print_resources(record: MountRecord) -> None:
    from memfs.model.ids import StoreId
    from memfs.model.sessions import MemoryStoreResource

    for store in record.stores:
        print_object(
            MemoryStoreResource(
                memory_store_id=StoreId(store.id),
                access="read_only" if store.access == "read_only" else "read_write",
                instructions=store.instructions or None,
                name=store.title,
                description=store.description,
                mount_path=f"{record.mountpoint.rstrip('/')}/{store.name}",
            )
        )


COMMANDS = (prompt,)
