"""first, last, any_value, min_by, max_by, and min and max of nested values: one row of a group is chosen by some order.

Ties are broken by value, not by arrival, so the result is the same however the rows were batched or shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates.base import Aggregate, AggregateSpec, present
from eventide.kernels.vector.columns import Ints, dense_rank, holds_floats, normalised, typed
from eventide.kernels.vector.grouping import Segments
from eventide.plan.modes import FILTERED, IGNORE_NULLS

FIRST = frozenset({"first", "first_value", "any_value"})
LAST = frozenset({"last", "last_value"})
_IGNORES_NULLS = frozenset({"true", IGNORE_NULLS})


class Chosen(Aggregate):
    """The state is the order and the value of the row chosen so far; the order is NULL if there is none."""

    needs_segments = True

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self.needs_time = spec.function in FIRST | LAST
        self._takes_last = spec.function in LAST | {"max_by", "max"}
        self._skips_nulls = any(parameter.strip().lower() in _IGNORES_NULLS for parameter in spec.parameters)
        self._filtered = FILTERED in spec.parameters

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.int64() if self.needs_time else self.spec.input_types[-1], self.spec.input_types[0])

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        usable = inputs[-1].is_valid().to_numpy(zero_copy_only=False)
        if self._skips_nulls:
            usable = usable & inputs[0].is_valid().to_numpy(zero_copy_only=False)
        if self._filtered:
            usable = usable & inputs[1].fill_null(False).to_numpy(zero_copy_only=False)
        return self._choose(inputs[-1], inputs[0], np.flatnonzero(usable), groups)

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        order, values = states
        return self._choose(
            order, values, np.flatnonzero(order.is_valid().to_numpy(zero_copy_only=False)), present(segments)
        )

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return typed(states[1], self.spec.result_type)

    def _choose(self, order: pa.Array, values: pa.Array, rows: Ints, groups: Segments) -> list[pa.Array]:
        some = pa.array(rows)
        value, by = values.take(some), order.take(some)
        ranks = [dense_rank(value), dense_rank(by)]
        if holds_floats(by.type):  # both zeros are equal in the order; which one is kept must not depend on arrival
            ranks = [ranks[1], ranks[0], dense_rank(normalised(by))]
        group = groups.group[rows]
        turn = np.lexsort((*ranks, group))
        if self._takes_last:
            turn = turn[::-1]
        numbers, at = np.unique(group[turn], return_index=True)
        chosen = np.full(groups.count, -1, np.int64)
        chosen[numbers] = rows[turn[at]]
        place = pa.array(chosen, mask=chosen < 0)
        return [order.take(place), values.take(place)]
