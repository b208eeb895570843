"""The tables. Every statement of this package is written against them; `VERSION` changes whenever they do.

Times are integers, microseconds since 1970 in UTC. Text compares by the bytes of its UTF-8 on every database. Actors are two
columns, the type and the id of contract section 2. A store's row is the lock of all that is in the store: whoever writes
anything of a store holds that row (PostgreSQL) or the database (SQLite) until the end of its transaction.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text

VERSION = 1

metadata = MetaData()

_text = Text().with_variant(Text(collation="C"), "postgresql")

schema = Table(
    "memfs_schema",
    metadata,
    # One row. Its presence says that the database is ours, its number which tables it has.
    Column("version", Integer, nullable=False),
)

stores = Table(
    "memory_stores",
    metadata,
    Column("id", _text, primary_key=True),
    Column("name", _text, nullable=False),
    Column("description", _text, nullable=False),
    # A JSON object of texts.
    Column("metadata", _text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Moves with name, description, metadata and archiving, never with memories.
    Column("updated_at", BigInteger, nullable=False),
    # Null while the store is active; set once.
    Column("archived_at", BigInteger),
    # How many rows of `memories` the store has, for the cap and for usage().
    Column("memory_count", BigInteger, nullable=False),
    # The sum of their content_size_bytes.
    Column("content_bytes", BigInteger, nullable=False),
    # created_at of the store's newest version, 0 before the first. The next version takes the present time or, when
    # that is not later, this plus one: so the times of a store's versions rise strictly, whatever the clocks do.
    Column("last_version_at", BigInteger, nullable=False),
)
Index("memory_stores_by_time", stores.c.created_at, stores.c.id)
Index(
    "memory_stores_active_by_time",
    stores.c.created_at,
    stores.c.id,
    sqlite_where=stores.c.archived_at.is_(None),
    postgresql_where=stores.c.archived_at.is_(None),
)

memories = Table(
    "memories",
    metadata,
    # Never used again after the memory is deleted.
    Column("id", _text, primary_key=True),
    Column("store_id", _text, ForeignKey("memory_stores.id", ondelete="CASCADE"), nullable=False),
    # Unique in the store, and neither above nor below another memory's path: the second half is checked by whoever
    # writes, under the store's lock.
    Column("path", _text, nullable=False),
    # The head: the newest row of `memory_versions` for this memory, which holds the content and is never redacted.
    Column("version_id", _text, nullable=False),
    # Both as in the head.
    Column("content_sha256", _text, nullable=False),
    Column("content_size_bytes", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # created_at of the head.
    Column("updated_at", BigInteger, nullable=False),
)
Index("memories_by_path", memories.c.store_id, memories.c.path, unique=True)

versions = Table(
    "memory_versions",
    metadata,
    Column("id", _text, primary_key=True),
    Column("store_id", _text, ForeignKey("memory_stores.id", ondelete="CASCADE"), nullable=False),
    # May name a memory that is deleted by now.
    Column("memory_id", _text, nullable=False),
    # created, modified or deleted.
    Column("operation", _text, nullable=False),
    # Null if and only if the version is redacted.
    Column("path", _text),
    # These two and the content are null when the version is redacted or a deletion.
    Column("content_sha256", _text),
    Column("content_size_bytes", BigInteger),
    # Unique in the store, and rising with the order of commits.
    Column("created_at", BigInteger, nullable=False),
    # Both null when the author was not recorded; the id alone where the author has none.
    Column("actor_type", _text),
    Column("actor_id", _text),
    Column("redacted_at", BigInteger),
    Column("redacted_by_type", _text),
    Column("redacted_by_id", _text),
    # UTF-8. Bytes and not text, because PostgreSQL's text cannot hold NUL; last, because SQLite reads a row up to the
    # last column that is asked for, and listings do not ask for this one.
    Column("content", LargeBinary),
)
Index("memory_versions_by_time", versions.c.store_id, versions.c.created_at, unique=True)
Index("memory_versions_by_memory", versions.c.memory_id, versions.c.created_at)
Index("memory_versions_by_operation", versions.c.store_id, versions.c.operation, versions.c.created_at)
Index("memory_versions_by_actor", versions.c.store_id, versions.c.actor_id, versions.c.actor_type, versions.c.created_at)
