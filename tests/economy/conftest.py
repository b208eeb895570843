"""Mounts of a server's stores whose requests are counted by the mount itself."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.api import Api
from tests.harness.mounts import force_unmount
from tests.harness.serving import ServerProcess, memfs, serving

WATCHDOG_SECONDS = 120.0


@dataclass
class Store:
    """A store of the server, and how to mount it."""

    server: ServerProcess
    id: str
    api: Api
    root: Path
    """For mount points and for what mounts keep."""
    key: str

    @contextlib.contextmanager
    def mounted(self, name: str, *options: str, home: str | None = None) -> Iterator["Counted"]:
        """A mount, by the command that users type; down again at the end, with nothing left unstored.

        `home` names where caches and local state are, a place of its own when it is not given.
        """
        mountpoint = self.root / name
        mountpoint.mkdir()
        folder = self.root / (home or f"home-of-{name}")
        variables = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "STATE", "DATA")}
        for variable in variables.values():
            Path(variable).mkdir(parents=True, exist_ok=True, mode=0o700)
        variables["MEMFS_API_KEY"] = self.key
        memfs("mount", str(mountpoint), "--url", self.server.url, "--store", self.id, *options, **variables)
        abort = threading.Timer(WATCHDOG_SECONDS, force_unmount, [mountpoint])  # who waits inside the kernel gets an error
        abort.start()
        try:
            yield Counted(mountpoint)
            memfs("umount", str(mountpoint), **variables)
        finally:
            abort.cancel()
            force_unmount(mountpoint)


@dataclass
class Counted:
    """A mount of one store."""

    mountpoint: Path

    @property
    def path(self) -> Path:
        """The store's directory."""
        return self.mountpoint / "economy"

    def requests(self) -> Counter[str]:
        """All that the mount has asked so far, by method."""
        status = json.loads((self.mountpoint / ".memfs" / "status.json").read_text())
        (store,) = status["stores"]
        return Counter(store["requests"])

    @contextlib.contextmanager
    def made(self) -> Iterator[Counter[str]]:
        """The requests of the block, known at its end; polls of the change feed, which come by time, are `list_versions`."""
        counter: Counter[str] = Counter()
        before = self.requests()
        yield counter
        counter.update(self.requests() - before)

    def sh(self, command: str) -> str:
        """What bash prints in the store's directory. Raises `AssertionError` when it fails."""
        result = subprocess.run(
            ["bash", "-c", command],
            cwd=self.path,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("economy")
    with serving(f"sqlite:///{directory}/memfs.db", directory, "--no-access-log") as process:
        yield process


@pytest.fixture
def store(server: ServerProcess, tmp_path: Path) -> Iterator[Store]:
    """An empty store, of the test's own."""
    _, key = server.create_key("economy")
    api = Api(server.url, key)
    yield Store(server, api.create_store("Economy"), api, tmp_path, key)
    api.close()
