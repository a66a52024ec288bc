"""`postgres`: tables of a PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, Opening, Option, Promise, Writes
from eventide.errors import EnvironmentError

if TYPE_CHECKING:
    from eventide.connectors.sink import Sink

_URL = Option(
    is_required=True,
    identifies=False,
    doc="a `libpq` connection string; the password as `${env:NAME}` or `${file:/path}` ([secrets](../sql.md#secrets)), "
    "or in `~/.pgpass` or `PGPASSWORD`",
)


def _open(opening: Opening) -> Sink:
    check_installed(f"the sink {opening.name}")
    from eventide.connectors.postgres.write import PostgresSink

    return PostgresSink(opening.name, opening.options, opening.identity, opening.json_columns, opening.hide)


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
)
