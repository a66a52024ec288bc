"""Rows looked up in a table inside a task: by keys that must be equal, in a version of the table that the task keeps.

A row for which several rows of the table are found comes once for each of them. NULL equals nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.vector.columns import Ints, Mask, column
from eventide.tasks.expressions import Expression, carrier, columns_of, evaluate


@dataclass(frozen=True)
class LookupKey:
    """What of a row must equal `column` of the table; both have the type of `value`."""

    value: Expression
    column: str


@dataclass(frozen=True)
class TableColumn:
    """A column of the table, and what it is called beside those of a row."""

    column: str
    name: str
    type: str


@dataclass(frozen=True)
class TableLookup:
    """What is found in `table` by `keys`; rows for which nothing is found go, unless it is `outer`. `condition` is of
    rows with what was found.
    """

    table: str
    keys: tuple[LookupKey, ...]
    columns: tuple[TableColumn, ...]
    outer: bool
    condition: Expression | None = None

    @property
    def of_rows(self) -> set[str]:
        """The columns that are looked at, some of them the table's."""
        conditions = () if self.condition is None else (self.condition,)
        return set().union(*(columns_of(each) for each in (*(key.value for key in self.keys), *conditions)))


class KeyedTable:
    """The rows of a table in the order of their keys; those with a NULL among them are never found."""

    def __init__(self, rows: pa.Table, lookup: TableLookup) -> None:
        keys = [column(rows, key.column).cast(carrier(key.value.type)) for key in lookup.keys]
        columns = [column(rows, each.column).cast(carrier(each.type)) for each in lookup.columns]
        complete = np.logical_and.reduce([np.asarray(key.is_valid()) for key in keys])
        keys = [key.filter(pa.array(complete)) for key in keys]
        self._values = [pc.unique(key) for key in keys]
        self._together: list[Ints] = []  # the pairs of a code and a value that the table has, key by key
        codes = _places(keys[0], self._values[0])
        for key, values in zip(keys[1:], self._values[1:], strict=True):
            pairs = _pairs(codes, key, values)
            self._together.append(np.unique(pairs))
            codes = np.searchsorted(self._together[-1], pairs)
        self._counts = np.bincount(codes)
        self._first = np.cumsum(self._counts) - self._counts
        order = pa.array(np.argsort(codes, kind="stable"))
        self.columns = [each.filter(pa.array(complete)).take(order) for each in columns]

    def found(self, keys: Sequence[pa.Array]) -> tuple[Ints, Ints]:
        """For each row the place of the first that is found, and how many there are."""
        codes = self._codes(keys)
        if not len(self._counts):
            return np.zeros_like(codes), np.zeros_like(codes)
        return self._first[codes], np.where(codes >= 0, self._counts[codes], 0)

    def _codes(self, keys: Sequence[pa.Array]) -> Ints:
        """A number below that of the table's rows for each combination of keys that it has, -1 for others."""
        codes = _places(keys[0], self._values[0])
        for key, values, known in zip(keys[1:], self._values[1:], self._together, strict=True):
            pairs = _pairs(codes, key, values)
            places = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
            codes = np.where(known[places] == pairs, places, -1) if len(known) else np.full_like(pairs, -1)
        return codes


def _places(key: pa.Array, values: pa.Array) -> Ints:
    """Where each is among the values, or -1."""
    places: Ints = pc.fill_null(pc.index_in(key, values, skip_nulls=True), -1).to_numpy().astype(np.int64)
    return places


def _pairs(codes: Ints, key: pa.Array, values: pa.Array) -> Ints:
    """A number for each pair of a code and a value, -1 where one of them is none."""
    own = _places(key, values)
    return np.where((own < 0) | (codes < 0), -1, codes * len(values) + own)


@dataclass(frozen=True)
class TaskLookup:
    """A lookup, and how a task gets the table as it is for its batch."""

    asked: TableLookup
    table: Callable[[TableLookup], KeyedTable]

    def opened(self) -> TaskLookup:
        """The lookup with the table at hand, for one task."""
        table = self.table(self.asked)
        return replace(self, table=lambda _: table)

    def joined(
        self, rows: pa.Table, known: pa.Table, keeps: pa.Array | None, passes: pa.Array | None
    ) -> tuple[pa.Table, pa.Table, pa.Array]:
        """Rows with the table's columns, what is known of them, and which are kept. Those that are not, and those that
        `passes` names, which are no rows of the user's any more, come once.
        """
        asked, table = self.asked, self.table(self.asked)
        first, counts = table.found([evaluate(key.value, rows) for key in asked.keys])
        kept: Mask = np.ones(rows.num_rows, np.bool_) if keeps is None else np.asarray(pc.fill_null(keeps, False))
        passed: Mask = np.zeros(rows.num_rows, np.bool_) if passes is None else np.asarray(passes)
        counts = np.where(kept & ~passed, counts, 0)
        if counts.max(initial=0) > 1:
            times = np.maximum(counts, 1)
            which = np.repeat(np.arange(rows.num_rows), times)
            first = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
            rows, known = rows.take(pa.array(which)), known.take(pa.array(which))
            counts, kept, passed = counts[which], kept[which], passed[which]
        places = pa.array(first, mask=counts == 0)
        for each, values in zip(asked.columns, table.columns, strict=True):
            rows = rows.append_column(each.name, values.take(places))
        stays: Mask = kept if asked.outer else kept & (counts > 0)
        if asked.condition is not None:
            stays = stays & np.asarray(pc.fill_null(evaluate(asked.condition, rows), False))
        return rows, known, pa.array(stays | passed)
