"""Which aggregates there are, by name."""

from __future__ import annotations

from collections.abc import Callable

from eventide.errors import OptionError, suggest
from eventide.kernels.aggregates.base import Aggregate, AggregateSpec
from eventide.kernels.aggregates.basic import Average, Count, Extreme, Sum, Truth
from eventide.kernels.aggregates.distinct import CollectSet, Distinct

_BUILDERS: dict[str, Callable[[AggregateSpec], Aggregate]] = {
    "count": Count,
    "sum": Sum,
    "avg": Average,
    "mean": Average,
    "min": Extreme,
    "max": Extreme,
    "bool_and": Truth,
    "every": Truth,
    "bool_or": Truth,
    "some": Truth,
    "any": Truth,
    "collect_set": CollectSet,
}
_REPEATS_ARE_HARMLESS = frozenset({"min", "max", "bool_and", "every", "bool_or", "some", "any", "collect_set"})

SUPPORTED: frozenset[str] = frozenset(_BUILDERS)


def build_aggregate(spec: AggregateSpec) -> Aggregate:
    """The computation for a spec; OptionError names the known functions if there is none."""
    builder = _BUILDERS.get(spec.function)
    if builder is None:
        raise OptionError(f"there is no aggregate {spec.function}", help=suggest(spec.function, SUPPORTED))
    aggregate = builder(spec)
    if not spec.distinct or spec.function in _REPEATS_ARE_HARMLESS:
        return aggregate
    return Distinct(aggregate)
