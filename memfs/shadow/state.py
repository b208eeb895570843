"""The state of a shadow at one moment, in the words of a mount's status."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import memfs
from memfs.shadow.engine import Engine
from memfs.shadow.options import ShadowOptions
from memfs.views.state import MountState, StoreState, Unsaved


class ShadowState:
    """Reads the state without asking any service."""

    def __init__(self, options: ShadowOptions, engines: Sequence[Engine]) -> None:
        self.options = options
        self.engines = engines
        self.started_at = datetime.now(UTC)

    def __call__(self) -> MountState:
        now = datetime.now(UTC)
        return MountState(
            version=memfs.__version__,
            pid=os.getpid(),
            mountpoint=str(self.options.directory),
            url=self.options.url,
            session_id=self.options.session_id,
            started_at=self.started_at,
            now=now,
            max_staleness=self.options.max_staleness,
            stores=tuple(self._store(engine) for engine in self.engines),
        )

    def _store(self, engine: Engine) -> StoreState:
        pair = engine.pair
        attached, feed = pair.replica.attached, pair.replica.feed
        unsaved = [self._unsaved(engine, name, "refused", refusal.reason) for name, refusal in pair.refused.items()]
        unsaved += [self._unsaved(engine, name, "pending", reason) for name, reason in pair.pending.items()]
        requests: Mapping[str, int] = getattr(attached.service, "requests", {})
        entries = list(pair.baseline)
        return StoreState(
            name=attached.name,
            store_id=attached.store_id,
            access="read_only" if attached.read_only else "read_write",
            reachable=feed.stale_since is None,
            trouble=feed.trouble,
            last_change_poll=feed.known_at,
            pending=engine.waiting,
            refused=len(pair.refused),
            scratch_files=engine.local_files,
            scratch_bytes=engine.local_bytes,
            memories=len(entries),
            content_bytes=sum(entry.facts.size for entry in entries),
            cached_bytes=attached.blobs.held,
            cache_limit=attached.blobs.limit,
            cache_hits=attached.blobs.hits,
            cache_misses=attached.blobs.misses,
            requests=dict(requests),
            unsaved=tuple(sorted(unsaved, key=lambda one: one.path)),
        )

    def _unsaved(self, engine: Engine, name: str, state: "str", reason: str) -> Unsaved:
        try:
            status = os.lstat(engine.pair.place(name))
            size, changed = status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)
        except OSError:
            size, changed = 0, datetime.now(UTC)
        return Unsaved(f"/{name}", "refused" if state == "refused" else "pending", size, changed, reason)
