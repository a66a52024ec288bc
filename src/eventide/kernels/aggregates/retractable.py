"""Aggregates over a change log: what a row with op 1 adds, a row with op -1 takes back.

Counts, sums and averages are added up with the sign of the row. Everything else keeps the values of a group and how
often each is there, and computes its result from those: nothing less can tell the second largest value once the largest
is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.aggregates.base import Aggregate, AggregateSpec, present
from eventide.kernels.aggregates.basic import Average, exact, fitted, sum_type
from eventide.kernels.aggregates.distinct import exploded, folded_lists
from eventide.kernels.vector.columns import Ints, combined_rank, dense_rank, list_parts, lists, normalised, typed, whole
from eventide.kernels.vector.grouping import Reduction, Segments


class NetCount(Aggregate):
    """Rows in which no input is NULL, those taken back subtracted."""

    empty = 0

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(),)

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        *values, op = inputs
        return [Reduction("sum", _where_known(values, op))]

    def merge_plan(self, states: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction("sum", states[0])]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return typed(states[0], self.spec.result_type)


class NetSum(Aggregate):
    """The sum of the finite values and how many values there are; of floats also how many are NaN, or infinite."""

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._kind = self._summed(spec.input_types[0])

    @staticmethod
    def _summed(kind: pa.DataType) -> pa.DataType:
        return sum_type(kind)

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        odd = (pa.int64(),) * 3 if pa.types.is_floating(self._kind) else ()
        return (self._kind, pa.int64(), *odd)

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        values, op = typed(inputs[0], self._kind), inputs[1]
        counted = [Reduction("sum", _where_known([values], op))]
        if pa.types.is_floating(self._kind):
            odd = (pc.is_nan(values), pc.equal(values, np.inf), pc.equal(values, -np.inf))
            counted += [Reduction("sum", pc.if_else(pc.fill_null(which, False), op, 0)) for which in odd]
            values = pc.if_else(pc.is_finite(values), values, pa.scalar(0.0))
        return [Reduction("sum", pc.if_else(pc.less(op, 0), pc.negate(values), values)), *counted]

    def merge_plan(self, states: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction("sum", state) for state in states]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return fitted(self._total(states), self.spec.result_type)

    def _total(self, states: Sequence[pa.Array]) -> pa.Array:
        """The sum, NULL where there is no value."""
        total, count, *odd = states
        if odd:
            nan, up, down = (pc.greater(number, 0) for number in odd)
            total = pc.if_else(up, pa.scalar(np.inf), total)
            total = pc.if_else(down, pa.scalar(-np.inf), total)
            total = pc.if_else(pc.or_(nan, pc.and_(up, down)), pa.scalar(np.nan), total)
        return pc.if_else(pc.greater(count, 0), total, pa.scalar(None, total.type))


class NetAverage(NetSum):
    @staticmethod
    def _summed(kind: pa.DataType) -> pa.DataType:
        return sum_type(kind) if exact(kind) else pa.float64()

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return Average(self.spec).final([self._total(states), states[1]])


class Multiset(Aggregate):
    """Another aggregate over the values that are left; `repeats` says whether it matters how often each is there."""

    needs_segments = True

    def __init__(self, inner: Aggregate, repeats: bool) -> None:
        super().__init__(inner.spec)
        self._inner, self._repeats = inner, repeats
        self.empty, self.needs_time = inner.empty, inner.needs_time
        kinds = [*inner.spec.input_types, *([pa.int64()] if inner.needs_time else [])]
        self._is_tuple = len(kinds) > 1
        self._value = pa.struct([(str(n), kind) for n, kind in enumerate(kinds)]) if self._is_tuple else kinds[0]

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self._value), pa.list_(pa.int64()))

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        *columns, op = inputs
        kept = [normalised(values) for values in columns] if self.spec.distinct else columns
        values = pa.StructArray.from_arrays(kept, fields=list(self._value)) if self._is_tuple else kept[0]
        groups = present(segments)
        return self._added_up(groups.group, values, op.to_numpy(zero_copy_only=False), groups.count)

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        group, values = exploded(states[0], groups.group)
        counts = list_parts(states[1])[1].to_numpy(zero_copy_only=False)
        return self._added_up(group, values, counts, groups.count)

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        group, values = exploded(states[0], np.arange(len(states[0])))
        counts = np.maximum(list_parts(states[1])[1].to_numpy(zero_copy_only=False), 0)
        times = counts if self._repeats else np.minimum(counts, 1)
        rows = np.repeat(np.arange(len(times)), times)
        values = values.take(pa.array(rows))
        inputs = [whole(part) for part in values.flatten()] if self._is_tuple else [values]
        return folded_lists(self._inner, group[rows], inputs, len(states[0]))

    def _added_up(self, group: Ints, values: pa.Array, counts: Ints, groups: int) -> list[pa.Array]:
        """The values of each group that are there a number of times other than 0, in their order, and that number."""
        codes = combined_rank([group, dense_rank(values)], len(group))
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        weight = np.zeros(len(first), np.int64)
        np.add.at(weight, inverse, counts)
        chosen = first[weight != 0]
        offsets = np.concatenate(([0], np.cumsum(np.bincount(group[chosen], minlength=groups))))
        return [
            lists(offsets, values.take(pa.array(chosen)), self.state[0]),
            lists(offsets, pa.array(weight[weight != 0]), self.state[1]),
        ]


def _where_known(values: Sequence[pa.Array], op: pa.Array) -> pa.Array:
    """The sign of each row, 0 where a value is NULL."""
    if all(column.null_count == 0 for column in values):
        return op
    return pc.if_else(reduce(pc.and_, [column.is_valid() for column in values]), op, 0)
