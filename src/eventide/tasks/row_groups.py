"""Parquet files read inside a task, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from eventide.errors import SourceError
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.file_content import readable_by_arrow
from eventide.tasks.json_lines import Piece
from eventide.tasks.struct_types import arrow_type

_WIDER = {pa.int8(): 1, pa.int16(): 2, pa.int32(): 4, pa.int64(): 8}


@dataclass(frozen=True)
class RowGroups:
    """`columns` by name and type. A column that the file lacks is NULL; names are case-insensitive."""

    columns: tuple[tuple[str, str], ...]

    def read(self, part: FileRange) -> Iterator[Piece]:
        """The row groups whose middle lies in this range."""
        with pq.ParquetFile(readable_by_arrow(part)) as file:
            there = {field.name.lower(): field.name for field in file.schema_arrow}
            names = [there[name.lower()] for name, _ in self.columns if name.lower() in there]
            before = 0
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                if part.start <= _middle(group) < part.start + part.length:
                    rows = file.read_row_group(number, columns=names, use_threads=False)
                    yield Piece(before, self._typed(rows, there, part.path), [])
                before += group.num_rows

    def _typed(self, rows: pa.Table, there: dict[str, str], path: str) -> pa.Table:
        if not self.columns:
            return pa.table({"": pa.nulls(rows.num_rows)})
        arrays = []
        for name, type in self.columns:
            if name.lower() in there:
                arrays.append(_as(rows[there[name.lower()]].combine_chunks(), type, name, path))
            else:
                arrays.append(pa.nulls(rows.num_rows, arrow_type(type)))
        return pa.table(arrays, names=[name for name, _ in self.columns])


def _middle(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    start = first.data_page_offset
    if first.dictionary_page_offset is not None:
        start = min(start, first.dictionary_page_offset)
    size = sum(group.column(number).total_compressed_size for number in range(group.num_columns))
    middle: int = start + size // 2
    return middle


def _as(values: pa.Array, type: str, name: str, path: str) -> pa.Array:
    """The values in the declared type, if that loses nothing."""
    held, wanted = values.type, arrow_type(type)
    if held == wanted:
        return values
    widens = held in _WIDER and wanted in _WIDER and _WIDER[held] < _WIDER[wanted]
    is_text = pa.types.is_large_string(held) or pa.types.is_dictionary(held) or pa.types.is_string_view(held)
    is_time = pa.types.is_timestamp(held) and held.unit in ("ms", "us") and pa.types.is_timestamp(wanted)
    is_float = pa.types.is_float32(held) and pa.types.is_float64(wanted)
    if widens or is_float or (is_text and pa.types.is_string(wanted)):
        return values.cast(wanted)
    if is_time:
        return (
            values.cast(pa.timestamp("us", tz=held.tz)).cast(wanted)
            if held.tz
            else values.cast(pa.timestamp("us")).cast(wanted)
        )
    raise SourceError(
        f"{path}: column {name} is {held}, declared as {type}",
        help="declare the column with the type that the files have",
    )
