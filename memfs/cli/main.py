"""Assembles the commands, and turns every failure into one line and an exit code.

Exit codes: 0 done, 1 failed, 2 usage.
"""

import importlib
import os
import pkgutil
import sys
from typing import NoReturn

import click

import memfs.cli
from memfs import __version__
from memfs.cli.failures import told
from memfs.cli.output import open_streams, say

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130
"""What a shell makes of Ctrl-C."""


COMPLETION = "_MEMFS_COMPLETE"
"""Set by a shell's completion script when it asks for completions."""

_MODULES = {"import": "imports", "export": "exports", "keys": "serve", "sessions": "serve"}
"""Where a command lives that is not called like its module."""


class Commands(click.Group):
    """All commands. The module of one is imported when that one is run: a mount waits for no other's imports."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(cmd_name, cmd_name.replace("-", "_"))
        if cmd_name not in self.commands and module in self._modules():
            self._load(module)
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        for module in self._modules():
            self._load(module)
        return super().list_commands(ctx)

    @staticmethod
    def _modules() -> list[str]:
        return [module.name for module in pkgutil.iter_modules(memfs.cli.__path__) if module.name != "main"]

    def _load(self, module: str) -> None:
        for command in getattr(importlib.import_module(f"memfs.cli.{module}"), "COMMANDS", ()):
            self.add_command(command)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Mount agent memory stores as a directory.

    Every file is a memory, every directory a path prefix, every save a new version that names the session that made it.

    \b
    Example:
      memfs mount /mnt/memory
      echo 'Prefers tea.' > /mnt/memory/memory/drinks.md
      memfs log /mnt/memory/memory/drinks.md
    """


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; errors are on standard error.

    An exception that no one foresaw is raised: it is a bug, and its traceback what a report of it needs.
    """
    if COMPLETION in os.environ:
        from memfs.cli.completion import attach

        attach(cli)
    debug = "--debug" in arguments[:1]
    try:
        answer = cli.main(arguments, prog_name="memfs", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.UsageError as error:
        usage = error.ctx.command_path if error.ctx is not None else "memfs"
        say(f"{error.format_message()} (`{usage} --help` shows the usage)")
        return USAGE
    except click.ClickException as error:
        say(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output wants no more of it. What is left must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (Exception, BaseExceptionGroup) as error:
        sentence = told(error)
        if debug or sentence is None:
            raise
        say(sentence)
        return FAILED
    return answer if isinstance(answer, int) else DONE


def main() -> NoReturn:
    open_streams()
    sys.exit(run(sys.argv[1:]))
