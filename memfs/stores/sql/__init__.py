"""The reference backend: memory stores in a SQLite file (the embedded default) or a PostgreSQL database.

`SqlDatabase.open` opens either; its `store_service` gives the `SqlMemoryStore` of one actor.
"""

from memfs.stores.sql.database import DEFAULT_MAX_MEMORIES, SqlDatabase
from memfs.stores.sql.service import SqlMemoryStore

__all__ = ["DEFAULT_MAX_MEMORIES", "SqlDatabase", "SqlMemoryStore"]
