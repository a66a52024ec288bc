"""collect_list: all values of a group, in event-time order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates.base import Aggregate, present
from eventide.kernels.aggregates.distinct import exploded
from eventide.kernels.vector.columns import Ints, dense_rank, lists, typed
from eventide.kernels.vector.grouping import Segments


class CollectList(Aggregate):
    """NULLs are left out, as in Spark; values with equal times are sorted by value."""

    needs_segments = True
    needs_time = True
    empty: object = ()

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(pa.int64()), pa.list_(self.spec.input_types[0]))

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        rows = np.flatnonzero(inputs[0].is_valid().to_numpy(zero_copy_only=False))
        values, times = (column.take(pa.array(rows)) for column in inputs)
        return self._in_order(groups.group[rows], times, values, groups.count)

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        group, times = exploded(states[0], groups.group)
        return self._in_order(group, times, exploded(states[1], groups.group)[1], groups.count)

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return typed(states[1], self.spec.result_type)

    def _in_order(self, group: Ints, times: pa.Array, values: pa.Array, count: int) -> list[pa.Array]:
        order = pa.array(np.lexsort((dense_rank(values), times.to_numpy(zero_copy_only=False), group)))
        offsets = np.concatenate(([0], np.cumsum(np.bincount(group, minlength=count))))
        return [lists(offsets, part.take(order), kind) for part, kind in zip((times, values), self.state, strict=True)]
