"""Which connector reads which source."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import DataFrame

from eventide.connectors.contract import SourceContext
from eventide.connectors.dataframe import read as dataframe
from eventide.connectors.embedded import read as embedded
from eventide.connectors.files import read as files
from eventide.connectors.rate import read as rate
from eventide.connectors.secrets import Secrets
from eventide.connectors.stream import read as stream
from eventide.plan.logical import Source

_OF_INBOX = {"embedded": embedded.load, "stream": stream.load}
_READERS = {"dataframe": dataframe.load, "rate": rate.load}


def with_secrets(source: Source) -> Source:
    """The source as its connector opens it; only to be kept in memory."""
    return replace(source, options=Secrets(f"the source {source.name}", source.options).options)


def source_frame(
    context: SourceContext, source: Source, inbox: DataFrame | None, columns: Collection[str]
) -> DataFrame:
    """The source's rows with the hidden columns; a row is not judged by what is not in `columns`."""
    if source.connector == "files":
        return files.load(context, source, columns)
    if source.connector in _OF_INBOX and inbox is not None:
        return _OF_INBOX[source.connector](context, source, inbox)
    return _READERS[source.connector](context, source)
