"""The embedded source and the control entries of every source: what a stream's inbox holds.

Spark's file source reads the manifests and logs them; the task that gets one reads the spool files it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StringType, StructField, StructType

from eventide.admission.gate import SHED_PAYLOADS
from eventide.connectors.contract import BEGAN, CORRUPT, BatchFacts, SourceContext, hidden, user_schema
from eventide.eventtime.time_range import SHIFT_US
from eventide.plan.logical import Source
from eventide.plan.names import backticked
from eventide.storage.inbox import MANIFEST, SPARK_SCHEMA, STREAM_KINDS
from eventide.storage.paths import AnyPath
from eventide.storage.spool import Spool
from eventide.tasks.early_shedding import EarlyShedding, Kept
from eventide.tasks.surveying import left_out_seq

_EXPANDED = "seq long, received long, row string, began long"
_EXPANDED_ARROW = pa.schema(
    [("seq", pa.int64()), ("received", pa.int64()), ("row", pa.string()), ("began", pa.int64())]
)
_CHUNK = 65_536


@dataclass(frozen=True)
class Expand:
    """A function for mapInArrow: inbox entries → the rows of the spool files they name.

    With `shedding` some rows are left out; behind them stands a row that only says, by its seq, how many. `told` tells
    of the batch.
    """

    folder: AnyPath
    told: Callable[[], BatchFacts]
    shedding: EarlyShedding | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spool, began = Spool(self.folder), self.told().began
        payloads = SHED_PAYLOADS  # of a task: an item may hold a few rows only
        for batch in batches:
            for entry in batch.to_pylist():
                table = spool.rows(entry["number"])
                seq = pc.add(table["seq"], entry["number"] << 32)
                times = pa.repeat(began, table.num_rows)
                rows = pa.table([seq, table["received_at"], table["row"], times], schema=_EXPANDED_ARROW)
                found = None if self.shedding is None else self.shedding.kept(rows["seq"], began, payloads)
                if found is not None:
                    rows, payloads = _without(rows, found, began), payloads - found.told
                yield from rows.to_batches(max_chunksize=_CHUNK)


def _without(rows: pa.Table, found: Kept, began: int) -> pa.Table:
    if not found.left_out:
        return rows
    count = pa.table([[left_out_seq(found.left_out)], [began], [None], [began]], schema=_EXPANDED_ARROW)
    return pa.concat_tables([rows.filter(found.mask), count])


def inbox_frame(context: SourceContext) -> DataFrame | None:
    """The stream's inbox, if it has one; several inputs can share the frame, and Spark then reads each manifest in a
    single batch.
    """
    if context.inbox is None:
        return None
    reader = context.spark.readStream.schema(SPARK_SCHEMA).option("maxFileAge", "36500d").option("mode", "FAILFAST")
    return reader.json(str(context.inbox))


def load(context: SourceContext, source: Source, inbox: DataFrame) -> DataFrame:
    schema = user_schema(source)
    chosen = inbox.where((F.col("source") == source.name) & (F.col("kind") == "rows"))
    shedding = None
    if context.orders is not None and source.admission is not None:
        shedding = EarlyShedding(context.orders, source.admission)
    expand = Expand(context.spool(source.name), context.facts_for(source), shedding)
    expanded = chosen.select("number").mapInArrow(expand, _EXPANDED)
    decoding = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "timeZone": "UTC"}
    decoded = expanded.select("seq", "received", "began", F.from_json("row", decoding, options).alias("value"))
    own = [F.col(f"value.{backticked(field.name)}") for field in schema.fields]
    times = hidden(F.col("seq"), F.col("received"), F.col(f"value.{CORRUPT}"))
    return decoded.select(*own, *times, F.col("began").alias(BEGAN))


def controls(inbox: DataFrame, source: Source, input: int, numbers: tuple[int, ...]) -> DataFrame:
    """The control entries of a source as packed rows. The first input also takes entries for the whole stream.

    A watermark goes to one shard, and Spark tells all; the number of a manifest goes to one shard, which accounts for
    it; other entries go to every shard.
    """
    is_watermark = (F.col("source") == source.name) & (F.col("kind") == "watermark")
    concerns = is_watermark | F.col("kind").isin(MANIFEST, *STREAM_KINDS) if input == 0 else is_watermark
    is_for_one = is_watermark | (F.col("kind") == MANIFEST)
    shards = F.when(is_for_one, F.array(F.lit(numbers[0]))).otherwise(F.array(*map(F.lit, numbers)))
    claim = F.when(is_watermark, F.col("at"))
    return inbox.where(concerns).select(
        F.explode(shards).alias("shard"),
        F.timestamp_micros(claim + F.lit(SHIFT_US)).alias("max_ts"),
        F.lit(input).alias("input"),
        claim.alias("claim"),
        F.lit(None).cast("bigint").alias("top"),
        F.col("kind").alias("control"),
        F.when(~is_watermark, F.col("at")).alias("at"),
        F.lit(None).cast("bigint").alias("folded"),
        F.lit(None).cast("string").alias("facts"),
        F.lit(None).cast("binary").alias("blob"),
    )
