"""A user's own streaming DataFrame: what `eventide.stream` reads."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, Reads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eventide.connectors.contract import SourceContext
    from eventide.plan.logical import Source


def _load(context: SourceContext, source: Source, columns: Collection[str]) -> DataFrame:
    from eventide.connectors.dataframe.read import load

    return load(context, source)


DATAFRAME = Connector(name="dataframe", doc="a streaming DataFrame", source=Reads(load=_load))
