"""JSON lines read inside a task: whole blocks at a time, and what nobody here is sure about left to Spark.

Compiled code reads them (`json_columns`), and Arrow's parser what that leaves. Both are stricter than Spark's parser:
what they accept means the same to it, provided that every line is one object. A piece that Arrow refuses is split into
smaller and smaller ones, until only a few lines are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from eventide.kernels.vector.columns import whole
from eventide.kernels.vector.text import is_utf8
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.expressions import DATE, TYPES
from eventide.tasks.iso_times import iso_dates, iso_times
from eventide.tasks.json_columns import Mask, Places, Read, read_again, read_lines
from eventide.tasks.line_blocks import blocks
from eventide.tasks.struct_types import arrow_type, element_of, fields_of

_PARSED_AT_ONCE = 1 << 20
_FEW = 64  # so few lines are not worth splitting
_LITTLE = 1 << 12  # bytes: for so few the parser is faster
_PIECES = 8
_NEW_LINE = ord("\n")
_DEEPEST = 1000  # levels of nesting, and characters of a number, that Spark's parser takes
_TOO_MANY_DIGITS = b"0" * _DEEPEST
_DIGITS = bytes.maketrans(b"123456789.eE+-", b"0" * 14)
_LONGEST_NAME = 50_000
_ANY_COLUMN = pa.schema(
    [("", pa.string())]
)  # of lines of which no column is wanted, and which must be JSON all the same


@dataclass(frozen=True)
class Piece:
    """Rows of a file: decoded, or as lines. `at` orders the pieces of a file, `places` orders their rows if they are
    not consecutive.

    `whole` gives chosen rows with all their columns, where `rows` has only those that are wanted of every row. `runs`
    says of each row, or of all, where its run begins: no line stands in a run that is left to Spark. Without it a run
    is what is consecutive. `goes_on`: rows of the next piece may stand between these. `beside` has columns that lines
    take with them.
    """

    at: int
    rows: pa.Table | None
    lines: list[bytes]
    places: Places | None = None
    whole: Callable[[Mask], pa.Table] | None = None
    runs: Places | int | None = None
    goes_on: bool = False
    beside: pa.Table | None = None


@dataclass(frozen=True)
class JsonLines:
    """`columns` by name and type, as in TYPES or structs or arrays of such; `iso` names a text column that must hold
    ISO 8601 times. Only the `wanted` columns need be there in all rows, if that saves something; None: all are.
    """

    columns: tuple[tuple[str, str], ...]
    iso: str | None = None
    wanted: frozenset[str] | None = None

    def read(self, part: FileRange) -> Iterator[Piece]:
        """The lines that begin in this range."""
        yield from self.read_blocks(blocks(part))

    def read_blocks(self, found: Iterable[tuple[int, bytes]]) -> Iterator[Piece]:
        """Blocks of whole lines, each with a number from which its lines can be counted."""
        is_worth_it = True
        for at, block in found:
            block = block if block.endswith(b"\n") else block + b"\n"
            if not is_worth_it or len(block) < _LITTLE or b"\r" in block or not is_utf8(block):
                yield from _in_runs(at, self._decoded(block, at + np.arange(block.count(b"\n"))))
                continue
            read = read_lines(block, self.columns, self._wanted, self.iso)
            pieces = [self._read(at, block, read)] if len(read.places) else []
            if len(read.left):
                lines = [block[begin : block.index(b"\n", begin) + 1] for begin in read.left.tolist()]
                pieces += self._decoded(b"".join(lines), at + read.left)
                is_worth_it = len(read.places) > len(read.left)
            yield from _in_runs(at, pieces)

    @property
    def _wanted(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.columns) if self.wanted is None else self.wanted

    def _read(self, at: int, block: bytes, read: Read) -> Piece:
        whole = None
        if self.wanted is not None:

            def whole(chosen: Mask) -> pa.Table:
                return read_again(block, self.columns, read.places[chosen])

        return Piece(at + int(read.places[0]), read.rows, [], at + read.places, whole)

    def _decoded(self, text: bytes, places: Places) -> Iterator[Piece]:
        """`text` ends with the end of a line; `places` are those of its lines."""
        if not _is_one_object_a_line(text, len(places)):
            lines = [line.strip(b" \t") for line in text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")]
            if len(lines) != len(places) + 1:  # more lines than were counted by their usual ends
                places = places[0] + np.arange(len(lines))
            is_object = [line.startswith(b"{") and line.endswith(b"}") for line in lines]
            odd = [number for number, line in enumerate(lines) if line and not is_object[number]]
            if odd:
                yield Piece(int(places[odd[0]]), None, [lines[number] for number in odd], places[odd])
            objects = [number for number, fits in enumerate(is_object) if fits]
            text, places = b"\n".join(lines[number] for number in objects), places[objects]
        if len(places):
            yield from self._pieces(text, places)

    def _pieces(self, text: bytes, places: Places) -> Iterator[Piece]:
        count, first = len(places), int(places[0])
        rows = self._parsed(text, count)
        if rows is not None:
            yield Piece(first, rows, [], places)
        elif count <= _FEW:
            yield Piece(first, None, text.removesuffix(b"\n").split(b"\n"), places)
        else:
            lines = text.removesuffix(b"\n").split(b"\n")
            step = -(-count // _PIECES)
            for begin in range(0, count, step):
                yield from self._pieces(b"\n".join(lines[begin : begin + step]), places[begin : begin + step])

    def rows_of(self, text: bytes, count: int) -> pa.Table | None:
        """The rows of so many lines, each with its end; None if Spark might see them differently."""
        if text.count(b"\n") != count or not _is_one_object_a_line(text, count):
            return None
        if not is_utf8(text):
            return None
        if len(text) >= _LITTLE:
            read = read_lines(text, self.columns, frozenset(name for name, _ in self.columns), self.iso)
            if len(read.left) == 0:
                return read.rows
        return self._parsed(text, count)

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


def _in_runs(at: int, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces of a block that begins at `at`, whose lines they share out among themselves in any order."""
    pieces = list(pieces)
    left = [piece.places for piece in pieces if piece.rows is None and piece.places is not None]
    between = np.sort(np.concatenate(left)) if left else None
    for number, piece in enumerate(pieces, 1):
        runs: Places | int = at
        if between is not None and piece.places is not None:
            runs = np.append(at, between + 1)[np.searchsorted(between, piece.places)]
        yield replace(piece, runs=runs, goes_on=number < len(pieces))


