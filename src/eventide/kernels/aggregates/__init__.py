from eventide.kernels.aggregates.base import Aggregate, AggregateSpec
from eventide.kernels.aggregates.partial import Aggregation
from eventide.kernels.aggregates.registry import (
    INSTEAD_OF_RETRACTING,
    OF_NUMBERS,
    SUPPORTED,
    aggregates,
    build_aggregate,
    can_retract,
)
from eventide.kernels.aggregates.user import UserAggregate

__all__ = [
    "INSTEAD_OF_RETRACTING",
    "OF_NUMBERS",
    "SUPPORTED",
    "Aggregate",
    "AggregateSpec",
    "Aggregation",
    "UserAggregate",
    "aggregates",
    "build_aggregate",
    "can_retract",
]
