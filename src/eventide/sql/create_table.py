"""CREATE TABLE."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from eventide.errors import suggest
from eventide.plan.logical import Column, Table
from eventide.sql.create import parse_column
from eventide.sql.cursor import Cursor
from eventide.sql.options import TABLE_CONNECTORS, TABLE_OPTIONS, check_connector, own_options, read_options
from eventide.sql.tokens import error_at

_TIMES = (("EVENT", "TIME"), ("WATERMARK", "FOR"), ("DEDUPLICATE", "BY"))
_CONSTRAINTS = (("PRIMARY", "KEY"), ("PRIMARY KEY",), ("CONSTRAINT",), ("UNIQUE",))


def parse_table(cursor: Cursor, name: str, at: Token) -> Table:
    """The table that follows CREATE TABLE name."""
    columns = _columns(cursor, at)
    raw = read_options(cursor)
    cursor.end()
    if raw.text("connector") is None:
        help = f"add WITH ('connector' = '...'); {suggest('', TABLE_CONNECTORS)}"
        raise error_at(cursor.sql, at, f"the table {name} has no connector", help)
    connector, options = check_connector(raw, TABLE_OPTIONS, TABLE_CONNECTORS, at)
    own = own_options(options, TABLE_CONNECTORS[connector])
    return Table(name, columns, connector, options.duration("refresh"), own)


def _columns(cursor: Cursor, at: Token) -> tuple[Column, ...]:
    if not cursor.accept_symbol(TokenType.L_PAREN):
        raise error_at(cursor.sql, at, "a table needs columns", "write CREATE TABLE name (id STRING, ...) WITH (...)")
    columns: list[Column] = []
    names: set[str] = set()
    while not columns or cursor.accept_symbol(TokenType.COMMA):
        if any(cursor.at_words(*words) for words in _TIMES):
            help = "leave it out; to join in time, make it a source with CREATE SOURCE"
            raise cursor.error("a table has no event time, and is not deduplicated", help)
        if any(cursor.at_words(*words) for words in _CONSTRAINTS):
            help = "leave it out; of a key that comes twice both rows are found"
            raise cursor.error("a table has no constraints", help)
        columns.append(parse_column(cursor, names))
    cursor.expect_symbol(TokenType.R_PAREN, ")", help="separate columns with commas")
    return tuple(columns)
