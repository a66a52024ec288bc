"""What a stream emitted: for each batch its rows, its side output and its account, all or nothing.

    NNNNNNNNNNNN.main.arrow   rows of the stream            (only if there are any)
    NNNNNNNNNNNN.side.arrow   side-output payloads          (only if there are any)
    NNNNNNNNNNNN.json         account and totals; written last: a batch without it does not count

Totals accumulate over all batches, so the newest account has the sum of all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from eventide.eventtime.lanes import Lanes
from eventide.storage.atomic import damaged, read_arrow, read_json, replacing, write_json

OUTPUT_OP = "__op"  # int32, of main rows of a change log: -1 for one that is taken back, which goes with it unseen
ROWS_OUT = "rows_out"  # an event: how many rows left the stream
OUTPUT_TIME = "__rowtime"  # int64, of main rows: the event time of a row that leaves, which goes with it unseen


@dataclass
class Account:
    """One batch, and everything up to it. Times in microseconds since the epoch."""

    batch: int
    counts: dict[str, int]
    totals: dict[str, int]
    events: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, int] = field(default_factory=dict)
    watermark: int | None = None
    # by name: watermark, max_timestamp_seen, rows (how many came so far), …
    sources: dict[str, dict[str, int]] = field(default_factory=dict)
    # by name of a source with limits: how many rows so far were admitted and rejected, tokens left
    admission: dict[str, dict[str, float]] = field(default_factory=dict)
    began: int | None = None  # when the batch did
    lanes: dict[str, Lanes] = field(default_factory=dict)  # by name of a source whose partitions have watermarks
    took: dict[str, int] = field(default_factory=dict)  # microseconds that the phases of the batch took, by name


class Results:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self._cache: dict[Path, pa.Table] = {}
        self._batches = sorted(int(path.stem) for path in self.folder.glob("[0-9]*.json"))
        self._latest = self._read_account(self._batches[-1]) if self._batches else None

    def has(self, batch: int) -> bool:
        return bool(self._batches) and batch <= self._batches[-1]

    def write(self, main: pa.Table, side: pa.Table, account: Account) -> None:
        """Keep a batch. Repeating it is harmless: the account, written last, decides."""
        self._write_table(self._path(account.batch, "main"), main)
        self._write_table(self._path(account.batch, "side"), side)
        write_json(self._account_path(account.batch), account.__dict__)
        self._batches.append(account.batch)
        self._latest = account

    def batches(self, after: int = -1) -> list[int]:
        """The stored batches later than `after`, in order."""
        return [batch for batch in list(self._batches) if batch > after]

    def side(self, batch: int) -> pa.Table | None:
        """The payloads of one batch, read anew; None if it has none."""
        return read_batch(self.folder, batch, "side")

    def account(self, batch: int) -> Account:
        """The account of a batch that is kept."""
        return self._latest if self._latest is not None and self._latest.batch == batch else self._read_account(batch)

    def has_rows(self, batch: int, kind: str) -> bool:
        return self._path(batch, kind).exists()

    def bytes(self, batch: int, kind: str) -> int:
        """How long the stored rows of `kind` are; 0 if there are none."""
        path = self._path(batch, kind)
        return path.stat().st_size if path.exists() else 0

    def latest(self) -> Account | None:
        return self._latest

    def read(self, kind: str, schema: pa.Schema) -> pa.Table:
        """All rows of `kind` ("main" or "side") with the columns of `schema`, in the order of the batches."""
        paths = [self._path(batch, kind) for batch in list(self._batches)]
        tables = [fitted(self._table(path), schema) for path in paths if path.exists()]
        return pa.concat_tables([schema.empty_table(), *tables])

    def _read_account(self, batch: int) -> Account:
        value: dict[str, Any] = read_json(self._account_path(batch))
        try:
            return Account(**value)
        except TypeError as error:
            raise damaged(self._account_path(batch), error) from None

    def _table(self, path: Path) -> pa.Table:
        if path not in self._cache:
            self._cache[path] = read_arrow(path)
        return self._cache[path]

    def _write_table(self, path: Path, table: pa.Table) -> None:
        if table.num_rows == 0:
            path.unlink(missing_ok=True)
            return
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with replacing(path) as temporary, pa.OSFile(str(temporary), "wb") as file:
            with pa.ipc.new_file(file, table.schema, options=options) as writer:
                writer.write_table(table)

    def _path(self, batch: int, kind: str) -> Path:
        return _path(self.folder, batch, kind)

    def _account_path(self, batch: int) -> Path:
        return self.folder / f"{batch:012d}.json"


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows that an earlier text of the stream, or an earlier release, has given, with the columns of today.

    What was not there then, or cannot be shown in today's type, is NULL.
    """
    columns = [
        _fitted(table[field.name], field.type) if field.name in table.column_names else _nulls(table, field)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _fitted(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.chunked_array([pa.nulls(len(values), kind)])


def _nulls(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(table.num_rows, field.type)])


def read_batch(folder: Path, batch: int, kind: str) -> pa.Table | None:
    """The rows of `kind` of one batch as they were stored; None if it has none."""
    path = _path(folder, batch, kind)
    return read_arrow(path) if path.exists() else None


def _path(folder: Path, batch: int, kind: str) -> Path:
    return folder / f"{batch:012d}.{kind}.arrow"


def add_counts(*counts: dict[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
