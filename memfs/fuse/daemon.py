"""Runs one mount from the first request to the last."""

import contextlib
import errno
import gc
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyfuse3
import trio

from memfs.fuse.errors import Translator
from memfs.fuse.operations import Operations
from memfs.fuse.options import MountOptions
from memfs.fuse.root import INDEX_NAME, STATE_NAME, MountRoot, index_file
from memfs.fuse.state import StateReader
from memfs.model.errors import MemfsError
from memfs.replica.blobs import DISK_BYTES, BlobCache, DiskBlobs
from memfs.replica.drafts import now_ns
from memfs.replica.errors import DrainIncomplete
from memfs.replica.notices import Notices
from memfs.replica.process import ending_signals
from memfs.replica.replica import Replica, open_replica, place_key
from memfs.replica.tasks import outlive
from memfs.stores.base import MemoryStore, TriesGuard
from memfs.views.live import versions_of
from memfs.views.search import defaults_path, search_of
from memfs.views.state import MountState, StateDirectory, status_json
from memfs.views.structured import structured_of
from memfs.views.tree import ViewDirectory, ViewFile

log = logging.getLogger(__name__)

STATUS_SECONDS = 1.0
VERSIONS_NAME = ".versions"
GUARD_SECONDS = 24 * 60 * 60.0
"""How long a service that was found to detect conflicts is believed to go on with it."""
SEARCH_NAME = ".search"
STRUCTURED_NAME = ".memories"


async def serve(options: MountOptions, service: MemoryStore, ready: Callable[[], None]) -> None:
    """Mount, call `ready` once the kernel answers, and serve until SIGTERM, SIGINT or an unmount; drain before returning.

    `service` stays open. Raises `MemfsError` when the mount cannot be made, and `memfs.replica.errors.DrainIncomplete` when
    something written could not be stored: the message says what is kept where.
    """
    notices = Notices(options.state_directory / "notices" / f"{place_key(options.mountpoint)}.jsonl")
    translator = Translator(notices)
    async with AsyncExitStack() as stack:
        blobs = BlobCache(disk=_disk_cache(options, service))
        replicas: list[Replica] = []
        for attachment in options.attachments:
            replica = await stack.enter_async_context(
                open_replica(
                    service,
                    attachment.store,
                    name=attachment.name,
                    session_id=options.session_id,
                    state_directory=options.state_directory,
                    mountpoint=options.mountpoint,
                    bound=options.max_staleness,
                    read_only=options.read_only or attachment.access == "read_only" or service.capabilities.read_only,
                    umask=options.umask,
                    scratch_patterns=options.scratch_patterns,
                    notices=notices,
                    blobs=blobs,
                    timeout=options.timeout,
                    patience=options.drain_timeout,
                )
            )
            replicas.append(replica)
            await _try_guard(service, replica, notices, options.state_directory)
        root = MountRoot(replicas, now_ns())
        if options.index:
            root.views[INDEX_NAME] = index_file(options.attachments, root.created_ns)
        state = StateReader(options, replicas, translator)
        root.hidden[STATE_NAME] = StateDirectory("state", state, notices)
        operations = Operations(options, root, translator)
        for replica in replicas:
            replica.attached.attributes_changed = operations.attributes_changed
            operations.store_views[replica.name] = _views(replica, options)
        drain = _Drain(replicas, options.drain_timeout)
        signals = stack.enter_context(ending_signals())
        _mount(operations, options, replicas)
        try:
            async with trio.open_nursery() as nursery:
                if blobs.disk is not None:
                    nursery.start_soon(outlive, blobs.disk.run, translator.surprised)
                for replica in replicas:
                    nursery.start_soon(replica.run)
                    nursery.start_soon(outlive, replica.look_ahead, translator.surprised)
                if options.status_file is not None:
                    nursery.start_soon(outlive, partial(_keep_status, options.status_file, state), translator.surprised)
                nursery.start_soon(_end_on_signal, signals, drain)
                _tune_collector()
                ready()
                await pyfuse3.main()
                nursery.cancel_scope.cancel()
        finally:
            pyfuse3.close(unmount=True)
            try:
                with trio.CancelScope(shield=True):
                    await drain()
            finally:
                if service.capabilities.versions:  # what was superseded since the last poll goes from the disk too
                    blobs.sweep()
            if options.status_file is not None:
                _write_status(options.status_file, status_json(state()))


