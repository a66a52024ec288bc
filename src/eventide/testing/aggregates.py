"""Aggregates over the list of a window's rows: count, sum, min, max, avg, and the same over DISTINCT values; first and
last by event time.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eventide.plan.physical import PackedAggregate
from eventide.testing.expressions import unsupported


def result(call: PackedAggregate, rows: Sequence[Mapping[str, Any]], times: Sequence[int]) -> Any:
    """The result of the call over rows of packed columns, with their times; rows with a NULL input are left out."""
    if call.function in ("first", "last") and not call.parameters:
        return _chosen(call, [row[call.inputs[0]] for row in rows], times)
    if call.function not in _FUNCTIONS:
        raise unsupported(f"the aggregate {call.function}")
    inputs = [tuple(row[name] for name in call.inputs) for row in rows]
    known = [values for values in inputs if None not in values]
    if call.distinct:
        known = list({frozen(values): values for values in known}.values())
    if call.function == "count":
        return len(known)
    return _FUNCTIONS[call.function]([values[0] for values in known]) if known else None


def _chosen(call: PackedAggregate, values: Sequence[Any], times: Sequence[int]) -> Any:
    """The value of the first or last row; of several at the same time the least or the largest, NULL being less."""
    turn = sorted(zip(times, values, strict=True), key=lambda row: (row[0], row[1] is not None, _known(row[1])))
    return turn[0 if call.function == "first" else -1][1] if turn else None


def _known(value: Any) -> Any:
    return 0 if value is None else rank(value)


def frozen(value: Any) -> Any:
    """A value that can be a dictionary key, equal for what Spark puts into the same group: NaN is NaN, -0.0 is 0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, Mapping):
        return tuple((name, frozen(item)) for name, item in value.items())
    return value


def rank(value: Any) -> Any:
    """Sorts as Spark does: NaN above all numbers, text by its bytes."""
    if isinstance(value, str):
        return value.encode()
    return (math.isnan(value), value) if isinstance(value, float) else value


def average(values: list[Any]) -> Any:
    if not isinstance(values[0], decimal.Decimal):
        return float(sum(values)) / len(values)
    digits = -max(value.as_tuple().exponent for value in values)
    with decimal.localcontext(prec=60):
        return (sum(values) / len(values)).quantize(decimal.Decimal(1).scaleb(-digits - 4), decimal.ROUND_HALF_UP)


_FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": sum,
    "min": lambda values: min(values, key=rank),
    "max": lambda values: max(values, key=rank),
    "avg": average,
    "bool_and": all,
    "bool_or": any,
}
