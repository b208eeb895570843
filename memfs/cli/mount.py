"""`memfs mount`: choose the stores, mount, and stay as a daemon."""

import gc
import importlib
import logging
import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memfs.cli import daemonise
from memfs.cli.daemonise import PipeReporter, Reporter, TerminalReporter
from memfs.cli.failures import told
from memfs.cli.logging import LogSettings, configure, log_options
from memfs.cli.mount_options import MountCommand, Octal, Owner, Seconds, Size, scratch_patterns
from memfs.cli.mountpoints import canonical, mounted_at
from memfs.cli.prepare import prepare_mountpoint, refuse_live
from memfs.cli.registry import AttachedStore, MountRecord, Process, Registry, cache_directory, state_directory
from memfs.cli.requirements import check_mount_possible
from memfs.cli.service import DEFAULT_TIMEOUT_SECONDS, opener, resolve_url, service_options, without_credentials
from memfs.cli.targets import DEFAULT_MOUNTPOINT
from memfs.model.errors import MemfsError

if TYPE_CHECKING:
    from memfs.fuse.options import MountOptions
    from memfs.model.ids import SessionId
    from memfs.stores.base import MemoryStore

log = logging.getLogger(__name__)

DRAIN_SECONDS = 60.0
"""How long a mount waits for an earlier daemon of the same place to store what it still has."""


@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    mountpoint: str
    url: str
    credentials_file: Path | None
    stores: tuple[str, ...]
    session: str | None
    read_only: bool
    nonempty: bool
    settings: Mapping[str, Any]
    """Fields of `MountOptions` that are taken as they were given."""


