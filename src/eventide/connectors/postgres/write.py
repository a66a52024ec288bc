"""A PostgreSQL table, one transaction per batch: the rows and the batch's number, or neither.

    eventide_batches (query, sink, batch)    the newest batch of each stream and sink

A batch that is written again finds its number there and does nothing. Without `key`, rows are inserted; with it, a row
replaces the one with the same key, and for a change log, rows with `op` -1 are deleted by key.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.types.json import Jsonb

from eventide.errors import SinkError, suggest
from eventide.kernels.side_rows import json_text
from eventide.secrets import masked

_LEDGER = sql.SQL(
    "CREATE TABLE IF NOT EXISTS eventide_batches (query text, sink text, batch bigint NOT NULL, PRIMARY KEY "
    "(query, sink))"
)
_CLAIM = sql.SQL(
    "INSERT INTO eventide_batches AS known (query, sink, batch) VALUES (%s, %s, %s) "
    "ON CONFLICT (query, sink) DO UPDATE SET batch = excluded.batch WHERE known.batch < excluded.batch"
)
_STAGE = sql.Identifier("eventide_stage")
_TYPES = (
    (pa.types.is_boolean, "boolean"),
    (lambda t: pa.types.is_int8(t) or pa.types.is_int16(t), "smallint"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_floating, "double precision"),
    (pa.types.is_date, "date"),
    (pa.types.is_duration, "interval"),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), "bytea"),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t), "text"),
)
OP = "op"
_CONNECT_SECONDS = 10
_ASK_AGAIN_SECONDS = 0.1
_TURNED_AWAY = "the database system is "  # starting up, shutting down, in recovery mode: libpq says so only in words


def column_type(kind: pa.DataType) -> str:
    """The PostgreSQL type of a column; nested types become jsonb."""
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    return next((name for fits, name in _TYPES if fits(kind)), "jsonb")


class PostgresSink:
    def __init__(
        self,
        name: str,
        options: Mapping[str, str],
        identity: str,
        json_columns: tuple[str, ...] = (),
        hide: Callable[[str], str] = masked,
    ) -> None:
        self._name = name
        self._hide = hide  # what must not be shown
        self._url = options["url"]
        self._table = sql.Identifier(*options["table"].split("."))
        self._table_name = options["table"]
        self._key = tuple(part.strip() for part in options.get("key", "").split(",") if part.strip())
        self._identity = identity
        self._json_columns = json_columns
        self._timeout_ms = int(options.get("timeout", "60")) * 1000
        self._connection: psycopg.Connection[Any] | None = None
        self._is_ready = False
        with self._errors():
            self._connect()

    def write(self, batch: int, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        with self._errors():
            try:
                self._transaction(batch, rows)
            except psycopg.OperationalError:
                self.close()  # a lost connection: the batch's number tells whether it had committed
                self._transaction(batch, rows)

    def close(self) -> None:
        connection, self._connection, self._is_ready = self._connection, None, False
        if connection is not None:
            connection.close()

    def _transaction(self, batch: int, rows: pa.Table) -> None:
        connection = self._connect()
        with connection.transaction(), connection.cursor() as cursor:
            if not self._is_ready:
                self._prepare(cursor, rows.schema)
            cursor.execute(_CLAIM, (self._identity, self._name, batch))
            if cursor.rowcount:
                self._fill(cursor, rows)
        self._is_ready = True

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._is_ready = False
            self._connection = self._connected()
        return self._connection

    def _connected(self) -> psycopg.Connection[Any]:
        """A new connection. A server that is starting, stopping or recovering refuses connections: keep trying for a
        while.
        """
        deadline = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                return psycopg.connect(
                    self._url,
                    autocommit=True,
                    connect_timeout=_CONNECT_SECONDS,
                    options=f"-c statement_timeout={self._timeout_ms}",
                )
            except psycopg.OperationalError as error:
                if _TURNED_AWAY not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_ASK_AGAIN_SECONDS)

    def _prepare(self, cursor: psycopg.Cursor[Any], schema: pa.Schema) -> None:
        """Create the tables if they do not exist; check that existing ones fit."""
        columns = self._columns(schema)
        missing = [name for name in self._key if name not in columns]
        if missing:
            raise SinkError(
                f"the sink {self._name}: the rows have no column {missing[0]} for the key",
                help=suggest(missing[0], columns),
            )
        cursor.execute(_LEDGER)
        parts = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(self._type(schema.field(name)))) for name in columns
        ]
        if self._key:
            distinct = sql.SQL(" NULLS NOT DISTINCT" if cursor.connection.info.server_version >= 150_000 else "")
            parts.append(sql.SQL("UNIQUE{} ({})").format(distinct, _names(self._key)))
        cursor.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._table, sql.SQL(", ").join(parts)))
        cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(self._table))
        there = [column.name for column in cursor.description or ()]
        lacking = [name for name in columns if name not in there]
        if lacking:
            column = f"{lacking[0]} {self._type(schema.field(lacking[0]))}"
            raise SinkError(
                f"the sink {self._name}: the table {self._table_name} has no column {lacking[0]}",
                help=f"ALTER TABLE {self._table_name} ADD COLUMN {column}, or name another table",
            )

    def _fill(self, cursor: psycopg.Cursor[Any], rows: pa.Table) -> None:
        columns = self._columns(rows.schema)
        if not self._key:
            self._copy(cursor, self._table, columns, rows)
            return
        gone, kept = self._latest(rows)
        if gone:
            condition = sql.SQL(" AND ").join(
                sql.SQL("{} IS NOT DISTINCT FROM %s").format(sql.Identifier(name)) for name in self._key
            )
            cursor.executemany(sql.SQL("DELETE FROM {} WHERE {}").format(self._table, condition), gone)
        if kept.num_rows:
            self._upsert(cursor, columns, kept)

    def _upsert(self, cursor: psycopg.Cursor[Any], columns: Sequence[str], rows: pa.Table) -> None:
        stage = sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA")
        cursor.execute(stage.format(_STAGE, _names(columns), self._table))
        self._copy(cursor, _STAGE, columns, rows)
        others = [name for name in columns if name not in self._key]
        changes = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others)
        action = sql.SQL("UPDATE SET {}").format(changes) if others else sql.SQL("NOTHING")
        into = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) DO {}")
        cursor.execute(into.format(self._table, _names(columns), _names(columns), _STAGE, _names(self._key), action))

    def _copy(self, cursor: psycopg.Cursor[Any], table: sql.Identifier, columns: Sequence[str], rows: pa.Table) -> None:
        chosen = rows.select(list(columns))
        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(table, _names(columns))) as copy:
            for batch in chosen.to_batches(max_chunksize=10_000):
                values = [self._values(batch.column(i), batch.schema.field(i)) for i in range(batch.num_columns)]
                for row in zip(*values, strict=True):
                    copy.write_row(row)

    def _latest(self, rows: pa.Table) -> tuple[list[tuple[Any, ...]], pa.Table]:
        """The keys to delete, and the last row of each key that stays."""
        keys = list(
            zip(
                *(self._values(rows[name].combine_chunks(), rows.schema.field(name)) for name in self._key), strict=True
            )
        )
        ops = rows[OP].to_pylist() if OP in rows.column_names else [1] * rows.num_rows
        last = {key: number for number, key in enumerate(keys)}
        kept = sorted(number for number in last.values() if ops[number] != -1)
        return [key for key, number in last.items() if ops[number] == -1], rows.take(pa.array(kept, pa.int64()))

    def _columns(self, schema: pa.Schema) -> list[str]:
        """The table's columns: all columns of the rows, except `op` where it is acted on."""
        return [name for name in schema.names if not (self._key and name == OP)]

    def _type(self, field: pa.Field) -> str:
        return "jsonb" if field.name in self._json_columns else column_type(field.type)

    def _values(self, column: pa.Array, field: pa.Field) -> list[Any]:
        values: list[Any] = column.to_pylist()
        if field.name in self._json_columns:
            return [None if value is None else Jsonb(json.loads(value)) for value in values]
        kind = column_type(field.type)
        if kind == "jsonb":
            return [None if value is None else Jsonb(json.loads(json_text(value, field.type))) for value in values]
        if kind == "text":  # PostgreSQL allows no zero byte in text
            return [value.replace("\0", "\ufffd") if value else value for value in values]
        return values

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.InvalidColumnReference:
            names = ", ".join(self._key)
            raise SinkError(
                f"the sink {self._name}: the table {self._table_name} has no unique index on {names}",
                help=f"CREATE UNIQUE INDEX ON {self._table_name} ({names}), or leave 'key' out to insert",
            ) from None
        except psycopg.Error as error:
            first = str(error).strip().splitlines()
            raise SinkError(
                f"the sink {self._name} cannot write to the table {self._table_name}: "
                f"{self._hide(first[0]) if first else type(error).__name__}",
                help="the batch was not written; fix the cause and run the stream again from the same checkpoint",
            ) from None


def _names(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
