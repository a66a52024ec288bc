"""Rows on their way into and out of the operator: many rows, one Arrow blob per shard and task.

Spark walks the input and output of transformWithState row by row in Python, so plain rows would cost microseconds
each. Packed, a shard gets its rows of a task as one value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from eventide.kernels.contract import PROBLEM, SEQ, TS
from eventide.spark.clock import SHIFT_US

KIND = "__kind"  # "rows", or the kind of a control entry: see storage.inbox
SHARD = "__shard"
AT = "__at"  # a control entry's time
PACKED_SCHEMA = "shard int, max_ts timestamp, branch int, claim long, top long, control string, at long, blob binary"
_PACKED_ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("max_ts", pa.timestamp("us", tz="UTC")),
        ("branch", pa.int32()),
        ("claim", pa.int64()),  # max_ts again, in plain microseconds: the watermark that these rows allow their source
        ("top", pa.int64()),  # the latest event time
        ("control", pa.string()),
        ("at", pa.int64()),  # the time of a control entry that concerns the whole stream
        ("blob", pa.binary()),
    ]
)
PackedRow = tuple[int, int | None, int, int | None, int | None, str | None, int | None, bytes | None]  # as in PACKED_SCHEMA
_MOST_ROWS = 1_000_000  # of one task held back before they are packed


def to_blob(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def from_blob(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


@dataclass(frozen=True)
class Packer:
    """mapInArrow function: rows with KIND, SHARD and AT → one packed row per shard, with the watermark that they allow.

    `numbers` are the group keys of the shards; `lag` is subtracted here, in microseconds, before Spark rounds to
    milliseconds. Rows with a problem never move the watermark. `branch` numbers the stream's sources.
    """

    branch: int
    numbers: tuple[int, ...]
    lag: int
    mark: str | None = None  # the column that carries the watermark, in place of the event time and the lag

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            held.append(batch)
            count += batch.num_rows
            if count >= _MOST_ROWS:
                yield self._pack(pa.Table.from_batches(held))
                held, count = [], 0
        if count:
            yield self._pack(pa.Table.from_batches(held))

    def _pack(self, table: pa.Table) -> pa.RecordBatch:
        is_row = pc.equal(table[KIND], "rows")
        rows = numbered(table if pc.all(is_row).as_py() else table.filter(is_row))
        packed: list[PackedRow] = self._controls(table.filter(pc.invert(is_row))) if rows.num_rows < table.num_rows else []
        top, claim = self._times(rows)
        for shard, part in self._split(rows):
            packed.append(self._row(self.numbers[shard], claim, top, blob=to_blob(part)))
        columns = [[row[i] for row in packed] for i in range(len(_PACKED_ARROW))]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _PACKED_ARROW, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_PACKED_ARROW)

    def _times(self, rows: pa.Table) -> tuple[int | None, int | None]:
        """The latest event time, and the watermark that the rows allow."""
        good = pc.is_null(rows[PROBLEM])
        top: int | None = pc.max(rows[TS].filter(good)).as_py()
        if self.mark is None:
            return top, None if top is None else top - self.lag
        return top, pc.max(rows[self.mark].filter(good)).as_py()

    def _row(
        self,
        number: int,
        claim: int | None = None,
        top: int | None = None,
        control: str | None = None,
        at: int | None = None,
        blob: bytes | None = None,
    ) -> PackedRow:
        return (number, None if claim is None else claim + SHIFT_US, self.branch, claim, top, control, at, blob)

    def _split(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        shards = rows[SHARD]
        rows = rows.drop_columns([SHARD, KIND, AT] + ([] if self.mark is None else [self.mark]))
        for shard in range(len(self.numbers)):
            part = rows if len(self.numbers) == 1 else rows.filter(pc.equal(shards, shard))
            if part.num_rows:
                yield shard, part.combine_chunks()

    def _controls(self, controls: pa.Table) -> list[PackedRow]:
        packed: list[PackedRow] = []
        for kind, at in zip(controls[KIND].to_pylist(), controls[AT].to_pylist(), strict=True):
            if kind == "watermark":
                packed.append(self._row(self.numbers[0], claim=at, control=kind))
            else:
                packed.extend(self._row(number, control=kind, at=at) for number in self.numbers)
        return packed


def numbered(rows: pa.Table) -> pa.Table:
    """Rows whose source gives no order of arrival, numbered by task and place in it."""
    if SEQ not in rows.column_names or rows[SEQ].null_count == 0:
        return rows
    task = TaskContext.get()
    first = (task.partitionId() if task is not None else 0) << 40
    seq = pc.fill_null(rows[SEQ], pa.array(range(first, first + rows.num_rows), pa.int64()))
    return rows.set_column(rows.column_names.index(SEQ), SEQ, seq)


# Out of the operator: tagged blobs, unpacked into one wide typed row form ------------------------------------------

TAG, SIDE, ACCOUNT = "__tag", "__side", "__account"
RANK = "__rank"  # main rows of a batch leave in this order; NULL: as they come
TAGGED_SCHEMA = "tag string, blob binary"


@dataclass(frozen=True)
class Unpacker:
    """mapInArrow function: tagged blobs → rows of TAG, the main columns, SIDE (a struct) and ACCOUNT (JSON)."""

    main: pa.Schema
    side: pa.Schema
    decorate: Callable[[pa.Table], pa.Table] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for tag, blob in zip(batch.column("tag").to_pylist(), batch.column("blob").to_pylist(), strict=True):
                table = self._widen(tag, blob)
                yield from table.to_batches(max_chunksize=131_072)

    @property
    def wide(self) -> pa.Schema:
        side = pa.field(SIDE, pa.struct(list(self.side)))
        return pa.schema([pa.field(TAG, pa.string()), *self.main, side, pa.field(ACCOUNT, pa.string())])

    def _widen(self, tag: str, blob: bytes) -> pa.Table:
        if tag == "account":
            return self._fill({TAG: [tag], ACCOUNT: [json.dumps(json.loads(blob))]}, 1)
        table = from_blob(blob)
        if tag == "side":
            struct = pa.StructArray.from_arrays([column.combine_chunks() for column in table.columns], fields=list(table.schema))
            return self._fill({TAG: [tag] * table.num_rows, SIDE: struct}, table.num_rows)
        if self.decorate is not None:
            table = self.decorate(table)
        return self._fill({TAG: [tag] * table.num_rows, **{name: table[name] for name in table.column_names}}, table.num_rows)

    def _fill(self, columns: dict[str, object], rows: int) -> pa.Table:
        arrays = []
        for field in self.wide:
            value = columns.get(field.name)
            if value is None:
                arrays.append(pa.nulls(rows, field.type))
            elif isinstance(value, list):
                arrays.append(pa.array(value, field.type))
            else:
                arrays.append(value if value.type == field.type else value.cast(field.type))  # type: ignore[attr-defined]
        return pa.table(arrays, schema=self.wide)
