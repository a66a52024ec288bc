"""A folder with one file per batch, readable by Spark, pandas and DuckDB.

A file appears whole, under a name made of the stream's identity and the batch: a batch that is written again takes the
place of itself. A batch without rows leaves no file.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from eventide.result import Result
from eventide.storage.atomic import replacing


class FilesSink:
    def __init__(self, folder: str, format: str, identity: str) -> None:
        self._folder = Path(folder.removeprefix("file://"))
        self._format = format
        self._identity = identity
        self._folder.mkdir(parents=True, exist_ok=True)

    def write(self, batch: int, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        path = self._folder / f"part-{self._identity}-{batch:010d}.{self._format}"
        with replacing(path) as temporary:
            if self._format == "parquet":
                pa.parquet.write_table(rows, temporary)
            elif self._format == "csv":
                pa.csv.write_csv(rows, temporary)
            else:
                temporary.write_text("".join(json.dumps(row, default=str, ensure_ascii=False) + "\n" for row in Result(rows)))
