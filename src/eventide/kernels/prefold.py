"""Rows folded before they reach the operator: what travels is one partial per group, where that is less.

Only rows that cannot be late are folded: a late row leaves with its original. The operator's watermark is not known
where rows are read, but there is a bound that it cannot have passed; rows behind that bound travel whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from eventide.kernels.aggregates import Aggregation
from eventide.kernels.contract import TS
from eventide.kernels.state.slice_log import SLICE
from eventide.kernels.vector.columns import ints
from eventide.kernels.windows.grid import Grid, latest

if TYPE_CHECKING:
    from eventide.kernels.logic.windowed import WindowedAggregation

_SAMPLE = 65_536  # rows
_WORTH = 0.5  # bytes of partials per byte of rows above which folding gains nothing


@dataclass(frozen=True)
class TimeBound:
    """How far time may have come: the operator's watermark is at most this, and a flush has closed what began by
    `flushed`.
    """

    watermark: int | None = None
    flushed: int | None = None


@dataclass(frozen=True)
class Prefold:
    spec: WindowedAggregation
    grid: Grid

    @cached_property
    def _aggregation(self) -> Aggregation:
        return self.spec.aggregation((SLICE,))

    def fold(self, rows: pa.Table, bound: TimeBound) -> tuple[pa.Table, pa.Table] | None:
        """(the partial of the rows that cannot be late, the other rows); None if folding is not worth it."""
        slices = self.grid.slices_of(ints(rows, TS))
        begun = None if bound.flushed is None else self.grid.last_begun(bound.flushed)
        late = self.grid.all_closed(slices, latest(self.grid.last_closed(bound.watermark), begun))
        rest = rows.slice(0, 0)
        if late.any():
            rest, rows, slices = rows.filter(pa.array(late)), rows.filter(pa.array(~late)), slices[~late]
        if rows.num_rows == 0:
            return None
        if rows.num_rows > 2 * _SAMPLE:
            sample = self._aggregation.fold(rows.slice(0, _SAMPLE), [pa.array(slices[:_SAMPLE])])
            groups = expected_groups(sample.num_rows, _SAMPLE, rows.num_rows)
            if not _is_worth_it(groups * sample.nbytes / sample.num_rows, rows):
                return None
        partial = self._aggregation.fold(rows, [pa.array(slices)])
        return (partial, rest) if _is_worth_it(partial.nbytes, rows) else None


def _is_worth_it(partial_bytes: float, rows: pa.Table) -> bool:
    return bool(partial_bytes <= _WORTH * rows.nbytes)


def expected_groups(found: int, sample: int, rows: int) -> float:
    """How many groups so many rows have, if a sample of them has `found`: as if all groups were equally frequent."""
    if found >= sample:
        return float(rows)
    low, high = float(found), float(sample) * sample  # that many groups would show less than one pair
    for _ in range(50):
        groups = (low + high) / 2
        low, high = (groups, high) if _shown(groups, sample) < found else (low, groups)
    return _shown(high, rows)


def _shown(groups: float, rows: int) -> float:
    """How many of so many groups occur in so many rows, on average."""
    return -groups * math.expm1(-rows / groups)
