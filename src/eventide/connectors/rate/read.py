"""Spark's own generator of rows, for trying things out: `timestamp TIMESTAMP, value BIGINT`."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from eventide.connectors.contract import SourceContext, user_schema, with_hidden
from eventide.plan.logical import Source


def load(context: SourceContext, source: Source) -> DataFrame:
    rate = source.options.get("rows_per_second", "1")
    frame = context.spark.readStream.format("rate").option("rowsPerSecond", rate).load()
    schema = user_schema(source)
    return with_hidden(frame.select("timestamp", "value"), schema, F.unix_micros("timestamp"), F.lit(None))
