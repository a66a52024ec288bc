"""CREATE TABLE, after its name, and the table that it means."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from eventide.connectors.registry import TABLES
from eventide.errors import suggest
from eventide.plan.logical import Column, Table
from eventide.sql.create import parse_column
from eventide.sql.cursor import Cursor
from eventide.sql.options import TABLE_OPTIONS, check_connector, own_options, read_options
from eventide.sql.statements import CreateTable
from eventide.sql.tokens import error_at

_TIMES = (("EVENT", "TIME"), ("WATERMARK", "FOR"), ("DEDUPLICATE", "BY"))
_CONSTRAINTS = (("PRIMARY", "KEY"), ("PRIMARY KEY",), ("CONSTRAINT",), ("UNIQUE",))


def parse_table(cursor: Cursor, name: str, at: Token) -> CreateTable:
    """The rest of CREATE TABLE; its name is at `at`."""
    columns = _columns(cursor, at)
    raw = read_options(cursor)
    cursor.end()
    if raw.text("connector") is None:
        help = f"add WITH ('connector' = '...'); {suggest('', TABLES)}"
        raise error_at(cursor.sql, at, f"the table {name} has no connector", help)
    connector, options = check_connector(raw, TABLE_OPTIONS, TABLES, at)
    return CreateTable(cursor.span.text, name, columns, connector, options)


def lower_table(statement: CreateTable) -> Table:
    options = statement.options
    own = own_options(options, TABLES[statement.connector])
    return Table(statement.name, statement.columns, statement.connector, options.duration("refresh"), own)


def _columns(cursor: Cursor, at: Token) -> tuple[Column, ...]:
    if not cursor.accept_symbol(TokenType.L_PAREN):
        raise error_at(cursor.sql, at, "a table needs columns", "write CREATE TABLE name (id STRING, ...) WITH (...)")
    columns: dict[str, Column] = {}
    while not columns or cursor.accept_symbol(TokenType.COMMA):
        if any(cursor.at_words(*words) for words in _TIMES):
            help = "leave it out; to join in time, make it a source with CREATE SOURCE"
            raise cursor.error("a table has no event time, and is not deduplicated", help)
        if any(cursor.at_words(*words) for words in _CONSTRAINTS):
            help = "leave it out; of a key that comes twice both rows are found"
            raise cursor.error("a table has no constraints", help)
        column = parse_column(cursor, columns)
        columns[column.name.lower()] = column
    cursor.expect_symbol(TokenType.R_PAREN, ")", help="separate columns with commas")
    return tuple(columns.values())
