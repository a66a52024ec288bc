"""Which connector reads which source."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from eventide.plan.logical import Source
from eventide.spark.sources import dataframe, embedded, files, rate
from eventide.spark.sources.common import SourceContext
from eventide.storage.inbox import STREAM_KINDS

_READERS = {"dataframe": dataframe.load, "files": files.load, "rate": rate.load}


def source_frame(context: SourceContext, source: Source, inbox: DataFrame | None, first: bool) -> DataFrame:
    """The source's rows and control entries. The first branch of a stream also takes what concerns the whole stream."""
    if inbox is None:
        return _READERS[source.connector](context, source)
    entries = (F.col("source") == source.name) & F.col("kind").isin("rows", "watermark")
    if first:
        entries = entries | F.col("kind").isin(*STREAM_KINDS)
    if source.connector == "embedded":
        return embedded.load(context, source, inbox, entries)
    rows = _READERS[source.connector](context, source)
    return rows.unionByName(embedded.controls(context, source, inbox, entries))
