"""JSON lines of one layout, read all at once: a word, a value, the next word, every line one step at a time.

That proves, rather than assumes, that a line has the layout: it consists of the same words, and of values of the right
kind between them. A line that does not is left out, and read by somebody else. Values that nobody wants are judged and
not made.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from eventide.tasks.digits import Mask, Places
from eventide.tasks.expressions import DATE, TYPES
from eventide.tasks.iso_times import iso_dates, iso_times
from eventide.tasks.line_cursor import Cursor, Lines
from eventide.tasks.line_layout import Kind, Layout, Path, Slot
from eventide.tasks.struct_types import arrow_type, element_of, fields_of

_END = ord("]")
_NULL = b"null"
_JUDGED = ("timestamp", DATE)  # texts that must be made to see whether they are what they should be
_LIMITS = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31}


class DoubtfulError(Exception):
    """Spark might see a value differently: the lines are to be read by somebody else."""


@dataclass(frozen=True)
class Walked:
    """Which lines have the layout, and the rows of these: the wanted columns, in the order of all."""

    good: Mask
    rows: pa.Table


def walked(
    lines: Lines,
    chosen: Places | None,
    layout: Layout,
    columns: tuple[tuple[str, str], ...],
    wanted: Collection[str],
) -> Walked:
    """Reads all lines, or those chosen. Of columns that are not wanted values are only judged."""
    cursor = Cursor.at_lines(lines, chosen)
    begins = cursor.at
    values: dict[Path, tuple[_Values, str]] = {}
    for slot in layout.slots:
        is_wanted = slot.path[0] in wanted
        found = _list(cursor, slot, is_wanted) if slot.kind is Kind.LIST else _value(cursor, slot, is_wanted)
        if found is not None and slot.type is not None:
            values[slot.path] = found, slot.type
        cursor.stay_inside(begins)
    cursor.word(layout.tail)
    cursor.bad |= cursor.at != cursor.ends
    met = cursor.quotes * len(begins) if isinstance(cursor.quotes, int) else int(cursor.quotes.sum())
    if chosen is not None or met != lines.all_quotes or cursor.bad.any():
        cursor.bad |= (lines.quotes if chosen is None else lines.quotes[chosen]) != cursor.quotes
    good = ~cursor.bad
    made = {path: _typed(found.of(good), type) for path, (found, type) in values.items()}
    count = int(np.count_nonzero(good))
    arrays = {name: _column((name,), type, made, layout, count) for name, type in columns if name in wanted}
    return Walked(good, pa.table(arrays) if arrays else pa.table({"": pa.nulls(count)}))


def _column(path: Path, type: str, made: dict[Path, pa.Array], layout: Layout, count: int) -> pa.Array:
    """What is not in the layout is NULL; an object is a struct, whatever it holds."""
    if path in made:
        return made[path]
    if path not in layout.objects:
        return pa.nulls(count, arrow_type(type))
    fields = fields_of(type)
    inner = [_column((*path, name), kind, made, layout, count) for name, kind in fields]
    return pa.StructArray.from_arrays(inner, names=[name for name, _ in fields])


def _typed(values: pa.Array, type: str) -> pa.Array:
    """The values in the declared type."""
    if type in _JUDGED:
        read = iso_times if type == "timestamp" else iso_dates
        times = read(values) if values.null_count < len(values) else pa.nulls(len(values), arrow_type(type))
        if times is None:
            raise DoubtfulError
        return times
    if element_of(type) is not None:
        return values
    return values if values.type == TYPES.get(type) else values.cast(arrow_type(type))


# Values of a slot, one for each line ----------------------------------------------------------------------------------


class _Values(Protocol):
    def of(self, good: Mask) -> pa.Array:
        """Of these lines; of others there may be none that can be made."""


@dataclass(frozen=True)
class _Made:
    array: pa.Array

    def of(self, good: Mask) -> pa.Array:
        return self.array if good.all() else self.array.filter(pa.array(good))


@dataclass(frozen=True)
class _Texts:
    lines: Lines
    begin: Places
    end: Places
    nulls: Mask | None

    def of(self, good: Mask) -> pa.Array:
        if good.all():
            return self.lines.texts(self.begin, self.end, self.nulls)
        return self.lines.texts(self.begin[good], self.end[good], None if self.nulls is None else self.nulls[good])


@dataclass(frozen=True)
class _Lists:
    """The first elements of all lines that have one, the second ones, and so on, each with the numbers of the lines."""

    type: str
    nulls: Mask | None
    rounds: list[tuple[Places, pa.Array]] = field(default_factory=list)

    def of(self, good: Mask) -> pa.Array:
        element = element_of(self.type) or ""
        lines = np.concatenate([numbers for numbers, _ in self.rounds]) if self.rounds else np.zeros(0, np.int64)
        kind = arrow_type(element)
        values = pa.concat_arrays([values for _, values in self.rounds]) if self.rounds else pa.array([], kind)
        order = np.argsort(lines, kind="stable")
        order = order[good[lines[order]]]
        sizes = np.bincount(lines[order], minlength=len(good))[good]
        offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
        nulls = None if self.nulls is None else pa.array(self.nulls[good])
        inner = _typed(values.take(pa.array(order)), element)
        return pa.ListArray.from_arrays(offsets, inner, type=arrow_type(self.type), mask=nulls)


def _value(cursor: Cursor, slot: Slot, is_wanted: bool) -> _Values | None:
    """None where nobody asks. A time or a date is always made: only that shows whether it is one."""
    if slot.kind is Kind.TEXT:
        texts = _Texts(cursor.lines, *cursor.text(slot.word, slot.size))
        return texts if is_wanted or slot.type in _JUDGED else None
    if slot.kind is Kind.NULL:
        cursor.word(slot.word + _NULL)
        return _Made(pa.nulls(len(cursor.at), arrow_type(slot.type or "string"))) if is_wanted else None
    cursor.word(slot.word)
    if slot.kind is Kind.NUMBER:
        doubles, nulls = cursor.number(judged_only=not is_wanted)
        return _Made(pa.array(doubles, mask=nulls)) if is_wanted else None
    if slot.kind is Kind.FLAG:
        flags, nulls = cursor.flag()
        return _Made(pa.array(flags, mask=nulls)) if is_wanted else None
    numbers, nulls = cursor.whole()
    limit = _LIMITS.get(slot.type or "")
    if limit is not None:
        cursor.bad |= ((numbers < -limit) | (numbers >= limit)) & (True if nulls is None else ~nulls)
        numbers = np.where(cursor.bad, 0, numbers)
    return _Made(pa.array(numbers, mask=nulls)) if is_wanted else None


def _list(cursor: Cursor, slot: Slot, is_wanted: bool) -> _Lists | None:
    """Elements are read one after the other, those with the same number of all lists at once."""
    nulls = cursor.opened(slot.word)
    begin, element = cursor.at, None if slot.type is None else element_of(slot.type)
    is_empty = cursor.lines.bytes[begin] == _END
    has_some = ~cursor.bad & ~is_empty if nulls is None else ~cursor.bad & ~is_empty & ~nulls
    cursor.at = begin + 1 if nulls is None else np.where(nulls, begin - 1 + len(_NULL), begin + 1)
    lists = _Lists(slot.type or "", nulls)
    inner = Slot(b'"' if slot.elements is Kind.TEXT else b"", slot.elements, slot.path, element)
    going = np.flatnonzero(has_some)
    quotes = np.zeros(len(begin), np.int64) + cursor.quotes
    part = cursor.part(going)
    part.at = begin[going]
    while len(going):
        found = _value(part, inner, is_wanted)
        good = ~part.bad
        cursor.bad[going[part.bad]] = True
        if found is not None:
            lists.rounds.append((going[good], found.of(good)))
        ended = good & (cursor.lines.bytes[part.at] == _END)
        cursor.at[going[ended]] = part.at[ended] + 1
        quotes[going[ended]] = part.quotes if isinstance(part.quotes, int) else part.quotes[ended]
        more = np.flatnonzero(good & ~ended)
        going, part = going[more], part.part(more)
        if len(going):
            part.word(slot.between)
    cursor.quotes = quotes
    return lists if slot.type is not None and (is_wanted or element in _JUDGED) else None
