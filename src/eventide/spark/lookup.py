"""The join of an input's rows with a table, by Spark's own broadcast join, before they are packed.

The table's rows come from the version that counted when the batch began: see `storage.tables`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import LongType, StructField, StructType

from eventide.connectors.contract import PASSED, SourceContext, TableFiles, user_schema
from eventide.errors import CheckpointError, EngineError
from eventide.eventtime.resolution import IS_NO_ROW
from eventide.kernels.contract import DEDUP
from eventide.plan.logical import Lookup, Source
from eventide.plan.lookup_keys import lookup_keys
from eventide.plan.names import backticked
from eventide.spark.exploding import Keep
from eventide.spark.session import frame_of
from eventide.storage.paths import AnyPath
from eventide.storage.tables import TableVersions, VersionLog
from eventide.tasks.packing import HOW

_AT, _PLACE, _FOUND = "__at", "__place", "__found"
_CHUNK = 65_536


@dataclass(frozen=True)
class ReadVersion:
    """mapInArrow function: the time of a batch → the rows of the table that count then, each with its _PLACE."""

    log: AnyPath
    folder: AnyPath
    table: str
    keys: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(_AT).to_pylist():
                rows = TableVersions(self.folder).read(self._version(at))
                placed = rows.append_column(_PLACE, places(rows, self.keys))
                yield from placed.to_batches(max_chunksize=_CHUNK) if placed.num_rows else ()

    def _version(self, at: int) -> int:
        number = VersionLog(self.log).at(at).get(self.table)
        if number is None:
            raise CheckpointError(f"{self.log} does not say which version of the table {self.table} counts")
        return number


def places(rows: pa.Table, keys: Sequence[str]) -> pa.Array:
    """The number of each row among those that have the same `keys`; without any, among all."""
    numbers = np.arange(rows.num_rows, dtype=np.int64)
    if not keys or any(pa.types.is_nested(rows[key].type) for key in keys):
        return pa.array(numbers)
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    for key in keys:
        encoded = rows[key].combine_chunks().dictionary_encode(null_encoding="encode")
        own = np.asarray(encoded.indices, dtype=np.int64)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + own, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=1)
    firsts = np.cumsum(counts) - counts
    found = np.empty(rows.num_rows, dtype=np.int64)
    found[order] = numbers - firsts[codes[order]]
    return pa.array(found)


def table_frame(context: SourceContext, step: Lookup) -> DataFrame:
    """The table's rows with its columns and _PLACE; where it has versions, read anew by every batch."""
    table = step.table
    if context.tables is None:
        raise EngineError(f"nobody knows where the table {table.name} is")
    if not isinstance(context.tables, TableFiles):
        rows = context.tables[table.name]
        return frame_of(context.spark, rows.append_column(_PLACE, places(rows, lookup_keys(step))))
    schema, folder = user_schema(Source(table.name, table.columns)), context.tables.folder / table.name
    reading = ReadVersion(context.tables.log, folder, table.name, lookup_keys(step))
    now = context.spark.range(1).select(F.unix_micros(F.current_timestamp()).alias(_AT))
    return now.mapInArrow(reading, StructType([*schema.fields, StructField(_PLACE, LongType())]))


def looked_up(frame: DataFrame, step: Lookup, table: DataFrame, carried: Sequence[str], keep: Keep) -> DataFrame:
    """`frame` with a row for each row of `table` that belongs to it; the new columns stand in front of `carried`.
    `keep` leaves rows out for which nothing is found.

    What is no row of the user's any more passes: a line that did not decode, and what a scan has packed. The rows that
    are found for one are no duplicates of each other, so that each has an identity of its own.
    """
    own = [F.col(backticked(name)) for name in frame.columns if name not in carried]
    new = [F.col(backticked(name)) for name in step.names]
    is_row = (F.col(HOW) < IS_NO_ROW) & F.col(PASSED).isNull()
    found = F.broadcast(table.toDF(*step.names, _PLACE).withColumn(_FOUND, F.lit(True)))
    joined = frame.join(found, is_row & F.expr(step.condition), "left")
    kept = joined if step.outer else keep(joined, ~is_row | F.col(_FOUND))
    return kept.select(*own, *new, *[_identity().alias(DEDUP) if name == DEDUP else F.col(name) for name in carried])


def _identity() -> Column:
    """The first that is found for a row has the row's own identity: it is the same row whether any is found or not."""
    identity = F.col(DEDUP).cast("string")
    is_further = F.col(DEDUP).isNotNull() & (F.col(_PLACE) > 0)
    return F.when(is_further, F.concat_ws(":", identity, F.col(_PLACE).cast("string"))).otherwise(identity)
