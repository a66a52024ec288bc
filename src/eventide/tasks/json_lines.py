"""JSON lines read inside a task: whole blocks at a time by Arrow's parser, and what it refuses left to Spark's.

Arrow's parser is stricter than Spark's. What it accepts means the same to both, provided that every line is one object;
a piece that it refuses is split into smaller and smaller ones, until only a few lines are left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from eventide.kernels.vector.columns import whole
from eventide.kernels.vector.text import is_utf8
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.expressions import TYPES
from eventide.tasks.integer_lines import may_be_uniform, uniform_rows
from eventide.tasks.line_blocks import blocks
from eventide.tasks.struct_types import fields_of

_PARSED_AT_ONCE = 1 << 20
_FEW = 64  # so few lines are not worth splitting
_PIECES = 8
_NEW_LINE = ord("\n")
_DEEPEST = 1000  # levels of nesting, and characters of a number, that Spark's parser takes
_TOO_MANY_DIGITS = b"0" * _DEEPEST
_DIGITS = bytes.maketrans(b"123456789.eE+-", b"0" * 14)
_LONGEST_NAME = 50_000
_ANY_COLUMN = pa.schema(
    [("", pa.string())]
)  # of lines of which no column is wanted, and which must be JSON all the same
_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a file: decoded, or as lines. `at` orders the pieces of a file."""

    at: int
    rows: pa.Table | None
    lines: list[bytes]


@dataclass(frozen=True)
class JsonLines:
    """`columns` by name and type, as in TYPES or structs of such; `iso` names a text column that must hold ISO 8601
    times.
    """

    columns: tuple[tuple[str, str], ...]
    iso: str | None = None

    def read(self, part: FileRange) -> Iterator[Piece]:
        """The lines that begin in this range."""
        are_uniform = True
        for at, block in blocks(part):
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
                yield Piece(at, None, odd)
            objects = [line for line in lines if line.startswith(b"{") and line.endswith(b"}")]
            text, count = b"\n".join(objects), len(objects)
        if count:
            yield from self._pieces(at, text, count)

    def _pieces(self, at: int, text: bytes, count: int) -> Iterator[Piece]:
        rows = self._parsed(text, count)
        if rows is not None:
            yield Piece(at, rows, [])
        elif count <= _FEW:
            yield Piece(at, None, text.removesuffix(b"\n").split(b"\n"))
        else:
            lines = text.removesuffix(b"\n").split(b"\n")
            step = -(-count // _PIECES)
            for first in range(0, count, step):
                part = lines[first : first + step]
                yield from self._pieces(at + first, b"\n".join(part), len(part))

    def rows_of(self, text: bytes, count: int) -> pa.Table | None:
        """The rows of so many lines, each with its end; None if Spark might see them differently."""
        if text.count(b"\n") != count or not _is_one_object_a_line(text, count):
            return None
        rows = uniform_rows(self.columns, text) if may_be_uniform(self.columns, text) else None
        return self._parsed(text, count) if rows is None else rows

    def _parsed(self, text: bytes, count: int) -> pa.Table | None:
        """The rows, or None if Spark might see them differently."""
        if not is_utf8(text) or _is_beyond_limits(text):
            return None
        schema = pa.schema([(name, _as_written(type)) for name, type in self.columns])
        parsing = pj.ParseOptions(explicit_schema=schema or _ANY_COLUMN, unexpected_field_behavior="ignore")
        reading = pj.ReadOptions(use_threads=False, block_size=max(_PARSED_AT_ONCE, len(text) if count == 1 else 0))
        try:
            rows = pj.read_json(pa.BufferReader(text), reading, parsing)
        except pa.ArrowInvalid:
            return None
        if rows.num_rows != count:
            return None
        return self._judged(rows) if self.columns else pa.table({"": pa.nulls(count)})

    def _judged(self, rows: pa.Table) -> pa.Table | None:
        arrays = [_judged(whole(rows[name]), type) for name, type in self.columns]
        if any(array is None for array in arrays):
            return None
        if self.iso is not None and iso_times(whole(rows[self.iso])) is None:
            return None
        return pa.table(arrays, names=[name for name, _ in self.columns])


@dataclass(frozen=True)
class RawLines:
    """Every line unchanged, for Spark to decode."""

    columns: tuple[tuple[str, str], ...]  # that Spark decodes

    def read(self, part: FileRange) -> Iterator[Piece]:
        for at, block in blocks(part):
            lines = [line.strip(b" \t") for line in block.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")]
            yield Piece(at, None, [line for line in lines if line])


def _as_written(type: str) -> pa.DataType:
    """What Arrow reads a column as: times are text, whose spelling we judge ourselves."""
    fields = fields_of(type)
    if fields:
        return pa.struct([(name, _as_written(kind)) for name, kind in fields])
    return pa.string() if type == "timestamp" else TYPES[type]


def _judged(values: pa.Array, type: str) -> pa.Array | None:
    """The values in their own type, or None if Spark might see one of them differently."""
    if type == "timestamp":
        return iso_times(values)
    if type == "double":
        return None if _is_doubtful(values) else values
    fields = fields_of(type)
    if not fields:
        return values
    inner = [_judged(part, kind) for part, (_, kind) in zip(values.flatten(), fields, strict=True)]
    if any(part is None for part in inner):
        return None
    return pa.StructArray.from_arrays(inner, names=[name for name, _ in fields], mask=values.is_null())


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


def _is_one_object_a_line(text: bytes, lines: int) -> bool:
    """No value can continue from the closing brace of one line to the opening brace of the next."""
    return text.startswith(b"{") and text.endswith(b"}\n") and b"\r" not in text and text.count(b"}\n{") == lines - 1


def _is_beyond_limits(text: bytes) -> bool:
    """Whether a line may be nested deeper, or hold a longer number or name, than Spark's parser takes; Arrow's knows no
    such limits.
    """
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEW_LINE)
    longest = int(np.diff(ends, prepend=-1, append=len(text)).max())
    return longest > _DEEPEST and any(_is_beyond_limit(line) for line in text.split(b"\n") if len(line) > _DEEPEST)


def _is_beyond_limit(line: bytes) -> bool:
    return (
        line.count(b"[") + line.count(b"{") > _DEEPEST
        or _TOO_MANY_DIGITS in line.translate(_DIGITS)
        or any(len(part) > _LONGEST_NAME for part in line.split(b'"'))
    )


def _is_doubtful(values: pa.Array) -> bool:
    """Each parser knows spellings of infinity that the other does not, and one of them loses the sign of zero."""
    numbers = pc.fill_null(values, 1.0).to_numpy(zero_copy_only=False)
    return bool(np.isinf(numbers).any() or (np.signbit(numbers) & (numbers == 0)).any())