def _views(replica: Replica, options: MountOptions) -> dict[str, ViewDirectory | ViewFile]:
    """The hidden directories in the root of a store."""
    views: dict[str, ViewDirectory | ViewFile] = {SEARCH_NAME: search_of(replica, defaults_path())}
    if replica.attached.service.capabilities.versions:
        views[VERSIONS_NAME] = versions_of(replica, max_staleness=options.max_staleness, timeout=options.timeout)
    structured = structured_of(replica, max_staleness=options.max_staleness)
    if structured is not None:
        views[STRUCTURED_NAME] = structured
    return views


async def _try_guard(service: MemoryStore, replica: Replica, notices: Notices, state_directory: Path) -> None:
    """Where it is not sure that a service detects conflicts, find out, and say loudly when it does not."""
    if not isinstance(service, TriesGuard) or replica.attached.read_only:
        return
    # It leaves two versions in the history, so that what was found good is believed for a day.
    proof = state_directory / replica.attached.store_id / "guard-tried"
    with contextlib.suppress(OSError):
        if time.time() - proof.stat().st_mtime < GUARD_SECONDS:
            return
    try:
        trouble = await service.try_guard(replica.attached.store_id)
        if trouble is None:
            proof.touch(mode=0o600)
    except MemfsError as error:
        trouble = f"whether this service detects conflicts could not be found out: {error.message}"
    if trouble is not None:
        log.error("%s: %s", replica.name, trouble)
        notices.error(store=replica.name, path="", operation="mount", error="ENOLCK", message=trouble)


def _disk_cache(options: MountOptions, service: MemoryStore) -> DiskBlobs | None:
    """None where a content is as near as the disk, or must not be left there."""
    if options.cache_directory is None or service.capabilities.local:
        return None
    return DiskBlobs(options.cache_directory / "blobs", options.cache_size or DISK_BYTES)


def _tune_collector() -> None:
    """What lives as long as the mount need not be looked at again and again: each request makes a few short-lived objects,
    and the collector's defaults would walk all nodes of the tree every few thousand requests."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


def _mount(operations: Operations, options: MountOptions, replicas: list[Replica]) -> None:
    mount_options = set(pyfuse3.default_options) | {"fsname=memfs", "subtype=memfs"}
    if options.allow_other:
        mount_options.add("allow_other")
    if all(replica.attached.read_only for replica in replicas) and replicas:
        mount_options.add("ro")
    if options.fuse_debug:
        mount_options.add("debug")
    try:
        pyfuse3.init(operations, str(options.mountpoint), mount_options)
    except RuntimeError as error:
        raise MemfsError(f"{options.mountpoint} cannot be mounted ({error}): `memfs doctor` says what is missing") from error


async def _end_on_signal(signals: AsyncIterator[int], drain: "_Drain") -> None:
    """The first signal stores what waits, then ends the mount; what is written meanwhile is stored after it."""
    async for _ in signals:
        with contextlib.suppress(MemfsError):
            await drain()
        pyfuse3.terminate()


class _Drain:
    """Stores what waits, within one time for all attempts."""

    def __init__(self, replicas: list[Replica], seconds: float) -> None:
        self._replicas = replicas
        self._seconds = seconds
        self._deadline: float | None = None

    async def __call__(self) -> None:
        """Raises `DrainIncomplete` that says what is kept where."""
        self._deadline = self._deadline or trio.current_time() + self._seconds
        failures: list[str] = []
        for replica in self._replicas:
            try:
                await replica.drain(self._deadline)
            except DrainIncomplete as error:
                failures.append(error.message)
        if failures:
            raise DrainIncomplete("; ".join(failures))


async def _keep_status(path: Path, state: StateReader) -> None:
    """Keep the status where commands can read it without asking the mount; an idle mount writes nothing."""
    written: MountState | None = None
    while True:
        current = state()
        if written is None or replace(current, now=written.now) != written:
            _write_status(path, status_json(current))
            written = current
        await trio.sleep(STATUS_SECONDS)


def _write_status(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            log.warning("the status file cannot be written: %s", error)
