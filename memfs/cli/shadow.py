"""`memfs shadow`: the stores as a plain directory, where no file system can be mounted."""

import os
import re
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memfs.cli import daemonise
from memfs.cli.daemonise import PipeReporter, Reporter, TerminalReporter
from memfs.cli.failures import told
from memfs.cli.logging import LogSettings, configure, log_options
from memfs.cli.mount import without_url
from memfs.cli.mount_options import Octal, Seconds, scratch_patterns
from memfs.cli.mountpoints import canonical, mounted_at
from memfs.cli.prepare import refuse_bytes, refuse_live
from memfs.cli.registry import AttachedStore, MountRecord, Process, Registry, state_directory
from memfs.cli.service import DEFAULT_TIMEOUT_SECONDS, call, opener, resolve_url, service_options, without_credentials
from memfs.model.errors import MemfsError

if TYPE_CHECKING:
    from memfs.fuse.options import Attachment
    from memfs.stores.base import MemoryStore

DRAIN_SECONDS = 60.0
"""How long a shadow waits for an earlier one of the same directory to store what it still has."""


class ShadowCommand(click.Command):
    """Keeps its arguments, for the daemon, in `ctx.meta`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["memfs.arguments"] = list(args)
        return super().parse_args(ctx, args)


@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    directory: str
    url: str
    credentials_file: Path | None
    stores: tuple[str, ...]
    session: str | None
    read_only: bool
    index: bool
    max_staleness: float
    timeout: float
    umask: int
    scratch: tuple[str, ...]


def _session(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", value):
        raise click.BadParameter(f"{value!r} is no session id, such as sesn_01...", ctx, param)
    return value


@click.command(cls=ShadowCommand)
@click.argument("directory")
@click.option("--store", "stores", multiple=True, metavar="NAME_OR_ID[:ro]", help="This store, repeatable; else all.")
@click.option("--session", metavar="ID", callback=_session, help="Write in this session's name, with what it attaches.")
@click.option("-f", "--foreground", is_flag=True, help="Stay in the foreground; SIGTERM or Ctrl-C end it.")
@click.option("--read-only", is_flag=True, help="Store nothing that is changed in DIRECTORY.")
@click.option("--max-staleness", type=Seconds(zero=False), default=2.0, show_default=True, help="How old may what you see be.")
@click.option(
    "--timeout",
    type=Seconds(zero=False),
    default=DEFAULT_TIMEOUT_SECONDS,
    show_default=True,
    help="How long one save waits for the service before it is tried again.",
)
@click.option("--umask", type=Octal(), default="022", show_default=True, help="Permissions that new files lack.")
@click.option("--no-index", is_flag=True, help="No MEMORY.md in DIRECTORY.")
@click.option("--scratch", multiple=True, metavar="PATTERNS", help="More names that stay local, such as '*.log,*.part'.")
@click.option("--ready-fd", type=int, hidden=True)
@log_options
@service_options
@click.pass_context
def shadow(
    ctx: click.Context,
    /,
    directory: str,
    foreground: bool,
    ready_fd: int | None,
    url: str | None,
    credentials_file: Path | None,
    no_index: bool,
    **given: Any,
) -> int:
    """Keep a plain DIRECTORY and stores alike, without FUSE.

    For where FUSE is not allowed (gVisor, Codespaces, Fly). Each store is a plain directory below DIRECTORY. What is saved
    there is stored by the rules of a mount: one save is one version, work files stay local, two sessions' changes merge. What
    others store appears within --max-staleness. Unlike on a mount a save returns before it is stored: `memfs sync` waits for
    that, and `memfs status` shows what was refused.

    Returns when the directory is filled. `memfs umount DIRECTORY` stores what is left and ends it; the files stay.

    \b
    Examples:
      memfs shadow ~/memory --store 'User preferences' --session sesn_01abc
      memfs umount ~/memory
    """
    logs = LogSettings.take(given)
    request = Request(
        directory=canonical(directory),
        url=resolve_url(url),
        credentials_file=credentials_file and Path(os.path.abspath(credentials_file)),
        index=not no_index,
        **{**given, "scratch": scratch_patterns(given["scratch"])},
    )
    if ready_fd is not None:
        os.chdir("/")
        return serve(request, logs, PipeReporter(ready_fd))
    if foreground:
        return serve(request, logs, TerminalReporter())
    registry = Registry.of_user()
    refuse_live(registry.find(request.directory))
    debug = ["--debug"] if ctx.find_root().params.get("debug") else []
    arguments = without_url(ctx.meta["memfs.arguments"])
    log = registry.file(request.directory, ".log")
    print(daemonise.start([*debug, "shadow"], arguments, {**os.environ, "MEMFS_URL": request.url}, log))
    return 0


def serve(request: Request, logs: LogSettings, reporter: Reporter) -> int:
    """Be the shadow's process: fill the directory, tell `reporter`, go on until told to end; returns the exit code."""
    started = False

    def ready() -> None:
        nonlocal started
        started = True
        reporter.ready(request.directory)

    try:
        configure(logs)
        registry = Registry.of_user()
        with registry.claim(
            request.directory, seconds=DRAIN_SECONDS, waiting=lambda: refuse_live(registry.find(request.directory))
        ):
            _prepare(request.directory, reporter)
            _run(request, registry, ready, reporter.note)
    except (MemfsError, OSError) as error:
        sentence = told(error)
        if sentence is None:
            raise
        ctx = click.get_current_context(silent=True)
        if ctx is not None and ctx.find_root().params.get("debug"):
            traceback.print_exc()
        (TerminalReporter() if started else reporter).error(sentence)
        return 1
    return 0


