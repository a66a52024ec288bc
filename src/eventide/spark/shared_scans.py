"""Inputs of one source that tasks read in one scan, so that every file is read and decoded once.

Spark's offsets have one source for them. So a checkpoint keeps which inputs share a scan, and goes on in that way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F

from eventide.connectors.contract import PASSED, SourceContext, user_schema
from eventide.connectors.files import fused as fused_files
from eventide.errors import CheckpointError
from eventide.eventtime.resolution import IS_NO_ROW
from eventide.kernels.contract import DETAIL, SEQ, TS
from eventide.kernels.vector.columns import column
from eventide.kernels.vector.text import readable
from eventide.plan.names import backticked
from eventide.plan.physical import EventTimeWatermark, ForwardRows, Physical
from eventide.spark.guard import Guard
from eventide.spark.inputs import SparkInput
from eventide.spark.pack import PACKED_SCHEMA, Packer, split_passed
from eventide.spark.resolve import resolve_scan
from eventide.tasks.fused_scan import FusedScan
from eventide.tasks.packing import ARRIVED, HOW, NOW, PACKED
from eventide.tasks.shared_scan import SharedScan

Together = tuple[tuple[int, ...], ...]  # the numbers of the inputs that share a scan


def inputs_together(physical: Physical, inputs: Sequence[SparkInput]) -> Together:
    """The inputs that share a scan in a stream that begins now: files of JSON, of which Spark is never asked to
    evaluate anything.
    """
    by_source: dict[str, list[int]] = {}
    for each in inputs:
        if _may_share(physical, each):
            by_source.setdefault(each.plan.source.name, []).append(each.number)
    return tuple(tuple(numbers) for numbers in by_source.values() if len(numbers) > 1)


def _may_share(physical: Physical, input: SparkInput) -> bool:
    """Select lists of rows that are forwarded may need guards, tables may grow too large, and then Spark evaluates."""
    source, fusion = input.plan.source, input.fusion
    if fusion is None or fusion.left_to_spark or fusion.lookup is not None:
        return False
    is_json = source.connector == "files" and source.options.get("format", "json") == "json"
    is_plain = source.admission is None and source.dedup is None
    return is_json and is_plain and not isinstance(physical.operator, ForwardRows)


def scanned_together(
    context: SourceContext, inputs: Sequence[SparkInput], scans: Sequence[FusedScan], guard: Guard
) -> DataFrame:
    """The rows of all inputs as PACKED. Rows of one source allow all of its inputs the same watermark."""
    first = inputs[0]
    if context.scans is None:
        raise CheckpointError(
            f"inputs of the stream share a scan of {first.plan.source.name} in this checkpoint, and now they cannot",
            help="start anew with another checkpoint folder",
        )
    shared = fused_files.shared_scan(first.plan.source, scans)
    frame = fused_files.scanned(context.spark, first.plan.source, first.number, shared, context.scans)
    if not shared.scans[0].leaves_lines:
        return frame.select(*PACKED.names)
    return _decoded(frame, first, shared, guard).mapInArrow(SharedPacker(shared), PACKED_SCHEMA)


def _decoded(frame: DataFrame, input: SparkInput, shared: SharedScan, guard: Guard) -> DataFrame:
    """Lines that only Spark can judge, with the columns that any of the inputs needs."""
    source, scan = input.plan.source, shared.scans[0]
    is_event_time = isinstance(input.plan.watermark, EventTimeWatermark)
    rows = resolve_scan(fused_files.decoded(frame, source, scan), source, user_schema(source), is_event_time, guard)
    columns = [F.col(backticked(name)) for name, _ in scan.reader.columns]
    return rows.select(*columns, *_known(rows.columns), PASSED)


def _known(columns: Sequence[str]) -> list[str]:
    """What is known of rows; of those of a source with limits, which it may get while a stream runs, more."""
    return [name for name in (TS, HOW, DETAIL, SEQ, ARRIVED, NOW) if name in columns]


@dataclass(frozen=True)
class SharedPacker:
    """mapInArrow function behind a shared scan: what is packed goes on as it is, rows that Spark has decoded are packed
    for each input.
    """

    shared: SharedScan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for passed, rows, place in split_passed(batches, PASSED):
            yield from () if passed is None else (passed,)
            for scan in () if rows is None else self.shared.scans:
                packing = replace(scan.packing, prefold=None, forwarding=None)
                yield from Packer(packing, place)(iter(_of_input(scan, pa.Table.from_batches([rows])).to_batches()))


def _of_input(scan: FusedScan, rows: pa.Table) -> pa.Table:
    """What is no row of the user's any more goes to every input, as it does if each reads for itself."""
    names = [name for name in _known(rows.column_names) if name != SEQ or scan.numbered]
    began = rows[NOW][0].as_py() if NOW in names else 0
    rows = readable(rows.combine_chunks())
    is_no_row = pc.greater_equal(column(rows, HOW), IS_NO_ROW)
    undecodable = pc.if_else(is_no_row, "", pa.scalar(None, pa.string()))
    return scan.kept_rows(rows, rows.select(names), undecodable, began, scan.packed).combine_chunks()
