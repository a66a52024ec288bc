"""What comes out of a join: tables of pairs and of rows alone, and what a kind of join makes of a match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.contract import TS
from eventide.kernels.joins.sides import KeyEquality, Side
from eventide.kernels.vector.columns import Ints, Mask, ints, timestamps, whole
from eventide.plan.modes import JoinKind

if TYPE_CHECKING:
    from eventide.kernels.joins.spec import JoinSpec

_MOMENT = pa.timestamp("us", tz="UTC")
Bounds = tuple[Ints, Ints]


@dataclass(frozen=True)
class Matches:
    """Pairs of rows: places in a table of the left side and in one of the right."""

    left: pa.Table
    left_at: Ints
    right: pa.Table
    right_at: Ints

    @property
    def left_ts(self) -> Ints:
        return ints(self.left, TS)[self.left_at]

    @property
    def right_ts(self) -> Ints:
        return ints(self.right, TS)[self.right_at]

    def chosen(self, places: Ints) -> Matches:
        return Matches(self.left, self.left_at[places], self.right, self.right_at[places])


class PairTables:
    """Makes main tables of one join."""

    def __init__(self, spec: JoinSpec, sides: tuple[Side, Side]) -> None:
        self._sides, self.schema, self._condition = sides, spec.row_schema, spec.condition
        self._equal = KeyEquality(spec)
        self._pair_schema = pa.schema([*sides[0].shown_schema, *sides[1].shown_schema])

    def true_ones(self, found: Matches) -> Ints:
        """The places of the pairs that have equal keys and meet the condition."""
        equal = np.flatnonzero(self._equal(found.left, found.left_at, found.right, found.right_at))
        if self._condition is None:
            return equal
        return equal[self.holds(found.chosen(equal))]

    def holds(self, found: Matches) -> Mask:
        """Which pairs meet the condition."""
        if self._condition is None or len(found.left_at) == 0:
            return np.ones(len(found.left_at), np.bool_)
        pairs = pa.Table.from_arrays(self._columns(found), schema=self._pair_schema)
        known: Mask = pc.fill_null(whole(self._condition(pairs)), False).to_numpy(zero_copy_only=False)
        return known

    def pairs(self, found: Matches, bounds: Bounds | None) -> pa.Table:
        head = self._head(bounds, np.maximum(found.left_ts, found.right_ts))
        return pa.Table.from_arrays([*head, *self._columns(found)], schema=self.schema)

    def alone(self, side: int, columns: list[pa.Array], ts: Ints, bounds: Bounds | None) -> pa.Table:
        """Rows of one side without the other; `columns` are what a pair shows of them."""
        other = self._sides[1 - side].nothing(len(ts))
        both = [*columns, *other] if side == 0 else [*other, *columns]
        return pa.Table.from_arrays([*self._head(bounds, ts), *both], schema=self.schema)

    def _columns(self, found: Matches) -> list[pa.Array]:
        left, right = pa.array(found.left_at), pa.array(found.right_at)
        return [
            *[values.take(left) for values in self._sides[0].columns(found.left)],
            *[values.take(right) for values in self._sides[1].columns(found.right)],
        ]

    def _head(self, bounds: Bounds | None, rowtime: Ints) -> list[pa.Array]:
        unknown = pa.nulls(len(rowtime), _MOMENT)
        starts, ends = (unknown, unknown) if bounds is None else (timestamps(bound) for bound in bounds)
        return [starts, ends, timestamps(rowtime)]


def keeps(kind: JoinKind, side: int) -> bool:
    """Whether rows of a side come out that found no partner."""
    return kind.keeps_left if side == 0 else kind.keeps_right


def gives_pairs(kind: JoinKind) -> bool:
    return kind not in (JoinKind.SEMI, JoinKind.ANTI)
