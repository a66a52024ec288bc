from eventide.kernels.aggregates.base import Aggregate, AggregateSpec
from eventide.kernels.aggregates.partial import Aggregation
from eventide.kernels.aggregates.registry import OF_NUMBERS, SUPPORTED, aggregates, build_aggregate
from eventide.kernels.aggregates.user import UserAggregate

__all__ = [
    "OF_NUMBERS",
    "SUPPORTED",
    "Aggregate",
    "AggregateSpec",
    "Aggregation",
    "UserAggregate",
    "aggregates",
    "build_aggregate",
]
