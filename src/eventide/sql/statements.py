"""The statements of Eventide. `text` is each statement's SQL exactly as written, without the semicolon."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token

from eventide.plan.logical import Column
from eventide.sql.options import Options
from eventide.sql.syntax import EmitNode, QueryNode, SourceNode


@dataclass(frozen=True, eq=False)
class CreateSource:
    """What its clauses name is resolved only when it is lowered: see `sql.lower_source`."""

    text: str
    name: str
    place: Token  # of the name
    source: SourceNode
    connector: str
    options: Options
    or_replace: bool = False
    if_not_exists: bool = False
    keep_state: bool = False


@dataclass(frozen=True, eq=False)
class CreateStream:
    """The query is resolved against a catalog only when it is lowered: see `sql.lower`."""

    text: str
    name: str
    query: QueryNode
    emit: EmitNode
    options: Options
    or_replace: bool = False
    if_not_exists: bool = False
    keep_state: bool = False


@dataclass(frozen=True, eq=False)
class CreateSink:
    """The stream that it reads, if any, is resolved only when it is lowered: see `sql.catalog`."""

    text: str
    name: str
    stream: str | None
    connector: str
    options: Options
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, eq=False)
class CreateTable:
    text: str
    name: str
    columns: tuple[Column, ...]
    connector: str
    options: Options
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, eq=False)
class CreateView:
    """A query that takes the place of its name wherever that is read."""

    text: str
    name: str
    query: QueryNode
    or_replace: bool = False
    if_not_exists: bool = False

    def as_stream(self, emit: EmitNode) -> CreateStream:
        """The stream that reads all of it."""
        return CreateStream(self.text, self.name, self.query, emit, Options(self.query.span.sql, {}))


@dataclass(frozen=True, eq=False)
class Alter:
    """ALTER STREAM or ALTER SOURCE name SET (...): other values for some options."""

    text: str
    kind: str  # source, stream
    name: str
    options: Options


@dataclass(frozen=True, eq=False)
class Drop:
    text: str
    kind: str  # source, stream, sink, table, view
    name: str
    if_exists: bool = False


@dataclass(frozen=True, eq=False)
class RefreshTable:
    """REFRESH TABLE: read it anew now."""

    text: str
    name: str


@dataclass(frozen=True, eq=False)
class Show:
    text: str
    what: str  # sources, streams, sinks, views, tables


@dataclass(frozen=True, eq=False)
class Describe:
    text: str
    name: str
    is_extended: bool = False  # with the options of its connector


@dataclass(frozen=True, eq=False)
class Explain:
    """EXPLAIN of a stream that exists (`name`) or of a query given here (`stream`)."""

    text: str
    name: str | None = None
    stream: CreateStream | None = None


@dataclass(frozen=True, eq=False)
class Select:
    """A query to run once over what streams have given.

    `tables` are the names behind FROM and JOIN that are not those of WITH queries. `spark_sql` is the text with names
    such as x$late in backticks, which Spark wants.
    """

    text: str
    spark_sql: str
    tables: tuple[str, ...]


Create = CreateSource | CreateStream | CreateSink | CreateTable | CreateView
Statement = Create | Alter | Drop | RefreshTable | Show | Describe | Explain | Select
