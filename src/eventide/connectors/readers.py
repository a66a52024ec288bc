"""From a source to its rows, by its connector."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import DataFrame, functions as F

from eventide.connectors.contract import CORRUPT, HIDDEN, RECEIVED, SourceContext, user_schema, with_hidden
from eventide.connectors.embedded import read as embedded
from eventide.connectors.registry import reads
from eventide.connectors.secrets import Secrets
from eventide.connectors.stream import read as stream
from eventide.errors import OptionError
from eventide.plan.logical import Source

OF_INBOX = {"embedded": embedded.load, "stream": stream.load}  # rows that entries of the inbox name


def with_secrets(source: Source) -> Source:
    """The source as its connector opens it; only to be kept in memory."""
    return replace(source, options=Secrets(f"the source {source.name}", source.options).options)


def source_frame(
    context: SourceContext, source: Source, inbox: DataFrame | None, columns: Collection[str]
) -> DataFrame:
    """The source's rows with the hidden columns; a row is not judged by what is not in `columns`."""
    if source.connector in OF_INBOX and inbox is not None:
        return OF_INBOX[source.connector](context, source, inbox)
    load = reads(source.connector).load
    if load is None:
        raise OptionError(f"source {source.name}: the connector '{source.connector}' needs a database of its own")
    return _complete(load(context, source, columns), source)


def _complete(frame: DataFrame, source: Source) -> DataFrame:
    """A connector that does not say when rows were received, or which of them did not decode, need not."""
    if set(HIDDEN) <= set(frame.columns):
        return frame
    schema = user_schema(source)
    missing = [name for name in schema.names if name not in frame.columns]
    if missing:
        raise OptionError(
            f"source {source.name}: the connector '{source.connector}' gives no column {missing[0]}",
            help=f"it gives {', '.join(frame.columns)}",
        )
    known = {name: F.col(name) if name in frame.columns else F.lit(None) for name in (RECEIVED, CORRUPT)}
    return with_hidden(frame, schema, known[RECEIVED], known[CORRUPT])
