"""`spark`: any format that Spark knows, with options of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, Family, LooksUp, Opening, Option, Promise, Reads, Writes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from eventide.connectors.contract import SourceContext
    from eventide.connectors.sink import Sink
    from eventide.plan.logical import Source, Table

PREFIX = "option."
_OPTIONS = Family(
    PREFIX,
    "an option of the format, by its own name: `option.subscribe`, `option.maxFilesPerTrigger`; a password as "
    "`${env:NAME}` ([secrets](../sql.md#secrets))",
)
_PLACE: Mapping[str, Option] = {
    "format": Option(
        is_required=True,
        identifies=True,
        doc="as `spark.read.format` takes it: `orc`, `avro`, `jdbc`, the name of a class or of a Python data source",
    ),
    "path": Option(identifies=True, doc="what `load` and `save` are given, for formats that have one"),
}


def _load(context: SourceContext, source: Source, columns: Collection[str]) -> DataFrame:
    from eventide.connectors.spark.read import load

    return load(context, source)


def _open(opening: Opening) -> Sink:
    from eventide.connectors.spark.write import SparkSink

    return SparkSink(opening)


def _read_table(spark: SparkSession, table: Table) -> pa.Table:
    from eventide.connectors.spark.read import read_table

    return read_table(spark, table)


SPARK = Connector(
    name="spark",
    doc="any format that Spark knows",
    source=Reads(options=_PLACE, family=_OPTIONS, load=_load),
    sink=Writes(
        options={
            **_PLACE,
            "mode": Option(
                "choice",
                ("append", "overwrite", "ignore", "error"),
                default="append",
                doc="what is done where something is there already",
            ),
        },
        family=_OPTIONS,
        promise=Promise.AT_LEAST_ONCE,
        open=_open,
    ),
    table=LooksUp(options=_PLACE, family=_OPTIONS, read=_read_table),
)
