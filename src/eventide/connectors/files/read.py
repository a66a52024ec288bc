"""Files that appear in a folder: json, csv, parquet. Spark finds them, reads them and logs which ones it has taken."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StringType, StructField, StructType

from eventide.connectors.contract import CORRUPT, SourceContext, user_schema, with_hidden
from eventide.errors import OptionError
from eventide.plan.logical import Source

_SPARK_NAMES = {
    "header": "header",
    "sep": "sep",
    "timestamp_format": "timestampFormat",
    "max_files_per_batch": "maxFilesPerTrigger",
}


def load(context: SourceContext, source: Source) -> DataFrame:
    schema = user_schema(source)
    format = source.options.get("format", "json")
    path = source.options["path"]
    check_folder(source.name, path)
    reader = context.spark.readStream.format(format).option("maxFileAge", "36500d").option("timeZone", "UTC")
    for option, value in source.options.items():
        if option in _SPARK_NAMES:
            reader = reader.option(_SPARK_NAMES[option], value)
    received = F.unix_micros(F.col("_metadata.file_modification_time"))
    if format == "parquet":
        return with_hidden(reader.schema(schema).load(path), schema, received, F.lit(None))
    decoding = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", CORRUPT)
    return with_hidden(reader.schema(decoding).load(path), schema, received, F.col(CORRUPT))


def check_folder(source: str, path: str) -> None:
    """A local folder must exist before the stream starts; Spark checks other file systems."""
    local = path.removeprefix("file://")
    if "://" in local or any(mark in local for mark in "*?[{"):
        return
    if not Path(local).exists():
        raise OptionError(
            f"source {source}: the path {path} does not exist", help="create the folder first; files may follow later"
        )


def has_partition_folders(path: str) -> bool:
    """Whether it contains folders named `column=value`, which Spark's reader turns into columns."""
    folder = Path(path.removeprefix("file://"))
    return folder.is_dir() and any("=" in entry.name and entry.is_dir() for entry in folder.iterdir())
