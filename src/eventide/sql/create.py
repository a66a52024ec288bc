"""CREATE SOURCE and CREATE SINK."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sqlglot.tokenizer_core import Token, TokenType

from eventide.errors import OptionError, SqlError, suggest
from eventide.eventtime.registry import EpochUnit, EventTimeType, Iso8601, SparkTimestamp, event_time_types
from eventide.plan.logical import Column, Dedup, EventTime, Scan, Sink, Source
from eventide.sql.cursor import Cursor
from eventide.sql.limits import LONGEST_OBJECT_NAME, MOST_COLUMNS
from eventide.sql.options import (
    SINK_CONNECTORS,
    SINK_OPTIONS,
    SOURCE_CONNECTORS,
    SOURCE_OPTIONS,
    Connector,
    Options,
    admission_of,
    check_connector,
    own_options,
    read_options,
)
from eventide.sql.scope import Scope, ScopeColumn, TimeOf, columns_of, rewrite
from eventide.sql.tokens import Span, error_at
from eventide.sql.type_names import TIME_TYPES, read_type, struct_fields

_OBJECT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


_Path = tuple[Token, ...]  # a column, or a field of one that is a struct


@dataclass
class _Declared:
    """What stands between the parentheses of CREATE SOURCE, each with its place."""

    columns: list[Column] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # of the columns, in lower case
    event_time: tuple[Token, Token | None] | None = None  # column, type
    messages: list[tuple[Token, Token, Token]] = field(default_factory=list)  # column of the message, field, type
    watermark: tuple[_Path, int | Span] | None = None  # column or field, lag or an expression
    dedup: tuple[list[_Path], int] | None = None


def object_name(cursor: Cursor, what: str) -> tuple[str, Token]:
    """The name of something that CREATE makes: letters, digits and underscores, since it also names a folder."""
    name, token = cursor.name(f"the name of the {what}")
    if cursor.at(TokenType.DOT):
        raise error_at(cursor.sql, token, "names have no schema in front", "write the name alone")
    if len(name) > LONGEST_OBJECT_NAME:
        message = f"the name of a {what} has at most {LONGEST_OBJECT_NAME} characters, and this one has {len(name)}"
        raise error_at(cursor.sql, token, message, "choose a shorter name: files and folders are called after it")
    if not _OBJECT_NAME.fullmatch(name):
        help = (
            "names with $ are made by Eventide"
            if "$" in name
            else "use letters, digits and underscores, a letter first"
        )
        raise error_at(cursor.sql, token, f"'{name}' cannot be the name of a {what}", help)
    return name, token


def parse_source(cursor: Cursor, name: str, at: Token) -> Source:
    """The source that follows CREATE SOURCE name."""
    declared = _Declared()
    if cursor.accept_symbol(TokenType.L_PAREN):
        while True:
            _element(cursor, declared)
            if not cursor.accept_symbol(TokenType.COMMA):
                break
        cursor.expect_symbol(TokenType.R_PAREN, ")", help="separate columns with commas")
    raw = read_options(cursor)
    cursor.end()
    connector_name, options = check_connector(raw, SOURCE_OPTIONS, SOURCE_CONNECTORS, at)
    connector = SOURCE_CONNECTORS[connector_name]
    columns = _columns(declared, connector, connector_name, cursor, at)
    build = _SourceBuilder(cursor, columns, declared, options)
    source = Source(name, columns, connector_name, options=own_options(options, connector))
    skew = options.duration("max_future_skew")
    return replace(
        source,
        event_time=build.event_time(connector),
        watermark_lag=build.lag(connector),
        watermark_sql=build.watermark_sql(),
        messages=build.messages(),
        dedup=build.dedup(),
        idle_timeout=options.duration("idle_timeout"),
        max_future_skew=source.max_future_skew if skew is None else skew,
        refuses_empty_rows=options.text("empty_rows") == "error",
        admission=admission_of(options),
    )


def parse_sink(cursor: Cursor, name: str, at: Token) -> Sink:
    """The sink that follows CREATE SINK name; one without FROM is for side outputs."""
    stream: str | None = None
    if not cursor.at_words("WITH"):
        cursor.expect("FROM", help=f"write CREATE SINK {name} FROM stream WITH ('connector' = 'files', 'path' = '...')")
        stream, _ = cursor.name("the name of a stream")
    raw = read_options(cursor)
    cursor.end()
    if raw.text("connector") is None:
        raise error_at(
            cursor.sql,
            at,
            f"the sink {name} has no connector",
            f"add WITH ('connector' = '...'); {suggest('', SINK_CONNECTORS)}",
        )
    connector, options = check_connector(raw, SINK_OPTIONS, SINK_CONNECTORS, at)
    return Sink(name, stream, connector, own_options(options, SINK_CONNECTORS[connector]))


def _element(cursor: Cursor, declared: _Declared) -> None:
    """One column or one of the clauses EVENT TIME, WATERMARK FOR and DEDUPLICATE BY."""
    first = cursor.peek()
    if first is None or cursor.at(TokenType.R_PAREN):
        raise cursor.expected("a column")
    if cursor.accept("EVENT", "TIME"):
        _event_time(cursor, declared, first)
    elif cursor.accept("WATERMARK", "FOR"):
        _once(cursor, declared.watermark, first, "WATERMARK FOR")
        declared.watermark = _watermark(cursor)
    elif cursor.accept("DEDUPLICATE", "BY"):
        _once(cursor, declared.dedup, first, "DEDUPLICATE BY")
        declared.dedup = _dedup(cursor)
    elif any(cursor.at_words(*words) for words in (("PRIMARY", "KEY"), ("PRIMARY KEY",), ("CONSTRAINT",), ("UNIQUE",))):
        raise cursor.error(
            "a source has no constraints", "to drop duplicates write DEDUPLICATE BY id WITHIN INTERVAL '10' MINUTE"
        )
    else:
        declared.columns.append(_column(cursor, declared))


def _once(cursor: Cursor, present: object, token: Token, clause: str) -> None:
    if present is not None:
        raise error_at(cursor.sql, token, f"{clause} is given twice", "keep one of them")


def _event_time(cursor: Cursor, declared: _Declared, first: Token) -> None:
    """`ts TYPE iso8601`, or `message.ts TYPE iso8601` once for every message that a row may hold."""
    _, column = cursor.name("the event-time column")
    field_token = cursor.name("the field of the message")[1] if cursor.accept_symbol(TokenType.DOT) else None
    type_token = cursor.name("the name of an event-time type")[1] if cursor.accept("TYPE") else None
    if field_token is None:
        _once(cursor, declared.event_time or declared.messages or None, first, "EVENT TIME")
        declared.event_time = (column, type_token)
        return
    _once(cursor, declared.event_time, first, "EVENT TIME")
    if type_token is None:
        raise cursor.expected("TYPE", f"add TYPE and one of: {', '.join(event_time_types.list())}")
    declared.messages.append((column, field_token, type_token))


def _path(cursor: Cursor, what: str) -> _Path:
    """`column` or `column.field`."""
    path = [cursor.name(what)[1]]
    while cursor.accept_symbol(TokenType.DOT):
        path.append(cursor.name("the name of a field")[1])
    return tuple(path)


def _watermark(cursor: Cursor) -> tuple[_Path, int | Span]:
    """`ts AS ts - INTERVAL '5' SECOND`, `ts AS ts` for no lag, or an expression that carries the watermark."""
    column = _path(cursor, "the column of the watermark")
    length = 2 * len(column) - 1
    cursor.expect("AS", help="write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND")
    first = cursor.position
    span = cursor.until(lambda at: at.at(TokenType.COMMA), "an expression such as ts - INTERVAL '5' SECOND")
    if [token.text.lower() for token in span.tokens[:length:2]] != [token.text.lower() for token in column]:
        return column, span
    if len(span.tokens) == length:
        return column, 0
    if span.tokens[length].token_type != TokenType.DASH:
        return column, span
    cursor.position = first + length + 1
    lag = cursor.duration("an interval")
    if not (cursor.at(TokenType.COMMA) or cursor.at(TokenType.R_PAREN)):
        raise cursor.expected("',' or ')'", "write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND")
    return column, lag


def _dedup(cursor: Cursor) -> tuple[list[_Path], int]:
    """`id, other WITHIN INTERVAL '10' MINUTE`, the columns in parentheses or not."""
    wrapped = cursor.accept_symbol(TokenType.L_PAREN)
    columns = [_path(cursor, "a column")]
    while cursor.accept_symbol(TokenType.COMMA):
        columns.append(_path(cursor, "a column"))
    if wrapped:
        cursor.expect_symbol(TokenType.R_PAREN, ")")
    cursor.expect("WITHIN", help="say for how long ids are remembered: DEDUPLICATE BY id WITHIN INTERVAL '10' MINUTE")
    return columns, cursor.duration("an interval")


def _column(cursor: Cursor, declared: _Declared) -> Column:
    name, token = cursor.name("a column")
    if name.startswith("__"):
        raise error_at(
            cursor.sql, token, f"the column name {name} is reserved", "choose a name that does not begin with __"
        )
    if len(declared.names) == MOST_COLUMNS:
        raise error_at(
            cursor.sql, token, f"a source has at most {MOST_COLUMNS:,} columns", "leave out what is not used"
        )
    if name.lower() in declared.names:
        raise error_at(
            cursor.sql, token, f"the column {name} is declared twice", "names are the same whatever their case"
        )
    declared.names.add(name.lower())
    type_name = read_type(cursor)
    if cursor.at_words("NOT", "NULL"):
        raise cursor.error("NOT NULL is not checked", "leave it out; filter with WHERE ... IS NOT NULL in the stream")
    if cursor.at_words("COMMENT"):
        raise cursor.error("columns take no COMMENT", "write it as -- comment")
    return Column(name, type_name)


def _columns(declared: _Declared, connector: Connector, name: str, cursor: Cursor, at: Token) -> tuple[Column, ...]:
    fixed = tuple(Column(*column) for column in connector.columns)
    columns = tuple(declared.columns)
    if fixed and columns and tuple((c.name.lower(), c.type) for c in columns) != connector.columns:
        listed = ", ".join(f"{c.name} {c.type.upper()}" for c in fixed)
        raise error_at(
            cursor.sql, at, f"the connector '{name}' has its own columns", f"leave the columns out, or write ({listed})"
        )
    if fixed:
        return fixed
    if not columns:
        raise error_at(
            cursor.sql, at, "a source needs columns", "write CREATE SOURCE name (id STRING, ts TIMESTAMP, ...)"
        )
    return columns


@dataclass(frozen=True)
class _SourceBuilder:
    """Brings the clauses and the options together; both may name the event time, but not differently."""

    cursor: Cursor
    columns: tuple[Column, ...]
    declared: _Declared
    options: Options

    def event_time(self, connector: Connector) -> EventTime | None:
        if self.options.text("eventtime.type") and not self.options.text("eventtime.column"):
            raise self.options.error(
                "eventtime.type", "'eventtime.type' is given without 'eventtime.column'", "name the column, too"
            )
        places = [place for place in (self._from_clause(), self._from_options()) if place is not None]
        messages = self.messages()
        if messages:
            return messages[0]
        if self.declared.watermark is not None:
            places = self._with_watermark(places, self.declared.watermark[0][0])
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

    def lag(self, connector: Connector) -> int | None:
        option = self.options.duration("watermark.lag")
        if self.declared.watermark is None:
            if option is not None and self.event_time(connector) is None:
                help = "add EVENT TIME column TYPE type to the columns"
                raise self.options.error("watermark.lag", "a watermark needs an event time", help)
            return option
        clause = self.declared.watermark[1]
        if isinstance(clause, Span):
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
        if self.declared.watermark is None or not isinstance(self.declared.watermark[1], Span):
            return None
        scope = Scope(
            Scan(Source("", self.columns)), tuple(ScopeColumn(c.name, c.type) for c in self.columns), TimeOf.NONE
        )
        return rewrite(self.declared.watermark[1], columns_of(scope))

    def messages(self) -> tuple[EventTime, ...]:
        """The declarations of rows that hold several messages, in the order in which they count."""
        found = []
        for column, field_token, type_token in self.declared.messages:
            struct = self._resolve(column)
            if not struct.type.startswith("struct<"):
                help = f"write EVENT TIME {struct.name} TYPE ..."
                raise self._error(column, f"{struct.name} is a {struct.type}, which has no fields", help)
            try:
                name = event_time_types.canonical(type_token.text)
            except OptionError as error:
                raise self.cursor.option_error(error, type_token) from None
            found.append(EventTime(f"{struct.name}.{field_token.text}", name))
        return tuple(self._with_watermark_field(found))

    def _with_watermark_field(self, messages: list[EventTime]) -> list[EventTime]:
        """WATERMARK FOR a field that is a timestamp declares the event time, too."""
        path = self.declared.watermark[0] if self.declared.watermark is not None else ()
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
            raise self._error(path[-1], f"{name} is a {kind}, so how it gives a time must be declared", help)
        return [EventTime(name, "spark")]

    def _field(self, path: _Path) -> tuple[str, str]:
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
        paths, within = self.declared.dedup
        if within == 0:
            raise self._error(paths[0][0], "DEDUPLICATE BY needs a time above 0", "write WITHIN INTERVAL '10' MINUTE")
        names = [self._field(path)[0] for path in paths]
        if len(set(names)) != len(names):
            raise self._error(paths[-1][0], "a column stands twice in DEDUPLICATE BY", "name it once")
        return Dedup(tuple(names), within)

    def _from_clause(self) -> tuple[Token, Token | None] | None:
        return self.declared.event_time

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
                    token, f"{column.name} is a {column.type}, so how it gives a time must be declared", help
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
            raise self.cursor.option_error(error, type_token) from None
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
        return error_at(self.cursor.sql, token, message, help)


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
