"""CREATE SOURCE … WITH ('schema' = 'infer'): the statement with the columns that its data has.

The columns are found once, when the source is made, and are then part of its text, so that a checkpoint keeps them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from eventide.connectors.registry import SOURCES
from eventide.errors import EngineError, OptionError
from eventide.plan.logical import Source
from eventide.plan.names import backticked
from eventide.sql.options import own_options
from eventide.sql.parser import parse_statements
from eventide.sql.statements import CreateSource
from eventide.sql.tokens import error_at

SCHEMA, INFER, INFERRED = "schema", "infer", "inferred"


def with_columns(statement: CreateSource, known: Source | None) -> CreateSource:
    """The same with columns: those of `known`, which was made by such a statement, or what the data shows now."""
    options = statement.options
    if options.text(SCHEMA) != INFER:
        return statement
    if statement.source.columns:
        raise options.error(SCHEMA, "the columns are declared, so there is nothing to infer", "leave one of them out")
    infer = SOURCES[statement.connector].infer
    if infer is None:
        raise options.error(SCHEMA, f"the connector '{statement.connector}' cannot infer columns", "declare them")
    if known is not None and known.options.get(SCHEMA) == INFERRED and not statement.or_replace:
        columns = tuple((column.name, column.type) for column in known.columns)
    else:
        try:
            columns = infer(own_options(options, SOURCES[statement.connector]))
        except OptionError as error:
            raise error_at(options.sql, options.place(SCHEMA), error.message, error.help) from None
    return replace(_parsed(_written(_parsed(statement.text), columns)), keep_state=statement.keep_state)


def _parsed(text: str) -> CreateSource:
    (statement,) = parse_statements(text)
    if not isinstance(statement, CreateSource):
        raise EngineError(f"{text} is not a CREATE SOURCE")
    return statement


def _written(statement: CreateSource, columns: tuple[tuple[str, str], ...]) -> str:
    """The text of a statement that is parsed alone, with columns in it."""
    text, place = statement.text, statement.options.place(SCHEMA)
    text = f"{text[: place.start]}'{INFERRED}'{text[place.end + 1 :]}"
    listed = ", ".join(f"{backticked(name)} {type}" for name, type in columns)
    end = statement.place.end + 1
    found = re.match(r"\s*\(", text[end:])
    if found is None:
        return f"{text[:end]} ({listed}){text[end:]}"
    inside = end + found.end()
    return f"{text[:inside]}{listed}, {text[inside:]}"
