"""Another stream as an input: its inbox entries name the batches that the other one has given, and tasks read them.

Rows stay in Arrow all the way. A batch's rows and the watermark that goes with them are in one manifest, so that they
arrive in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import LongType, StructField, StructType

from eventide.connectors.arrow_types import to_arrow_schema
from eventide.connectors.contract import BEGAN, BatchFacts, SourceContext, hidden, user_schema
from eventide.plan.logical import Source
from eventide.plan.names import backticked
from eventide.plan.stream_source import IS_LATE, OP_COLUMN, ROWTIME_COLUMN, STREAM, TIME_COLUMNS
from eventide.storage.paths import AnyPath
from eventide.storage.payloads import late_rows_with_times
from eventide.storage.results import OUTPUT_OP, OUTPUT_TIME, fitted, read_batch

_SEQ = "__number"
_CHUNK = 65_536


@dataclass(frozen=True)
class StreamRows:
    """What a stream gave, or its late rows, as tables with `schema`. `folder` has its results."""

    folder: AnyPath
    schema: pa.Schema
    is_late: bool

    def of_batches(self, entries: pa.RecordBatch) -> Iterator[tuple[int, pa.Table]]:
        """Of the batches that inbox entries name: rows, and the place of the first in the order of arrival."""
        for number in entries.column("number").to_pylist():
            first = number << 32
            for found in read_batch(self.folder, number - 1, "side" if self.is_late else "main"):
                table = self._rows(found)
                yield first, table
                first += table.num_rows

    def _rows(self, found: pa.Table) -> pa.Table:
        """Stored rows, each with its event time in every column that shows it."""
        if self.is_late:
            users = pa.schema([field for field in self.schema if field.name != ROWTIME_COLUMN])
            rows, times = late_rows_with_times(found, users)
        else:
            rows, times = found, found[OUTPUT_TIME].cast(pa.timestamp("us", tz="UTC"))
        hidden = {**dict.fromkeys(TIME_COLUMNS, times), OP_COLUMN: OUTPUT_OP}
        shown = set(rows.column_names)
        for field in self.schema:
            if field.name not in shown and field.name in hidden:
                rows = rows.append_column(field.name, _unseen(rows, hidden[field.name]))
        return fitted(rows, self.schema)


@dataclass(frozen=True)
class ReadBatches:
    """mapInArrow function: inbox entries → the rows of the batches that they name, with _SEQ, and BEGAN, which `told`
    tells.
    """

    rows: StreamRows
    told: Callable[[], BatchFacts]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began = self.told().began
        for entries in batches:
            for first, table in self.rows.of_batches(entries):
                seq = pa.array(np.arange(first, first + table.num_rows))
                times = pa.repeat(began, table.num_rows)
                timed = table.append_column(_SEQ, seq).append_column(BEGAN, times)
                yield from timed.to_batches(max_chunksize=_CHUNK)


def _unseen(rows: pa.Table, values: pa.ChunkedArray | str) -> pa.ChunkedArray:
    """What goes with rows and is none of their columns."""
    return rows[values] if isinstance(values, str) else values


def load(context: SourceContext, source: Source, inbox: DataFrame) -> DataFrame:
    schema = user_schema(source)
    rows = named_batches(source, inbox).mapInArrow(
        ReadBatches(stream_rows(context, source, schema), context.facts_for(source)),
        StructType([*schema.fields, StructField(_SEQ, LongType()), StructField(BEGAN, LongType())]),
    )
    own = [F.col(backticked(field.name)) for field in schema.fields]
    return rows.select(*own, *hidden(F.col(_SEQ), F.lit(None), F.lit(None)), BEGAN)


def named_batches(source: Source, inbox: DataFrame) -> DataFrame:
    """The entries that name batches of the stream."""
    return inbox.where((F.col("source") == source.name) & (F.col("kind") == "rows")).select("number")


def stream_rows(context: SourceContext, source: Source, schema: StructType) -> StreamRows:
    return StreamRows(context.outputs(source.options[STREAM]), to_arrow_schema(schema), IS_LATE in source.options)
