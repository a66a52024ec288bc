"""A folder with one file per batch, readable by Spark, pandas and DuckDB.

A file appears whole, under a name made of the stream's identity and the batch number: a batch that is written again
replaces its own file. A batch without rows leaves no file.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from eventide.result import Result
from eventide.storage.atomic import replacing


class FilesSink:
    def __init__(self, folder: str, format: str, identity: str, json_columns: tuple[str, ...] = ()) -> None:
        self._folder = Path(folder.removeprefix("file://"))
        self._format = format
        self._identity = identity
        self._json_columns = json_columns
        self._folder.mkdir(parents=True, exist_ok=True)

    def write(self, batch: int, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        path = self._folder / f"part-{self._identity}-{batch:010d}.{self._format}"
        with replacing(path, private=False) as temporary:
            if self._format == "parquet":
                pa.parquet.write_table(rows, temporary)
            elif self._format == "csv":
                pa.csv.write_csv(flat(rows), temporary)
            else:
                lines = (as_json(row) for row in Result(rows, self._json_columns))
                temporary.write_text("".join(f"{line}\n" for line in lines))

    def close(self) -> None:
        pass


def flat(rows: pa.Table) -> pa.Table:
    """The same rows in a form that CSV has: each struct as one column per field, `window_start` for `window.start`,
    lists and maps as JSON, bytes in base64. The csv source reads all of it back.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        for flat_name, values in _flat(name, column):
            unlike = flat_name if flat_name not in {*columns, *rows.column_names} or flat_name == name else None
            columns[unlike or f"{name}.{flat_name.removeprefix(name)[1:]}"] = _written(values)
    return pa.table(columns)


def _flat(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    if not pa.types.is_struct(column.type):
        yield name, column
        return
    for number, field in enumerate(column.type):
        yield from _flat(f"{name}_{field.name}", pc.struct_field(column, [number]))


def _written(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column that pyarrow can write, and that the source takes for the same values."""
    if pa.types.is_nested(column.type):
        values = column.to_pylist(maps_as_pydicts="strict")
        return _texts([None if value is None else as_json(value) for value in values])
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return _texts([None if value is None else _plain(value) for value in column.to_pylist()])
    if pa.types.is_duration(column.type):
        return _texts([None if value is None else _interval(value) for value in column.to_pylist()])
    return column


def interval_texts(rows: pa.Table) -> pa.Table:
    """The rows, with text in place of intervals, for those who have no such type."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_duration(field.type):
            rows = rows.set_column(place, field.name, _written(rows[field.name]))
    return rows


def _texts(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def _interval(value: dt.timedelta) -> str:
    """As Spark reads an INTERVAL DAY TO SECOND.

    >>> _interval(dt.timedelta(days=-1, microseconds=5))
    '-0 23:59:59.999995'
    """
    sign, value = ("-", -value) if value < dt.timedelta(0) else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    return f"{sign}{value.days} {minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.{value.microseconds:06d}"


def as_json(value: Any) -> str:
    return json.dumps(_with_text_keys(value), default=_plain, ensure_ascii=False)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if isinstance(key, str | int | float) else _plain(key): _with_text_keys(item)
            for key, item in value.items()
        }
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """The JSON form of values that JSON has no form for: times in ISO 8601, bytes in base64, decimals as text."""
    if isinstance(value, dt.datetime):
        return (
            value.isoformat() if value.tzinfo is None else value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
        )
    if isinstance(value, dt.date):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
