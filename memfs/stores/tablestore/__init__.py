"""Tablestore AgentStorage (``tablestore+https://INSTANCE.ENDPOINT/STORE?scope=app/tenant/agent/run``)."""

from memfs.stores.tablestore.store import TablestoreMemoryStore, open_tablestore

__all__ = ["TablestoreMemoryStore", "open_tablestore"]
