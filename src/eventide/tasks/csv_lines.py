"""CSV files read inside a task: texts become values where every one of them is spelt in the plainest way.

What Spark might see differently, an unusual spelling or a record that is none, leaves the task as it is, for Spark to
judge: its fields as texts, by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.vector.columns import whole
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.csv_files import IS_BAD, CsvFiles
from eventide.tasks.expressions import DATE, TYPES, WHOLE
from eventide.tasks.iso_times import iso_dates, iso_times
from eventide.tasks.json_lines import Piece
from eventide.tasks.line_blocks import blocks

_FEW = 64  # so few records are not worth splitting
_PIECES = 8
_PLAIN = {  # spellings that mean the same to Arrow and to Spark
    **dict.fromkeys(WHOLE, r"^-?(0|[1-9][0-9]{0,17})$"),
    "double": r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$",
    "boolean": r"^(true|false)$",
}


@dataclass(frozen=True)
class CsvLines:
    """`columns` by name and type, as `files` has them; `iso` names a text column that must hold ISO 8601 times. A
    column of times with a format of its own (`has_format`) is Spark's to read, and so is everything `left_to_spark`.
    """

    files: CsvFiles
    columns: tuple[tuple[str, str], ...]
    iso: str | None = None
    has_format: bool = False
    left_to_spark: bool = False

    def read(self, part: FileRange) -> Iterator[Piece]:
        """The records of a whole file: where one begins only those before it tell."""
        at = 0
        for table in self.files.read(block for _, block in blocks(part)):
            yield from self._pieces(table.combine_chunks(), at)
            at += table.num_rows

    def _pieces(self, table: pa.Table, at: int) -> Iterator[Piece]:
        rows = None if self.left_to_spark else self._rows(table)
        if rows is not None:
            yield Piece(at, rows, [])
        elif table.num_rows <= _FEW or self.left_to_spark:
            yield Piece(at, None, [json.dumps(record).encode() for record in table.to_pylist()])
        else:
            step = -(-table.num_rows // _PIECES)
            for begin in range(0, table.num_rows, step):
                yield from self._pieces(table.slice(begin, step), at + begin)

    def _rows(self, table: pa.Table) -> pa.Table | None:
        if pc.any(table[IS_BAD]).as_py():
            return None
        if not self.columns:
            return pa.table({"": pa.nulls(table.num_rows)})
        values = [self._values(whole(table[name]), name, type) for name, type in self.columns]
        if any(each is None for each in values):
            return None
        return pa.table(values, names=[name for name, _ in self.columns])

    def _values(self, texts: pa.Array, name: str, type: str) -> pa.Array | None:
        """None unless every text is one that both read alike."""
        if type == "timestamp" and self.has_format:
            return None
        if name == self.iso and iso_times(texts) is None:
            return None
        return plain_values(texts, type)


def plain_values(texts: pa.Array, type: str) -> pa.Array | None:
    """What texts mean in a column of a type of TYPES, or a date; None unless all are spelt in the plainest way."""
    if type == "string":
        return texts
    if type == "timestamp":
        return iso_times(texts)
    if type == DATE:
        return iso_dates(texts)
    if not pc.all(pc.match_substring_regex(texts, _PLAIN[type]), skip_nulls=True, min_count=0).as_py():
        return None
    try:
        values = texts.cast(TYPES[type])
    except pa.ArrowInvalid:
        return None
    is_zero = type == "double" and pc.any(pc.and_(pc.equal(values, 0.0), pc.starts_with(texts, "-"))).as_py()
    return None if is_zero else values
