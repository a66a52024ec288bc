"""Where the event time of rows is that tasks decode: one rule, whatever they read."""

from __future__ import annotations

from eventide.errors import EngineError
from eventide.eventtime.registry import CustomParser, event_time_types
from eventide.plan.logical import Source
from eventide.plan.physical import Fusion
from eventide.tasks.fused_scan import Resolution


def resolution_of(source: Source, fusion: Fusion) -> Resolution:
    if fusion.time is None or source.event_time is None:
        return Resolution(fusion.time, None, source.max_future_skew)
    parser = event_time_types.resolve(source.event_time.type)
    if isinstance(parser, CustomParser):
        raise EngineError(f"source {source.name}: a custom event-time type cannot be fused")
    return Resolution(fusion.time, parser, source.max_future_skew)
