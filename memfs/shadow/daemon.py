"""Runs one shadow from the first look to the last.

Below the directory stand one directory a store, as on a mount, `MEMORY.md`, and `.memfs` with the same files as a mount's:
status, errors, conflicts. A file put into ``.memfs/sync`` asks for a sync: it is gone when all is stored; one of the same name
that ends in ``.failed`` holds the reason when not.
"""

import contextlib
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import trio
from watchfiles import awatch

from memfs.model.errors import MemfsError
from memfs.replica.blobs import BlobCache
from memfs.replica.errors import DrainIncomplete
from memfs.replica.notices import Notices
from memfs.replica.process import ending_signals, run_loop
from memfs.replica.replica import open_replica, state_path
from memfs.shadow.baseline import Baseline
from memfs.shadow.engine import Engine
from memfs.shadow.options import ShadowedStore, ShadowOptions
from memfs.shadow.pair import Pair
from memfs.shadow.state import ShadowState
from memfs.stores.base import MemoryStore
from memfs.views.state import json_lines, status_json, status_text

log = logging.getLogger(__name__)

STATE_NAME = ".memfs"
INDEX_NAME = "MEMORY.md"
SYNC_NAME = "sync"
FAILED_SUFFIX = ".failed"
STATUS_SECONDS = 1.0
DRAIN_SECONDS = 60.0
PATIENCE_SECONDS = 60.0
WATCH_DEBOUNCE_MS = 50
"""How long the watcher gathers events: the rules for what has come to rest are ours."""


def run(options: ShadowOptions, open_service: Callable[[], Awaitable[MemoryStore]], ready: Callable[[], None]) -> None:
    """Bring the stores into the directory, call `ready`, and keep both alike until SIGTERM or SIGINT; drain before returning.

    Raises `MemfsError` when it cannot begin, and `DrainIncomplete` when something in the directory could not be stored.
    """
    # A read lease (memfs.shadow.disk) that is broken while we hold it for a moment sends this; its default ends a process.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    run_loop(_serve, options, open_service, ready)


async def _serve(options: ShadowOptions, open_service: Callable[[], Awaitable[MemoryStore]], ready: Callable[[], None]) -> None:
    notices = Notices()
    blobs = BlobCache()
    state_files = options.directory / STATE_NAME
    async with AsyncExitStack() as stack:
        signals = stack.enter_context(ending_signals())
        service = await open_service()
        stack.push_async_callback(service.aclose)
        engines = [
            await stack.enter_async_context(_engine(options, store, service, notices, blobs)) for store in options.stores
        ]
        state = ShadowState(options, engines)
        if options.index is not None:
            _write(options.directory / INDEX_NAME, options.index.encode())
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            for engine in engines:
                nursery.start_soon(engine.pair.replica.run)
            # From here on nothing is missed: what changed before the watcher stood is found by the look at all files.
            nursery.start_soon(_watch, engines, stop)
            for engine in engines:
                await engine.start()
                nursery.start_soon(engine.run)
            nursery.start_soon(_keep_status, options, state_files, state, notices)
            nursery.start_soon(_answer_syncs, state_files / SYNC_NAME, engines)
            ready()
            async for _ in signals:
                break
            try:
                await _drain(engines)
            finally:
                stop.set()
                nursery.cancel_scope.cancel()
                _write_status(options, state_files, state, notices)


@contextlib.asynccontextmanager
async def _engine(
    options: ShadowOptions, shadowed: ShadowedStore, service: MemoryStore, notices: Notices, blobs: BlobCache
) -> AsyncIterator[Engine]:
    top = options.directory / shadowed.name
    work = options.directory / STATE_NAME / "new" / shadowed.name
    folder = state_path(options.state_directory, shadowed.store, options.directory)
    async with open_replica(
        service,
        shadowed.store,
        name=shadowed.name,
        session_id=options.session_id,
        state_directory=options.state_directory,
        mountpoint=options.directory,
        bound=options.max_staleness,
        read_only=shadowed.access == "read_only",
        umask=options.umask,
        scratch_patterns=options.scratch_patterns,
        notices=notices,
        blobs=blobs,
        timeout=options.timeout,
        patience=PATIENCE_SECONDS,
    ) as replica:
        database = folder / "shadow.db"
        _prepare(top, work, known=database.exists())
        with contextlib.closing(Baseline(database)) as baseline:
            yield Engine(Pair(replica, top, work, baseline))


def _prepare(top: Path, work: Path, *, known: bool) -> None:
    """Make the directories. Raises `MemfsError` when `top` holds files that no shadow of this store put there."""
    shutil.rmtree(work, ignore_errors=True)
    try:
        work.mkdir(parents=True, mode=0o700)
        (work.parent.parent / SYNC_NAME).mkdir(exist_ok=True)
        top.mkdir(exist_ok=True)
        if not known and any(os.scandir(top)):
            raise MemfsError(
                f"{top} holds files already: name an empty directory, or bring them in with `memfs import {top} STORE` first"
            )
    except OSError as error:
        raise MemfsError(f"{error.filename} cannot be used ({error.strerror}): name a directory of yours") from None


async def _watch(engines: list[Engine], stop: trio.Event) -> None:
    """Hand every event to the engine that it concerns."""
    tops = {f"{engine.pair.top}/": engine for engine in engines}
    async for events in awatch(
        *(engine.pair.top for engine in engines),
        watch_filter=None,
        debounce=WATCH_DEBOUNCE_MS,
        step=10,
        stop_event=stop,
        rust_timeout=1000,
        ignore_permission_denied=True,
    ):
        for _, place in events:
            for top, engine in tops.items():
                if place.startswith(top):
                    engine.event(place)


async def _drain(engines: list[Engine]) -> None:
    failures: list[str] = []
    with trio.move_on_after(DRAIN_SECONDS) as scope:
        for engine in engines:
            try:
                await engine.sync()
            except MemfsError as error:
                failures.append(error.message)
    if scope.cancelled_caught:
        failures.append(f"not everything could be stored within {DRAIN_SECONDS:g} s; the next `memfs shadow` goes on with it")
    if failures:
        raise DrainIncomplete("; ".join(failures))


async def _answer_syncs(folder: Path, engines: list[Engine]) -> None:
    """Syncs that were asked for by a file in `folder`: removed when all is stored, else filled with the reason."""
    async for _ in awatch(
        folder, watch_filter=None, debounce=WATCH_DEBOUNCE_MS, step=10, rust_timeout=1000, yield_on_timeout=True
    ):
        for request in _requests(folder):
            try:
                for engine in engines:
                    await engine.sync()
            except MemfsError as error:
                _write(request.with_suffix(FAILED_SUFFIX), error.message.encode())
            request.unlink(missing_ok=True)


def _requests(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix != FAILED_SUFFIX)


async def _keep_status(options: ShadowOptions, folder: Path, state: ShadowState, notices: Notices) -> None:
    while True:
        _write_status(options, folder, state, notices)
        await trio.sleep(STATUS_SECONDS)


def _write_status(options: ShadowOptions, folder: Path, state: ShadowState, notices: Notices) -> None:
    now = state()
    files = {
        options.status_file: status_json(now),
        folder / "status": status_text(now),
        folder / "status.json": status_json(now),
        folder / "errors": json_lines(notices.errors),
        folder / "conflicts": json_lines(notices.conflicts),
    }
    for path, content in files.items():
        try:
            _write(path, content)
        except OSError as error:
            log.warning("%s cannot be written: %s", path, error.strerror)


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)
