"""CSV files as rows: Spark finds the files, tasks read them as `tasks.csv_files` says, Spark tells what the texts mean.

A text that does not fit its column makes its record one that did not decode.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from eventide.connectors.contract import CORRUPT, RECEIVED, timestamp_of
from eventide.connectors.files.lines import LINE
from eventide.connectors.files.listing import is_elsewhere
from eventide.errors import OptionError
from eventide.plan.logical import Source
from eventide.plan.names import backticked
from eventide.tasks.byte_ranges import COMPRESSED
from eventide.tasks.csv_files import IS_BAD, RECORD, CsvFiles
from eventide.tasks.csv_lines import CsvLines
from eventide.tasks.csv_records import CsvForm
from eventide.tasks.file_errors import naming_file
from eventide.tasks.line_blocks import blocks_of

_FOUND = (
    StructField("path", StringType()),
    StructField("modificationTime", TimestampType()),
    StructField("length", LongType()),
    StructField("content", BinaryType()),
)
_PATH, _CONTENT = "__path", "__content"


def found_schema(folders: list[StructField]) -> StructType:
    return StructType([*_FOUND, *folders])


def rows_of_files(
    found: DataFrame, source: Source, inside: StructType, folders: list[StructField], columns: Collection[str]
) -> DataFrame:
    """The rows of the files that `found` names, with RECEIVED and CORRUPT. `inside` are the columns of the files,
    `folders` others that `found` has.
    """
    wanted = [field for field in inside.fields if field.name in columns]
    names = tuple(inside.names), tuple(field.name for field in wanted)
    files = CsvFiles(form_of(source), source.options.get("header") == "true", *names)
    is_local = not is_elsewhere(source.options["path"])
    content = F.lit(None).cast("binary") if is_local else F.col("content")
    taken = F.unix_micros(F.col("modificationTime")).alias(RECEIVED)
    given = found.select(
        F.col("path").alias(_PATH), content.alias(_CONTENT), taken, *[backticked(field.name) for field in folders]
    )
    texts = StructType(
        [
            StructField(RECEIVED, LongType()),
            *folders,
            *[StructField(field.name, StringType()) for field in wanted],
            StructField(RECORD, StringType()),
            StructField(IS_BAD, BooleanType()),
        ]
    )
    rows = given.mapInArrow(_Opened(files), texts)
    beside = [RECEIVED, *[backticked(field.name) for field in folders]]
    return _typed(rows, inside, wanted, source.options.get("timestamp_format"), beside)


def rows_of_records(
    messages: DataFrame, line: str, source: Source, schema: StructType, columns: Collection[str]
) -> DataFrame:
    """`messages` with the fields of `schema` and CORRUPT in place of `line`, which holds one record each, or NULL."""
    wanted = [field for field in schema.fields if field.name in columns]
    names = tuple(field.name for field in schema.fields), tuple(field.name for field in wanted)
    kept = [field for field in messages.schema.fields if field.name != line]
    texts = StructType(
        [
            *kept,
            *[StructField(field.name, StringType()) for field in wanted],
            StructField(RECORD, StringType()),
            StructField(IS_BAD, BooleanType()),
        ]
    )
    rows = messages.mapInArrow(_Recorded(CsvFiles(form_of(source), False, *names), line), texts)
    beside = [field.name for field in kept]
    return _typed(rows, schema, wanted, source.options.get("timestamp_format"), beside)


def rows_of_texts(frame: DataFrame, schema: StructType, columns: Collection[str], source: Source) -> DataFrame:
    """`frame` with the fields of `schema` and CORRUPT in place of LINE, which holds the texts of a record as a task
    found them (`tasks.csv_lines`), or NULL.
    """
    wanted = [field for field in schema.fields if field.name in columns]
    texts = StructType(
        [
            *[StructField(field.name, StringType()) for field in wanted],
            StructField(RECORD, StringType()),
            StructField(IS_BAD, BooleanType()),
        ]
    )
    kept = [name for name in frame.columns if name != LINE]
    parsed = frame.select(*kept, F.from_json(F.col(LINE).cast("string"), texts).alias(LINE))
    parts = [F.col(f"{LINE}.{backticked(field.name)}") for field in texts.fields]
    return _typed(parsed.select(*kept, *parts), schema, wanted, source.options.get("timestamp_format"), kept)


def reader_of(source: Source, columns: tuple[tuple[str, str], ...], iso: str | None, left_to_spark: bool) -> CsvLines:
    """How tasks read the source's files."""
    names = tuple(column.name for column in source.columns), tuple(name for name, _ in columns)
    files = CsvFiles(form_of(source), source.options.get("header") == "true", *names)
    return CsvLines(files, columns, iso, "timestamp_format" in source.options, left_to_spark)


