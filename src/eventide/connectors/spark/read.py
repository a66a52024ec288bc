"""A source or a table in any format of Spark's.

Spark is handed the declared columns as the schema. A format that has a schema of its own is read with that, and the
declared columns are taken from it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession, functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from eventide.connectors.arrow_types import to_arrow_schema
from eventide.connectors.contract import CORRUPT, SourceContext, user_schema
from eventide.connectors.readers import with_secrets
from eventide.connectors.spark.connector import PREFIX
from eventide.errors import OptionError
from eventide.plan.logical import Source, Table
from eventide.plan.names import backticked

_TELL_WHAT_IS_CORRUPT = ("json", "csv", "xml")
_CORRUPT_OPTION = "columnnameofcorruptrecord"


def load(context: SourceContext, source: Source) -> DataFrame:
    return _loaded(lambda: context.spark.readStream, source)


def read_table(spark: SparkSession, table: Table) -> pa.Table:
    source = with_secrets(Source(table.name, table.columns, table.connector, options=table.options))
    schema = user_schema(source)
    rows = _loaded(lambda: spark.read, source)
    if CORRUPT in rows.columns:
        rows = rows.where(
            F.assert_true(F.col(CORRUPT).isNull(), F.concat(F.lit("it does not decode: "), CORRUPT)).isNull()
        )
    return rows.select(*map(backticked, schema.names)).toArrow().cast(to_arrow_schema(schema))


def options_of(options: Mapping[str, str]) -> dict[str, str]:
    """What a format is handed."""
    return {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}


def _loaded(reader: Callable[[], DataStreamReader | DataFrameReader], source: Source) -> DataFrame:
    schema, format = user_schema(source), source.options["format"]
    given, path = options_of(source.options), source.options.get("path")
    asked = schema
    if format.lower() in _TELL_WHAT_IS_CORRUPT and _CORRUPT_OPTION not in given:
        asked = StructType([*schema.fields, StructField(CORRUPT, StringType())])
        given = {_CORRUPT_OPTION: CORRUPT, **given}
    try:
        rows = reader().format(format).options(**given).schema(asked).load(path)
    except AnalysisException as error:
        if "user-specified schema" not in str(error) and "USER_SPECIFIED_SCHEMA" not in str(error.getCondition()):
            raise
        rows = reader().format(format).options(**given).load(path)
    return _declared(rows, source, schema)


def _declared(rows: DataFrame, source: Source, schema: StructType) -> DataFrame:
    there = {name.lower(): name for name in rows.columns}
    missing = [name for name in schema.names if name.lower() not in there]
    if missing:
        raise OptionError(
            f"source {source.name}: the format {source.options['format']} gives no column {missing[0]}",
            help=f"it gives {', '.join(rows.columns)}",
        )
    own = [
        F.col(backticked(there[field.name.lower()])).cast(field.dataType).alias(field.name) for field in schema.fields
    ]
    return rows.select(*own, *([CORRUPT] if CORRUPT in rows.columns else []))
