"""`postgres`: tables of a PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, LooksUp, Opening, Option, Promise, Writes
from eventide.errors import EnvironmentError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from eventide.connectors.sink import Sink
    from eventide.plan.logical import Table

_URL = Option(
    is_required=True,
    doc="a `libpq` connection string; the password as `${env:NAME}` or `${file:/path}` ([secrets](../sql.md#secrets)), "
    "or in `~/.pgpass` or `PGPASSWORD`",
)


def _open(opening: Opening) -> Sink:
    check_installed(f"the sink {opening.name}")
    from eventide.connectors.postgres.write import PostgresSink

    return PostgresSink(opening.name, opening.options, opening.identity, opening.json_columns, opening.hide)


def _read_table(spark: SparkSession, table: Table) -> pa.Table:
    check_installed(f"the table {table.name}")
    from eventide.connectors.postgres.table import read_table

    return read_table(table)


def check_installed(what: str) -> None:
    """Raises an EnvironmentError unless there is a client for PostgreSQL."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise EnvironmentError(f"{what} needs psycopg", help="pip install 'eventide[postgres]'") from None


POSTGRES = Connector(
    name="postgres",
    doc="tables of a PostgreSQL server",
    sink=Writes(
        options={
            "url": _URL,
            "table": Option(
                is_required=True,
                identifies=True,
                doc="`name` or `schema.name`; created if it does not exist, with types derived from the rows",
            ),
            "key": Option(
                doc="columns that identify a row: a row replaces the one with the same key. Without it, rows are "
                "inserted"
            ),
            "timeout": Option("count", most=1_000_000, default="60", doc="how many seconds a statement may take"),
        },
        promise=Promise.EXACTLY_ONCE,
        open=_open,
    ),
    table=LooksUp(
        options={
            "url": _URL,
            "table": Option(identifies=True, doc="`name` or `schema.name`, a table or a view"),
            "query": Option(
                instead_of="table", both_say="what is read", identifies=True, doc="instead: a SELECT of the server's"
            ),
            "timeout": Option("count", most=1_000_000, default="60", doc="how many seconds reading it may take"),
        },
        one_of=("table", "query"),
        read=_read_table,
    ),
)
