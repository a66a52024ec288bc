"""Which connector reads which source."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame

from eventide.connectors.contract import SourceContext
from eventide.connectors.dataframe import read as dataframe
from eventide.connectors.embedded import read as embedded
from eventide.connectors.files import read as files
from eventide.connectors.rate import read as rate
from eventide.plan.logical import Source

_READERS = {"dataframe": dataframe.load, "rate": rate.load}


def source_frame(
    context: SourceContext, source: Source, inbox: DataFrame | None, columns: Collection[str]
) -> DataFrame:
    """The source's rows with the hidden columns; a row is not judged by what is not in `columns`."""
    if source.connector == "files":
        return files.load(context, source, columns)
    if source.connector == "embedded" and inbox is not None:
        return embedded.load(context, source, inbox)
    return _READERS[source.connector](context, source)
