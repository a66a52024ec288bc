from eventide.kernels.aggregates.base import Aggregate, AggregateSpec
from eventide.kernels.aggregates.partial import Aggregation
from eventide.kernels.aggregates.registry import OF_NUMBERS, SUPPORTED, build_aggregate, user_aggregates
from eventide.kernels.aggregates.user import UserAggregate

__all__ = ["OF_NUMBERS", "SUPPORTED", "Aggregate", "AggregateSpec", "Aggregation", "UserAggregate", "build_aggregate", "user_aggregates"]
