"""median, percentile, mode: the state is the distinct values of a group and how often each came."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventide.errors import OptionError
from eventide.kernels.aggregates.base import Aggregate, AggregateSpec, present
from eventide.kernels.aggregates.distinct import exploded
from eventide.kernels.vector.columns import Ints, combined_rank, dense_rank, list_parts, lists, typed
from eventide.kernels.vector.grouping import Segments

Floats = npt.NDArray[np.float64]


class Counted(Aggregate):
    """The distinct values that are not NULL, in their order, and their counts."""

    needs_segments = True

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(self.spec.input_types[0]), pa.list_(pa.int64()))

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        rows = np.flatnonzero(inputs[0].is_valid().to_numpy(zero_copy_only=False))
        return self._counted(
            groups.group[rows], inputs[0].take(pa.array(rows)), np.ones(len(rows), np.int64), groups.count
        )

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        group, values = exploded(states[0], groups.group)
        counts = exploded(states[1], groups.group)[1].to_numpy(zero_copy_only=False)
        return self._counted(group, values, counts, groups.count)

    def _counted(self, group: Ints, values: pa.Array, counts: Ints, groups: int) -> list[pa.Array]:
        codes = combined_rank([group, dense_rank(values)], len(group))
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        weight = np.bincount(inverse, counts, len(first)).astype(np.int64)
        owner, chosen, weight = self._limited(group[first], first, weight)
        offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=groups))))
        return [
            lists(offsets, values.take(pa.array(chosen)), self.state[0]),
            lists(offsets, pa.array(weight), self.state[1]),
        ]

    def _limited(self, owner: Ints, chosen: Ints, weight: Ints) -> tuple[Ints, Ints, Ints]:
        """Owners, values and counts, fewer of them where the state must stay small."""
        return owner, chosen, weight


class Percentile(Counted):
    """percentile(values, percentage or array of them), and median: between two values of the data, as a double."""

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._shares = [0.5] if spec.function == "median" else numbers(spec, 0)
        if not all(0 <= share <= 1 for share in self._shares):
            raise OptionError(f"{spec.function} takes percentages from 0 to 1")

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        offsets, values = list_parts(states[0])
        plain = values.cast(pa.int64()) if pa.types.is_duration(values.type) else values
        plain = plain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        running = np.concatenate(([0], np.cumsum(list_parts(states[1])[1].to_numpy(zero_copy_only=False))))
        before, total = running[offsets[:-1]], running[offsets[1:]] - running[offsets[:-1]]
        return arranged([self._between(plain, running, before, total, share) for share in self._shares], total, self)

    def _between(self, values: Floats, running: Ints, before: Ints, total: Ints, share: float) -> pa.Array:
        place = share * np.maximum(total - 1, 0)
        low, high = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
        last = max(len(values) - 1, 0)
        at = [np.minimum(np.searchsorted(running, before + rank, side="right") - 1, last) for rank in (low, high)]
        below, above = (values[index] if len(values) else np.zeros(len(total)) for index in at)
        with np.errstate(invalid="ignore"):
            mixed = np.where(at[0] == at[1], below, (high - place) * below + (place - low) * above)
        result = self.spec.result_type.value_type if pa.types.is_list(self.spec.result_type) else self.spec.result_type
        found = pa.array(mixed, mask=total == 0)
        return pc.trunc(found).cast(pa.int64()).cast(result) if pa.types.is_duration(result) else found.cast(result)


class Mode(Counted):
    """The most frequent value; of several the smallest, as Spark's mode(x, true)."""

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        offsets, values = list_parts(states[0])
        counts = list_parts(states[1])[1].to_numpy(zero_copy_only=False)
        owner = np.repeat(np.arange(len(states[0])), np.diff(offsets))
        turn = np.lexsort((np.arange(len(counts)), -counts, owner))
        groups, at = np.unique(owner[turn], return_index=True)
        chosen = np.full(len(states[0]), -1, np.int64)
        chosen[groups] = turn[at]
        return typed(values.take(pa.array(chosen, mask=chosen < 0)), self.spec.result_type)


def arranged(columns: list[pa.Array], total: Ints, aggregate: Aggregate) -> pa.Array:
    """One result per group, or an array of them where several percentages were asked for; NULL for no rows."""
    wanted = aggregate.spec.result_type
    if not pa.types.is_list(wanted):
        return typed(columns[0], wanted)
    rows = np.arange(len(total) * len(columns)).reshape(len(columns), -1).T.ravel()
    items = pa.concat_arrays(columns).take(pa.array(rows))
    bounds = pa.array(np.arange(len(total) + 1) * len(columns), pa.int32())
    return pa.ListArray.from_arrays(bounds, items, type=wanted, mask=pa.array(total == 0))


def numbers(spec: AggregateSpec, parameter: int) -> list[float]:
    """The numbers in a parameter: one, or those of an array written as SQL or JSON has it."""
    text = spec.parameters[parameter] if len(spec.parameters) > parameter else ""
    found = re.findall(r"(?<![\w.])[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?", text)
    if not found:
        raise OptionError(f"{spec.function} needs a number, not {text!r}", help=f"write {spec.function}(x, 0.5)")
    return [float(number) for number in found]
