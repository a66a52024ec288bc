"""Rows folded before they reach the operator: what travels is one partial per group, where that is less.

Only rows that cannot be late are folded: a late row leaves with its original. The operator's watermark is not known where
rows are read, but a line is that it cannot have passed; rows behind the line travel whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from eventide.kernels.aggregates import Aggregation
from eventide.kernels.columns import ints
from eventide.kernels.contract import TS
from eventide.kernels.slices import SLICE
from eventide.kernels.specs import WindowSpec
from eventide.kernels.windows import Paces, latest

_SAMPLE = 65_536  # rows
_WORTH = 0.5  # groups per row above which folding gains nothing


@dataclass(frozen=True)
class Line:
    """How far time may have come: the operator's watermark is at most this, and a flush has closed what began by `flushed`."""

    watermark: int | None = None
    flushed: int | None = None


@dataclass(frozen=True)
class Prefold:
    spec: WindowSpec
    paces: Paces

    @cached_property
    def _aggregation(self) -> Aggregation:
        return self.spec.aggregation((SLICE,))

    def fold(self, rows: pa.Table, line: Line) -> tuple[pa.Table, pa.Table] | None:
        """(the partial of the rows that cannot be late, the other rows); None if folding is not worth it."""
        slices = self.paces.slices_of(ints(rows, TS))
        begun = None if line.flushed is None else self.paces.last_begun(line.flushed)
        late = self.paces.all_closed(slices, latest(self.paces.last_closed(line.watermark), begun))
        rest = rows.slice(0, 0)
        if late.any():
            rest, rows, slices = rows.filter(pa.array(late)), rows.filter(pa.array(~late)), slices[~late]
        if rows.num_rows == 0:
            return None
        if rows.num_rows > 2 * _SAMPLE:
            sample = self._aggregation.fold(rows.slice(0, _SAMPLE), [pa.array(slices[:_SAMPLE])])
            if sample.num_rows > _WORTH * _SAMPLE:
                return None
        partial = self._aggregation.fold(rows, [pa.array(slices)])
        return None if partial.num_rows > _WORTH * rows.num_rows else (partial, rest)
