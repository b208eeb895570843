"""Brings a store's history into a directory, in the layout of a mount's `.versions`.

``.versions/profile/coffee.md/20260825T055219.185042Z-created-memver_01ab.md`` holds the content as of that version,
``.versions/@log.jsonl`` the contract's own objects, newest first. A version never changes but by redaction: one that is there
is not fetched again, and one that was redacted meanwhile is removed.
"""

import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from memfs.model.content import encode, sha256_of
from memfs.model.errors import NotFound
from memfs.model.objects import MemoryVersion, Store
from memfs.stores.base import MAX_FULL_LIMIT, MemoryStore
from memfs.transfer.exporting import is_legal
from memfs.transfer.layout import EXPORT_NAME, VERSIONS_NAME
from memfs.transfer.pace import Pace
from memfs.transfer.steps import Listener, Step
from memfs.transfer.workers import each
from memfs.views.names import shown_name, version_name

LOG_NAME = "@log.jsonl"

Taker = Callable[[MemoryVersion], Awaitable[None]]


async def export_history(
    service: MemoryStore, store: Store, directory: Path, pace: Pace, listener: Listener, *, dry_run: bool
) -> None:
    """Bring every version that the service still has below `directory`, a finished export. Raises what the service raises."""
    versions = await _all_versions(service, store, pace)
    top = directory / VERSIONS_NAME
    places = {version.id: top / name for version in versions if (name := _place(version)) is not None}
    missing = [version for version in versions if version.id in places and not _is_there(places[version.id], version)]
    listener.expect(len(missing))
    if dry_run:
        for version in missing:
            listener.step(Step(_shown(places[version.id], directory), "created"))
        return
    top.mkdir(exist_ok=True)

    async def take(version: MemoryVersion) -> None:
        place = places[version.id]
        _put(place, version, directory / EXPORT_NAME / "new")
        listener.step(Step(_shown(place, directory), "created"))

    async def fetch(version: MemoryVersion) -> None:
        try:
            await take(await pace.call(lambda: service.retrieve_version(store.id, version.id)))
        except NotFound:
            listener.step(Step(_shown(places[version.id], directory), "skipped", "the service has removed this version"))

    if len(missing) > -(-len(versions) // MAX_FULL_LIMIT) and not service.capabilities.local:
        missing = await _read_pages(service, store, missing, pace, take)
    await each(missing, fetch)
    _remove_redacted(top, versions)
    _write_log(top / LOG_NAME, versions)
    os.sync()


async def _all_versions(service: MemoryStore, store: Store, pace: Pace) -> list[MemoryVersion]:
    found: list[MemoryVersion] = []
    page: str | None = None
    while True:
        at = page
        limit = service.capabilities.max_limit
        answer = await pace.call(lambda: service.list_versions(store.id, limit=limit, page=at))  # noqa: B023
        found += answer.data
        page = answer.next_page
        if page is None:
            return found


async def _read_pages(
    service: MemoryStore, store: Store, missing: Iterable[MemoryVersion], pace: Pace, take: Taker
) -> list[MemoryVersion]:
    """Take what pages of full versions show; return what they did not."""
    left = {version.id: version for version in missing}
    page: str | None = None
    while left:
        at = page
        answer = await pace.call(
            lambda: service.list_versions(store.id, limit=MAX_FULL_LIMIT, page=at, view="full")  # noqa: B023
        )
        for version in answer.data:
            if left.pop(version.id, None) is not None:
                await take(version)
        page = answer.next_page
        if page is None:
            break
    return list(left.values())


def _place(version: MemoryVersion) -> str | None:
    """Where the version's file is below `.versions`; None for one without a path (redacted) or a path no file can have."""
    if version.path is None or not is_legal(version.path):
        return None
    segments = version.path[1:].split("/")
    names = [shown_name(segment, in_root=number == 0) for number, segment in enumerate(segments)]
    return "/".join([*names, version_name(version.created_at, version.operation, version.id, names[-1])])


def _is_there(place: Path, version: MemoryVersion) -> bool:
    try:
        content = place.read_bytes()
    except OSError:
        return False
    return version.content_sha256 is None or sha256_of(content) == version.content_sha256


def _put(place: Path, version: MemoryVersion, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder / version.id
    unfinished.write_bytes(version.binary if version.binary is not None else encode(version.content or ""))
    seconds = version.created_at.timestamp()
    os.utime(unfinished, (seconds, seconds))
    unfinished.replace(place)


def _remove_redacted(top: Path, versions: Iterable[MemoryVersion]) -> None:
    """A redaction takes the content out of every copy that we keep."""
    redacted = {version.id for version in versions if version.redacted_at is not None}
    if not redacted:
        return
    for folder, _, names in os.walk(top):
        for name in names:
            if any(version_id in name for version_id in redacted):
                os.unlink(os.path.join(folder, name))


def _write_log(path: Path, versions: Iterable[MemoryVersion]) -> None:
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        for version in versions:
            file.write(version.model_dump_json(exclude={"content"}) + "\n")
    new.replace(path)


def _shown(place: Path, directory: Path) -> str:
    return f"/{place.relative_to(directory)}"
