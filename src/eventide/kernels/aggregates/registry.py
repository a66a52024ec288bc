"""The aggregates by name."""

from __future__ import annotations

from collections.abc import Callable

from eventide.errors import OptionError, suggest
from eventide.kernels.aggregates.base import Aggregate, AggregateSpec
from eventide.kernels.aggregates.basic import Average, Count, Extreme, Sum, Truth
from eventide.kernels.aggregates.begun_late import BegunLate
from eventide.kernels.aggregates.chosen import FIRST, LAST, Chosen
from eventide.kernels.aggregates.collected import CollectList
from eventide.kernels.aggregates.counted import Mode, Percentile
from eventide.kernels.aggregates.distinct import CollectSet, Distinct
from eventide.kernels.aggregates.retractable import Multiset, NetAverage, NetCount, NetSum
from eventide.kernels.aggregates.sketches import ApproxCountDistinct, ApproxPercentile
from eventide.kernels.aggregates.user import UserAggregates, UserDefined
from eventide.kernels.aggregates.variance import Spread
from eventide.kernels.vector.columns import is_nested


def _extreme(spec: AggregateSpec) -> Aggregate:
    return Chosen(spec) if is_nested(spec.input_types[0]) else Extreme(spec)


_BUILDERS: dict[str, Callable[[AggregateSpec], Aggregate]] = {
    "count": Count,
    "sum": Sum,
    **dict.fromkeys(("avg", "mean"), Average),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("bool_and", "every", "bool_or", "some", "any"), Truth),
    **dict.fromkeys(("var_pop", "var_samp", "variance", "stddev", "std", "stddev_pop", "stddev_samp"), Spread),
    **dict.fromkeys((*FIRST, *LAST, "min_by", "max_by"), Chosen),
    "collect_list": CollectList,
    "array_agg": CollectList,
    "collect_set": CollectSet,
    "approx_count_distinct": ApproxCountDistinct,
    **dict.fromkeys(("percentile_approx", "approx_percentile"), ApproxPercentile),
    **dict.fromkeys(("percentile", "median"), Percentile),
    "mode": Mode,
}
_REPEATS_ARE_HARMLESS = frozenset(
    {
        "min",
        "max",
        "bool_and",
        "every",
        "bool_or",
        "some",
        "any",
        "collect_set",
        "approx_count_distinct",
        "min_by",
        "max_by",
        *FIRST,
        *LAST,
    }
)

_SIGNED: dict[str, Callable[[AggregateSpec], Aggregate]] = {
    "count": NetCount,
    "sum": NetSum,
    **dict.fromkeys(("avg", "mean"), NetAverage),
}
# Instead of aggregates from which no row can be taken back.
INSTEAD_OF_RETRACTING = {
    "approx_count_distinct": "count(DISTINCT ...), which is exact",
    **dict.fromkeys(("percentile_approx", "approx_percentile"), "percentile, which is exact"),
    **dict.fromkeys(("collect_list", "array_agg"), "collect_set, which does not depend on an order"),
}

OF_NUMBERS = frozenset(
    name for name, made in _BUILDERS.items() if made in (Sum, Average, Truth, Spread, Percentile, ApproxPercentile)
)  # or booleans, times

SUPPORTED: frozenset[str] = frozenset(_BUILDERS)
aggregates = UserAggregates(SUPPORTED)


def can_retract(function: str) -> bool:
    """Whether rows can be taken back from an aggregate."""
    return function in SUPPORTED and function not in INSTEAD_OF_RETRACTING


def build_retractable(spec: AggregateSpec) -> Aggregate:
    """The computation for a spec over a change log: its last input is the op of each row."""
    return BegunLate(_build_retractable(spec)) if spec.begun_late else _build_retractable(spec)


def _build_retractable(spec: AggregateSpec) -> Aggregate:
    if not can_retract(spec.function):
        instead = INSTEAD_OF_RETRACTING.get(spec.function)
        raise OptionError(f"{spec.function} cannot take rows back", help=instead and f"use {instead}")
    if spec.function in _SIGNED and not spec.distinct:
        return _SIGNED[spec.function](spec)
    repeats = not spec.distinct and spec.function not in _REPEATS_ARE_HARMLESS
    return Multiset(_BUILDERS[spec.function](spec), repeats)


def build_aggregate(spec: AggregateSpec) -> Aggregate:
    """The computation for a spec; OptionError names the known functions if there is none."""
    return BegunLate(_build(spec)) if spec.begun_late else _build(spec)


def _build(spec: AggregateSpec) -> Aggregate:
    if spec.user is not None:
        return Distinct(UserDefined(spec)) if spec.distinct else UserDefined(spec)
    builder = _BUILDERS.get(spec.function)
    if builder is None:
        raise OptionError(f"there is no aggregate {spec.function}", help=suggest(spec.function, SUPPORTED))
    if not spec.distinct or spec.function in _REPEATS_ARE_HARMLESS:
        return builder(spec)
    return CollectSet(spec) if builder is CollectList else Distinct(builder(spec))
