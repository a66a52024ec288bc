"""DISTINCT and collect_set: the state is the set of values, a sorted list per group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.aggregates.base import Aggregate, present
from eventide.kernels.aggregates.basic import Count
from eventide.kernels.vector.columns import (
    Ints,
    combined_rank,
    dense_rank,
    first_of_each,
    list_parts,
    lists,
    normalised,
    typed,
    whole,
)
from eventide.kernels.vector.grouping import Segments, group_rows


class Distinct(Aggregate):
    """Another aggregate over the distinct values of a group; values that contain a NULL are left out."""

    needs_segments = True

    def __init__(self, inner: Aggregate) -> None:
        super().__init__(inner.spec)
        self._inner = inner
        self.empty = inner.empty
        kinds = inner.spec.input_types
        self._value = kinds[0] if len(kinds) == 1 else pa.struct([(str(n), kind) for n, kind in enumerate(kinds)])

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self._value),)

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        known = np.logical_and.reduce([values.is_valid().to_numpy(zero_copy_only=False) for values in inputs])
        rows = np.flatnonzero(known)
        kept = [normalised(values.take(pa.array(rows))) for values in inputs]
        values = kept[0] if len(kept) == 1 else pa.StructArray.from_arrays(kept, fields=list(self._value))
        return [sets(groups.group[rows], values, groups.count, self._value)]

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        group, values = exploded(states[0], groups.group)
        return [sets(group, values, groups.count, self._value)]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        if isinstance(self._inner, Count):  # of values none of which is NULL
            return typed(pc.fill_null(pc.list_value_length(states[0]), 0), self.spec.result_type)
        group, values = exploded(states[0], np.arange(len(states[0])))
        inputs = [values] if len(self.spec.input_types) == 1 else [whole(part) for part in values.flatten()]
        return folded_lists(self._inner, group, inputs, len(states[0]))


class CollectSet(Aggregate):
    """collect_set: the distinct values, sorted; empty for a group that has only NULLs."""

    needs_segments = True
    empty: object = ()

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self.spec.input_types[0]),)

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        rows = np.flatnonzero(inputs[0].is_valid().to_numpy(zero_copy_only=False))
        values = normalised(inputs[0].take(pa.array(rows)))
        return [sets(groups.group[rows], values, groups.count, self.spec.input_types[0])]

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        group, values = exploded(states[0], groups.group)
        return [sets(group, values, groups.count, self.spec.input_types[0])]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return typed(states[0], self.spec.result_type)


def folded_lists(aggregate: Aggregate, group: Ints, inputs: list[pa.Array], count: int) -> pa.Array:
    """The result of an aggregate for each of `count` groups, over items that stand for rows."""
    grouped = group_rows([pa.array(group)], aggregate.fold_plan(inputs), segments=aggregate.needs_segments)
    results = aggregate.final(aggregate.fold(inputs, grouped.reduced, grouped.segments))
    place = np.full(count, -1, np.int64)
    place[grouped.keys[0].to_numpy()] = np.arange(len(results))
    spread = results.take(pa.array(place, mask=place < 0))
    return spread if aggregate.empty is None else pc.fill_null(spread, pa.scalar(aggregate.empty, results.type))


def sets(group: Ints, values: pa.Array, count: int, kind: pa.DataType) -> pa.Array:
    """One sorted list of distinct values per group."""
    number = combined_rank([group, dense_rank(values)], len(group))
    first = first_of_each(number, int(number.max(initial=-1)) + 1)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(group[first], minlength=count))))
    return lists(offsets, values.take(pa.array(first)), pa.list_(kind))


def exploded(states: pa.Array, group: Ints) -> tuple[Ints, pa.Array]:
    """(group, item) for every item of every list; `group` has the group of each list."""
    offsets, items = list_parts(states)
    return np.repeat(group, np.diff(offsets)), items
