"""Which connector reads which source."""

from __future__ import annotations

from pyspark.sql import DataFrame

from eventide.connectors.contract import SourceContext
from eventide.connectors.dataframe import read as dataframe
from eventide.connectors.embedded import read as embedded
from eventide.connectors.files import read as files
from eventide.connectors.rate import read as rate
from eventide.plan.logical import Source

_READERS = {"dataframe": dataframe.load, "files": files.load, "rate": rate.load}


def source_frame(context: SourceContext, source: Source, inbox: DataFrame | None) -> DataFrame:
    """The source's rows with the hidden columns."""
    if source.connector == "embedded" and inbox is not None:
        return embedded.load(context, source, inbox)
    return _READERS[source.connector](context, source)
