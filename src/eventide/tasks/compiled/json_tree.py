"""Declared columns as a table of numbered nodes, as compiled code wants them, and the cells that it fills."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eventide.tasks.expressions import DATE, WHOLE as WHOLE_TYPES
from eventide.tasks.struct_types import element_of, fields_of

STRUCT, LIST, TEXT, ISO_TEXT, WHOLE, NUMBER, FLAG, TIME, DAY = range(9)

# What is known of a node. The children of a node have consecutive numbers. NUMBERING says which count numbers its
# cells: that of the lines, or of the list in which it stands. FIRST is its first cell. MET_IN is the object in which it
# was met last, FOLLOWS the node that came after it, or of an object the child that came first.
KIND, FIRST_CHILD, CHILDREN, NUMBERING, KEPT, LOW, HIGH, NAME_AT, NAME_SIZE, FIRST, MET_IN, FOLLOWS = range(12)
_OF_TREE = FIRST
FIELD_BITS = 4  # so many number the fields of a table's rows

# What is known of a numbering: how many cells there may be, how many there are, and how many of them belong to lines
# that have been read to their end.
MOST, COUNT, SETTLED = range(3)
LINES = 0  # the numbering outside of lists

# What is known of an object or list that is open, by depth. Before the first stands the number of the last object.
NODE, OBJECT = range(2)

PADDING = 16  # bytes that must follow the last line
PLACE_BITS = 32  # of the cell of a text or list: where it begins is above them

_KINDS = {"string": TEXT, "double": NUMBER, "boolean": FLAG, "timestamp": TIME, DATE: DAY}
_BITS = dict(zip(WHOLE_TYPES, (8, 16, 32, 64), strict=True))

Bytes: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[np.int64]
Columns: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Node:
    """A column, a field or an element: its number in the tree, its type as Spark writes it, and what is inside."""

    number: int
    name: str
    type: str
    inner: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Tree:
    """`nodes` has a row for each node. `names` are all names as they stand before a value, one
    behind the other."""

    nodes: Numbers
    names: Bytes
    wanted: tuple[Node, ...]

    @property
    def has_lists(self) -> bool:
        return bool((self.nodes[:, KIND] == LIST).any())


@dataclass(frozen=True)
class Cells:
    """Where compiled code puts what it reads: eight bytes and a flag for each value."""

    nodes: Numbers
    values: Numbers
    valid: Bytes
    counts: Numbers
    inexact: Numbers  # how many numbers are still text, and their cells
    opened: Numbers  # by depth: the node that is open, and the number of the object; first the last such number

    @classmethod
    def of(cls, tree: Tree, lines: int, elements: int) -> Cells:
        """Room for so many lines, and for so many elements of all lists together."""
        nodes = _table(len(tree.nodes))
        nodes[:, :_OF_TREE] = tree.nodes
        counts = _table(int(nodes[:, NUMBERING].max()) + 1)
        counts[:, MOST] = elements
        counts[LINES, MOST] = lines
        sizes = nodes[:, KEPT] * counts[nodes[:, NUMBERING], MOST]
        nodes[:, FIRST] = np.cumsum(sizes) - sizes
        values = np.zeros(int(sizes.sum()), np.int64)
        inexact = np.zeros(1 + int(sizes[nodes[:, KIND] == NUMBER].sum()), np.int64)
        return cls(nodes, values, np.zeros(len(values), np.uint8), counts, inexact, _table(len(nodes) + 2))


def _table(rows: int) -> Numbers:
    return np.zeros((rows, 1 << FIELD_BITS), np.int64)


@lru_cache(maxsize=256)
def tree_of(columns: Columns, wanted: frozenset[str], iso: str | None) -> Tree:
    """`iso` is a column of text that must hold ISO 8601 times."""
    building = _Building()
    building.add("", "", True, LINES)
    nodes = building.add_children(0, columns, LINES, wanted)
    for node in nodes:
        if node.name == iso:
            building.rows[node.number][KIND] = ISO_TEXT
    return building.tree(tuple(node for node in nodes if node.name in wanted))


class _Building:
    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.names: list[bytes] = []
        self.numberings = 1

    def add(self, name: str, type: str, is_kept: bool, numbering: int) -> int:
        bits = _BITS.get(type, 64)
        kind = WHOLE if type in _BITS else _KINDS.get(type, LIST if element_of(type) is not None else STRUCT)
        named = b'"%s":' % name.encode()
        limits = -(1 << bits - 1), (1 << bits - 1) - 1
        self.rows.append([kind, 0, 0, numbering, is_kept, *limits, sum(map(len, self.names)), len(named)])
        self.names.append(named)
        return len(self.rows) - 1

    def add_children(
        self, parent: int, columns: Columns, numbering: int, wanted: Collection[str] | None = None
    ) -> list[Node]:
        """Those that are wanted are kept; without that, what their parent is."""
        is_kept = bool(self.rows[parent][KEPT])
        self.rows[parent][FIRST_CHILD], self.rows[parent][CHILDREN] = len(self.rows), len(columns)
        numbers = [
            self.add(name, type, is_kept if wanted is None else name in wanted, numbering) for name, type in columns
        ]
        return [
            Node(number, name, type, self._inner(number, type, numbering))
            for number, (name, type) in zip(numbers, columns, strict=True)
        ]

    def _inner(self, number: int, type: str, numbering: int) -> tuple[Node, ...]:
        element = element_of(type)
        if element is None:
            return tuple(self.add_children(number, fields_of(type), numbering)) if fields_of(type) else ()
        self.numberings += 1
        return tuple(self.add_children(number, (("", element),), self.numberings - 1))

    def tree(self, wanted: tuple[Node, ...]) -> Tree:
        return Tree(np.array(self.rows, np.int64), np.frombuffer(b"".join(self.names) + bytes(8), np.uint8), wanted)
