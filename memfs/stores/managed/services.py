"""What is known about the services that speak the contract, as data.

The first answer of a service tells which one it is. Until then, and for a service that none of the marks fits, the client
assumes the least: whole-second times, ``/a`` beside ``/a/b``, no order that versions could be trusted to follow.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from memfs.stores.base import Capabilities


@dataclass(frozen=True)
class Service:
    """One implementation of the contract."""

    name: str
    capabilities: Capabilities
    lost_race_messages: tuple[str, ...] = ()
    """Messages of a 500 that mean: another writer won, read again and retry."""


UNKNOWN = Service(
    name="unknown",
    capabilities=Capabilities(time_resolution_ns=1_000_000_000, prefix_excludes_memory=False),
    lost_race_messages=("Could not update memory",),
)
"""Also OMA, whose answers bear no mark of its own."""

CLAUDE = Service(name="claude", capabilities=Capabilities(max_memories=10_000))

MEMFS = Service(name="memfs", capabilities=Capabilities(strict_time_order=True, grouped_listing=True))
"""`memfs serve`, on any database."""


def recognise(headers: Mapping[str, str]) -> Service:
    """The service whose answer bears these headers (names in lower case)."""
    if headers.get("server", "").partition("/")[0] == "memfs":
        return MEMFS
    if "anthropic-organization-id" in headers:
        return CLAUDE
    return UNKNOWN
