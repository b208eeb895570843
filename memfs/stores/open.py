"""From a URL to the service behind it. Backends are imported only when a URL asks for them."""

from pathlib import Path

import platformdirs

from memfs.model.errors import InvalidRequest
from memfs.model.objects import Actor
from memfs.stores.base import MemoryStore
from memfs.stores.credentials import Credentials

DEFAULT_TIMEOUT = 8.0

_SQL = ("sqlite", "postgresql", "postgres", "postgresql+psycopg")
_MANAGED = ("http", "https")
_SCHEMES = ("sqlite", "postgresql", "https", "http", "qoder+https", "tablestore+https", "modelstudio+https")


def default_url() -> str:
    """The embedded database of this user, in the XDG data directory."""
    return f"sqlite:///{default_path()}"


def default_path() -> Path:
    return platformdirs.user_data_path("memfs", appauthor=False) / "memfs.db"


async def open_service(
    url: str, *, actor: Actor, credentials: Credentials | None = None, timeout: float = DEFAULT_TIMEOUT
) -> MemoryStore:
    """The stores at `url`: ``sqlite:///PATH``, ``postgresql://...``, ``https://...``, or ``qoder+https://...``,
    ``tablestore+https://...``, ``modelstudio+https://...``.

    A database records every write as made by `actor`; a service over HTTP takes the actor from the credential, where None
    means that of the environment. `timeout`, in seconds, bounds each call. Raises `InvalidRequest` for another URL.
    """
    scheme = url.partition(":")[0]
    if scheme in _SQL:
        from memfs.stores.sql import SqlDatabase, SqlMemoryStore

        database = await SqlDatabase.open(url, timeout=timeout)
        try:
            return SqlMemoryStore(database, actor, owns_database=True)
        except BaseException:
            await database.aclose()
            raise
    if scheme in _MANAGED:
        from memfs.stores.managed import open_managed

        return await open_managed(url, credentials=credentials, timeout=timeout)
    kind, _, protocol = scheme.partition("+")
    if protocol in _MANAGED and kind == "qoder":
        from memfs.stores.qoder import open_qoder

        return await open_qoder(url, credentials=credentials, timeout=timeout)
    if protocol in _MANAGED and kind == "tablestore":
        from memfs.stores.tablestore import open_tablestore

        return await open_tablestore(url, actor=actor, credentials=credentials, timeout=timeout)
    if protocol in _MANAGED and kind == "modelstudio":
        from memfs.stores.modelstudio import open_modelstudio

        return await open_modelstudio(url, credentials=credentials, timeout=timeout)
    # The URL itself may hold a password, so that only its scheme is repeated.
    known = ", ".join(f"{one}:" for one in _SCHEMES)
    raise InvalidRequest(f"there is no kind of service for URLs of the scheme {scheme[:20]!a}: use one of {known}")
