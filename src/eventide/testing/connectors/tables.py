"""What a table promises: all its rows as they are, read anew when asked, and kept where they cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.connectors.declaration import Connector
from eventide.errors import EventideError
from eventide.testing.connectors.statements import create_sql, expect

if TYPE_CHECKING:
    from eventide.database import Database

_COLUMNS = "id BIGINT, name STRING"


@dataclass(frozen=True)
class TableCase:
    """A place that nobody else writes to, with nothing in it yet. `fill` lets it hold exactly these rows, with the
    columns `id` and `name`; `spoil` makes it unreadable.
    """

    options: Mapping[str, str]
    fill: Callable[[list[dict[str, Any]]], None]
    spoil: Callable[[], None]


def check_table(connector: Connector, case: TableCase, connect: Callable[..., Database], checkpoint: Path) -> None:
    """`checkpoint` is a folder that is not there yet."""
    create = create_sql(connector, "table", "t", _COLUMNS, case.options)
    first: list[dict[str, Any]] = [{"id": 1, "name": "ann"}, {"id": 2, "name": None}]
    second = [{"id": 2, "name": "bob 'ünlike'"}, {"id": 3, "name": ""}]
    case.fill(first)
    with closing(connect(checkpoint=checkpoint)) as db:
        db.execute(f"""
            {create}; CREATE SOURCE s (v BIGINT);
            CREATE STREAM o AS SELECT s.v, t.name FROM s JOIN t ON s.v = t.id""")
        _expect_rows(db, first, "a table has the rows that are there")
        case.fill(second)
        db.execute("REFRESH TABLE t")
        _expect_rows(db, second, "a table that is read anew has the rows that are there now")
        db.write("s", [(1,), (2,)])
        db.tick()
        found = db.read("o").fetchall()
        expect(found == [{"v": 2, "name": "bob 'ünlike'"}], f"a stream looks up what is there now: {found}")
        case.spoil()
        _expect_error(db)
        _expect_rows(db, second, "a table that cannot be read keeps what it had")
    with closing(connect(checkpoint=checkpoint)) as db:
        _expect_rows(db, second, "a table has its rows after a restart")


def _expect_rows(db: Database, rows: list[dict[str, Any]], promise: str) -> None:
    found = sorted(db.read("t").fetchall(), key=lambda row: row["id"])
    expect(found == rows, f"{promise}: {found}")


def _expect_error(db: Database) -> None:
    try:
        db.execute("REFRESH TABLE t")
    except EventideError as error:
        expect("t" in error.message, f"an error names the table: {error.message}")
    else:
        raise AssertionError("a table that cannot be read is an error for those who ask for it")
