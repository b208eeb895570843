"""The emulated services, running, with what a client needs to reach them."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.emulators import modelstudio, qoder, tablestore
from tests.emulators.serving import Emulator, served

SCOPE = "app-001/user-001/assistant/session-001"


@dataclass(frozen=True)
class Dialect:
    """One emulated service."""

    name: str
    emulator: Emulator
    url: str
    """As a user writes it."""
    environment: dict[str, str] = field(repr=False)
    """Its credential, as the environment of a client."""

    def mutations(self) -> int:
        """How many requests came that can change a memory."""
        if self.name == "tablestore":
            return sum(self.emulator.count("POST", action) for action in ("AddItem", "UpdateItem", "DeleteItem"))
        return len([line for line in self.emulator.requests if not line.startswith("GET ") and not line.endswith("/archive")])


_MAKERS: dict[str, tuple[Callable[[], Emulator], str]] = {
    "qoder-entry": (lambda: qoder.Qoder("entry"), qoder.TOKEN),
    "qoder-memory": (lambda: qoder.Qoder("memory"), qoder.TOKEN),
    "tablestore": (tablestore.Tablestore, tablestore.KEY),
    "modelstudio": (modelstudio.ModelStudio, modelstudio.TOKEN),
}

DIALECTS = tuple(_MAKERS)


@contextlib.contextmanager
def dialect(name: str) -> Iterator[Dialect]:
    """A fresh emulator of that name, for as long as the block lasts."""
    make, token = _MAKERS[name]
    emulator = make()
    kind = name.partition("-")[0]
    with served(emulator, tls=kind == "tablestore") as root:
        url = f"{kind}+{root}/{emulator.base}"
        if kind == "tablestore":
            url = f"{kind}+{root}?scope={SCOPE}&instance={tablestore.INSTANCE}"
        yield Dialect(name, emulator, url, {"MEMFS_API_KEY": token})
