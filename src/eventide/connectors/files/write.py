"""A folder with one file per batch, readable by Spark, pandas and DuckDB.

A file appears whole, under a name made of the stream's identity and the batch number: a batch that is written again
replaces its own file. A batch without rows leaves no file.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
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
                lines = (
                    json.dumps(row, default=_plain, ensure_ascii=False) for row in Result(rows, self._json_columns)
                )
                temporary.write_text("".join(f"{line}\n" for line in lines))

    def close(self) -> None:
        pass


def flat(rows: pa.Table) -> pa.Table:
    """The same rows with each struct as one column per field, `window_start` for `window.start`, since CSV has no
    structs.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if not pa.types.is_struct(column.type):
            columns[name] = column
            continue
        for number, field in enumerate(column.type):
            columns[f"{name}_{field.name}"] = pc.struct_field(column, [number])
    return pa.table(columns)


def _plain(value: Any) -> Any:
    """The JSON form of values that JSON has no form for: times in ISO 8601, bytes in base64, decimals as text."""
    if isinstance(value, dt.datetime):
        return (
            value.isoformat() if value.tzinfo is None else value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
        )
    if isinstance(value, dt.date):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
