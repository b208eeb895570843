"""The state of a mount at one moment, for `.memfs` and the status file."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime

import memfs
from memfs.fuse.errors import Translator
from memfs.fuse.options import MountOptions
from memfs.replica.replica import Replica
from memfs.replica.tree import File, Kind
from memfs.views.state import MountState, StoreState, Unsaved


class StateReader:
    """Reads the state without asking any service."""

    def __init__(self, options: MountOptions, replicas: list[Replica], translator: Translator) -> None:
        self.options = options
        self.replicas = replicas
        self.translator = translator
        self.started_at = datetime.now(UTC)

    def __call__(self) -> MountState:
        now = datetime.now(UTC)
        return MountState(
            version=memfs.__version__,
            pid=os.getpid(),
            mountpoint=str(self.options.mountpoint),
            url=self.options.url,
            session_id=self.options.session_id,
            started_at=self.started_at,
            now=now,
            max_staleness=self.options.max_staleness,
            stores=tuple(self._store(replica) for replica in self.replicas),
            errors=dict(self.translator.counts),
        )

    def _store(self, replica: Replica) -> StoreState:
        attached, feed = replica.attached, replica.feed
        scratch_files = scratch_bytes = 0
        unsaved: list[Unsaved] = []
        for file in list(replica.drafted):
            draft = file.draft
            if draft is None or file.dead:
                continue
            if file.kind is not Kind.MEMORY:
                scratch_files += 1
                scratch_bytes += draft.buffer.size
            elif draft.dirty:
                unsaved.append(self._unsaved(replica, file))
        usage = replica.usage
        requests: Mapping[str, int] = getattr(attached.service, "requests", {})
        return StoreState(
            name=attached.name,
            store_id=attached.store_id,
            access="read_only" if attached.read_only else "read_write",
            reachable=feed.stale_since is None,
            scratch_directories=len(attached.journal.scratch_trees()),
            trouble=feed.trouble,
            last_change_poll=feed.known_at,
            pending=sum(one.state == "pending" for one in unsaved) + len(replica.parking.by_path),
            refused=sum(one.state == "refused" for one in unsaved),
            scratch_files=scratch_files,
            scratch_bytes=scratch_bytes,
            memories=usage.memories if usage is not None else None,
            content_bytes=usage.content_bytes if usage is not None else None,
            cached_bytes=attached.blobs.held,
            cache_limit=attached.blobs.limit,
            cache_hits=attached.blobs.hits,
            cache_misses=attached.blobs.misses,
            requests=dict(requests),
            unsaved=tuple(sorted(unsaved, key=lambda one: one.path)),
        )

    @staticmethod
    def _unsaved(replica: Replica, file: File) -> Unsaved:
        draft = file.draft
        assert draft is not None
        reason = replica.attached.reasons.get(file, "")
        if draft.refusal is not None:
            reason = draft.refusal.message
        return Unsaved(
            path=file.path,
            state="refused" if draft.refusal is not None else "pending",
            size=draft.buffer.size,
            since=datetime.fromtimestamp(draft.since_ns / 1e9, UTC),
            reason=reason,
        )
