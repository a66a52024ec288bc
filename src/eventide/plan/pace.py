"""How long a batch of a source should last, where the source can be paced."""

from __future__ import annotations

from eventide.eventtime.durations import parse_duration
from eventide.plan.logical import Source

TARGET = "target_latency"


def pace_of(source: Source) -> int | None:
    """Microseconds; None if batches take all that is there. A source that is throttled has the target of its load."""
    if TARGET in source.options:
        return parse_duration(source.options[TARGET])
    spec = source.admission
    return spec.shed.target_latency if spec is not None and spec.shed is not None and spec.throttles else None
