"""`memfs serve` and what belongs to it: `keys` for programs and people, `sessions` for agents."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memfs.cli.output import print_json, print_object, print_table, say
from memfs.cli.service import find_store, operator, resolve_url, telling_of_new_database

if TYPE_CHECKING:
    from memfs.model.ids import SessionId
    from memfs.server.credentials import Keyring, ServedSession
    from memfs.stores.sql import SqlDatabase

Answer = TypeVar("Answer")
Command = TypeVar("Command", bound=Callable[..., Any])


def _database_option(command: Command) -> Command:
    return click.option(
        "--url",
        metavar="URL",
        envvar="MEMFS_URL",
        help="The database: sqlite:///PATH or postgresql://...; else $MEMFS_URL, else the one in your data directory.",
    )(command)


def _json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


def _days(_context: click.Context, _parameter: click.Parameter, value: float | None) -> timedelta | None:
    return None if value is None else timedelta(days=value)


def _lifetime_option(command: Command) -> Command:
    return click.option(
        "--expires",
        "lifetime",
        metavar="DAYS",
        type=click.FloatRange(min=0, min_open=True, max=36_500),
        callback=_days,
        help="Refuse it after so many days.",
    )(command)


def _with_database(url: str | None, work: "Callable[[SqlDatabase, Keyring], Awaitable[Answer]]") -> Answer:
    import anyio

    from memfs.server.database import open_database

    async def main() -> Answer:
        resolved = resolve_url(url)
        async with AsyncExitStack() as stack:
            with telling_of_new_database(resolved):
                database, keyring = await stack.enter_async_context(open_database(resolved))
            return await work(database, keyring)

    return anyio.run(main)


def _with_keyring(url: str | None, work: "Callable[[Keyring], Answer]") -> Answer:
    async def with_both(_database: "SqlDatabase", keyring: "Keyring") -> Answer:
        return work(keyring)

    return _with_database(url, with_both)


@click.command()
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:38080", show_default=True, help="Port 0 takes a free one.")
@_database_option
@click.option("--strict", is_flag=True, help="Refuse requests without the anthropic-beta header.")
@click.option(
    "--access-log/--no-access-log", default=True, show_default=True, help="A line for each request on standard error."
)
@click.option("--max-memories", type=click.IntRange(min=1), help="How many memories a store may hold (default 10,000).")
def serve(listen: str, url: str | None, strict: bool, access_log: bool, max_memories: int | None) -> None:
    """Serve the stores of a database over HTTP.

    The official SDKs can use it, and other mounts. Prints "listening on URL" when it answers, and serves until SIGTERM or
    Ctrl-C; requests in flight are finished. On a loopback address, and until the first `memfs keys create`, any program of
    this machine may use it without a credential. On any other address it does not start before there is an API key.

    \b
    Example:
      memfs serve --listen 127.0.0.1:38080
      memfs mount --url http://127.0.0.1:38080 /mnt/memory
    """
    from memfs.cli.notify import notify
    from memfs.model.errors import NotSupported

    def ready(served: str) -> None:
        opening.close()
        print(f"listening on {served}", flush=True)
        notify("READY=1")

    try:
        from memfs.server.run import Address
        from memfs.server.run import serve as run
    except ModuleNotFoundError as error:
        raise NotSupported(f"serving needs the package {error.name}: pip install 'memfs[server]'") from None
    address = Address.parse(listen)
    with ExitStack() as opening:
        resolved = resolve_url(url)
        opening.enter_context(telling_of_new_database(resolved))
        run(resolved, address, strict=strict, access_log=access_log, max_memories=max_memories, ready=ready)


@click.group()
def keys() -> None:
    """API keys for `memfs serve`.

    A key reaches every store; its id is recorded with each change it makes. From the first one on the server asks for a
    credential, and revoking the last one does not change that.

    \b
    Example:
      export MEMFS_API_KEY=$(memfs keys create laptop)
    """


@keys.command("create")
@click.argument("name")
@_lifetime_option
@_json_option
@_database_option
def create_key(name: str, lifetime: timedelta | None, as_json: bool, url: str | None) -> None:
    """Make a key and print it; it cannot be shown again.

    \b
    Example: memfs keys create ci --expires 90
    """
    key, minted = _with_keyring(url, lambda keyring: keyring.create_key(name, lifetime=lifetime))
    if as_json:
        print_json({**key.model_dump(mode="json"), "key": minted.secret})
        return
    print(minted.secret)
    say(f"this is {key.id}; keep the key, it is shown only now")


@keys.command("list")
@_json_option
@_database_option
def list_keys(as_json: bool, url: str | None) -> None:
    """List the keys, newest first, without their secrets."""
    found = _with_keyring(url, lambda keyring: keyring.list_keys())
    if as_json:
        for key in found:
            print_object(key)
        return
    if not found:
        say("there is no key yet: `memfs keys create NAME` makes one")
        return
    rows = []
    for key in found:
        state = "revoked" if key.revoked_at else "works" if key.works_now() else "expired"
        until = f"{key.expires_at:%Y-%m-%d}" if key.expires_at else "-"
        rows.append((key.id, key.name, f"{key.created_at:%Y-%m-%d}", until, state))
    print_table(("ID", "NAME", "CREATED", "EXPIRES", "STATE"), rows)


@keys.command("revoke")
@click.argument("key_id", metavar="ID")
@_json_option
@_database_option
def revoke_key(key_id: str, as_json: bool, url: str | None) -> None:
    """Refuse a key from now on; its name stays in the history.

    \b
    Example: memfs keys revoke apikey_01...
    """
    from memfs.model.ids import ApiKeyId

    key = _with_keyring(url, lambda keyring: keyring.revoke_key(ApiKeyId(key_id)))
    if as_json:
        print_object(key)
    else:
        say(f"{key.id} ({key.name}) is revoked")


@click.group()
def sessions() -> None:
    """Sessions for `memfs serve`, one for each task of an agent.

    A session says what the agent may reach, and its changes bear its name.

    \b
    Example:
      memfs sessions create --store notes --store policy:ro --json
    """


@sessions.command("create")
@click.option("--store", "stores", multiple=True, metavar="STORE[:ro]", help="Attach it; repeatable, at most eight.")
@click.option("--instructions", nargs=2, multiple=True, metavar="STORE TEXT", help="What the agent is told about a store.")
@click.option("--title", help="For people.")
@_lifetime_option
@_json_option
@_database_option
def create_session(
    stores: tuple[str, ...],
    instructions: tuple[tuple[str, str], ...],
    title: str | None,
    lifetime: timedelta | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Make a session and print its token.

    The token cannot be shown again. A STORE is given by its id, its name or its directory's name.

    \b
    Example:
      export MEMFS_AUTH_TOKEN=$(memfs sessions create --store notes --store policy:ro)
    """
    told = dict(instructions)

    async def work(database: "SqlDatabase", keyring: "Keyring") -> "tuple[ServedSession, str]":
        from memfs.model.errors import InvalidRequest
        from memfs.model.slugs import slug
        from memfs.server.sessions import attach
        from memfs.server.wire import AttachStore

        service = database.store_service(operator())
        wanted = []
        for argument in stores:
            name, access = (argument.removesuffix(":ro"), "read_only") if argument.endswith(":ro") else (argument, "read_write")
            store = await find_store(service, name)
            meant = [key for key in told if key in (name, store.id, store.name, slug(store.name, store.id))]
            text = told.pop(meant[0]) if meant else None
            element = {"type": "memory_store", "memory_store_id": store.id, "access": access, "instructions": text}
            wanted.append(AttachStore.model_validate(element))
        if told:
            raise InvalidRequest(f"--instructions for {next(iter(told))}, which is not among the --store options")
        session = keyring.create_session(await attach(service, wanted), title=title)
        return session, keyring.create_token(session.id, lifetime=lifetime).secret

    session, token = _with_database(url, work)
    if as_json:
        print_json({**session.model_dump(mode="json"), "token": token})
        return
    print(token)
    say(f"this is the token of {session.id}; keep it, it is shown only now")


