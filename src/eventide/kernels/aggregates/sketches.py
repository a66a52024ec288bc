"""approx_count_distinct and percentile_approx: sketches whose result does not depend on the order of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.errors import OptionError
from eventide.kernels.aggregates.base import Aggregate, AggregateSpec, present
from eventide.kernels.aggregates.distinct import exploded
from eventide.kernels.vector.columns import Ints, combined_rank, dense_rank, list_parts, lists, typed
from eventide.kernels.vector.grouping import Segments
from eventide.kernels.vector.hashing import hash_column, mixed

_RANK_BITS = 6  # a register holds at most 64
Floats = npt.NDArray[np.float64]


class ApproxCountDistinct(Aggregate):
    """HyperLogLog with as many registers as Spark uses for the relative deviation in the parameter (0.05).

    The state lists the non-empty registers, each with its number in the upper bits, so small groups have small states.
    The estimate follows Ertl (2017), which needs no correction for small or large counts.
    """

    needs_segments = True
    empty = 0

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        deviation = _numbers(spec, 0)[0] if spec.parameters else 0.05
        if not 0 < deviation <= 0.39:
            raise OptionError(
                f"approx_count_distinct with a relative deviation of {deviation}", help="write one from 0.001 to 0.39"
            )
        self._bits = min(18, max(4, math.ceil(2 * math.log2(1.106 / deviation))))

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(pa.int32()),)

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        rows = np.flatnonzero(inputs[0].is_valid().to_numpy(zero_copy_only=False))
        hashes = mixed(hash_column(inputs[0].take(pa.array(rows))))
        register = (hashes >> np.uint64(64 - self._bits)).astype(np.int64)
        rest = (hashes << np.uint64(self._bits)) | np.uint64(1 << (self._bits - 1))
        leading = (
            63
            - np.floor(np.log2(np.maximum(rest >> np.uint64(11), np.uint64(1)).astype(np.float64))).astype(np.int64)
            - 11
        )
        return [self._registers(groups.group[rows], register << _RANK_BITS | (leading + 1), groups.count)]

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        group, packed = exploded(states[0], groups.group)
        return [self._registers(group, packed.to_numpy(zero_copy_only=False).astype(np.int64), groups.count)]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        count, size = len(states[0]), 1 << self._bits
        group, packed = exploded(states[0], np.arange(count))
        rank = packed.to_numpy(zero_copy_only=False) & ((1 << _RANK_BITS) - 1)
        filled = np.bincount(group, np.exp2(-rank.astype(np.float64)), count)
        empty = (size - np.bincount(group, minlength=count)) / size
        below = filled + size * _sigma(np.minimum(empty, 1 - 2.0**-53))
        estimate = np.where(empty >= 1, 0, np.rint(size**2 / (2 * math.log(2)) / below))
        return pa.array(estimate.astype(np.int64)).cast(self.spec.result_type)

    def _registers(self, group: Ints, packed: Ints, count: int) -> pa.Array:
        """The largest rank of each register, in register order."""
        codes = np.unique((group << (self._bits + _RANK_BITS)) | packed)
        largest = np.append((codes[1:] >> _RANK_BITS) != (codes[:-1] >> _RANK_BITS), True)[: len(codes)]
        codes = codes[largest]
        offsets = np.concatenate(([0], np.cumsum(np.bincount(codes >> (self._bits + _RANK_BITS), minlength=count))))
        return lists(
            offsets, pa.array(codes & ((1 << (self._bits + _RANK_BITS)) - 1), pa.int32()), pa.list_(pa.int32())
        )


def _sigma(share: Floats) -> Floats:
    total, power, weight = share.copy(), share.copy(), 1.0
    for _ in range(60):
        power = power * power
        total += power * weight
        weight *= 2
    return total


class Percentile(Aggregate):
    """percentile_approx(values, percentage or array of them[, accuracy = 10000]).

    The state lists the distinct values with their counts: exact until a group has more than four times `accuracy` of
    them; then neighbours are merged, so that each stands for at most 1 / (2 * accuracy) of the rows. Results are values
    from the data.
    """

    needs_segments = True

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._shares = _numbers(spec, 0)
        self._limit = 4 * int(_numbers(spec, 1)[0] if len(spec.parameters) > 1 else 10_000)
        if not all(0 <= share <= 1 for share in self._shares) or self._limit <= 0:
            raise OptionError(f"{spec.function} takes percentages from 0 to 1 and a positive accuracy")

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

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        offsets, values = list_parts(states[0])
        running = np.concatenate(([0], np.cumsum(list_parts(states[1])[1].to_numpy(zero_copy_only=False))))
        before, total = running[offsets[:-1]], running[offsets[1:]] - running[offsets[:-1]]
        columns = []
        for share in self._shares:
            place = np.searchsorted(running, before + np.maximum(np.ceil(share * total), 1), side="left") - 1
            columns.append(values.take(pa.array(place, mask=total == 0)))
        if not pa.types.is_list(self.spec.result_type):
            return typed(columns[0], self.spec.result_type)
        rows = np.arange(len(total) * len(columns)).reshape(len(columns), -1).T.ravel()
        items = pa.concat_arrays(columns).take(pa.array(rows))
        bounds = pa.array(np.arange(len(total) + 1) * len(columns), pa.int32())
        return pa.ListArray.from_arrays(bounds, items, type=self.spec.result_type, mask=pa.array(total == 0))

    def _counted(self, group: Ints, values: pa.Array, counts: Ints, groups: int) -> list[pa.Array]:
        codes = combined_rank([group, dense_rank(values)], len(group))
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        weight = np.bincount(inverse, counts, len(first)).astype(np.int64)
        owner, chosen = group[first], first
        if len(first) and np.bincount(owner).max() > self._limit:
            owner, chosen, weight = self._joined(owner, chosen, weight)
        offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=groups))))
        return [
            lists(offsets, values.take(pa.array(chosen)), self.state[0]),
            lists(offsets, pa.array(weight), self.state[1]),
        ]

    def _joined(self, owner: Ints, chosen: Ints, weight: Ints) -> tuple[Ints, Ints, Ints]:
        """In groups over the limit, merge neighbours into about half as many as the limit; the last value stands for
        all.
        """
        running = np.cumsum(weight)
        starts = np.searchsorted(owner, owner)
        before = running[starts] - weight[starts]
        total = np.bincount(owner, weight)[owner]
        part = ((running - before - 1) * (self._limit // 2) // total).astype(np.int64)
        alone = np.bincount(owner)[owner] <= self._limit
        part = np.where(alone, np.arange(len(owner)) - starts, part)
        ends = np.append((owner[1:] != owner[:-1]) | (part[1:] != part[:-1]), True)
        last = np.flatnonzero(ends)
        return owner[last], chosen[last], np.diff(np.concatenate(([0], running[last])))


def _numbers(spec: AggregateSpec, parameter: int) -> list[float]:
    """The numbers in a parameter: one, or an array written as in SQL or JSON."""
    text = spec.parameters[parameter] if len(spec.parameters) > parameter else ""
    found = re.findall(r"(?<![\w.])[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?", text)
    if not found:
        raise OptionError(f"{spec.function} needs a number, not {text!r}", help=f"write {spec.function}(x, 0.5)")
    return [float(number) for number in found]
