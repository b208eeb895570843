"""Manual pages, made from the help that every command has: one text, three places (help, man, the shell's completion)."""

import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click

from memfs import __version__

SECTION = 1

FILES = """\
~/.local/share/memfs/memfs.db: the default database of stores
~/.local/state/memfs: journals and records of mounts, and their logs
/sbin/mount.memfs: what mount(8) runs for -t memfs"""
ENVIRONMENT = """\
MEMFS_URL: where the stores are, as --url
MEMFS_API_KEY, ANTHROPIC_API_KEY: an API key of the service
MEMFS_AUTH_TOKEN, ANTHROPIC_AUTH_TOKEN: a session's token
XDG_DATA_HOME, XDG_STATE_HOME, XDG_CACHE_HOME: where memfs keeps what"""
EXIT_STATUS = """\
0: done
1: failed; one line on standard error says what to do
2: wrong usage"""


@click.command()
@click.argument("command", nargs=-1)
@click.option("--write", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write every page to DIR.")
@click.pass_context
def man(ctx: click.Context, command: tuple[str, ...], write: Path | None) -> int:
    """Show the manual page of memfs, or of a COMMAND.

    \b
    Examples:
      memfs man mount
      memfs man --write /usr/local/share/man/man1
    """
    root = ctx.find_root().command
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        for name, text in pages(root):
            (write / name).write_text(text, "utf-8")
        return 0
    wanted = "-".join(("memfs", *command))
    for name, text in pages(root):
        if name == f"{wanted}.{SECTION}":
            return _show(text)
    raise click.UsageError(f"there is no command {' '.join(command)!r}: `memfs --help` lists them")


def _show(text: str) -> int:
    """Show a page as man(1) does; the plain source where that is missing."""
    try:
        return subprocess.run(["man", "-l", "-"], input=text, text=True, check=False).returncode
    except FileNotFoundError:
        print(text, end="")
        return 0


def pages(root: click.Command) -> Iterator[tuple[str, str]]:
    """File name and text of each page: one a command, and that of the whole program."""
    names = sorted(name for _, name in _commands(root, ("memfs",)))
    for command, name in _commands(root, ("memfs",)):
        yield f"{name}.{SECTION}", _page(command, name, [other for other in names if other != name])


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[click.Command, str]]:
    if command.hidden:
        return
    yield command, "-".join(path)
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from _commands(below, (*path, name))


def _page(command: click.Command, name: str, others: list[str]) -> str:
    spoken = name.replace("-", " ")
    context = click.Context(command, info_name=spoken)
    help_text = inspect.cleandoc(command.help or "")
    summary = re.split(r"\.(\s|$)", help_text, maxsplit=1)[0].replace("\n", " ")
    lines = [
        f'.TH "{name.upper()}" {SECTION} "" "memfs {__version__}" "User Commands"',
        ".SH NAME",
        rf"{_text(name)} \- {_text(summary[:1].lower() + summary[1:])}",
        ".SH SYNOPSIS",
        rf"\fB{_text(spoken)}\fR {_text(' '.join(command.collect_usage_pieces(context)))}",
        ".SH DESCRIPTION",
        *_description(help_text),
    ]
    options = [parameter.get_help_record(context) for parameter in command.params if isinstance(parameter, click.Option)]
    if records := [record for record in options if record is not None]:
        lines.append(".SH OPTIONS")
        for option, text in records:
            lines += [".TP", rf"\fB{_text(option)}\fR", _text(text)]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for below_name, below in sorted(command.commands.items()):
            if not below.hidden:
                lines += [".TP", rf"\fB{_text(f'{spoken} {below_name}')}\fR", _text(below.get_short_help_str(200))]
    for title, text in (("EXIT STATUS", EXIT_STATUS), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        lines.append(f".SH {title}")
        for line in text.splitlines():
            term, _, meaning = line.partition(": ")
            lines += [".TP", rf"\fB{_text(term)}\fR", _text(meaning)]
    lines += [".SH SEE ALSO", ", ".join(rf"\fB{_text(other)}\fR({SECTION})" for other in others)]
    return "\n".join(lines) + "\n"


def _description(help_text: str) -> Iterator[str]:
    """Paragraphs are filled; one that begins with ``\\b`` is shown as it is, as in the help."""
    for paragraph in re.split(r"\n\s*\n", help_text):
        if not paragraph.startswith("\b"):
            yield ".PP"
            yield _text(" ".join(paragraph.split()))
            continue
        yield from (".PP", ".nf", *(_text(line) for line in paragraph.lstrip("\b\n").splitlines()), ".fi")


def _text(text: str) -> str:
    """`text` with nothing in it that roff would take for its own."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga").replace("~", r"\(ti")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


COMMANDS = (man,)
