"""`memfs serve` for the tests: as the process that users start, and inside the test's own process where hundreds are needed."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio

from memfs.server.calls import Backend
from memfs.server.credentials import Keyring
from memfs.server.database import open_database
from memfs.server.run import Address, HttpServer, url_of

START_SECONDS = 30
STOP_SECONDS = 40


def memfs(*arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command of ours to its end."""
    result = subprocess.run(
        [sys.executable, "-m", "memfs", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        check=False,
    )
    if check:
        assert result.returncode == 0, result.stderr
    return result


@dataclass
class ServerProcess:
    """A `memfs serve` that answers at `url`."""

    url: str
    database: str
    process: subprocess.Popen[str]
    log: Path

    def create_key(self, name: str = "tests", lifetime: timedelta | None = None) -> tuple[str, str]:
        """Id and secret of a new API key."""
        keyring = Keyring(self.database)
        try:
            key, minted = keyring.create_key(name, lifetime=lifetime)
        finally:
            keyring.close()
        return key.id, minted.secret

    def create_session(self, *stores: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
        """A new session with these stores (`ID` or `ID:ro`), with its `token`."""
        chosen = [argument for store in stores for argument in ("--store", store)]
        made = memfs("sessions", "create", "--json", "--url", self.database, *chosen, *options)
        answer: dict[str, Any] = json.loads(made.stdout)
        return answer

    def stop(self) -> int:
        """End it as an administrator would; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


@contextlib.contextmanager
def serving(database: str, directory: Path, *options: str, listen: str = "127.0.0.1:0") -> Iterator[ServerProcess]:
    """A server process on a free port; its standard error goes to a file in `directory`."""
    number = len(list(directory.glob("serve-*.log")))
    log = directory / f"serve-{number}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "memfs", "serve", "--listen", listen, "--url", database, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        line = process.stdout.readline() if readable else ""
        assert line.startswith("listening on http://"), f"the server did not start: {log.read_text()}"
        yield ServerProcess(line.removeprefix("listening on ").strip(), database, process, log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()


@dataclass
class ServerThread:
    """The same server in a thread of the test's process, on a real socket."""

    url: str = ""
    keyring: Keyring = field(default=None)  # type: ignore[assignment]
    failure: BaseException | None = None


@contextlib.contextmanager
def serving_in_thread(database: str, *, strict: bool = False, max_memories: int | None = None) -> Iterator[ServerThread]:
    """Starts within milliseconds, for cases that need a fresh database each."""
    state = ServerThread()
    ready = threading.Event()
    servers: list[HttpServer] = []

    async def main() -> None:
        async with open_database(database, max_memories=max_memories) as (stores, keyring):
            with Address("127.0.0.1", 0).bind() as listener:
                backend = Backend(stores, keyring, strict=strict, local=True)
                state.keyring = keyring
                state.url = url_of(listener)
                server = HttpServer(backend, ready.set)
                servers.append(server)
                await server.serve([listener])

    def run() -> None:
        try:
            anyio.run(main)
        except BaseException as error:  # noqa: BLE001  it belongs to the test's own thread
            state.failure = error
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="memfs-serve")
    thread.start()
    try:
        assert ready.wait(START_SECONDS)
        if state.failure is not None:
            raise state.failure
        yield state
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(STOP_SECONDS)
        assert not thread.is_alive()
