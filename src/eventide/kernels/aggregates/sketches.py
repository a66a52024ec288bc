"""approx_count_distinct and percentile_approx: sketches whose result does not depend on the order of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eventide.errors import OptionError
from eventide.kernels.aggregates.base import Aggregate, AggregateSpec, present
from eventide.kernels.aggregates.counted import Counted, Floats, arranged, numbers
from eventide.kernels.aggregates.distinct import exploded
from eventide.kernels.vector.columns import Ints, list_parts, lists
from eventide.kernels.vector.grouping import Segments
from eventide.kernels.vector.hashing import hash_column, mixed

_RANK_BITS = 6  # a register holds at most 64


class ApproxCountDistinct(Aggregate):
    """HyperLogLog with as many registers as Spark uses for the relative deviation in the parameter (0.05).

    The state lists the non-empty registers, each with its number in the upper bits, so small groups have small states.
    The estimate follows Ertl (2017), which needs no correction for small or large counts.
    """

    needs_segments = True
    empty = 0

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        deviation = numbers(spec, 0)[0] if spec.parameters else 0.05
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


class ApproxPercentile(Counted):
    """percentile_approx(values, percentage or array of them[, accuracy = 10000]).

    Exact until a group has more than four times `accuracy` of distinct values; then neighbours are merged, so that each
    stands for at most 1 / (2 * accuracy) of the rows. Results are values from the data.
    """

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._shares = numbers(spec, 0)
        self._limit = 4 * int(numbers(spec, 1)[0] if len(spec.parameters) > 1 else 10_000)
        if not all(0 <= share <= 1 for share in self._shares) or self._limit <= 0:
            raise OptionError(f"{spec.function} takes percentages from 0 to 1 and a positive accuracy")

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        offsets, values = list_parts(states[0])
        running = np.concatenate(([0], np.cumsum(list_parts(states[1])[1].to_numpy(zero_copy_only=False))))
        before, total = running[offsets[:-1]], running[offsets[1:]] - running[offsets[:-1]]
        columns = []
        for share in self._shares:
            place = np.searchsorted(running, before + np.maximum(np.ceil(share * total), 1), side="left") - 1
            columns.append(values.take(pa.array(place, mask=total == 0)))
        return arranged(columns, total, self)

    def _limited(self, owner: Ints, chosen: Ints, weight: Ints) -> tuple[Ints, Ints, Ints]:
        """In groups over the limit, merge neighbours into about half as many as the limit; the last value stands for
        all.
        """
        if not len(owner) or np.bincount(owner).max() <= self._limit:
            return owner, chosen, weight
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
