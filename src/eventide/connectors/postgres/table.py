"""A PostgreSQL table, a view or a query as a table that is looked up."""

from __future__ import annotations

from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from eventide.connectors.arrow_types import to_arrow_schema
from eventide.connectors.contract import user_schema
from eventide.connectors.files.write import as_json
from eventide.connectors.secrets import Secrets
from eventide.errors import SourceError
from eventide.plan.logical import Source, Table

_CONNECT_SECONDS = 10


def read_table(table: Table) -> pa.Table:
    """All rows as they are now, in one transaction."""
    secrets = Secrets(f"the table {table.name}", table.options)
    options = secrets.options
    schema = to_arrow_schema(user_schema(Source(table.name, table.columns, table.connector, options=table.options)))
    chosen = sql.SQL(", ").join(map(sql.Identifier, schema.names))
    origin = (
        sql.SQL("({}) AS chosen").format(sql.SQL(options["query"]))
        if "query" in options
        else sql.Identifier(*options["table"].split("."))
    )
    limit = int(options.get("timeout", "60")) * 1000
    try:
        with psycopg.connect(
            options["url"], connect_timeout=_CONNECT_SECONDS, options=f"-c statement_timeout={limit}"
        ) as connection:
            connection.read_only = True
            rows = connection.execute(sql.SQL("SELECT {} FROM {}").format(chosen, origin)).fetchall()
    except psycopg.Error as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise SourceError(
            f"table {table.name} cannot be read from PostgreSQL: {secrets.hide(first)}",
            help="mend the cause, then REFRESH TABLE; streams go on with the last version that could be read",
        ) from None
    values = list(zip(*rows, strict=True)) or [() for _ in schema]
    return pa.table(
        [_column(table, field, column) for field, column in zip(schema, values, strict=True)], schema=schema
    )


def _column(table: Table, field: pa.Field, values: tuple[Any, ...]) -> pa.Array:
    try:
        if pa.types.is_string(field.type):
            return pa.array([None if value is None else _text(value) for value in values], field.type)
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SourceError(
            f"table {table.name}: column {field.name} does not fit {field.type}: {error}",
            help="declare the column as the table has it, or as STRING",
        ) from None


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return as_json(value)
    return value if isinstance(value, str) else str(value)
