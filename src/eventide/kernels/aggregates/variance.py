"""Variance and standard deviation: count, mean and squared deviations, merged by the formula of Chan, Golub and
LeVeque.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.kernels.aggregates.base import Aggregate, AggregateSpec, present
from eventide.kernels.vector.columns import typed
from eventide.kernels.vector.grouping import Reduction, Segments

POPULATION = frozenset({"var_pop", "stddev_pop"})
_ROOT = frozenset({"stddev", "std", "stddev_samp", "stddev_pop"})
Floats = npt.NDArray[np.float64]


class Spread(Aggregate):
    """var_pop, var_samp, variance, stddev_pop, stddev_samp, stddev, std; NULL for a sample of one, as in Spark."""

    needs_segments = True

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._less = 0 if spec.function in POPULATION else 1

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(), pa.float64(), pa.float64())

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        values = typed(inputs[0], pa.float64())
        return [Reduction("count", values), Reduction("mean", values), Reduction("variance", values)]

    def fold(self, inputs: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        count, mean, variance = (_known(values) for values in reduced)
        return [reduced[0], pa.array(mean), pa.array(variance * count)]

    def merge(self, states: Sequence[pa.Array], reduced: list[pa.Array], segments: Segments | None) -> list[pa.Array]:
        groups = present(segments)
        count, mean, deviation = (_known(values) for values in states)
        total = np.bincount(groups.group, count, groups.count)
        centre = np.bincount(groups.group, count * mean, groups.count) / np.maximum(total, 1)
        apart = count * (mean - centre[groups.group]) ** 2
        return [
            pa.array(total.astype(np.int64)),
            pa.array(centre),
            pa.array(np.bincount(groups.group, deviation + apart, groups.count)),
        ]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        count, deviation = _known(states[0]), _known(states[2])
        variance = deviation / np.maximum(count - self._less, 1)
        result = np.sqrt(variance) if self.spec.function in _ROOT else variance
        return pa.array(result, pa.float64(), mask=count <= self._less)


def _known(values: pa.Array) -> Floats:
    return np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), np.float64)
