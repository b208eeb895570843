"""The official SDKs, each in a folder of its own, so that two releases of one can be driven side by side."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.serving import ServerProcess, serving

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "peers"
NODE_MODULES = ROOT / "build" / "node" / "node_modules"

PYTHON_SDKS = {"anthropic-2": "anthropic>=2.14,<3", "anthropic-1": "anthropic>=1.17,<2"}


OTHER_SDKS = {
    "tablestore": "tablestore-agent-storage==1.0.10",
    "qoder": "qca-sdk==0.11.0",
    "modelstudio": "dashscope==2.0.2",
}
"""Those of the other services, which drive the emulators."""


def python_sdk(name: str) -> Path:
    """The folder of one of these SDKs, for PYTHONPATH; fetched by its first test and kept."""
    folder, requirement = BUILD / name, {**PYTHON_SDKS, **OTHER_SDKS}[name]
    done = folder / "requirement"
    if not done.is_file() or done.read_text() != requirement:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
        fetched = subprocess.run([*pip, "--target", str(folder), requirement], capture_output=True, text=True, check=False)
        assert fetched.returncode == 0, fetched.stderr
        done.write_text(requirement)
    return folder


Driver = Callable[..., str]


@pytest.fixture
def drive() -> Driver:
    """Runs a program of this folder that uses an SDK, and returns what it printed."""

    def run(program: str, *arguments: str, sdk: str, **environment: str) -> str:
        path = Path(__file__).parent / program
        clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        if sdk == "node":
            assert NODE_MODULES.is_dir(), "scripts/setup --test-tools fetches the packages for Node"
            # An ES module finds packages beside itself only.
            link = BUILD / "node" / "node_modules"
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(NODE_MODULES)
            copy = link.parent / program
            copy.write_bytes(path.read_bytes())
            command = ["node", str(copy)]
        else:
            command = [sys.executable, str(path)]
            clean["PYTHONPATH"] = str(python_sdk(sdk))
        result = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=120, check=False, env={**clean, **environment}
        )
        assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
        return result.stdout

    return run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that wants credentials and every header that the contract wants."""
    directory = tmp_path_factory.mktemp("peers")
    with serving(f"sqlite:///{directory}/data/memfs.db", directory, "--strict") as process:
        process.create_key("first")
        yield process
        assert "Traceback" not in process.log.read_text()
