"""Rows on their way into and out of the operator, as Spark sees them: mapInArrow functions around `tasks.packing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from eventide.kernels.contract import SEQ
from eventide.kernels.vector.text import readable
from eventide.spark.batch_facts import told
from eventide.tasks.packing import (
    MOST_HELD,
    NOT_READ,
    NOW,
    OVERDRAWN,
    PACKED,
    UNDECODED,
    Forwarder,
    Packing,
    as_batch,
    from_blob,
    spark_ddl,
)

PACKED_SCHEMA = spark_ddl(PACKED)
_MOST_ROWS = 1_000_000  # of one task held back before they are packed
_MOST_FORWARDED = 131_072  # the same, where the task is done with them then
_FEW_ROWS = 1_000  # travel as they are: folding them costs more
_BEHIND_THE_SCAN = 1 << 39  # places of rows that Spark decodes after a fused scan, whose own are below


@dataclass(frozen=True)
class Packer:
    """mapInArrow function: rows → packed rows. `first` is the place in the task from which they are counted, `stream`
    the folder of the stream, if it may be told how far its time has come.
    """

    packing: Packing
    first: int = 0
    stream: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        count, size, place = 0, 0, self.first
        task = _task()
        forwarder = None if self.packing.forwarding is None else self.packing.forwarding.begin(task)
        most = _MOST_ROWS if forwarder is None else _MOST_FORWARDED
        for batch in batches:
            held.append(batch)
            count, size = count + batch.num_rows, size + batch.nbytes
            if count >= most or size >= MOST_HELD:
                yield self._packed(held, task, place, forwarder)
                held, count, size, place = [], 0, 0, place + count
        if count:
            yield self._packed(held, task, place, forwarder)
        if forwarder is not None:
            yield as_batch(self.packing.forwarded(forwarder, task))

    def _packed(
        self, batches: list[pa.RecordBatch], task: int, place: int, forwarder: Forwarder | None
    ) -> pa.RecordBatch:
        rows = readable(pa.Table.from_batches(batches).combine_chunks())
        batch = told(self.stream) if rows.num_rows >= _FEW_ROWS else None
        bound = None if batch is None else batch.bound
        packing = self.packing.at(rows[NOW][0].as_py()) if NOW in rows.column_names else self.packing
        return as_batch(packing.pack(numbered(rows, task, place), task, bound, place, forwarder))


@dataclass(frozen=True)
class PassingPacker:
    """mapInArrow function after a fused scan: what is packed in column `passed` goes on as it is, other rows are
    packed.
    """

    packing: Packing
    passed: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for passed, rows, place in split_passed(batches, self.passed):
            yield from () if passed is None else (passed,)
            yield from () if rows is None else Packer(self.packing, place)(iter([rows]))


def split_passed(
    batches: Iterator[pa.RecordBatch], passed: str
) -> Iterator[tuple[pa.RecordBatch | None, pa.RecordBatch | None, int]]:
    """What a fused scan has packed, and other rows, with the place in the task from which they are counted."""
    place = _BEHIND_THE_SCAN
    for batch in batches:
        packed = batch.column(passed)
        rows = batch.filter(packed.is_null()).drop_columns([passed]) if packed.null_count else None
        is_any = packed.null_count < len(packed)
        yield pa.RecordBatch.from_struct_array(packed.drop_null()).cast(PACKED) if is_any else None, rows, place
        place += packed.null_count


def _task() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def numbered(rows: pa.Table, task: int, place: int) -> pa.Table:
    """Rows whose source gives no order of arrival, numbered by task and place in it."""
    if SEQ not in rows.column_names or rows[SEQ].null_count == 0:
        return rows
    first = (task << 40) + place
    seq = pc.fill_null(rows[SEQ], pa.array(range(first, first + rows.num_rows), pa.int64()))
    return rows.set_column(rows.column_names.index(SEQ), SEQ, seq)


# Out of the operator: tagged blobs, unpacked into one wide typed row form ------------------------------------------

TAG, SIDE, ACCOUNT = "__tag", "__side", "__account"
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
        if tag in ("account", UNDECODED, OVERDRAWN, NOT_READ):
            return self._fill({TAG: [tag], ACCOUNT: [blob.decode()]}, 1)
        table = from_blob(blob)
        if tag == "side":
            struct = pa.StructArray.from_arrays(
                [column.combine_chunks() for column in table.columns], fields=list(table.schema)
            )
            return self._fill({TAG: [tag] * table.num_rows, SIDE: struct}, table.num_rows)
        if self.decorate is not None:
            table = self.decorate(table)
        return self._fill(
            {TAG: [tag] * table.num_rows, **{name: table[name] for name in table.column_names}}, table.num_rows
        )

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
