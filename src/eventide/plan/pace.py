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


def pace_with_load(source: Source) -> int | None:
    """The same where nothing else bounds a batch. Of a source of which rows are shed, too, it takes what it can work
    off: so there is soon another order, and rows that are never shed do not wait for a long batch.
    """
    own, spec = pace_of(source), source.admission
    if own is not None or spec is None or spec.shed is None or not spec.sheds:
        return own
    return spec.shed.target_latency
