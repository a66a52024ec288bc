"""The durable log of what was told to one source, numbered from 1: an Arrow file of rows per `db.write`, and a file
with one number per external watermark.

A row is kept as the JSON text that Spark's JSON reader will decode, with the order and the time of its arrival. So the
conversion of values is Spark's, and a row that does not decode can be shown as it was written.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from eventide.storage.atomic import replacing, write_bytes

SCHEMA = pa.schema([("seq", pa.int64()), ("received_at", pa.int64()), ("row", pa.string())])


class Spool:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def last(self) -> int:
        """The number of the newest item, 0 if there is none."""
        return max((int(path.stem) for path in self.folder.glob("[0-9]*.*")), default=0)

    def rows_path(self, number: int) -> Path:
        return self.folder / f"{number:012d}.arrow"

    def append_rows(self, rows: list[str], received_at: int, number: int) -> None:
        """Keep `rows` as item `number`; durable when it returns."""
        count = len(rows)
        columns = [pa.array(range(count), pa.int64()), pa.repeat(pa.scalar(received_at, pa.int64()), count), pa.array(rows, pa.string())]
        table = pa.table(columns, schema=SCHEMA)
        with replacing(self.rows_path(number)) as temporary, pa.OSFile(str(temporary), "wb") as file:
            with pa.ipc.new_file(file, SCHEMA) as writer:
                writer.write_table(table, max_chunksize=65_536)

    def append_watermark(self, at: int, number: int) -> None:
        """Keep an external watermark, in microseconds, as item `number`; durable when it returns."""
        write_bytes(self._watermark_path(number), str(at).encode())

    def watermark(self, number: int) -> int | None:
        """The watermark that item `number` is, or None if it is rows."""
        path = self._watermark_path(number)
        return int(path.read_text()) if path.exists() else None

    def _watermark_path(self, number: int) -> Path:
        return self.folder / f"{number:012d}.watermark"


def read_rows(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()
