"""CREATE SOURCE and CREATE SINK, from the statement to the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import Token

from eventide.connectors.declaration import Reads
from eventide.connectors.registry import SINKS, SOURCES
from eventide.errors import OptionError, SqlError, suggest
from eventide.eventtime.registry import EpochUnit, EventTimeType, Iso8601, SparkTimestamp, event_time_types
from eventide.plan.logical import Column, Dedup, EventTime, Scan, Sink, Source
from eventide.sql.options import Options, admission_of, own_options
from eventide.sql.scope import Scope, ScopeColumn, TimeOf, columns_of, rewrite
from eventide.sql.statements import CreateSink, CreateSource
from eventide.sql.syntax import Path, SourceNode
from eventide.sql.tokens import error_at
from eventide.sql.type_names import TIME_TYPES, struct_fields


def lower_source(statement: CreateSource) -> Source:
    """The source that a CREATE SOURCE makes. Raises what is wrong with it."""
    connector, options = SOURCES[statement.connector], statement.options
    columns = _columns(statement, connector)
    build = _SourceBuilder(columns, statement.source, options)
    own, metadata = own_options(options, connector), _metadata(statement, connector)
    source = Source(statement.name, columns, statement.connector, metadata=metadata, options=own)
    _check_raw(statement, source)
    skew = options.duration("max_future_skew")
    return replace(
        source,
        event_time=build.event_time(connector),
        watermark_lag=build.lag(connector),
        watermark_sql=build.watermark_sql(),
        messages=build.messages(),
        dedup=build.dedup(),
        idle_timeout=options.duration("idle_timeout"),
        keep=_keep(statement),
        max_future_skew=source.max_future_skew if skew is None else skew,
        refuses_empty_rows=options.text("empty_rows") == "error",
        admission=admission_of(options),
    )


def _keep(statement: CreateSource) -> int | None:
    if "rows.keep" in statement.options.given and statement.connector != "embedded":
        raise statement.options.error(
            "rows.keep",
            f"'rows.keep' is about rows that are written with db.write, and {statement.name} is read from elsewhere",
            "leave it out",
        )
    return statement.options.keep("rows.keep")


def lower_sink(statement: CreateSink) -> Sink:
    """The sink that a CREATE SINK makes, with the name of its stream as written."""
    own = own_options(statement.options, SINKS[statement.connector])
    return Sink(statement.name, statement.stream, statement.connector, own)


def _columns(statement: CreateSource, connector: Reads) -> tuple[Column, ...]:
    fixed = tuple(Column(*column) for column in connector.columns)
    columns = statement.source.columns
    if fixed and columns and tuple((c.name.lower(), c.type) for c in columns) != connector.columns:
        listed = ", ".join(f"{c.name} {c.type.upper()}" for c in fixed)
        raise error_at(
            statement.options.sql,
            statement.place,
            f"the connector '{statement.connector}' has its own columns",
            f"leave the columns out, or write ({listed})",
        )
    if fixed:
        return fixed
    if not columns:
        raise error_at(
            statement.options.sql,
            statement.place,
            "a source needs columns",
            "write CREATE SOURCE name (id STRING, ts TIMESTAMP, ...)",
        )
    return columns


def _metadata(statement: CreateSource, connector: Reads) -> dict[str, str]:
    """By column what of a message it holds; an error at what this connector does not have."""
    for node in statement.source.metadata:
        choices = connector.metadata.get(node.key, ())
        if not connector.metadata:
            message, help = f"the connector '{statement.connector}' has no METADATA", "leave it out"
        elif not choices:
            message, help = f"a message has no '{node.key}'", suggest(node.key, connector.metadata)
        elif node.column.type.replace(" ", "") not in choices:
            message = f"the {node.key} of a message cannot be read as {node.column.type.upper()}"
            help = f"declare {node.column.name} {' or '.join(type.upper() for type in choices)}"
        else:
            continue
        raise error_at(statement.options.sql, node.place, message, help)
    return {node.column.name: node.key for node in statement.source.metadata}


def _check_raw(statement: CreateSource, source: Source) -> None:
    if source.options.get("format") != "raw":
        return
    content = [column for column in source.columns if column.name not in source.metadata]
    if len(content) != 1 or content[0].type not in ("string", "binary"):
        raise statement.options.error(
            "format",
            "a raw message is one column of type STRING or BINARY",
            "declare one such column; others are METADATA",
        )


@dataclass(frozen=True)
class _SourceBuilder:
    """Brings the clauses and the options together; both may name the event time, but not differently."""

    columns: tuple[Column, ...]
    declared: SourceNode
    options: Options

    def event_time(self, connector: Reads) -> EventTime | None:
        if self.options.text("eventtime.type") and not self.options.text("eventtime.column"):
            raise self.options.error(
                "eventtime.type", "'eventtime.type' is given without 'eventtime.column'", "name the column, too"
            )
        places = [place for place in (self._from_clause(), self._from_options()) if place is not None]
        messages = self.messages()
        if messages:
            return messages[0]
        if self.declared.watermark is not None:
            places = self._with_watermark(places, self.declared.watermark.column[0])
        if not places:
            return EventTime(connector.event_time, "spark") if connector.event_time else None
        column, type_token = places[0]
        if len(places) > 1 and self._resolve(places[1][0]).name != self._resolve(column).name:
            raise self._error(
                places[1][0], "the event time is declared twice, with different columns", "keep one of the declarations"
            )
        if len(places) > 1 and type_token is None:
            type_token = places[1][1]
        return self._typed(self._resolve(column), column, type_token)

    def lag(self, connector: Reads) -> int | None:
        option = self.options.duration("watermark.lag")
        if self.declared.watermark is None:
            if option is not None and self.event_time(connector) is None:
                help = "add EVENT TIME column TYPE type to the columns"
                raise self.options.error("watermark.lag", "a watermark needs an event time", help)
            return option
        clause = self.declared.watermark.lag
        if clause is None:
            if option is not None:
                raise self.options.error(
                    "watermark.lag", "WATERMARK FOR carries the watermark, so there is no lag", "keep one of them"
                )
            return None
        if option is not None and option != clause:
            raise self.options.error(
                "watermark.lag", "the option and WATERMARK FOR give different lags", "keep one of them"
            )
        return clause

    def watermark_sql(self) -> str | None:
        """The expression of WATERMARK FOR, where it is more than the event time and a lag."""
        if self.declared.watermark is None or self.declared.watermark.expression is None:
            return None
        scope = Scope(
            Scan(Source("", self.columns)), tuple(ScopeColumn(c.name, c.type) for c in self.columns), TimeOf.NONE
        )
        return rewrite(self.declared.watermark.expression, columns_of(scope))

    def messages(self) -> tuple[EventTime, ...]:
        """The declarations of rows that hold several messages, in the order in which they count."""
        found = []
        for node in self.declared.event_times:
            if node.field is None or node.type is None:
                continue
            struct = self._resolve(node.column)
            if not struct.type.startswith("struct<"):
                help = f"write EVENT TIME {struct.name} TYPE ..."
                raise self._error(node.column, f"{struct.name} is a {struct.type}, which has no fields", help)
            try:
                name = event_time_types.canonical(node.type.text)
            except OptionError as error:
                raise self._error(node.type, error.message, error.help) from None
            found.append(EventTime(f"{struct.name}.{node.field.text}", name))
        return tuple(self._with_watermark_field(found))

    def _with_watermark_field(self, messages: list[EventTime]) -> list[EventTime]:
        """WATERMARK FOR a field that is a timestamp declares the event time, too."""
        path = self.declared.watermark.column if self.declared.watermark is not None else ()
        if len(path) < 2:
            return messages
        name, kind = self._field(path)
        if any(message.column.lower() == name.lower() for message in messages):
            return messages
        other = (
            messages[0].column
            if messages
            else next((p[0].text for p in (self._from_clause(), self._from_options()) if p), None)
        )
        if other is not None:
            raise self._error(
                path[0], f"the event time is {other}, the watermark is for {name}", f"write WATERMARK FOR {other}"
            )
        if kind not in TIME_TYPES or len(path) > 2:
            help = (
                f"add EVENT TIME {name} TYPE unixtimestamp_ms (or another type; {suggest('', event_time_types.list())})"
            )
            raise self._error(path[-1], f"{name} is a {kind}, so you must declare how to read a time from it", help)
        return [EventTime(name, "spark")]

    def _field(self, path: Path) -> tuple[str, str]:
        """The dotted name of a column or field as it is declared, and its type."""
        column = self._resolve(path[0])
        names, kind = [column.name], column.type
        for token in path[1:]:
            fields = struct_fields(kind)
            found = next((name for name in fields if name.lower() == token.text.lower()), None)
            if found is None:
                whole = ".".join(names)
                help = suggest(token.text, fields) if fields else f"{whole} is a {kind}"
                raise self._error(token, f"{whole} has no field {token.text}", help)
            names.append(found)
            kind = fields[found]
        return ".".join(names), kind

    def dedup(self) -> Dedup | None:
        if self.declared.dedup is None:
            return None
        paths, within = self.declared.dedup.columns, self.declared.dedup.within
        if within == 0:
            raise self._error(paths[0][0], "DEDUPLICATE BY needs a time above 0", "write WITHIN INTERVAL '10' MINUTE")
        names = [self._field(path)[0] for path in paths]
        if len(set(names)) != len(names):
            raise self._error(paths[-1][0], "a column is named twice in DEDUPLICATE BY", "name it once")
        return Dedup(tuple(names), within)

    def _from_clause(self) -> tuple[Token, Token | None] | None:
        return next(((node.column, node.type) for node in self.declared.event_times if node.field is None), None)

    def _from_options(self) -> tuple[Token, Token | None] | None:
        if self.options.text("eventtime.column") is None:
            return None
        has_type = self.options.text("eventtime.type") is not None
        return self.options.place("eventtime.column"), self.options.place("eventtime.type") if has_type else None

    def _with_watermark(
        self, places: list[tuple[Token, Token | None]], token: Token
    ) -> list[tuple[Token, Token | None]]:
        """WATERMARK FOR a timestamp column declares the event time, too; for another it needs EVENT TIME beside it."""
        column = self._resolve(token)
        if not places:
            if column.type not in TIME_TYPES:
                help = (
                    f"add EVENT TIME {column.name} TYPE unixtimestamp_ms (or another type; "
                    f"{suggest('', event_time_types.list())})"
                )
                raise self._error(
                    token, f"{column.name} is a {column.type}, so you must declare how to read a time from it", help
                )
            return [(token, None)]
        if self._resolve(places[0][0]).name != column.name:
            declared = self._resolve(places[0][0]).name
            raise self._error(
                token,
                f"the event time is {declared}, the watermark is for {column.name}",
                f"write WATERMARK FOR {declared}",
            )
        return places

    def _typed(self, column: Column, at: Token, type_token: Token | None) -> EventTime:
        if type_token is None:
            if column.type in TIME_TYPES:
                return EventTime(column.name, "spark")
            help = f"add TYPE and one of: {', '.join(event_time_types.list())}"
            raise self._error(at, f"how {column.name} ({column.type}) gives a time is not declared", help)
        try:
            found = event_time_types.resolve(type_token.text)
        except OptionError as error:
            raise self._error(type_token, error.message, error.help) from None
        wanted = _mismatch(found, column.type)
        if wanted is not None:
            raise self._error(
                type_token,
                f"{column.name} is a {column.type}; event-time type {type_token.text} reads {wanted}",
                _other_type(column),
            )
        return EventTime(column.name, event_time_types.canonical(type_token.text))

    def _resolve(self, token: Token) -> Column:
        for column in self.columns:
            if column.name.lower() == token.text.lower():
                return column
        raise self._error(
            token, f"there is no column {token.text}", suggest(token.text, [column.name for column in self.columns])
        )

    def _error(self, token: Token, message: str, help: str | None = None) -> SqlError:
        return error_at(self.options.sql, token, message, help)


_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "string"})


def _mismatch(event_time_type: EventTimeType, column_type: str) -> str | None:
    """What the type reads, if a column of `column_type` is not that."""
    if isinstance(event_time_type, EpochUnit):
        fits = column_type in _NUMBERS or column_type.startswith("decimal")
        return None if fits else "numbers"
    if isinstance(event_time_type, Iso8601):
        return None if column_type == "string" else "text"
    if isinstance(event_time_type, SparkTimestamp):
        return None if column_type in TIME_TYPES else "TIMESTAMP and DATE columns"
    return None


def _other_type(column: Column) -> str:
    if column.type in TIME_TYPES:
        return f"write EVENT TIME {column.name} TYPE spark"
    return (
        f"write EVENT TIME {column.name} TYPE {'iso8601' if column.type == 'string' else 'unixtimestamp_ms'}, "
        "or another type that fits"
    )
