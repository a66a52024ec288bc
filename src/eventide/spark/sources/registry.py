"""Which connector reads which source."""

from __future__ import annotations

from pyspark.sql import DataFrame

from eventide.plan.logical import Source
from eventide.spark.sources import dataframe, embedded, files, rate
from eventide.spark.sources.common import SourceContext

_READERS = {"dataframe": dataframe.load, "files": files.load, "rate": rate.load}


def source_frame(context: SourceContext, source: Source, inbox: DataFrame | None) -> DataFrame:
    """The source's rows with the hidden columns."""
    if source.connector == "embedded" and inbox is not None:
        return embedded.load(context, source, inbox)
    return _READERS[source.connector](context, source)
