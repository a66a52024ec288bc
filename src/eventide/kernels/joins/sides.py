"""The two sides of a join: what is kept of a row, and how rows of a batch become rows that are kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import SEQ, TS, USED, Batch, Output
from eventide.kernels.side_rows import LATE_REASON
from eventide.kernels.state.row_index import HASH
from eventide.kernels.vector.columns import Ints, Mask, column, ints, typed
from eventide.kernels.vector.matching import hashes_of, same

if TYPE_CHECKING:
    from eventide.kernels.joins.spec import JoinSpec

ARRIVAL = "arrival"  # numbers rows in the order in which they came
SIDES = ("left", "right")
HEAD = (pa.field(TS, pa.int64()), pa.field(ARRIVAL, pa.int64()), pa.field(HASH, pa.int64()))

Bounds = tuple[Ints, Ints]  # starts and ends


@dataclass(frozen=True)
class Fresh:
    """The rows of one side that a batch brought and that were not late; `keyless` ones have NULL in a key."""

    rows: pa.Table
    keyless: Mask
    order: Ints  # of each row its place among those that were given

    @property
    def able(self) -> pa.Table:
        """Those that can match."""
        return self.rows.filter(pa.array(~self.keyless)) if self.keyless.any() else self.rows


class Side:
    """One side: the columns that are kept of its rows, and those that a pair shows."""

    def __init__(self, spec: JoinSpec, number: int) -> None:
        self.number, self.name = number, SIDES[number]
        shown, types = ((spec.left, spec.left_types), (spec.right, spec.right_types))[number]
        kinds = dict(zip(spec.keys, spec.key_types, strict=True))
        kinds.update(zip((packed for _, packed in shown), types, strict=True))
        self.keys, self.shown = spec.keys, shown
        self.schema = pa.schema([*HEAD, *[pa.field(name, kind) for name, kind in kinds.items()]])
        self.shown_schema = pa.schema([pa.field(name, kind) for (name, _), kind in zip(shown, types, strict=True)])
        null_safe = spec.null_safe or (False,) * len(spec.keys)
        self._needed = tuple(key for key, is_safe in zip(spec.keys, null_safe, strict=True) if not is_safe)

    def packed(self, tables: list[pa.Table], arrived: int) -> Fresh:
        """Rows of a batch, in the order of their arrival, numbered from `arrived` on."""
        names = [field.name for field in self.schema][len(HEAD) :]
        tables = [table.select([TS, *([SEQ] if SEQ in table.column_names else []), *names]) for table in tables]
        rows = pa.concat_tables(tables, promote_options="permissive") if tables else self.schema.empty_table()
        count = rows.num_rows
        seq = ints(rows, SEQ) if SEQ in rows.column_names else np.arange(count)
        order = np.arange(count)
        if not (seq[1:] > seq[:-1]).all():
            order = np.argsort(seq, kind="stable")
            rows = rows.take(pa.array(order))
        kinds = [typed(column(rows, name), self.schema.field(name).type) for name in names]
        by_name = dict(zip(names, kinds, strict=True))
        hashes = hashes_of([by_name[key] for key in self.keys], count)
        head = [column(rows, TS), pa.array(np.arange(arrived, arrived + count)), pa.array(hashes)]
        packed = pa.Table.from_arrays([*head, *kinds], schema=self.schema)
        return Fresh(packed, self.keyless(packed), order)

    def keyless(self, rows: pa.Table) -> Mask:
        """Which rows have NULL in a key, and so match nothing."""
        keyless = np.zeros(rows.num_rows, np.bool_)
        for key in self._needed:
            if rows.column(key).null_count:
                keyless |= column(rows, key).is_null().to_numpy(zero_copy_only=False)
        return keyless

    def columns(self, rows: pa.Table) -> list[pa.Array]:
        """What a pair shows of rows."""
        return [column(rows, packed) for _, packed in self.shown]

    def nothing(self, count: int) -> list[pa.Array]:
        return [pa.nulls(count, field.type) for field in self.shown_schema]


class KeyEquality:
    """Whether rows with equal hashes have equal keys."""

    def __init__(self, spec: JoinSpec) -> None:
        self._keys = spec.keys
        self._hash_tells = not spec.keys or (
            len(spec.keys) == 1 and _is_whole(spec.key_types[0]) and not any(spec.null_safe)
        )

    def __call__(self, one: pa.Table, places: Ints, other: pa.Table, other_places: Ints) -> Mask:
        equal: Mask = ints(one, HASH)[places] == ints(other, HASH)[other_places]
        if self._hash_tells:
            return equal
        some = np.flatnonzero(equal)
        mine, theirs = pa.array(places[some]), pa.array(other_places[some])
        equal[some] = same(
            [column(one, key).take(mine) for key in self._keys],
            [column(other, key).take(theirs) for key in self._keys],
            len(some),
        )
        return equal


def _is_whole(kind: pa.DataType) -> bool:
    """Whether no two values of a type have the same hash: it is a mixture of 64 bits that can be undone."""
    return bool(pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind))


class Taking:
    """Takes the rows of a batch in: packed by side, and the late ones aside."""

    def __init__(self, spec: JoinSpec, sides: tuple[Side, Side]) -> None:
        self._side_rows, self._sides = spec.side_rows, sides
        self._inputs = tuple(
            tuple(number for number, its_side in enumerate(spec.sides) if its_side == side) for side in (0, 1)
        )

    def packed(self, batch: Batch, arrived: int) -> tuple[Fresh, Fresh]:
        """The rows of both sides, numbered from `arrived` on."""
        left, right = ([batch[number] for number in inputs if number in batch] for inputs in self._inputs)
        first = self._sides[0].packed(left, arrived)
        return first, self._sides[1].packed(right, arrived + first.rows.num_rows)

    def without_late(
        self, side: int, fresh: Fresh, late: Mask, missed: Bounds | None, batch: Batch, output: Output
    ) -> Fresh:
        """Put late rows aside; `missed` are windows that all rows have, or would have had."""
        name = SIDES[side]
        output.events[f"{name}_late"] += int(late.sum())
        output.events[f"{name}_rows"] += len(late) - int(late.sum())
        output.counts[USED] += len(late) - int(late.sum())
        if not late.any():
            return fresh
        given = np.empty_like(late)
        given[fresh.order] = late
        place = np.empty(len(late), np.int64)
        place[fresh.order] = np.arange(len(late))
        begin = 0
        for number in self._inputs[side]:
            if number in batch:
                rows = batch[number].combine_chunks()
                some = given[begin : begin + rows.num_rows]
                at = place[begin : begin + rows.num_rows][some]
                windows = None if missed is None else partial(_bounds_at, missed, at)
                self._side_rows.put(output, rows, some, "late", LATE_REASON, input=number, windows=windows)
                begin += rows.num_rows
        return Fresh(fresh.rows.filter(pa.array(~late)), fresh.keyless[~late], fresh.order[~late])


def _bounds_at(bounds: Bounds, at: Ints) -> Bounds:
    return bounds[0][at], bounds[1][at]