def _prepare(directory: str, reporter: Reporter) -> None:
    refuse_bytes(directory)
    entry = mounted_at(directory)
    if entry is not None and entry.is_fuse:
        raise MemfsError(f"{directory} is a mount: choose a plain directory, or `memfs umount {directory}` first")
    if not os.path.isdir(directory):
        if os.path.lexists(directory):
            raise MemfsError(f"{directory} is not a directory: choose another place")
        try:
            os.mkdir(directory)
        except OSError as error:
            raise MemfsError(f"{directory} cannot be created ({error.strerror}): create it first (mkdir -p)") from None
        reporter.note(f"created {directory}")


def _run(request: Request, registry: Registry, ready: Callable[[], None], tell: Callable[[str], None]) -> None:
    """Serve a directory that is claimed; the registry knows of it until it ended."""
    from datetime import UTC, datetime

    from memfs.cli.prompt import note
    from memfs.model.ids import SessionId, new_session_id
    from memfs.model.objects import SessionActor, format_time
    from memfs.shadow import daemon
    from memfs.shadow.options import ShadowedStore, ShadowOptions

    session_id = SessionId(request.session) if request.session else new_session_id()
    actor = SessionActor(session_id=session_id)
    open_it = opener(request.url, actor=actor, credentials_file=request.credentials_file, timeout=request.timeout, note=tell)
    attached = call(open_it, _chooser(request, session_id if request.session else None))
    stores = tuple(
        AttachedStore(a.store.id, a.name, a.access, a.store.name, a.store.description, a.instructions) for a in attached
    )
    status_file = registry.file(request.directory, ".status.json")
    options = ShadowOptions(
        directory=Path(request.directory),
        url=without_credentials(request.url),
        session_id=session_id,
        stores=tuple(ShadowedStore(a.store, a.name, a.access) for a in attached),
        state_directory=state_directory(),
        status_file=status_file,
        index=note(request.directory, stores) + "\n" if request.index else None,
        max_staleness=request.max_staleness,
        timeout=request.timeout,
        umask=request.umask,
        scratch_patterns=request.scratch,
    )
    record = MountRecord(
        mountpoint=request.directory,
        device="",
        process=Process.of(os.getpid()),
        url=options.url,
        session_id=session_id,
        stores=stores,
        log=str(registry.file(request.directory, ".log")),
        status_file=str(status_file),
        mounted_at=format_time(datetime.now(UTC)),
        kind="shadow",
    )
    with registry.serving(record):
        daemon.run(options, open_it, ready)


def _chooser(request: Request, session: "Any") -> "Callable[[MemoryStore], Awaitable[Sequence[Attachment]]]":
    from memfs.cli.attachments import attachments

    async def choose(service: "MemoryStore") -> "Sequence[Attachment]":
        return await attachments(service, request.stores, session_id=session, read_only=request.read_only)

    return choose


COMMANDS = (shadow,)
