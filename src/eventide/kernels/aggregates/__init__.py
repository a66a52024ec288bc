from eventide.kernels.aggregates.base import Aggregate, AggregateSpec
from eventide.kernels.aggregates.partial import Aggregation
from eventide.kernels.aggregates.registry import SUPPORTED, build_aggregate

__all__ = ["SUPPORTED", "Aggregate", "AggregateSpec", "Aggregation", "build_aggregate"]
