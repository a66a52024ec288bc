"""JSON lines that differ only in their values: whole blocks of them without a parser, in a third of its time.

The layout of the first line is tried on all, that of the first line that does not have it on the rest, and so on a few
times. What is left over goes to the parser.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.tasks.digits import Mask, Places
from eventide.tasks.line_cursor import LONGEST, Lines
from eventide.tasks.line_layout import Layout, layout_of
from eventide.tasks.line_walk import DoubtfulError, walked

_AT_ONCE = 4 << 20  # bytes: the more lines, the less each step costs a line
_MOST_LAYOUTS = 4
_WORTH = 0.2  # of the lines: a layout that fewer have is not worth its walk

Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Alike:
    """Rows of lines that have one layout, and where in the block each line begins."""

    rows: pa.Table
    places: Places
    layout: Layout


@dataclass(frozen=True)
class Sorted:
    """What has been read of a block, and the lines that were not: their text, and where each begins."""

    read: list[Alike]
    rest: bytes
    rest_places: Places


def sorted_lines(
    columns: Columns, wanted: Collection[str], block: bytes, is_sure: Callable[[pa.Table], bool] = lambda rows: True
) -> Sorted:
    """`block` is UTF-8, and its last line has an end. Of columns that are not wanted values are only judged. Rows of
    which somebody is not sure are left over.
    """
    read: list[Alike] = []
    rest: list[bytes] = []
    places: list[Places] = []
    for first, part in _parts(block):
        lines = Lines(part)
        found, left = _read(lines, part, columns, wanted, is_sure)
        read += [Alike(each.rows, each.places + first, each.layout) for each in found]
        if len(left):
            begins, ends = lines.begins[left], lines.ends[left]
            rest += [bytes(part[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
            places.append(begins + first)
    return Sorted(read, b"".join(rest), np.concatenate(places) if places else np.zeros(0, np.int64))


def read_again(columns: Columns, block: bytes, alike: Alike, chosen: Mask) -> pa.Table:
    """All columns of some of the rows, which are known to have the layout."""
    begins = alike.places[chosen].tolist()
    text = b"".join([block[begin : block.find(b"\n", begin) + 1] for begin in begins])
    return walked(Lines(text), None, alike.layout.without_sizes, columns, {name for name, _ in columns}).rows


def _read(
    lines: Lines, part: memoryview, columns: Columns, wanted: Collection[str], is_sure: Callable[[pa.Table], bool]
) -> tuple[list[Alike], Places]:
    """The rows of lines that are alike, and the numbers of the other lines."""
    left: Places | None = None
    read: list[Alike] = []
    for _ in range(_MOST_LAYOUTS):
        number = 0 if left is None else int(left[0])
        line = bytes(part[lines.begins[number] : lines.ends[number] - 1])
        layout = layout_of(line, columns) if len(line) < LONGEST else None
        if layout is None:
            break
        try:
            found = walked(lines, left, layout, columns, wanted)
        except DoubtfulError:
            break
        numbers = np.arange(len(lines.begins)) if left is None else left
        if np.count_nonzero(found.good) < max(_WORTH * len(numbers), 1) or not is_sure(found.rows):
            break
        read.append(Alike(found.rows, lines.begins[numbers[found.good]], layout))
        left = numbers[~found.good]
        if len(left) == 0:
            break
    return read, np.arange(len(lines.begins)) if left is None else left


def _parts(block: bytes) -> Iterator[tuple[int, memoryview]]:
    """Whole lines, not too many at a time, with where they begin."""
    begin, view = 0, memoryview(block)
    while begin < len(block):
        end = block.rfind(b"\n", begin, begin + _AT_ONCE) + 1 or block.find(b"\n", begin) + 1
        yield begin, view[begin:end]
        begin = end
