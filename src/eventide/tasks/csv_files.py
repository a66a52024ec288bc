"""CSV files as tables of text, read inside a task: whole blocks at a time by Arrow's parser, a record at a time where a
block holds anything that is not plain.

What the fields mean is Spark's to say. A block is plain if every quote in it opens or closes a field or follows
another one, no line is empty, and all is UTF-8: then Arrow and `csv_records` see the same in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from eventide.kernels.vector.text import is_utf8
from eventide.tasks.csv_records import CsvForm, Lines, Record

RECORD, IS_BAD = "__record", "__is_bad"  # the text of a record, and whether it is not one
_MANY = 10_000  # records at a time
_MOST_OPEN = 16 << 20  # bytes without the end of a record, after which they are looked at one by one
_NEW_LINE, _RETURN = ord("\n"), ord("\r")


@dataclass(frozen=True)
class CsvFiles:
    """`columns` are the declared ones in their order, `wanted` those that are read; with a header they go by its names,
    without one by their places.
    """

    form: CsvForm
    has_header: bool
    columns: tuple[str, ...]
    wanted: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*((name, pa.string()) for name in self.wanted), (RECORD, pa.string()), (IS_BAD, pa.bool_())])

    def read(self, blocks: Iterator[bytes]) -> Iterator[pa.Table]:
        """The file's records in tables of `schema`; NULL in place of a column that the header lacks."""
        places: Sequence[int | None] | None = [self.columns.index(name) for name in self.wanted]
        count = len(self.columns)
        if self.has_header:
            names, blocks = self._header(blocks)
            places, count = self._places(names), len(names)
        held = b""
        for block in blocks:
            block, held = held + block, b""
            end = self._end_of_records(block)
            table = None if end is None or places is None else self._plain(block[:end], places, count)
            if table is not None:
                yield table
                held = block[end:]
            elif end is None and self.form.multi_line and len(block) < _MOST_OPEN:
                held = block  # it ends within a record
            else:
                yield from self._one_by_one(Lines(block, blocks), places, count)
        if held:
            yield from self._one_by_one(Lines(held, iter(())), places, count)

    def of_messages(self, texts: Sequence[bytes | None]) -> pa.Table:
        """The same of texts that are one record each; what holds none, or several, is bad."""
        records = []
        for text in texts:
            found = list(self.form.records(Lines(text or b"", iter(()))))
            records.append(found[0] if len(found) == 1 else Record(text or b"", None))
        return self._table(records, [self.columns.index(name) for name in self.wanted], len(self.columns))

    def _header(self, blocks: Iterator[bytes]) -> tuple[list[str], Iterator[bytes]]:
        lines = Lines(next(blocks, b""), blocks)
        for record in self.form.records(lines):
            if record.text:
                fields = record.fields or [record.text]
                names = [(field or b"").decode("utf-8", "replace").strip() for field in fields]
                return names, chain([lines.rest()], blocks)
        return [], blocks

    def _places(self, names: list[str]) -> Sequence[int | None] | None:
        """Where the wanted columns are, by name and then without regard to case; None if no column, or one twice, is
        there: then nothing below the header can be understood.
        """
        lowered = [name.lower() for name in names]
        if any(lowered.count(name.lower()) > 1 and names.count(name) != 1 for name in self.wanted):
            return None
        if not any(name.lower() in lowered for name in self.columns):
            return None
        return [
            names.index(name) if name in names else lowered.index(name.lower()) if name.lower() in lowered else None
            for name in self.wanted
        ]

    def _end_of_records(self, block: bytes) -> int | None:
        """Where the last record of a plain block ends; None if none does, or the block is not plain."""
        text = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(text == _NEW_LINE)
        if self.form.quote in block:
            quotes = np.flatnonzero(text == ord(self.form.quote))
            if not self._are_in_place(text, quotes):
                return None
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
        return int(ends[-1]) + 1 if len(ends) else None

    def _are_in_place(self, text: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64]) -> bool:
        """Whether every quote opens or closes a field, or stands beside another one."""
        if self.form.escape != self.form.quote or not self.form.multi_line:
            return False
        beside = np.array([_NEW_LINE, _RETURN, *self.form.separator, *self.form.quote], np.uint8)
        opening, closing = quotes[::2], quotes[1::2]
        before, behind = opening[opening > 0] - 1, closing[closing < len(text) - 1] + 1
        return bool(np.isin(text[before], beside).all() and np.isin(text[behind], beside).all())

    def _plain(self, block: bytes, places: Sequence[int | None], count: int) -> pa.Table | None:
        """The records of a block that ends with one; None if it is not plain after all."""
        ends = self._record_ends(block)
        if len(self.form.separator) > 1 or ends is None or not is_utf8(block):
            return None
        fields = self._parsed(block, count, {place for place in places if place is not None})
        if fields is None or fields.num_rows != len(ends):
            return None
        offsets = np.concatenate(([0], ends)).astype(np.int32)
        texts = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(block))
        columns = [pa.nulls(len(ends), pa.string()) if place is None else fields[str(place)] for place in places]
        return pa.table([*columns, texts, pa.repeat(False, len(ends))], schema=self.schema)

    def _parsed(self, block: bytes, count: int, places: set[int]) -> pa.Table | None:
        """The fields at these places, named after them; None if a record has not `count` of them."""
        names = [str(place) for place in range(count)]
        parsing = pa.csv.ParseOptions(
            delimiter=self.form.separator.decode(),
            quote_char=self.form.quote.decode(),
            newlines_in_values=True,
            ignore_empty_lines=False,
        )
        converting = pa.csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            include_columns=[str(place) for place in sorted(places or {0})],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=["", self.form.null.decode()],
        )
        reading = pa.csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names)
        try:
            return pa.csv.read_csv(pa.BufferReader(block), reading, parsing, converting).combine_chunks()
        except pa.ArrowInvalid:
            return None

    def _record_ends(self, block: bytes) -> npt.NDArray[np.int64] | None:
        """Where each record ends, its line break included; None if there are empty lines, or returns alone."""
        text = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(text == _NEW_LINE) + 1
        returns = np.flatnonzero(text == _RETURN)
        if self.form.quote in block:
            quotes = np.flatnonzero(text == ord(self.form.quote))
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
            returns = returns[np.searchsorted(quotes, returns) % 2 == 0]
        if len(returns) and (text[returns + 1] != _NEW_LINE).any():
            return None
        shortest = np.diff(ends, prepend=0).min() if len(ends) else 0
        return ends if shortest > 2 or (shortest == 2 and not len(returns)) else None

    def _one_by_one(self, lines: Lines, places: Sequence[int | None] | None, count: int) -> Iterator[pa.Table]:
        found = (record for record in self.form.records(lines) if record.text or count == 1)
        while records := list(islice(found, _MANY)):
            yield self._table(records, places, count)

    def _table(self, records: Sequence[Record], places: Sequence[int | None] | None, count: int) -> pa.Table:
        is_bad = [
            places is None or record.fields is None or len(record.fields) != count or not is_utf8(record.text)
            for record in records
        ]
        columns = [
            pa.array(
                [
                    None if bad or place is None else (record.fields or [])[place]
                    for bad, record in zip(is_bad, records, strict=True)
                ],
                pa.binary(),
            ).cast(pa.string())
            for place in (places or [None] * len(self.wanted))
        ]
        texts = pa.array([record.text.decode("utf-8", "replace") for record in records], pa.string())
        return pa.table([*columns, texts, pa.array(is_bad, pa.bool_())], schema=self.schema)
