"""The stores that a command works on: which service, in whose name, and one event loop for the time of the command."""

import os
import pwd
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from memfs.cli.output import say
from memfs.model.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from memfs.model.objects import Actor, MemoryVersion, Store
    from memfs.stores.base import MemoryStore

Answer = TypeVar("Answer")
Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_TIMEOUT_SECONDS = 8.0

URL_HELP = (
    "Where the stores are: sqlite:///PATH, postgresql://..., https://..., qoder+https://..., tablestore+https://... "
    "or modelstudio+https://...; else $MEMFS_URL, else a database in your data directory."
)


def service_options(command: Command) -> Command:
    """The options `--url` and `--credentials-file` of every command that talks to a service."""
    for option in (
        click.option(
            "--credentials-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="A file with the token or API key of the service (else from the environment, such as $MEMFS_API_KEY).",
        ),
        click.option("--url", metavar="URL", envvar="MEMFS_URL", help=URL_HELP),
    ):
        command = option(command)
    return command


def resolve_url(url: str | None) -> str:
    """`url`, or that of the default database; a relative SQLite path is made absolute, so that it holds in any directory.

    Raises `InvalidRequest` for one of a service that cannot be read.
    """
    from memfs.stores.open import default_url

    if not url:
        return default_url()
    if "://" not in url:
        raise InvalidRequest("that is no URL: write sqlite:///PATH for a database file, or https://HOST for a service")
    if "http" in url.partition(":")[0]:
        try:
            urlsplit(url).port  # noqa: B018  raises for what is no host and port
        except ValueError:
            raise InvalidRequest("the URL cannot be read: write https://HOST or https://HOST:PORT") from None
    scheme, separator, path = url.partition(":///")
    if separator and scheme == "sqlite" and path and not path.startswith("/"):
        return f"{scheme}:////{os.path.abspath(os.path.expanduser(path)).lstrip('/')}"
    return url


def new_database(url: str) -> Path | None:
    """The file that opening `url`, a resolved one, will make: a SQLite database that is not there yet."""
    path = Path(url.removeprefix("sqlite:///"))
    return path if url.startswith("sqlite:///") and not path.exists() else None


@contextmanager
def telling_of_new_database(url: str, note: Callable[[str], None] = say) -> Iterator[None]:
    """Tell `note` when the database is made meanwhile: its path may be a mistyped one. That of this user is as it should be."""
    from memfs.stores.open import default_path

    path = new_database(url)
    yield
    if path is not None and path != default_path():
        note(f"created the database {path}")


def without_credentials(url: str) -> str:
    """`url` without user and password, for records, status and messages."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def operator() -> "Actor":
    """The person at the keyboard, for what is not done in a session's name."""
    from memfs.model.objects import UserActor

    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    return UserActor(user_id=f"user_{name}")


def opener(
    url: str,
    *,
    actor: "Actor",
    credentials_file: Path | None,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    note: Callable[[str], None] = say,
) -> "Callable[[], Awaitable[MemoryStore]]":
    """What opens the service inside an event loop. `timeout` bounds each call, in seconds; `note` hears of a new database."""

    async def open_it() -> "MemoryStore":
        from memfs.stores.credentials import Credentials
        from memfs.stores.open import open_service

        with telling_of_new_database(url, note):
            return await open_service(url, actor=actor, credentials=Credentials(file=credentials_file), timeout=timeout)

    return open_it


@asynccontextmanager
async def opened(open_it: "Callable[[], Awaitable[MemoryStore]]") -> "AsyncIterator[MemoryStore]":
    """The service, closed at the end."""
    import trio

    service = await open_it()
    try:
        yield service
    finally:
        with trio.CancelScope(shield=True):
            await service.aclose()


def call(open_it: "Callable[[], Awaitable[MemoryStore]]", work: "Callable[[MemoryStore], Awaitable[Answer]]") -> Answer:
    """Open the service, run `work` with it, close it."""
    import trio

    async def main() -> Answer:
        async with opened(open_it) as service:
            return await work(service)

    return trio.run(main)


async def all_stores(service: "MemoryStore", *, include_archived: bool = False) -> "list[Store]":
    """Every store, newest first."""
    from memfs.stores.base import MAX_LIMIT

    found: list[Store] = []
    page: str | None = None
    while True:
        try:
            answer = await service.list_stores(include_archived=include_archived, limit=MAX_LIMIT, page=page)
        except NotFound as error:
            raise NotFound(f"{error.message}: check the URL") from error
        found += answer.data
        page = answer.next_page
        if page is None:
            return found


async def find_store(service: "MemoryStore", name_or_id: str) -> "Store":
    """The store with that id, name or slug.

    An archived one is found by its id, or when no active one is called so. Raises `NotFound`, and `InvalidRequest` when
    several are called so.
    """
    from memfs.model.ids import StoreId
    from memfs.model.slugs import slug

    if name_or_id.startswith("memstore_"):
        return await service.retrieve_store(StoreId(name_or_id))
    stores = await all_stores(service, include_archived=True)
    for candidates in ([s for s in stores if s.archived_at is None], [s for s in stores if s.archived_at is not None]):
        for rule in (lambda s: s.id == name_or_id, lambda s: s.name == name_or_id, lambda s: slug(s.name, s.id) == name_or_id):
            found = [store for store in candidates if rule(store)]
            if len(found) == 1:
                return found[0]
            if found:
                ids = " and ".join(store.id for store in found)
                raise InvalidRequest(f"{len(found)} stores are called {name_or_id!r}: say which by its id, {ids}")
    names = ", ".join(repr(store.name) for store in stores if store.archived_at is None)
    there = f"are {names}" if names else "is none at all"
    raise NotFound(f"there is no store {name_or_id!r}: there {there}; `memfs stores create` makes one")


async def every_version(service: "MemoryStore", store_id: str, **filters: Any) -> "AsyncIterator[MemoryVersion]":
    """The versions of a store that match `filters`, newest first, without their content."""
    from memfs.model.ids import StoreId

    page: str | None = None
    while True:
        limit = service.capabilities.max_limit
        answer = await service.list_versions(StoreId(store_id), limit=limit, page=page, **filters)
        for version in answer.data:
            yield version
        page = answer.next_page
        if page is None:
            return


def service_of_mount(url: str) -> str:
    """The URL to open for a mount that records `url`: a password is in $MEMFS_URL or nowhere."""
    own = os.environ.get("MEMFS_URL")
    return own if own and without_credentials(resolve_url(own)) == url else url
