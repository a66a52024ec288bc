"""The embedded source and the control entries of every source: what a stream's inbox holds.

Spark's file source reads the manifests and logs them; the task that gets one reads the spool files that it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StringType, StructField, StructType

from eventide.plan.logical import Source
from eventide.spark.sources.common import CORRUPT, SourceContext, hidden, user_schema
from eventide.storage.inbox import SPARK_SCHEMA
from eventide.storage.spool import Spool, read_rows

_EXPANDED = "kind string, at long, seq long, received long, row string"
_EXPANDED_ARROW = pa.schema(
    [("kind", pa.string()), ("at", pa.int64()), ("seq", pa.int64()), ("received", pa.int64()), ("row", pa.string())]
)
_CHUNK = 65_536


@dataclass(frozen=True)
class Expand:
    """mapInArrow function: inbox entries → rows of spool files, control entries unchanged."""

    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spool = Spool(Path(self.folder))
        for batch in batches:
            for entry in batch.to_pylist():
                if entry["kind"] != "rows":
                    yield pa.RecordBatch.from_pylist([{"kind": entry["kind"], "at": entry["at"]}], schema=_EXPANDED_ARROW)
                    continue
                table = read_rows(spool.rows_path(entry["number"]))
                yield from _as_rows(table, entry["number"]).to_batches(max_chunksize=_CHUNK)


def _as_rows(table: pa.Table, number: int) -> pa.Table:
    count = table.num_rows
    seq = pc.add(table["seq"], number << 32)
    columns = [pa.array(["rows"] * count), pa.nulls(count, pa.int64()), seq, table["received_at"], table["row"]]
    return pa.table(columns, schema=_EXPANDED_ARROW)


def inbox_frame(context: SourceContext) -> DataFrame | None:
    """The stream's inbox, if it has one; the same frame may serve several branches, and Spark then reads each manifest in one batch."""
    if context.inbox is None:
        return None
    reader = context.spark.readStream.schema(SPARK_SCHEMA).option("maxFileAge", "36500d").option("mode", "FAILFAST")
    return reader.json(str(context.inbox))


def load(context: SourceContext, source: Source, inbox: DataFrame, entries: Column) -> DataFrame:
    schema = user_schema(source)
    expanded = inbox.where(entries).mapInArrow(Expand(str(context.spool(source.name))), _EXPANDED)
    decoding = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "timeZone": "UTC"}
    decoded = expanded.select("kind", "at", "seq", "received", F.from_json("row", decoding, options).alias("value"))
    own = [F.col(f"value.`{field.name}`") for field in schema.fields]
    return decoded.select(
        *own, *hidden(F.col("kind"), F.col("at"), F.col("seq"), F.col("received"), F.col(f"value.{CORRUPT}"))
    )


def controls(context: SourceContext, source: Source, inbox: DataFrame, entries: Column) -> DataFrame:
    """Only the control entries, with the user's columns empty: for a source whose rows come from elsewhere."""
    schema = user_schema(source)
    own = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields]
    nothing = F.lit(None)
    chosen = inbox.where(entries & (F.col("kind") != "rows"))
    return chosen.select(*own, *hidden(F.col("kind"), F.col("at"), nothing, nothing, nothing))
