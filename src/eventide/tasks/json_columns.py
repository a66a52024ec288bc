"""Blocks of JSON lines as Arrow columns, by the compiled parser.

It is loaded when a block is read: that takes half a second, and a driver has no use for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.tasks.compiled.json_tree import (
    COUNT,
    FIRST,
    ISO_TEXT,
    KIND,
    LIST,
    NUMBERING,
    PADDING,
    STRUCT,
    TEXT,
    Bytes,
    Cells,
    Columns,
    Node,
    tree_of,
)
from eventide.tasks.struct_types import arrow_type

Places: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_SIZE = 0xFFFFFFFF  # of a text or list, within its cell


@dataclass(frozen=True)
class Read:
    """The rows of those lines that could be read, where each line begins, and where the others do."""

    rows: pa.Table
    places: Places
    left: Places


def read_lines(block: bytes, columns: Columns, wanted: Collection[str], iso: str | None) -> Read:
    """`block` is UTF-8, and its last line has an end. The rows have the wanted columns, in the order of all. `iso` is a
    column of text that must hold ISO 8601 times.
    """
    from eventide.tasks.compiled.json_parser import parsed_lines

    tree = tree_of(columns, frozenset(wanted), iso)
    text = np.frombuffer(block + bytes(PADDING), np.uint8)
    lines = _count(text, b"\n")
    cells = Cells.of(tree, lines, lines + _count(text, b",") if tree.has_lists else 0)
    places, left = np.empty(lines, np.int64), np.empty(lines, np.int64)
    rows, others = parsed_lines(
        text.ctypes.data,
        len(block),
        cells.nodes.ctypes.data,
        tree.names.ctypes.data,
        cells.values.ctypes.data,
        cells.valid.ctypes.data,
        cells.counts.ctypes.data,
        cells.inexact.ctypes.data,
        cells.opened.ctypes.data,
        places.ctypes.data,
        left.ctypes.data,
        len(cells.nodes),
        len(cells.counts),
    )
    making = _Making(text, cells)
    making.round_numbers()
    arrays = {node.name: making.array(node) for node in tree.wanted}
    table = pa.table(arrays) if arrays else pa.table({"": pa.nulls(rows)})
    return Read(table, places[:rows], left[:others])


def _count(text: Bytes, sign: bytes) -> int:
    """How often it occurs: six times as fast as `bytes.count`, which goes from one to the next."""
    return int(np.count_nonzero(text == sign[0]))


def read_again(block: bytes, columns: Columns, places: Places) -> pa.Table:
    """All columns of the lines that begin there, and that could be read before."""
    lines = [block[begin : block.find(b"\n", begin) + 1] for begin in places.tolist()]
    return read_lines(b"".join(lines), columns, {name for name, _ in columns}, None).rows


@dataclass(frozen=True)
class _Making:
    """Arrays of cells, without copying where they have eight bytes in both."""

    text: Bytes
    cells: Cells

    def round_numbers(self) -> None:
        """Numbers that a double does not hold as they are written are still text."""
        inexact = self.cells.inexact[1 : 1 + self.cells.inexact[0]]
        if len(inexact):
            found = self.cells.values[inexact]
            texts = self._texts(found & ~_SIZE | (found & _SIZE) << 1)
            numbers = pa.Array.from_buffers(pa.string(), len(found), [None, *texts]).cast(pa.float64())
            self.cells.values.view(np.float64)[inexact] = numbers

    def array(self, node: Node) -> pa.Array:
        known = self.cells.nodes[node.number]
        count, first = int(self.cells.counts[known[NUMBERING], COUNT]), int(known[FIRST])
        values, valid = self.cells.values[first : first + count], self.cells.valid[first : first + count]
        bits = None if valid.all() else pa.py_buffer(np.packbits(valid.view(np.bool_), bitorder="little"))
        kind, type = known[KIND], arrow_type(node.type)
        inner = [self.array(each) for each in node.inner]
        if kind == STRUCT:
            return pa.Array.from_buffers(type, count, [bits], children=inner)
        if kind == LIST:
            offsets = np.concatenate(([0], np.cumsum(values & _SIZE))).astype(np.int32)
            return pa.Array.from_buffers(type, count, [bits, pa.py_buffer(offsets)], children=inner)
        if kind in (TEXT, ISO_TEXT):
            return pa.Array.from_buffers(type, count, [bits, *self._texts(values)])
        return pa.Array.from_buffers(type, count, [bits, pa.py_buffer(_narrowed(values, type))])

    def _texts(self, values: Places) -> tuple[pa.Buffer, pa.Buffer]:
        from eventide.tasks.compiled.json_texts import copied_texts

        offsets = np.zeros(len(values) + 1, np.int32)
        room = int(((values & _SIZE) >> 1).sum()) + PADDING
        data = np.empty(room, np.uint8)
        size = copied_texts(
            self.text.ctypes.data, values.ctypes.data, len(values), data.ctypes.data, offsets.ctypes.data
        )
        return pa.py_buffer(offsets), pa.py_buffer(data[:size])


def _narrowed(values: Places, type: pa.DataType) -> npt.NDArray[Any]:
    """Cells in as many bits as the type has."""
    if pa.types.is_boolean(type):
        return np.packbits(values.astype(np.bool_), bitorder="little")
    return values if type.bit_width == 64 else values.astype(f"int{type.bit_width}")
