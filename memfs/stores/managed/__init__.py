"""Claude, OMA and `memfs serve`: the contract over HTTP."""

from memfs.stores.managed.store import ManagedMemoryStore, open_managed

__all__ = ["ManagedMemoryStore", "open_managed"]