@sessions.command("show")
@click.argument("session_id", metavar="ID")
@_json_option
@_database_option
def show_session(session_id: str, as_json: bool, url: str | None) -> None:
    """Show what a session attaches.

    \b
    Example: memfs sessions show sesn_01...
    """
    session = _with_keyring(url, lambda keyring: keyring.retrieve_session(_session_id(session_id)))
    if as_json:
        print_object(session)
        return
    say(f"{session.id} is {'ended' if session.status == 'terminated' else 'open'}")
    rows = [(r.memory_store_id, r.access, r.mount_path or "", r.name) for r in session.memory_stores]
    print_table(("STORE", "ACCESS", "MOUNT PATH", "NAME"), rows)


@sessions.command("token")
@click.argument("session_id", metavar="ID")
@_lifetime_option
@_json_option
@_database_option
def create_token(session_id: str, lifetime: timedelta | None, as_json: bool, url: str | None) -> None:
    """Make one more token of a session and print it.

    Such as of a session that was made over HTTP.

    \b
    Example: memfs sessions token sesn_01... --expires 1
    """
    minted = _with_keyring(url, lambda keyring: keyring.create_token(_session_id(session_id), lifetime=lifetime))
    if as_json:
        print_json({"session_id": session_id, "token": minted.secret})
    else:
        print(minted.secret)


@sessions.command("end")
@click.argument("session_id", metavar="ID")
@_json_option
@_database_option
def end_session(session_id: str, as_json: bool, url: str | None) -> None:
    """Refuse a session's tokens from now on.

    \b
    Example: memfs sessions end sesn_01...
    """
    session = _with_keyring(url, lambda keyring: keyring.end_session(_session_id(session_id)))
    if as_json:
        print_object(session)
    else:
        say(f"{session.id} is ended")


def _session_id(text: str) -> "SessionId":
    from memfs.model.ids import SessionId

    return SessionId(text)


COMMANDS = (serve, keys, sessions)
