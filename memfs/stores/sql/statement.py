"""Statements, compiled once, and the connection that runs them.

SQLAlchemy writes the SQL for each database; running it goes straight to the driver, because a store's calls are so short that
the expression language's work per call would cost more than the database's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy.engine import Dialect
from sqlalchemy.sql.elements import ClauseElement

Row = Sequence[Any]


class DriverCursor(Protocol):
    rowcount: int

    def fetchall(self) -> Sequence[Row]: ...


class DriverConnection(Protocol):
    """What the connections of sqlite3 and psycopg have in common."""

    def execute(self, sql: str, parameters: Any = ..., /) -> DriverCursor: ...


class Statement:
    """One SQL expression; its parameters are the names of its `bindparam`s, for an insert those of the columns."""

    def __init__(self, expression: ClauseElement) -> None:
        self._expression = expression
        self._compiled: dict[str, tuple[str, dict[str, Any]]] = {}

    def compiled(self, dialect: Dialect) -> tuple[str, dict[str, Any]]:
        """The SQL text and the values of the parameters that the expression itself supplies."""
        found = self._compiled.get(dialect.name)
        if found is None:
            compiled = self._expression.compile(dialect=dialect)
            own = {name: value for name, value in (compiled.params or {}).items() if value is not None}
            found = self._compiled[dialect.name] = (str(compiled), own)
        return found


class Connection:
    """A driver's connection in autocommit mode: one statement is one transaction, unless `begin` opened one."""

    def __init__(self, driver: DriverConnection, dialect: Dialect) -> None:
        self.driver = driver
        self.dialect = dialect
        self._begin = "BEGIN IMMEDIATE" if dialect.name == "sqlite" else "BEGIN"

    def begin(self) -> None:
        """Open a transaction that writes; on SQLite it holds the database's write lock from here on."""
        self.driver.execute(self._begin)

    def commit(self) -> None:
        self.driver.execute("COMMIT")

    def rollback(self) -> None:
        self.driver.execute("ROLLBACK")

    def rows(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Row]:
        # All rows are fetched at once: a half-read SQLite statement keeps its read lock and forbids the commit.
        sql, own = statement.compiled(self.dialect)
        return self.driver.execute(sql, {**own, **parameters} if own else parameters).fetchall()

    def row(self, statement: Statement, parameters: Mapping[str, Any]) -> Row | None:
        """The first row, None when there is none."""
        rows = self.rows(statement, parameters)
        return rows[0] if rows else None

    def run(self, statement: Statement, parameters: Mapping[str, Any]) -> int:
        """Run a statement that answers no rows; return how many it changed."""
        sql, own = statement.compiled(self.dialect)
        return self.driver.execute(sql, {**own, **parameters} if own else parameters).rowcount
