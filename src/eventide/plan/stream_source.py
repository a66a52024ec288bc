"""A stream, or its late rows, as something that another stream reads: a source whose rows and watermark it gives."""

from __future__ import annotations

from eventide.plan.logical import Column, EventTime, Join, Query, Source, Stream, WindowAggregate
from eventide.plan.planner import plan_id
from eventide.plan.reads import originals_of, sources_of
from eventide.plan.windows import Unbounded

CONNECTOR = "stream"
STREAM, PLAN, IS_LATE = "stream", "plan", "late"  # its options: which stream, what that means, whether its late rows
ROWTIME_COLUMN, WINDOW_TIME = "rowtime", "window_time"
TIME_COLUMNS = (ROWTIME_COLUMN, WINDOW_TIME)  # columns that no star shows: the event time of a row


def stream_source(name: str, stream: Stream, late: bool) -> Source:
    """What `name` gives to those who read it. Types that only Spark knows are "" and filled in when it is opened."""
    columns = _late_columns(stream) if late else [Column(output.name, "") for output in stream.query.outputs]
    times = [ROWTIME_COLUMN]
    if not late and _is_of_windows(stream.query):
        times.append(WINDOW_TIME)
    known = {column.name.lower() for column in columns}
    columns += [Column(time, "timestamp") for time in times if time not in known]
    options = {STREAM: stream.name, PLAN: plan_id(stream), **({IS_LATE: "true"} if late else {})}
    return Source(name, tuple(columns), CONNECTOR, event_time=EventTime(ROWTIME_COLUMN, "spark"), options=options)


def is_stream(source: Source) -> bool:
    return source.connector == CONNECTOR


def _is_of_windows(query: Query) -> bool:
    """Whether rows have the last moment of a window as their time: groups of windows, and what passes them on."""
    if isinstance(query, WindowAggregate):
        return not isinstance(query.window, Unbounded)
    if isinstance(query, Join) or query.time is not None:
        return False
    return all(Column(WINDOW_TIME, "timestamp") in source.columns for source in sources_of(query))


def _late_columns(stream: Stream) -> list[Column]:
    sides = originals_of(stream.query)
    if not isinstance(stream.query, Join):
        return list(sides[0])
    names = dict.fromkeys(["source", *(column.name for side in sides for column in side)])
    return [Column(name, "") for name in names]
