"""The syntax of CREATE SOURCE and CREATE SINK, after their names."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token, TokenType

from eventide.connectors.registry import SINKS, SOURCES
from eventide.errors import suggest
from eventide.eventtime.registry import event_time_types
from eventide.plan.logical import Column
from eventide.sql.cursor import Cursor
from eventide.sql.limits import LONGEST_OBJECT_NAME, MOST_COLUMNS
from eventide.sql.options import SINK_OPTIONS, SOURCE_OPTIONS, check_connector, read_options
from eventide.sql.statements import CreateSink, CreateSource
from eventide.sql.syntax import Deduplicate, EventTimeNode, MetadataNode, Path, SourceNode, WatermarkFor
from eventide.sql.tokens import error_at
from eventide.sql.type_names import read_type

_OBJECT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass
class _Declared:
    """What has been read so far between the parentheses of CREATE SOURCE."""

    columns: dict[str, Column] = field(default_factory=dict)  # by lower-case name
    event_times: list[EventTimeNode] = field(default_factory=list)
    watermark: WatermarkFor | None = None
    dedup: Deduplicate | None = None
    metadata: list[MetadataNode] = field(default_factory=list)

    def node(self) -> SourceNode:
        clauses = tuple(self.event_times), self.watermark, self.dedup, tuple(self.metadata)
        return SourceNode(tuple(self.columns.values()), *clauses)


def object_name(cursor: Cursor, what: str) -> tuple[str, Token]:
    """The name of something that CREATE makes: letters, digits and underscores, since it also names a folder."""
    name, token = cursor.name(f"the name of the {what}")
    if cursor.at(TokenType.DOT):
        raise error_at(cursor.sql, token, "names have no schema", "write the name alone")
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


def parse_source(cursor: Cursor, name: str, at: Token) -> CreateSource:
    """The rest of CREATE SOURCE; its name is at `at`."""
    declared = _Declared()
    if cursor.accept_symbol(TokenType.L_PAREN):
        while True:
            _element(cursor, declared)
            if not cursor.accept_symbol(TokenType.COMMA):
                break
        cursor.expect_symbol(TokenType.R_PAREN, ")", help="separate columns with commas")
    raw = read_options(cursor)
    cursor.end()
    connector, options = check_connector(raw, SOURCE_OPTIONS, SOURCES, at)
    return CreateSource(cursor.span.text, name, at, declared.node(), connector, options)


def parse_sink(cursor: Cursor, name: str, at: Token) -> CreateSink:
    """The rest of CREATE SINK; its name is at `at`. A sink without FROM is for side outputs."""
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
            f"add WITH ('connector' = '...'); {suggest('', SINKS)}",
        )
    connector, options = check_connector(raw, SINK_OPTIONS, SINKS, at)
    return CreateSink(cursor.span.text, name, stream, connector, options)


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
        column = parse_column(cursor, declared.columns)
        declared.columns[column.name.lower()] = column
        if cursor.at_words("METADATA"):
            declared.metadata.append(_metadata(cursor, column))


def _once(cursor: Cursor, present: object, token: Token, clause: str) -> None:
    if present is not None:
        raise error_at(cursor.sql, token, f"{clause} is given twice", "keep one of them")


def _event_time(cursor: Cursor, declared: _Declared, first: Token) -> None:
    """`ts TYPE iso8601`, or `message.ts TYPE iso8601` once for every message that a row may hold."""
    _, column = cursor.name("the event-time column")
    field_token = cursor.name("the field of the message")[1] if cursor.accept_symbol(TokenType.DOT) else None
    type_token = cursor.name("the name of an event-time type")[1] if cursor.accept("TYPE") else None
    others = [other for other in declared.event_times if field_token is None or other.field is None]
    _once(cursor, others or None, first, "EVENT TIME")
    if field_token is not None and type_token is None:
        raise cursor.expected("TYPE", f"add TYPE and one of: {', '.join(event_time_types.list())}")
    declared.event_times.append(EventTimeNode(column, field_token, type_token))


def _path(cursor: Cursor, what: str) -> Path:
    """`column` or `column.field`."""
    path = [cursor.name(what)[1]]
    while cursor.accept_symbol(TokenType.DOT):
        path.append(cursor.name("the name of a field")[1])
    return tuple(path)


def _watermark(cursor: Cursor) -> WatermarkFor:
    """`ts AS ts - INTERVAL '5' SECOND`, `ts AS ts` for no lag, or an expression that carries the watermark."""
    column = _path(cursor, "the column of the watermark")
    length = 2 * len(column) - 1
    cursor.expect("AS", help="write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND")
    first = cursor.position
    span = cursor.until(lambda at: at.at(TokenType.COMMA), "an expression such as ts - INTERVAL '5' SECOND")
    if [token.text.lower() for token in span.tokens[:length:2]] != [token.text.lower() for token in column]:
        return WatermarkFor(column, expression=span)
    if len(span.tokens) == length:
        return WatermarkFor(column, lag=0)
    if span.tokens[length].token_type != TokenType.DASH:
        return WatermarkFor(column, expression=span)
    cursor.position = first + length + 1
    lag = cursor.duration("an interval")
    if not (cursor.at(TokenType.COMMA) or cursor.at(TokenType.R_PAREN)):
        raise cursor.expected("',' or ')'", "write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND")
    return WatermarkFor(column, lag=lag)


def _dedup(cursor: Cursor) -> Deduplicate:
    """`id, other WITHIN INTERVAL '10' MINUTE`, the columns in parentheses or not."""
    wrapped = cursor.accept_symbol(TokenType.L_PAREN)
    columns = [_path(cursor, "a column")]
    while cursor.accept_symbol(TokenType.COMMA):
        columns.append(_path(cursor, "a column"))
    if wrapped:
        cursor.expect_symbol(TokenType.R_PAREN, ")")
    cursor.expect("WITHIN", help="say for how long ids are remembered: DEDUPLICATE BY id WITHIN INTERVAL '10' MINUTE")
    return Deduplicate(tuple(columns), cursor.duration("an interval"))


def parse_column(cursor: Cursor, others: Collection[str]) -> Column:
    """`id STRING`; `others` are the names of the columns before it, in lower case."""
    name, token = cursor.name("a column")
    if name.startswith("__"):
        raise error_at(
            cursor.sql, token, f"the column name {name} is reserved", "choose a name that does not begin with __"
        )
    if len(others) == MOST_COLUMNS:
        raise error_at(
            cursor.sql, token, f"a source has at most {MOST_COLUMNS:,} columns", "leave out what is not used"
        )
    if name.lower() in others:
        raise error_at(
            cursor.sql, token, f"the column {name} is declared twice", "names are the same whatever their case"
        )
    type_name = read_type(cursor)
    if cursor.at_words("NOT", "NULL"):
        raise cursor.error("NOT NULL is not checked", "leave it out; filter with WHERE ... IS NOT NULL in the stream")
    if cursor.at_words("COMMENT"):
        raise cursor.error("columns take no COMMENT", "write it as -- comment")
    return Column(name, type_name)


def _metadata(cursor: Cursor, column: Column) -> MetadataNode:
    """`METADATA [FROM 'key'] [VIRTUAL]`, as in Flink."""
    place, key = cursor.next(), column.name
    if cursor.accept("FROM"):
        place = cursor.next()
        if place.token_type != TokenType.STRING:
            raise error_at(
                cursor.sql, place, "write what the column holds in quotes", "write METADATA FROM 'timestamp'"
            )
        key = place.text
    cursor.accept("VIRTUAL")
    return MetadataNode(column, key.lower(), place)
