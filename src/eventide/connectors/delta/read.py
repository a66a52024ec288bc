"""A Delta table as a source, or as a table that is looked up."""

from __future__ import annotations

import base64
import pickle

import pyarrow as pa
from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from eventide.connectors import paced_reader
from eventide.connectors.arrow_types import to_arrow_schema
from eventide.connectors.contract import RECEIVED, SourceContext, user_schema
from eventide.connectors.delta import data_source
from eventide.connectors.delta.connector import STORAGE
from eventide.connectors.delta.data_source import SETTINGS, AddedRows, TableSettings
from eventide.connectors.delta.versions import Versions
from eventide.connectors.readers import with_secrets
from eventide.errors import SourceError
from eventide.plan.logical import Source, Table


def load(context: SourceContext, source: Source) -> DataFrame:
    """The rows that versions of the table add."""
    for module in (data_source, paced_reader):  # so that planning a batch imports nothing
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spark = context.spark
    spark.createDataFrame([], "nothing int")  # makes this session the active one, where Spark looks up data sources
    try:
        spark.dataSource.register(AddedRows)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # another source of this session has registered it
            raise
    schema = StructType([*user_schema(source).fields, StructField(RECEIVED, LongType())])
    text = base64.b64encode(pickle.dumps(_settings(source, schema))).decode()
    return spark.readStream.format(AddedRows.name()).schema(schema).option(SETTINGS, text).load()


def versions_of(source: Source) -> Versions:
    options = source.options
    storage = {name.removeprefix(STORAGE.prefix): value for name, value in options.items() if STORAGE.has(name)}
    return Versions(source.name, options["path"], storage, options.get("changes") == "skip")


def _settings(source: Source, schema: StructType) -> TableSettings:
    options = source.options
    start, most = options.get("start", "earliest"), options.get("max_versions_per_batch")
    first = -1 if start == "earliest" else None if start == "latest" else int(start) - 1
    return TableSettings(
        versions_of(source), to_arrow_schema(schema), RECEIVED, first, None if most is None else int(most)
    )


def read_table(table: Table) -> pa.Table:
    """All rows as they are now."""
    source = with_secrets(Source(table.name, table.columns, table.connector, options=table.options))
    versions, schema = versions_of(source), to_arrow_schema(user_schema(source))
    versions.latest()  # raises if there is none
    found = DeltaTable(versions.path, storage_options=dict(versions.storage) or None)
    there = {field.name.lower(): field.name for field in found.schema().fields}
    missing = [name for name in schema.names if name.lower() not in there]
    if missing:
        raise SourceError(
            f"table {table.name}: the Delta table {versions.path} has no column {missing[0]}",
            help=f"it has {', '.join(there.values())}",
        )
    rows = found.to_pyarrow_table(columns=[there[name.lower()] for name in schema.names])
    return rows.rename_columns(schema.names).cast(schema)


def mark(table: Table) -> str:
    """The version that is there now."""
    source = with_secrets(Source(table.name, table.columns, table.connector, options=table.options))
    return f"version {versions_of(source).latest()}"
