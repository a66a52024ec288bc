"""JSON lines read inside a task: whole blocks at a time by Arrow's parser, and what it refuses left to Spark's.

Arrow's parser is stricter than Spark's. What it accepts means the same to both, provided that every line is one object;
a piece that it refuses is split into smaller and smaller ones, until only a few lines are left to Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.expressions import TYPES
from eventide.tasks.integer_lines import may_be_uniform, uniform_rows

_BLOCK = 4 << 20
_PARSED_AT_ONCE = 1 << 20
_NO_END = 1 << 62
_FEW = 64  # so few lines are not worth splitting
_PIECES = 8
_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a file: decoded, or as lines. `at` orders the pieces of a file."""

    at: int
    rows: pa.Table | None
    lines: list[str]


@dataclass(frozen=True)
class JsonLines:
    """`columns` by name and type, as in TYPES; `iso` names a text column that must hold ISO 8601 times."""

    columns: tuple[tuple[str, str], ...]
    iso: str | None = None

    def read(self, part: FileRange) -> Iterator[Piece]:
        """The lines that begin in this range."""
        are_uniform = True
        for at, block in _blocks(part):
            block = block if block.endswith(b"\n") else block + b"\n"
            rows = None
            if are_uniform and may_be_uniform(self.columns, block):
                rows = uniform_rows(self.columns, block)
                are_uniform = rows is not None
            yield from self._decoded(at, block) if rows is None else (Piece(at, rows, []),)

    def _decoded(self, at: int, text: bytes) -> Iterator[Piece]:
        """`text` ends with the end of a line."""
        count = text.count(b"\n")
        if not _is_one_object_a_line(text, count):
            lines = [line.strip(b" \t") for line in text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")]
            odd = [line for line in lines if line and not (line.startswith(b"{") and line.endswith(b"}"))]
            if odd:
                yield Piece(at, None, [_text(line) for line in odd])
            objects = [line for line in lines if line.startswith(b"{") and line.endswith(b"}")]
            text, count = b"\n".join(objects), len(objects)
        if count:
            yield from self._pieces(at, text, count)

    def _pieces(self, at: int, text: bytes, count: int) -> Iterator[Piece]:
        rows = self._parsed(text, count)
        if rows is not None:
            yield Piece(at, rows, [])
        elif count <= _FEW:
            yield Piece(at, None, [_text(line) for line in text.removesuffix(b"\n").split(b"\n")])
        else:
            lines = text.removesuffix(b"\n").split(b"\n")
            step = -(-count // _PIECES)
            for first in range(0, count, step):
                part = lines[first : first + step]
                yield from self._pieces(at + first, b"\n".join(part), len(part))

    def _parsed(self, text: bytes, count: int) -> pa.Table | None:
        """The rows, or None if Spark might see them differently."""
        if not _is_utf8(text):
            return None
        schema = pa.schema([(name, pa.string() if type == "timestamp" else TYPES[type]) for name, type in self.columns])
        if len(schema) == 0:
            return pa.table({"": pa.nulls(count)})
        parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        reading = pj.ReadOptions(use_threads=False, block_size=max(_PARSED_AT_ONCE, len(text) if count == 1 else 0))
        try:
            rows = pj.read_json(pa.BufferReader(text), reading, parsing)
        except pa.ArrowInvalid:
            return None
        if rows.num_rows != count or any(_is_doubtful(rows[name]) for name, type in self.columns if type == "double"):
            return None
        return self._with_times(rows.combine_chunks())

    def _with_times(self, rows: pa.Table) -> pa.Table | None:
        for place, (name, type) in enumerate(self.columns):
            if type == "timestamp":
                times = iso_times(rows[name].combine_chunks())
                if times is None:
                    return None
                rows = rows.set_column(place, name, times)
        if self.iso is not None and iso_times(rows[self.iso].combine_chunks()) is None:
            return None
        return rows


@dataclass(frozen=True)
class RawLines:
    """Every line unchanged, for Spark to decode."""

    columns: tuple[tuple[str, str], ...]  # that Spark decodes

    def read(self, part: FileRange) -> Iterator[Piece]:
        for at, block in _blocks(part):
            lines = [line.strip(b" \t") for line in block.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")]
            yield Piece(at, None, [_text(line) for line in lines if line])


def iso_times(text: pa.Array) -> pa.Array | None:
    """ISO 8601 in its plain form, with or without a zone; None unless every value has it. Without a zone: UTC."""
    if not pc.all(pc.match_substring_regex(text, _ISO), skip_nulls=True, min_count=0).as_py():
        return None
    zoned = pc.fill_null(pc.match_substring_regex(text, r"(Z|[+-]\d\d:\d\d)$"), True)
    try:
        if pc.all(zoned).as_py():
            return text.cast(TYPES["timestamp"])
        if not pc.any(zoned.filter(text.is_valid())).as_py():
            return text.cast(pa.timestamp("us")).cast(TYPES["timestamp"])
    except pa.ArrowInvalid:
        return None
    return None


def _blocks(part: FileRange) -> Iterator[tuple[int, bytes]]:
    """Whole lines, many at a time, with the place in the file where they begin."""
    if part.is_compressed:
        with pa.input_stream(part.path, compression="detect") as stream:
            yield from _cut_at_lines(stream, 0, _NO_END)
        return
    with open(part.path, "rb", buffering=0) as file:
        begin = part.start
        if begin:
            file.seek(begin - 1)
            begin = begin - 1 + len(_rest_of_line(file))
            file.seek(begin)
        yield from _cut_at_lines(file, begin, part.start + part.length)


def _cut_at_lines(file: IO[bytes], begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of the lines that begin before `end`; the file is positioned at `begin`."""
    held = b""
    while begin < end:
        more = file.read(min(_BLOCK, max(end - begin - len(held), 1)))
        if not more:
            if held:
                yield begin, held
            return
        if begin + len(held) + len(more) >= end and not more.endswith(b"\n"):
            more += _rest_of_line(file)
        cut = more.rfind(b"\n") + 1
        if cut:
            block = b"".join((held, memoryview(more)[:cut])) if held or cut < len(more) else more
            yield begin, block
            begin, held = begin + len(block), more[cut:]
        else:
            held += more


def _rest_of_line(file: IO[bytes]) -> bytes:
    """Read up to the start of the next line, where the file is then positioned."""
    found = b""
    while b"\n" not in found:
        more = file.read(1 << 16)
        if not more:
            return found
        found += more
    cut = found.index(b"\n") + 1
    file.seek(cut - len(found), os.SEEK_CUR)
    return found[:cut]


def _is_one_object_a_line(text: bytes, lines: int) -> bool:
    """No value can continue from the closing brace of one line to the opening brace of the next."""
    return text.startswith(b"{") and text.endswith(b"}\n") and b"\r" not in text and text.count(b"}\n{") == lines - 1


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _is_doubtful(values: pa.ChunkedArray) -> bool:
    """Each parser knows spellings of infinity that the other does not, and one of them loses the sign of zero."""
    numbers = pc.fill_null(values, 1.0).to_numpy()
    return bool(np.isinf(numbers).any() or (np.signbit(numbers) & (numbers == 0)).any())
