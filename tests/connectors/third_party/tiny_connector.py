"""A connector as somebody else would write it: lines of text in, a SQLite database out and looked up.

`tests/connectors/conftest.py` installs it by an entry point, as its package would.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from typing import Any

import pyarrow as pa

from eventide.connectors.declaration import Connector, LooksUp, Opening, Option, Promise, Reads, Writes

_FILE = Option(is_required=True, identifies=True, doc="the database")


def load(context: Any, source: Any, columns: Collection[str]) -> Any:
    """Lines `id;name`; what has no number in front is a row that did not decode."""
    from pyspark.sql import functions as F

    lines = context.spark.readStream.format("text").load(source.options["folder"])
    sep = source.options.get("between", ";")
    id = F.split("value", sep)[0].try_cast("bigint")
    return lines.select(
        id.alias("id"),
        F.split("value", sep)[1].alias("name"),
        F.when(id.isNull(), F.col("value")).alias("__corrupt"),
    )


class _Sink:
    def __init__(self, file: str, identity: str) -> None:
        self._database, self._identity = sqlite3.connect(file, isolation_level=None, timeout=30), identity

    def write(self, batch: int, rows: pa.Table) -> None:
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        database.execute("CREATE TABLE IF NOT EXISTS rows (id, name)")
        database.execute("CREATE TABLE IF NOT EXISTS batches (stream PRIMARY KEY, batch)")
        known = database.execute("SELECT batch FROM batches WHERE stream = ?", (self._identity,)).fetchone()
        if known is None or known[0] < batch:
            values = [(row["id"], row["name"]) for row in rows.to_pylist()]
            database.executemany("INSERT INTO rows VALUES (?, ?)", values)
            database.execute("INSERT OR REPLACE INTO batches VALUES (?, ?)", (self._identity, batch))
        database.execute("COMMIT")

    def close(self) -> None:
        self._database.close()


def open_sink(opening: Opening) -> _Sink:
    return _Sink(opening.options["file"], opening.identity)


def read_table(spark: Any, table: Any) -> pa.Table:
    with closing(sqlite3.connect(f"file:{table.options['file']}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT id, name FROM rows").fetchall()
    ids, names = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())})


TINY = Connector(
    name="tiny",
    doc="lines of text, and SQLite",
    source=Reads(
        options={
            "folder": Option(is_required=True, identifies=True, doc="where files with lines appear"),
            "between": Option("character", default=";", doc="between the two columns"),
        },
        load=load,
    ),
    sink=Writes(options={"file": _FILE}, promise=Promise.EXACTLY_ONCE, open=open_sink),
    table=LooksUp(options={"file": _FILE}, read=read_table),
)
