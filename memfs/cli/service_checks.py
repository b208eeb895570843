"""What `memfs doctor` looks at beyond this machine: the service, its clock, the credential for it, a write there and back."""

import os
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memfs.cli.failures import CHECK_SERVICE, remedy
from memfs.cli.requirements import Finding
from memfs.cli.service import all_stores, call, find_store, new_database, opener, operator, without_credentials
from memfs.model.errors import MemfsError, NotFound, PermissionDenied, PreconditionFailed, Unauthenticated

if TYPE_CHECKING:
    from memfs.model.objects import Store
    from memfs.stores.base import MemoryStore

MAX_SKEW_SECONDS = 5.0
"""The change feed asks for what is newer than it knows, with an overlap of ten seconds."""
TIMEOUT_SECONDS = 5.0


def check_service(url: str, credentials_file: Path | None, *, write: bool, store: str | None) -> list[Finding]:
    """Findings about the service at `url`; with `write` also whether a memory can be stored, read, guarded and removed."""
    findings = list(_credential(url, credentials_file))
    findings += _clock_and_version(url)
    open_it = opener(url, actor=operator(), credentials_file=credentials_file, timeout=TIMEOUT_SECONDS)
    subject = f"service {without_credentials(url)}"
    if new_database(url) is not None:
        findings.append(Finding(subject, True, "is not there yet: the first mount makes it"))
        return findings

    async def look(service: "MemoryStore") -> "list[Store]":
        return await all_stores(service)

    began = time.monotonic()
    try:
        stores = call(open_it, look)
    except MemfsError as error:
        step = _remedy(error)
        findings.append(Finding(subject, False, error.message.removesuffix(f"; {step}"), step))
        return findings
    milliseconds = (time.monotonic() - began) * 1000
    count = f"{len(stores):,} active store{'s' if len(stores) != 1 else ''}"
    findings.append(Finding(subject, True, f"answers in {milliseconds:.0f} ms, {count}"))
    if write:
        findings.append(_write_and_read_back(url, credentials_file, store))
    return findings


def _remedy(error: MemfsError) -> str:
    if isinstance(error, Unauthenticated | PermissionDenied):
        from memfs.stores.credentials import REMEDY

        return REMEDY
    return remedy(error) or CHECK_SERVICE


def _credential(url: str, file: Path | None) -> Iterator[Finding]:
    from memfs.stores.credentials import KEY_VARIABLES, TOKEN_VARIABLES, Credentials

    if not url.startswith(("http://", "https://")) and "+https://" not in url:
        return  # a database has its own in the URL, or needs none
    subject = "credential"
    try:
        found = Credentials(file=file).current()
    except MemfsError as error:
        yield Finding(subject, False, error.message, "write the file anew: one line, the key or token")
        return
    if found is None:
        names = " or ".join((KEY_VARIABLES[0], TOKEN_VARIABLES[0]))
        yield Finding(subject, False, "there is none", f"set {names}, or name a file with --credentials-file", required=False)
        return
    source = next((name for name in (*TOKEN_VARIABLES, *KEY_VARIABLES) if os.environ.get(name, "").strip()), "")
    kind = "API key" if found.kind == "api_key" else "token"
    yield Finding(subject, True, f"{kind} from {file or source}")
    if file is not None and stat.S_IMODE(file.stat().st_mode) & 0o077:
        yield Finding(subject, False, f"others can read {file}", f"chmod 600 {file}", required=False)
    if url.startswith("http://") and not _is_loopback(url):
        yield Finding(subject, False, "it goes over the network in the clear", "use https://", required=False)


def _is_loopback(url: str) -> bool:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


def _clock_and_version(url: str) -> list[Finding]:
    """From the headers of an answer to nobody in particular: no credential is sent."""
    import httpx

    if not url.startswith(("http://", "https://")):
        return []
    try:
        answer = httpx.get(url, timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=not _is_loopback(url))
    except (httpx.HTTPError, httpx.InvalidURL):
        return []  # the finding about the service says why
    findings = []
    if (server := answer.headers.get("server")) is not None:
        findings.append(Finding("server", True, server))
    if (date := answer.headers.get("date")) is not None:
        from email.utils import parsedate_to_datetime

        try:
            theirs = parsedate_to_datetime(date)
        except ValueError:
            return findings
        skew = (datetime.now(UTC) - theirs).total_seconds()
        findings.append(_skew(skew))
    return findings


def _skew(seconds: float) -> Finding:
    if abs(seconds) <= MAX_SKEW_SECONDS:
        return Finding("clock", True, "agrees with the service's to within 5 s")
    direction = "ahead of" if seconds > 0 else "behind"
    detail = f"is {abs(seconds):.0f} s {direction} the service's"
    return Finding("clock", False, detail, "set this machine's clock (timedatectl set-ntp true)", required=False)


def _write_and_read_back(url: str, credentials_file: Path | None, name: str | None) -> Finding:
    """Make a memory, read it, see that a wrong hash is refused, and remove it; three versions stay in the history."""
    from memfs.model.ids import new_memory_id

    subject = "write and read back"
    path = f"/memfs-doctor-{new_memory_id()[-8:]}"
    content = "written by memfs doctor\n"
    open_it = opener(url, actor=operator(), credentials_file=credentials_file, timeout=TIMEOUT_SECONDS)

    async def work(service: "MemoryStore") -> Finding:
        if name is not None:
            store = await find_store(service, name)
        else:
            stores = await all_stores(service)
            if not stores:
                raise NotFound("there is no store: `memfs stores create NAME` makes one")
            store = stores[0]
        made = await service.create_memory(store.id, path, content)
        try:
            read = await service.retrieve_memory(store.id, made.id)
            if read.content != content:
                return Finding(subject, False, "the service gave back something else", "report this to whoever runs it")
            guarded = await _is_guarded(service, store, made.id)
        finally:
            await service.delete_memory(store.id, made.id)
        if not guarded:
            remedy = "do not let two sessions write to one store of it at the same time"
            return Finding(subject, False, "works, but the service overwrites what it was not asked to", remedy, required=False)
        return Finding(subject, True, f"works in {store.name!r}; {path} is gone again, its versions stay in the history")

    try:
        return call(open_it, work)
    except MemfsError as error:
        return Finding(subject, False, error.message, _remedy(error))


async def _is_guarded(service: "MemoryStore", store: "Store", memory_id: str) -> bool:
    from memfs.model.content import EMPTY_SHA256
    from memfs.model.ids import MemoryId

    try:
        await service.update_memory(store.id, MemoryId(memory_id), content="overwritten\n", precondition=EMPTY_SHA256)
    except PreconditionFailed:
        return True
    return False
