"""Files that appear in a folder: json, csv, parquet. Spark finds them and logs which ones it has taken."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from pyspark.sql import Column, DataFrame, DataFrameReader, functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from eventide.connectors.contract import CORRUPT, RECEIVED, SourceContext, user_schema, with_hidden
from eventide.connectors.files import csv
from eventide.connectors.files.lines import LINE, rows_of_lines
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
    match source.options.get("format", "json"):
        case "parquet":
            rows = _reader(context, source, "parquet").schema(schema).load(path)
            return _with_readable_texts(_unless_misplaced(rows, source), schema, columns)
        case "csv":
            folders = _folder_columns(context, path, schema)
            found = _reader(context, source, "binaryFile").schema(csv.found_schema(folders)).load(path)
            rows = csv.rows_of_files(_unless_misplaced(found, source), source, schema, folders, columns)
            return with_hidden(rows, schema, F.col(RECEIVED), F.col(CORRUPT))
        case _:
            found, folders = found_lines(context, source)
            return _with_rows_of_lines(found, schema, folders, columns)


def found_lines(context: SourceContext, source: Source) -> tuple[DataFrame, list[StructField]]:
    """The lines of all files, each with RECEIVED and the columns whose values are in the names of folders; these."""
    path = source.options["path"]
    folders = _folder_columns(context, path, user_schema(source))
    schema = StructType([StructField(LINE, StringType()), *folders])
    found = _unless_misplaced(_reader(context, source, "text").schema(schema).load(path), source)
    return found.select(LINE, *[backticked(field.name) for field in folders], _taken_at().alias(RECEIVED)), folders


def _reader(context: SourceContext, source: Source, format: str) -> DataStreamReader | DataFrameReader:
    if not context.streaming:
        return context.spark.read.format(format).options(**_LOCAL)
    reader = context.spark.readStream.format(format).option("maxFileAge", "36500d").options(**_LOCAL)
    reader = reader.option("pathGlobFilter", _PLAIN_NAMES)
    most = source.options.get("max_files_per_batch")
    return reader if most is None else reader.option("maxFilesPerTrigger", most)


def _taken_at() -> Column:
    return F.unix_micros(F.col("_metadata.file_modification_time"))


def _with_rows_of_lines(
    lines: DataFrame, schema: StructType, folders: list[StructField], columns: Collection[str]
) -> DataFrame:
    by_folder = {field.name for field in folders}
    inside = StructType([field for field in schema.fields if field.name not in by_folder])
    return with_hidden(rows_of_lines(lines, inside, columns), schema, F.col(RECEIVED), F.col(CORRUPT))


def _with_readable_texts(rows: DataFrame, schema: StructType, columns: Collection[str]) -> DataFrame:
    """A row with a text that is not UTF-8 did not decode; see `tasks.fused_scan` for the same in words of Arrow."""
    texts = [field.name for field in schema.fields if isinstance(field.dataType, StringType) and field.name in columns]
    wrong = [F.when(~F.is_valid_utf8(backticked(name)), not_utf8(name, F.col(backticked(name)))) for name in texts]
    corrupt = F.coalesce(*wrong) if wrong else F.lit(None)
    own = [
        (F.make_valid_utf8(backticked(field.name)) if field.name in texts else F.col(backticked(field.name))).alias(
            field.name
        )
        for field in schema.fields
    ]
    rows = rows.select(*own, _taken_at().alias(RECEIVED), corrupt.alias(CORRUPT))
    return with_hidden(rows, schema, F.col(RECEIVED), F.col(CORRUPT))


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
    misplaced = beside_partition_folders(path)
    if misplaced is not None:
        raise OptionError(
            f"source {source}: {misplaced[0]} lies beside the partition folder {misplaced[1]}", help=_APART
        )


_APART = "move one or the other elsewhere: a source reads plain files, or files in folders named after columns"


def has_partition_folders(path: str) -> bool:
    """Whether it contains folders named `column=value`, which Spark's reader turns into columns."""
    folder = _folder(path)
    return folder is not None and any(_is_partition(entry) for entry in folder.iterdir())


def beside_partition_folders(path: str) -> tuple[Path, Path] | None:
    """A plain file and a partition folder that lie side by side, if there are any."""
    folder = _folder(path)
    if folder is None:
        return None
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "_"))]
    partition = next((entry for entry in entries if _is_partition(entry)), None)
    plain = None if partition is None else next((entry for entry in entries if entry.is_file()), None)
    return None if partition is None or plain is None else (plain, partition)


def _folder(path: str) -> Path | None:
    folder = Path(re.sub(r"^file:(//)?(?=/)", "", path))
    return folder if folder.is_dir() else None


def _is_partition(entry: Path) -> bool:
    return "=" in entry.name and entry.is_dir()


def _folder_columns(context: SourceContext, path: str, schema: StructType) -> list[StructField]:
    """The declared columns whose values are in the names of folders."""
    if _folder(path) is not None and not has_partition_folders(path):
        return []
    found = {name.lower() for name in context.spark.read.format("text").options(**_LOCAL).load(path).columns[1:]}
    return [field for field in schema.fields if field.name.lower() in found]


def _check_names(source: str, path: str) -> None:
    """No file that is there has a name that Spark takes for a pattern."""
    folder = _folder(path)
    for file in () if folder is None else sorted(folder.rglob("*")):
        if any(character in file.name for character in _TAKEN_FOR_PATTERNS):
            raise OptionError(f"source {source}: {file} cannot be read by Spark", help=_RENAME)


def _unless_misplaced(found: DataFrame, source: Source) -> DataFrame:
    """A partition folder that comes later would be read without its column: then the stream stops."""
    path = source.options["path"]
    folder = _folder(path)
    if folder is None or "=" in folder.name or has_partition_folders(path):
        return found
    file = F.col("_metadata.file_path")
    message = F.concat(F.lit(f"source {source.name}: "), file, F.lit(f" lies beside plain files; {_APART}"))
    is_misplaced = file.contains("=") & file.rlike("=[^/]*/[^/]*$")  # the first is much cheaper, and says no
    return found.where(F.when(is_misplaced, F.raise_error(message).cast("boolean")).otherwise(F.lit(True)))