@dataclass(frozen=True)
class _Recorded:
    """mapInArrow function: messages → their fields as text, with the other columns beside them."""

    files: CsvFiles
    line: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            records = self.files.of_messages(batch.column(self.line).to_pylist()).combine_chunks().to_batches()[0]
            others = batch.drop_columns([self.line])
            names = [*others.schema.names, *records.schema.names]
            yield pa.RecordBatch.from_arrays([*others.columns, *records.columns], names=names)


def form_of(source: Source) -> CsvForm:
    options = source.options
    quote = options.get("quote", '"')
    if quote in options.get("sep", ","):
        raise OptionError(
            f"source {source.name}: the quote {quote} is part of the separator",
            help="give one of them another character",
        )
    return CsvForm(
        options.get("sep", ",").encode(),
        quote.encode(),
        options.get("escape", quote).encode(),
        options.get("null_text", "").encode(),
        options.get("multi_line", "true") == "true",
    )


@dataclass(frozen=True)
class _Opened:
    """mapInArrow function: files → their records, with the other columns of the file beside each."""

    files: CsvFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            others = [name for name in batch.schema.names if name not in (_PATH, _CONTENT)]
            for place, (path, content) in enumerate(
                zip(batch.column(_PATH).to_pylist(), batch.column(_CONTENT).to_pylist(), strict=True)
            ):
                for records in naming_file(path, self._records(path, content)):
                    same = [pa.repeat(batch.column(name)[place], records.num_rows) for name in others]
                    table = pa.table([*same, *records.columns], names=[*others, *records.column_names])
                    yield from table.combine_chunks().to_batches()

    def _records(self, path: str, content: bytes | None) -> Iterator[pa.Table]:
        file = pa.OSFile(path.removeprefix("file:")) if content is None else pa.BufferReader(content)
        with file:
            if file.size() == 0:
                return
            if path.endswith(COMPRESSED):
                with pa.CompressedInputStream(file, pa.Codec.detect(path).name) as stream:
                    yield from self.files.read(blocks_of(stream))
            else:
                yield from self.files.read(blocks_of(file))


def _typed(
    rows: DataFrame, schema: StructType, wanted: list[StructField], times: str | None, beside: Collection[str]
) -> DataFrame:
    values = {field.name: value_of(F.col(backticked(field.name)), field.dataType, times) for field in wanted}
    own = [values.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name) for field in schema.fields]
    misfits = [F.col(backticked(name)).isNotNull() & value.isNull() for name, value in values.items()]
    is_bad = reduce(Column.__or__, misfits, F.coalesce(IS_BAD, F.lit(False)))
    record = F.regexp_replace(RECORD, r"\r?\n\z", "")
    return rows.select(*own, *beside, F.when(is_bad, record).alias(CORRUPT))


def value_of(text: Column, type: DataType, times: str | None = None) -> Column:
    """What a text means in a column of that type; NULL if it means nothing."""
    if isinstance(type, StringType):
        return text
    if isinstance(type, BinaryType):
        return F.try_to_binary(text, F.lit("base64"))
    if isinstance(type, ArrayType | MapType | StructType):
        return F.from_json(text, type.json(), {"mode": "PERMISSIVE", "timeZone": "UTC"})
    if isinstance(type, TimestampType):
        return timestamp_of(text) if times is None else F.try_to_timestamp(text, F.lit(times))
    return text.try_cast(type)
