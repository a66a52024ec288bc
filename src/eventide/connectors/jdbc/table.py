"""A table that Spark reads by JDBC."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession, functions as F

from eventide.connectors.arrow_types import to_arrow_schema
from eventide.connectors.contract import user_schema
from eventide.connectors.secrets import Secrets
from eventide.errors import SourceError
from eventide.plan.logical import Source, Table
from eventide.plan.names import backticked

_NAMES = {
    "url": "url",
    "table": "dbtable",
    "query": "query",
    "user": "user",
    "password": "password",
    "driver": "driver",
}
_FAMILY = "option."


def read_table(spark: SparkSession, table: Table) -> pa.Table:
    """All rows as they are now, with the declared columns, cast to their types."""
    secrets = Secrets(f"the table {table.name}", table.options)
    options = {_NAMES[name]: value for name, value in secrets.options.items() if name in _NAMES}
    more = {name.removeprefix(_FAMILY): value for name, value in secrets.options.items() if name.startswith(_FAMILY)}
    schema = user_schema(Source(table.name, table.columns, table.connector, options=table.options))
    try:
        rows = spark.read.format("jdbc").options(**more, **options).load()
        there = {name.lower(): name for name in rows.columns}
        missing = [name for name in schema.names if name.lower() not in there]
        if missing:
            raise SourceError(
                f"table {table.name}: there is no column {missing[0]}", help=f"there are {', '.join(rows.columns)}"
            )
        own = [
            F.col(backticked(there[field.name.lower()])).cast(field.dataType).alias(field.name)
            for field in schema.fields
        ]
        return rows.select(*own).toArrow().cast(to_arrow_schema(schema))
    except SourceError:
        raise
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        missing_driver = "No suitable driver" in str(error) or "ClassNotFoundException" in str(error)
        raise SourceError(
            f"table {table.name} cannot be read by JDBC: {secrets.hide(first)}",
            help="put the driver's jar into spark.jars" if missing_driver else "mend the cause, then REFRESH TABLE",
        ) from None
