"""A private PostgreSQL cluster for the tests: on a free loopback port, below the run's temporary directory, gone afterwards."""

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

START_SECONDS = 30
STOP_SECONDS = 20


class Cluster:
    """A running PostgreSQL server that trusts every local connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._numbers = itertools.count(1)

    def url(self, database: str) -> str:
        return f"postgresql://memfs@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty database of its own."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        return self.url(name)


def _programs() -> Path:
    """The folder of Debian's newest PostgreSQL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).parent
    raise RuntimeError("these tests need PostgreSQL: apt-get install postgresql")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """PostgreSQL with its data in `directory`, which must not exist yet and which the user `postgres` must be able to reach.

    It refuses to run as root, and then runs as `postgres`. Its default order is that of a language, so that what relies on
    the order of bytes without saying so fails.
    """
    programs = _programs()
    directory.mkdir(mode=0o700)
    account = {}
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(directory, user.pw_uid, user.pw_gid)
        account = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data, log = directory / "data", directory / "log"
    options = ["--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync"]
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-U", "memfs", "--auth=trust", *options],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        **account,
    )
    assert made.returncode == 0, made.stderr
    port = _free_port()
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
        "max_connections": 300,
        "shared_buffers": "64MB",
    }
    arguments = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            **account,
        )
    try:
        cluster = Cluster(port)
        _wait_until_ready(cluster, server, log)
        yield cluster
    finally:
        server.send_signal(signal.SIGINT)  # ends the sessions that are still open
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGQUIT)
            server.wait(STOP_SECONDS)


def _wait_until_ready(cluster: Cluster, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(cluster.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}") from None
            time.sleep(0.05)
        else:
            return


@pytest.fixture(scope="session")
def postgres_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for the whole run; take a `new_database` each."""
    directory = tmp_path_factory.mktemp("postgres")
    directory.chmod(0o711)
    with running_cluster(directory / "cluster") as cluster:
        _running.append(cluster)
        yield cluster
        _running.remove(cluster)


_running: list[Cluster] = []


def running() -> Cluster:
    """The run's cluster, once a test has asked for the fixture `postgres_cluster`."""
    return _running[-1]