def _as_written(type: str) -> pa.DataType:
    """What Arrow reads a column as: times and dates are text, whose spelling we judge ourselves."""
    fields, element = fields_of(type), element_of(type)
    if fields:
        return pa.struct([(name, _as_written(kind)) for name, kind in fields])
    if element is not None:
        return pa.list_(pa.field("element", _as_written(element)))
    return pa.string() if type in ("timestamp", DATE) else TYPES[type]


def _judged(values: pa.Array, type: str) -> pa.Array | None:
    """The values in their own type, or None if Spark might see one of them differently."""
    if type == "timestamp":
        return iso_times(values)
    if type == DATE:
        return iso_dates(values)
    if type == "double":
        return None if _is_doubtful(values) else values
    fields, element = fields_of(type), element_of(type)
    if element is not None:
        return _judged_list(values, type, element)
    if not fields:
        return values
    inner = [_judged(part, kind) for part, (_, kind) in zip(values.flatten(), fields, strict=True)]
    if any(part is None for part in inner):
        return None
    return pa.StructArray.from_arrays(inner, names=[name for name, _ in fields], mask=values.is_null())


def _judged_list(values: pa.Array, type: str, element: str) -> pa.Array | None:
    inner = _judged(values.flatten(), element)
    if inner is None:
        return None
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
    return pa.ListArray.from_arrays(offsets, inner, type=arrow_type(type), mask=values.is_null())


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