def _session(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", value):
        raise click.BadParameter(f"{value!r} is no session id, such as sesn_01...", ctx, param)
    return value


@click.command(cls=MountCommand)
@click.argument("mountpoint", default=DEFAULT_MOUNTPOINT)
@click.option("--store", "stores", multiple=True, metavar="NAME_OR_ID[:ro]", help="Mount this store, repeatable; else all.")
@click.option("--session", metavar="ID", callback=_session, help="Write in this session's name, and mount what it attaches.")
@click.option("-f", "--foreground", is_flag=True, help="Stay in the foreground; SIGTERM or Ctrl-C unmount.")
@click.option("--read-only", is_flag=True, help="Refuse every write.")
@click.option("--max-staleness", type=Seconds(zero=True), default=2.0, show_default=True, help="How old may what you see be.")
@click.option(
    "--timeout",
    type=Seconds(zero=False),
    default=DEFAULT_TIMEOUT_SECONDS,
    show_default=True,
    help="How long a file operation waits for the service.",
)
@click.option(
    "--drain-timeout",
    type=Seconds(zero=True),
    default=60.0,
    show_default=True,
    help="How long the end of the mount waits until everything is stored.",
)
@click.option("--cache-size", type=Size(), metavar="SIZE", help="Keep so much content on disk, such as 64M (default: 256M).")
@click.option(
    "--allow-other",
    is_flag=True,
    help="Let other users of this machine in, by the files' modes; else they are refused, root too.",
)
@click.option("--uid", type=Owner("user"), metavar="USER", help="Who owns the files (default: you).")
@click.option("--gid", type=Owner("group"), metavar="GROUP", help="Their group (default: yours).")
@click.option("--umask", type=Octal(), default="022", show_default=True, help="Permissions to take away.")
@click.option("--no-xattr", is_flag=True, help="No extended attributes: faster, but getfattr shows nothing.")
@click.option("--no-disk-cache", is_flag=True, help="Keep content in memory only, and leave no text on disk.")
@click.option("--no-index", is_flag=True, help="No MEMORY.md in the mount's root.")
@click.option("--scratch", multiple=True, metavar="PATTERNS", help="More names that stay local, such as '*.log,*.part'.")
@click.option("--nonempty", is_flag=True, help="Mount over a directory that is not empty, and hide what is in it.")
@click.option("-o", "--option", metavar="OPT[,OPT...]", help="The same in the manner of mount(8): -o ro,timeout=3.")
@click.option("--ready-fd", type=int, hidden=True)
@log_options
@service_options
@click.pass_context
def mount(
    ctx: click.Context,
    /,
    mountpoint: str,
    stores: tuple[str, ...],
    session: str | None,
    foreground: bool,
    ready_fd: int | None,
    option: str | None,
    url: str | None,
    credentials_file: Path | None,
    read_only: bool,
    nonempty: bool,
    cache_size: int | None,
    scratch: tuple[str, ...],
    no_xattr: bool,
    no_index: bool,
    no_disk_cache: bool,
    **settings: Any,
) -> int:
    """Mount memory stores at MOUNTPOINT (/mnt/memory).

    Each store is a directory there. Returns when the mount is ready and prints its place, nothing else. Without any store a
    first one, "Memory", is made. A mount whose process was killed is cleared away first, and what it had not stored yet is
    stored.

    What others change shows within --max-staleness to whoever looks (tail -f, watch); inotify tells of changes made on this
    mount, and of no others. A container that started before the mount sees it when the directory above is bound with rslave:
    docker run -v DIR:DIR:rslave.

    \b
    Examples:
      memfs mount ~/memory
      memfs mount --store 'User preferences' --store handbook:ro --session sesn_01abc
    """
    logs = LogSettings.take(settings)
    request = Request(
        mountpoint=canonical(mountpoint),
        url=resolve_url(url),
        credentials_file=credentials_file and Path(os.path.abspath(credentials_file)),
        stores=stores,
        session=session,
        read_only=read_only,
        nonempty=nonempty,
        settings={
            **settings,
            "cache_size": cache_size,
            "cache_directory": None if no_disk_cache else cache_directory(),
            "scratch_patterns": scratch_patterns(scratch),
            "xattr": not no_xattr,
            "index": not no_index,
        },
    )
    if ready_fd is not None:
        os.chdir("/")
        return serve(request, logs, PipeReporter(ready_fd))
    if foreground:
        return serve(request, logs, TerminalReporter())
    registry = Registry.of_user()
    refuse_live(registry.find(request.mountpoint))
    debug = ["--debug"] if ctx.find_root().params.get("debug") else []
    arguments = without_url(ctx.meta["memfs.arguments"])
    log = registry.file(request.mountpoint, ".log")
    print(daemonise.start([*debug, "mount"], arguments, {**os.environ, "MEMFS_URL": request.url}, log))
    return 0


def without_url(arguments: Sequence[str]) -> list[str]:
    """`arguments` without ``--url``, which may hold a password that others would see in the list of processes."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            return [*kept, argument, *rest]
        if argument == "--url":
            next(rest, None)
        elif not argument.startswith("--url="):
            kept.append(argument)
    return kept


def serve(request: Request, logs: LogSettings, reporter: Reporter) -> int:
    """Be the mount's process: mount, tell `reporter`, and serve until told to end; returns the exit code.

    An error before the mount is ready goes to `reporter`, a later one to standard error and the exit record. What is raised is
    a bug.
    """
    from memfs.replica.process import run_loop

    started = False
    told_waiting = False

    def wait_for_other() -> None:
        """The place is held by a daemon that drains, or by one that is about to mount it."""
        nonlocal told_waiting
        refuse_live(registry.find(request.mountpoint))
        if not told_waiting:
            reporter.note(f"waiting for the previous process at {request.mountpoint} to end")
            told_waiting = True

    def ready() -> None:
        nonlocal started
        started = True
        reporter.ready(request.mountpoint)

    try:
        configure(logs)
        registry = Registry.of_user()
        refuse_live(registry.find(request.mountpoint))
        with registry.claim(request.mountpoint, seconds=DRAIN_SECONDS, waiting=wait_for_other):
            check_mount_possible(wants_allow_other=bool(request.settings["allow_other"]))
            prepare_mountpoint(registry, request.mountpoint, nonempty=request.nonempty, note=reporter.note)
            run_loop(_serve, request, registry, ready, reporter.note)
    except (MemfsError, OSError) as error:
        sentence = told(error)
        if sentence is None:
            raise
        if _debugging():
            traceback.print_exc()
        (TerminalReporter() if started else reporter).error(sentence)
        return 1
    return 0


def _debugging() -> bool:
    ctx = click.get_current_context(silent=True)
    return bool(ctx is not None and ctx.find_root().params.get("debug"))


async def _serve(request: Request, registry: Registry, ready: Callable[[], None], note: Callable[[str], None]) -> None:
    """Serve a mount point that is claimed and prepared, over one connection to the service from first to last."""
    gc.disable()  # until the daemon tunes it: modules that are being imported leave nothing to collect
    import trio

    from memfs.cli.service import opened
    from memfs.model.ids import SessionId, new_session_id
    from memfs.model.objects import SessionActor

    session_id = SessionId(request.session) if request.session else new_session_id()
    open_service = opener(
        request.url,
        actor=SessionActor(session_id=session_id),
        credentials_file=request.credentials_file,
        timeout=float(request.settings["timeout"]),
        note=note,
    )
    async with opened(open_service) as service:
        async with trio.open_nursery() as nursery:
            # The answer of a service far away takes as long as these imports.
            nursery.start_soon(partial(trio.to_thread.run_sync, importlib.import_module, "memfs.fuse.daemon"))
            options = await _options(request, registry, service, session_id)

        from memfs.fuse import daemon

        with _recorded(request, registry, options, ready) as record_and_report:
            await daemon.serve(options, service, record_and_report)


async def _options(request: Request, registry: Registry, service: "MemoryStore", session_id: "SessionId") -> "MountOptions":
    """What the daemon needs; asks the service for its stores, and makes a first one where there is none."""
    from memfs.cli.attachments import attachments
    from memfs.fuse.options import MountOptions

    asked = session_id if request.session else None
    return MountOptions(
        mountpoint=Path(request.mountpoint),
        url=without_credentials(request.url),
        session_id=session_id,
        attachments=await attachments(service, request.stores, session_id=asked, read_only=request.read_only),
        state_directory=state_directory(),
        status_file=registry.file(request.mountpoint, ".status.json"),
        read_only=request.read_only,
        **request.settings,
    )


@contextmanager
def _recorded(
    request: Request, registry: Registry, options: "MountOptions", ready: Callable[[], None]
) -> Iterator[Callable[[], None]]:
    """The registry knows of the mount from before it is mounted until it ended. Yields what records that it is mounted, and
    then calls `ready`."""
    from memfs.replica.process import first_known

    record = MountRecord(
        mountpoint=request.mountpoint,
        device="",
        process=Process.of(os.getpid()),
        url=options.url,
        session_id=options.session_id,
        stores=tuple(
            AttachedStore(a.store.id, a.name, a.access, a.store.name, a.store.description, a.instructions)
            for a in options.attachments
        ),
        log=str(registry.file(request.mountpoint, ".log")),
        status_file=str(options.status_file),
        mounted_at=_now(),
    )

    def record_and_report() -> None:
        log.info("mounted at %s: service %s, session %s", request.mountpoint, options.url, options.session_id)
        entry = mounted_at(request.mountpoint)
        if entry is not None:
            registry.write(record.on(entry))
        ready()

    with registry.serving(record):
        try:
            yield record_and_report
        except (MemfsError, BaseExceptionGroup) as error:
            if (known := first_known(error)) is not None:
                log.error("%s: %s", request.mountpoint, known.message)
            raise
        log.info("unmounted %s, all is stored", request.mountpoint)


def _now() -> str:
    from datetime import UTC, datetime

    from memfs.model.objects import format_time

    return format_time(datetime.now(UTC))


COMMANDS = (mount,)
