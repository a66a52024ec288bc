"""A stream without a DataFrame, for what needs no Spark."""

from __future__ import annotations

from eventide.fluent import FluentStream, Origin
from eventide.plan.logical import Stream
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements

COLUMNS = (("id", "string"), ("k", "string"), ("x", "string"), ("v", "bigint"), ("ts", "bigint"), ("at", "timestamp"))


def unbound(name: str = "clicks", columns: tuple[tuple[str, str], ...] = COLUMNS) -> FluentStream:
    return FluentStream((Origin(name, columns),), (f"`{name}`",))


def clicks() -> FluentStream:
    return unbound().event_time("ts", type="unixtimestamp_ms", lag="5 seconds")


def sql_over(fluent: FluentStream, sql: str) -> Stream:
    """The stream of a SQL query, or of a CREATE STREAM o, over the sources that `fluent` reads."""
    catalog = Catalog()
    catalog.sources.update({origin.name: origin.source() for origin in fluent._origins})
    catalog.tables.update({table.name: table for table in fluent._tables})
    (statement,) = parse_statements(sql if sql.startswith("CREATE") else f"CREATE STREAM o AS {sql}")
    catalog.apply(statement)
    return catalog.streams["o"]
