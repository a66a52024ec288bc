"""`rate`: rows that Spark makes up, for trying things."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, Option, Reads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.connectors.contract import SourceContext
    from eventide.plan.logical import Source


def _load(context: SourceContext, source: Source, columns: Collection[str]) -> DataFrame:
    from eventide.connectors.rate.read import load

    return load(context, source)


RATE = Connector(
    name="rate",
    doc="generated rows, for trying things: `timestamp TIMESTAMP, value BIGINT`",
    source=Reads(
        options={"rows_per_second": Option("count", doc="how many rows a second has", default="1")},
        load=_load,
        columns=(("timestamp", "timestamp"), ("value", "bigint")),
        event_time="timestamp",
    ),
)
