"""Files that Spark finds and reads as text, wherever they are: tasks that it hands the lines to decode and pack them.

The same scan as that of tasks which read files by themselves; only the lines come from Spark, many at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, functions as F

from eventide.connectors.contract import RECEIVED, SourceContext
from eventide.connectors.files.lines import LINE
from eventide.connectors.files.read import check_files, folder_names, found_lines
from eventide.errors import EngineError
from eventide.plan.logical import Source
from eventide.spark.batch_facts import FactsOf
from eventide.tasks.fused_scan import Arrival, FusedScan
from eventide.tasks.json_lines import JsonLines
from eventide.tasks.packing import spark_ddl
from eventide.tasks.partition_folders import InFolders

_TASK_BITS = 40  # in an order of arrival: the place in the task is below them, the task's number above


@dataclass(frozen=True)
class LineScan:
    """mapInArrow function: lines → what the scan gives of them. `stream` is the folder of the stream."""

    scan: FusedScan
    reader: JsonLines
    stream: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, batch = TaskContext.get(), FactsOf(self.stream)()
        task = 0 if context is None else context.partitionId()
        yield from self.scan.packed_arrivals(
            self._arrivals(batches, task << _TASK_BITS), batch.began, task, batch.bound
        )

    def _arrivals(self, batches: Iterator[pa.RecordBatch], first: int) -> Iterator[Arrival]:
        begin = 0
        for batch in batches:
            for received, lines in _by_file(batch):
                text = _joined(lines)
                for piece in self.reader.read_blocks([(begin, text)]):
                    yield Arrival.of_piece(piece, first, received, "lines of a file")
                begin += len(text)


def has_all_columns(context: SourceContext, source: Source) -> bool:
    """Whether all columns are in the lines: the values of some may be in the names of folders. Raises what keeps Spark
    from reading them.
    """
    check_files(context, source)
    return not folder_names(context, source)


def scanned(context: SourceContext, source: Source, scan: FusedScan, stream: str | None) -> DataFrame:
    """Packed rows, and lines that Spark must decode."""
    reader = scan.reader.reader if isinstance(scan.reader, InFolders) else scan.reader
    if not isinstance(reader, JsonLines) or stream is None:
        raise EngineError(f"source {source.name}: only a stream's lines of JSON are decoded behind Spark's reader")
    lines = found_lines(context, source).select(F.col(LINE).cast("binary").alias(LINE), RECEIVED)
    return lines.mapInArrow(LineScan(scan, reader, stream), spark_ddl(scan.scanned))


def _by_file(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Array]]:
    """Lines that follow one another and are of files of the same time, with that time."""
    received, lines = batch.column(RECEIVED).to_numpy(), batch.column(LINE)
    begins = np.flatnonzero(np.diff(received, prepend=received[:1] - 1)).tolist()
    for begin, end in zip(begins, [*begins[1:], len(received)], strict=True):
        yield int(received[begin]), lines.slice(begin, end - begin)


def _joined(lines: pa.Array) -> bytes:
    """All lines, each with its end."""
    every = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    joined: bytes = pc.binary_join(every, b"\n")[0].as_py()
    return joined + b"\n"
