"""Files that appear in a folder: json, csv, parquet. Spark finds them and logs which ones it has taken."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, DataFrameReader, functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from eventide.connectors.contract import CORRUPT, RECEIVED, SourceContext, user_schema, with_hidden
from eventide.connectors.files import csv
from eventide.connectors.files.folder_values import with_folder_values
from eventide.connectors.files.lines import LINE, rows_of_lines
from eventide.connectors.files.partitions import folder_columns
from eventide.errors import OptionError
from eventide.plan.logical import Source
from eventide.plan.names import backticked

# Spark's own way to local files looks for a checksum beside each, under a name that it cannot make of `a:b.json`.
_LOCAL = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
_MAGIC = "*?[{"
# A file with one of these in its name would make Spark's reader take the other files of its batch twice, also after it
# was renamed. So none gets into a batch: Spark's patterns have no repetition, but alternatives within alternatives.
_TAKEN_FOR_PATTERNS = "*?[]{}\\"
_RENAME = f"rename it: Spark takes a name with one of {' '.join(_TAKEN_FOR_PATTERNS)} for a pattern"
_PLAIN_CHARACTER = f"[^{''.join(map(re.escape, _TAKEN_FOR_PATTERNS))}]"
_LONGEST_NAME = 255
_PLAIN_NAMES = f"{{,{_PLAIN_CHARACTER}" * _LONGEST_NAME + "}" * _LONGEST_NAME


def load(context: SourceContext, source: Source, columns: Collection[str]) -> DataFrame:
    """The source's rows; of its columns only `columns` are decoded and judged."""
    schema, path = user_schema(source), source.options["path"]
    check_files(context, source)
    names = folder_names(context, source)
    folders = [StructField(name, StringType()) for name in names]
    inside = StructType([field for field in schema.fields if field.name not in names])
    match source.options.get("format", "json"):
        case "parquet":
            texts = {field.name: field for field in folders}
            asked = StructType([texts.get(field.name, field) for field in schema.fields])
            found = _unless_misplaced(_reader(context, source, "parquet").schema(asked).load(path), source)
            rows = _with_readable_texts(found, inside, texts, columns)
        case "csv":
            found = _reader(context, source, "binaryFile").schema(csv.found_schema(folders)).load(path)
            rows = csv.rows_of_files(_unless_misplaced(found, source), source, inside, folders, columns)
        case _:
            rows = rows_of_lines(found_lines(context, source, folders), inside, columns)
    rows = with_folder_values(rows, schema, {name: F.col(backticked(name)) for name in names}, columns)
    return with_hidden(rows, schema, F.col(RECEIVED), F.col(CORRUPT))


def found_lines(context: SourceContext, source: Source, folders: Sequence[StructField] = ()) -> DataFrame:
    """The lines of all files, each with RECEIVED and what the names of `folders` say."""
    schema = StructType([StructField(LINE, StringType()), *folders])
    found = _unless_misplaced(_reader(context, source, "text").schema(schema).load(source.options["path"]), source)
    return found.select(LINE, *[backticked(field.name) for field in folders], _taken_at().alias(RECEIVED))


def _reader(context: SourceContext, source: Source, format: str) -> DataStreamReader | DataFrameReader:
    if not context.streaming:
        return context.spark.read.format(format).options(**_LOCAL)
    reader = context.spark.readStream.format(format).option("maxFileAge", "36500d").options(**_LOCAL)
    reader = reader.option("pathGlobFilter", _PLAIN_NAMES)
    most = source.options.get("max_files_per_batch")
    return reader if most is None else reader.option("maxFilesPerTrigger", most)


def _taken_at() -> Column:
    return F.unix_micros(F.col("_metadata.file_modification_time"))


def _with_readable_texts(
    rows: DataFrame, inside: StructType, folders: Collection[str], columns: Collection[str]
) -> DataFrame:
    """A row with a text that is not UTF-8 did not decode; see `tasks.fused_scan` for the same in words of Arrow."""
    texts = [field.name for field in inside.fields if isinstance(field.dataType, StringType) and field.name in columns]
    wrong = [F.when(~F.is_valid_utf8(backticked(name)), not_utf8(name, F.col(backticked(name)))) for name in texts]
    corrupt = F.coalesce(*wrong) if wrong else F.lit(None).cast("string")
    own = [
        (F.make_valid_utf8(backticked(field.name)) if field.name in texts else F.col(backticked(field.name))).alias(
            field.name
        )
        for field in inside.fields
    ]
    return rows.select(*own, *map(backticked, folders), _taken_at().alias(RECEIVED), corrupt.alias(CORRUPT))


def not_utf8(name: str, text: Column) -> Column:
    return F.concat(F.lit(f"column {name} is not UTF-8: "), F.make_valid_utf8(text))


# Folders ----------------------------------------------------------------------------------------------------------


def check_files(context: SourceContext, source: Source) -> None:
    """Raises what keeps Spark from reading the source's files."""
    path = source.options["path"]
    check_folder(source.name, path)
    if context.streaming:
        _check_names(source.name, path)


def check_folder(source: str, path: str) -> None:
    """A local folder must exist before the stream starts; Spark checks other file systems."""
    local = path.removeprefix("file://")
    if "://" in local or any(character in local for character in _MAGIC):
        return
    if not Path(local).exists():
        raise OptionError(
            f"source {source}: the path {path} does not exist", help="create the folder first; files may follow later"
        )
    try:
        folders_named_after_columns(path)
    except OptionError as error:
        raise OptionError(f"source {source}: {error.message}", help=error.help) from None


def folders_named_after_columns(path: str) -> tuple[str, ...]:
    """The columns after which the folders below a local folder are named; () for another path.

    Raises an OptionError if they are not named alike, or plain files lie beside them.
    """
    folder = _folder(path)
    return () if folder is None else folder_columns(str(folder))


def _folder(path: str) -> Path | None:
    folder = Path(re.sub(r"^file:(//)?(?=/)", "", path))
    return folder if folder.is_dir() else None


def folder_names(context: SourceContext, source: Source) -> list[str]:
    """The declared columns whose values are in the names of folders."""
    path = source.options["path"]
    if _folder(path) is not None:
        found = {name.lower() for name in folders_named_after_columns(path)}
    else:
        read = context.spark.read.format("text").options(**_LOCAL).load(path)
        found = {name.lower() for name in read.columns[1:]}
    return [column.name for column in source.columns if column.name.lower() in found]


def _check_names(source: str, path: str) -> None:
    """No file that is there has a name that Spark takes for a pattern."""
    folder = _folder(path)
    for file in () if folder is None else sorted(folder.rglob("*")):
        if any(character in file.name for character in _TAKEN_FOR_PATTERNS):
            raise OptionError(f"source {source}: {file} cannot be read by Spark", help=_RENAME)


_LATER = (
    "lies in a partition folder that has come since the stream started; move it elsewhere, or start the stream again"
)


def _unless_misplaced(found: DataFrame, source: Source) -> DataFrame:
    """A partition folder that comes later would be read without its column: then the stream stops."""
    path = source.options["path"]
    folder = _folder(path)
    if folder is None or "=" in folder.name or folders_named_after_columns(path):
        return found
    file = F.col("_metadata.file_path")
    message = F.concat(F.lit(f"source {source.name}: "), file, F.lit(f" {_LATER}"))
    is_misplaced = file.contains("=") & file.rlike("=[^/]*/[^/]*$")  # the first is much cheaper, and says no
    return found.where(F.when(is_misplaced, F.raise_error(message).cast("boolean")).otherwise(F.lit(True)))
