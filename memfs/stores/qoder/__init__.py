"""Qoder Cloud Agents (``qoder+https://...``), both documented generations of its memory stores."""

from memfs.stores.qoder.store import QoderMemoryStore, open_qoder

__all__ = ["QoderMemoryStore", "open_qoder"]
