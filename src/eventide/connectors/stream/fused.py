"""Another stream as an input whose rows never leave Arrow: the task that reads a batch of it also filters, projects and
packs its rows. The same scan as that of files, on tables instead of lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from eventide.connectors.contract import BatchFacts, SourceContext, user_schema
from eventide.connectors.fused_time import resolution_of
from eventide.connectors.stream.read import StreamRows, named_batches, stream_rows
from eventide.plan.logical import Source
from eventide.plan.physical import Fusion
from eventide.tasks.fused_scan import Arrival, FusedScan
from eventide.tasks.packing import PACKED, Packing, spark_ddl
from eventide.tasks.tables import Tables


@dataclass(frozen=True)
class StreamScan:
    """mapInArrow function: inbox entries → the packed rows of the batches that they name. `told` tells of the batch."""

    scan: FusedScan
    rows: StreamRows
    told: Callable[[], BatchFacts]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, facts = TaskContext.get(), self.told()
        task = 0 if context is None else context.partitionId()
        yield from self.scan.packed_arrivals(self._arrivals(batches), facts.began, task, facts.bound)

    def _arrivals(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Arrival]:
        for entries in batches:
            for first, table in self.rows.of_batches(entries):
                yield Arrival(table, (), None, first, "rows of a stream")


def fused_scan(source: Source, fusion: Fusion, packing: Packing, numbered: bool, decodes: bool) -> FusedScan:
    """Nothing is left to Spark, whether it would decode or not."""
    return FusedScan(
        Tables(fusion.columns),
        resolution_of(source, fusion),
        fusion.condition,
        fusion.packed,
        packing,
        fusion.identity,
        numbered,
        leaves_lines=False,
        scanned=PACKED,
    )


def scanned(context: SourceContext, source: Source, scan: FusedScan, inbox: DataFrame) -> DataFrame:
    read = {name for name, _ in scan.reader.columns}
    schema = StructType([field for field in user_schema(source).fields if field.name in read])
    function = StreamScan(scan, stream_rows(context, source, schema), context.facts_for(source))
    return named_batches(source, inbox).mapInArrow(function, spark_ddl(PACKED))
