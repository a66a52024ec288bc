"""count, sum, avg, min, max, bool_and, bool_or: what pyarrow's hash aggregation folds directly."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.aggregates.base import Aggregate, AggregateSpec
from eventide.kernels.vector.columns import typed
from eventide.kernels.vector.grouping import Reduction

WIDE_SUM = pa.decimal128(38, 0)  # of integers, where none may get lost
_SURE_TO_FIT = 28  # the most digits a decimal can have for ten billion of them to add up within 38 digits


class Count(Aggregate):
    """Rows in which no input is NULL; all rows for count(*)."""

    empty = 0

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(),)

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        if not inputs or all(values.null_count == 0 for values in inputs):
            return [Reduction("count_all")]
        if len(inputs) == 1:
            return [Reduction("count", inputs[0])]
        known = reduce(pc.and_, [values.is_valid() for values in inputs])
        return [Reduction("sum", known.cast(pa.int64()))]

    def merge_plan(self, states: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction("sum", states[0])]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return typed(states[0], self.spec.result_type)


class Sum(Aggregate):
    """Integers as bigint, wrapping around on overflow as in Spark without ANSI mode, or as a decimal if that is the
    result type; floats as double; decimals exact to 38 digits, NULL where the result type cannot hold the sum.
    """

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        kind = self.spec.input_types[0]
        return (WIDE_SUM if self._is_wide else sum_type(kind),)

    @property
    def _is_wide(self) -> bool:
        return bool(self.spec.result_type == WIDE_SUM and pa.types.is_integer(self.spec.input_types[0]))

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction("sum", typed(inputs[0], WIDE_SUM) if self._is_wide else summable(inputs[0]))]

    def merge_plan(self, states: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction("sum", states[0])]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return fitted(states[0], self.spec.result_type)


class Average(Aggregate):
    """Sum and count; numbers in double, decimals and intervals exact and rounded half up to the result type."""

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        kind = self.spec.input_types[0]
        return (sum_type(kind) if exact(kind) else pa.float64(), pa.int64())

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        values = inputs[0] if exact(inputs[0].type) else typed(inputs[0], pa.float64())
        return [Reduction("sum", summable(values)), Reduction("count", inputs[0])]

    def merge_plan(self, states: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction("sum", states[0]), Reduction("sum", states[1])]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        total, count = states
        if pa.types.is_duration(self.spec.result_type):
            return _rounded_quotients(total, count).cast(self.spec.result_type)
        if not pa.types.is_decimal(total.type):
            return typed(pc.divide(total, count.cast(pa.float64())), self.spec.result_type)
        if pa.types.is_decimal256(total.type):
            return fitted(_wide_quotients(total, count, self.spec.result_type.scale), self.spec.result_type)
        # Arrow's quotient has 21 more digits than `total`, truncated, so rounding it half up is like rounding the true
        # one.
        known = pc.if_else(pc.greater(count, 0), count, 1).cast(pa.decimal256(20, 0))
        quotient = pc.divide(total.cast(pa.decimal256(38, total.type.scale)), known)
        return fitted(
            pc.round(quotient, self.spec.result_type.scale, round_mode="half_towards_infinity"), self.spec.result_type
        )


class Extreme(Aggregate):
    """min or max. Floats and intervals are kept as integers in the same order, with NaN above all numbers as in
    Spark.
    """

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._kind = spec.input_types[0]

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.int64() if ordinal(self._kind) else self._kind,)

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction(self.spec.function, to_ordinal(inputs[0]) if ordinal(self._kind) else inputs[0])]

    def merge_plan(self, states: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction(self.spec.function, states[0])]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        values = from_ordinal(states[0], self._kind) if ordinal(self._kind) else states[0]
        return typed(values, self.spec.result_type)


class Truth(Aggregate):
    """bool_and (every) and bool_or (some, any)."""

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._reduction = "all" if spec.function in ("bool_and", "every") else "any"

    @property
    def state(self) -> tuple[pa.DataType, ...]:
        return (pa.bool_(),)

    def fold_plan(self, inputs: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction(self._reduction, inputs[0])]

    def merge_plan(self, states: Sequence[pa.Array]) -> list[Reduction]:
        return [Reduction(self._reduction, states[0])]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        return states[0]


def exact(kind: pa.DataType) -> bool:
    """Whether sums of this kind have no rounding errors and averages are rounded once."""
    return bool(pa.types.is_decimal(kind) or pa.types.is_duration(kind))


def _rounded_quotients(total: pa.Array, count: pa.Array) -> pa.Array:
    """Divides integers, rounding half away from zero; NULL where the divisor is zero."""
    whole, counts = (
        np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), np.int64) for values in (total, count)
    )
    quotient, rest = np.divmod(np.abs(whole), np.maximum(counts, 1))
    return pa.array(np.sign(whole) * (quotient + (2 * rest >= np.maximum(counts, 1))), pa.int64(), mask=counts == 0)


def _wide_quotients(total: pa.Array, count: pa.Array, scale: int) -> pa.Array:
    """Divides decimals too wide for Arrow one by one, rounding half up to `scale`."""
    with decimal.localcontext(prec=100, rounding=decimal.ROUND_HALF_UP):
        unit = decimal.Decimal(1).scaleb(-scale)
        pairs = zip(total.to_pylist(), count.to_pylist(), strict=True)
        return pa.array(
            [None if whole is None else (whole / number).quantize(unit) for whole, number in pairs],
            pa.decimal256(76, scale),
        )


def sum_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values of `kind` are summed: one wide enough for the sum."""
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale) if kind.precision <= _SURE_TO_FIT else pa.decimal256(76, kind.scale)
    if pa.types.is_duration(kind):
        return pa.int64()
    return pa.int64() if pa.types.is_integer(kind) else pa.float64()


def summable(values: pa.Array) -> pa.Array:
    return typed(values, sum_type(values.type))


def fitted(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values in the wanted type; a decimal that does not fit is NULL, as in Spark without ANSI mode."""
    if values.type == wanted:
        return values
    if pa.types.is_decimal(wanted):
        wide = pa.decimal256(76, values.type.scale)
        fits = pc.less(
            pc.abs(values).cast(wide), pa.scalar(decimal.Decimal(10) ** (wanted.precision - wanted.scale), wide)
        )
        values = pc.if_else(fits, values, pa.scalar(None, values.type))
    return typed(values, wanted)


def ordinal(kind: pa.DataType) -> bool:
    """Whether min and max work on integers that stand for the values."""
    return bool(pa.types.is_floating(kind) or pa.types.is_duration(kind))


def to_ordinal(values: pa.Array) -> pa.Array:
    """int64 in the same order as the values: the bits of a double, with those of negative values flipped."""
    if pa.types.is_duration(values.type):
        return values.cast(pa.int64())
    plain = values.fill_null(0).cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
    plain[np.isnan(plain)] = np.nan
    bits = plain.view(np.int64)
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(_turned(bits), pa.int64(), mask=mask)


def from_ordinal(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_duration(kind):
        return values.cast(kind)
    bits = values.fill_null(0).to_numpy(zero_copy_only=False)
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(_turned(bits).view(np.float64), pa.float64(), mask=mask).cast(kind)


def _turned(bits: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
