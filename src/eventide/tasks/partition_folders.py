"""Files in folders named `column=value`, read inside a task: their rows get the columns that the names hold."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from eventide.errors import SourceError
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.csv_lines import CsvLines, plain_values
from eventide.tasks.expressions import DATE, TYPES
from eventide.tasks.folder_names import Texts, texts_of
from eventide.tasks.iso_times import iso_times
from eventide.tasks.json_lines import JsonLines, Piece, RawLines
from eventide.tasks.row_groups import RowGroups

FOLDERS = "folders"  # beside lines that are left to Spark: the columns in the names of their folders, as JSON


@dataclass(frozen=True)
class InFolders:
    """Reads files below `root` by `reader`, with the columns that the names of their folders hold.

    `known` are the columns of all folders, in lower case, as Spark expects them where it decodes what is left to it;
    None where it does not.
    """

    root: str
    reader: JsonLines | RawLines | CsvLines | RowGroups
    known: frozenset[str] | None = None

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        return self.reader.columns

    def read(self, part: FileRange) -> Iterator[Piece]:
        if "=" not in part.path:
            yield from self.reader.read(part)
            return
        declared = {name.lower(): name for name in _declared(self.reader)}
        found = texts_of(self.root, part.path)
        texts = {declared[name.lower()]: text for name, text in found.items() if name.lower() in declared}
        values = {name: _value(texts[name], type) for name, type in self.columns if name in texts}
        reader = self._inside(texts.keys())
        if None in values.values() or not self._is_sure(texts):
            reader = self._left_to_spark(reader, part.path)
        for piece in reader.read(part):
            if piece.rows is not None:
                yield _with_values(piece, values)
            elif self.known is None or {name.lower() for name in found} == self.known:
                yield replace(piece, beside=_beside(texts, len(piece.lines)))
            else:
                raise SourceError(
                    f"{part.path} lies in folders named after columns, and there were none when the stream started",
                    help="start the stream again",
                )

    def _inside(self, texts: Collection[str]) -> JsonLines | RawLines | CsvLines | RowGroups:
        """The reader of what is inside the files."""
        reader = self.reader
        columns = tuple(each for each in reader.columns if each[0] not in texts)
        match reader:
            case JsonLines():
                wanted = None if reader.wanted is None else reader.wanted - set(texts)
                return replace(reader, columns=columns, iso=None if reader.iso in texts else reader.iso, wanted=wanted)
            case CsvLines():
                inside, wanted_fields = (
                    tuple(name for name in names if name not in texts)
                    for names in (reader.files.columns, reader.files.wanted)
                )
                files = replace(reader.files, columns=inside, wanted=wanted_fields)
                return replace(reader, files=files, columns=columns, iso=None if reader.iso in texts else reader.iso)
            case _:
                return replace(reader, columns=columns)

    def _is_sure(self, texts: Texts) -> bool:
        iso = self.reader.iso if isinstance(self.reader, JsonLines | CsvLines) else None
        return iso is None or iso not in texts or iso_times(pa.array([texts[iso]], pa.string())) is not None

    def _left_to_spark(self, reader: JsonLines | RawLines | CsvLines | RowGroups, path: str) -> RawLines | CsvLines:
        if isinstance(reader, RowGroups):
            raise SourceError(
                f"{path}: the names of its folders hold a value that only Spark can judge",
                help="write numbers, times, dates and booleans there in their plainest form, declare the column as "
                "STRING, or set 'fused_scan' = 'false' for a new stream",
            )
        return replace(reader, left_to_spark=True) if isinstance(reader, CsvLines) else RawLines(reader.columns)


def _beside(texts: Texts, count: int) -> pa.Table:
    return pa.table({FOLDERS: pa.repeat(pa.scalar(json.dumps(texts)), count)})


def _with_values(piece: Piece, values: dict[str, pa.Scalar | None]) -> Piece:
    rows, whole = piece.rows, piece.whole
    count = len(piece.places) if piece.places is not None else 0 if rows is None else rows.num_rows
    every = None if whole is None else lambda chosen: _with_columns(whole(chosen), values, int(chosen.sum()))
    return replace(piece, rows=_with_columns(rows, values, count), whole=every)


def _with_columns(rows: pa.Table, values: dict[str, pa.Scalar | None], count: int) -> pa.Table:
    for name, value in values.items():
        rows = rows.append_column(name, pa.repeat(value, count))
    return rows


def _declared(reader: JsonLines | RawLines | CsvLines | RowGroups) -> tuple[str, ...]:
    """The columns that a file can have; of csv also those that are not read, since they have a place."""
    return reader.files.columns if isinstance(reader, CsvLines) else tuple(name for name, _ in reader.columns)


def _value(text: str | None, type: str) -> pa.Scalar | None:
    """None if only Spark can tell."""
    if type not in (*TYPES, DATE):
        return None
    values = plain_values(pa.array([text], pa.string()), type)
    return None if values is None else values[0]
