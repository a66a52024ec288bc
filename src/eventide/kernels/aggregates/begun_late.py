"""An aggregate that came into a stream while windows were open: NULL where rows came before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.aggregates.base import Aggregate
from eventide.kernels.vector.grouping import Reduction, Segments


class BegunLate(Aggregate):
    """The state of another aggregate, and behind it 1 where it has not seen all rows of the group."""

    def __init__(self, inner: Aggregate) -> None:
        super().__init__(inner.spec)
        self._inner = inner
        self.needs_segments, self.needs_time = inner.needs_segments, inner.needs_time

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (*self._inner.state, pa.int8())

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        return [*self._inner.fold_plan(inputs), Reduction("count_all")]

    def merge_plan(self, states: Sequence[pa.Array]) -> list[Reduction]:
        return [*self._inner.merge_plan(states[:-1]), Reduction("max", states[-1])]

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        return [*self._inner.fold(inputs, reduced[:-1], segments), _marks(len(reduced[-1]), 0)]

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        return [*self._inner.merge(states[:-1], reduced[:-1], segments), reduced[-1]]

    def nothing(self, count: int) -> list[pa.Array]:
        return [*self._inner.nothing(count), _marks(count, 1)]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        known = pc.equal(states[-1], 0)
        results = self._inner.final(states[:-1])
        return results.take(pc.if_else(known, pa.array(np.arange(len(results))), pa.scalar(None, pa.int64())))


def _marks(count: int, mark: int) -> pa.Array:
    return pa.array(np.full(count, mark, np.int8))
