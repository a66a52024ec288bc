"""A stream, or its late rows, as something that another stream reads: a source whose rows and watermark it gives."""

from __future__ import annotations

from enum import Enum

from eventide.plan.logical import Column, EventTime, Forward, Join, Query, Rank, Source, Stream, WindowAggregate
from eventide.plan.modes import EmitMode
from eventide.plan.planner import plan_id
from eventide.plan.reads import originals_of, sources_of
from eventide.plan.windows import Unbounded

CONNECTOR = "stream"
STREAM, PLAN, IS_LATE = "stream", "plan", "late"  # its options: which stream, what that means, whether its late rows
ROWTIME_COLUMN, WINDOW_TIME = "rowtime", "window_time"
TIME_COLUMNS = (ROWTIME_COLUMN, WINDOW_TIME)  # columns that no star shows: the event time of a row
OP_COLUMN = "op"  # of a change log: whether the row is added (1) or taken back (-1); no star shows it either
CHANGES = "changes"  # an option, of a change log: what it is one of


class ChangeLog(Enum):
    OF_WINDOWS = "windows"  # a row is added and taken back with the same time, and before its window closes
    AT_ANY_TIME = "rows"  # a row can be taken back whatever the watermark


def stream_source(name: str, stream: Stream, late: bool) -> Source:
    """What `name` gives to those who read it. Types that only Spark knows are "" and filled in when it is opened."""
    columns = _late_columns(stream) if late else [Column(output.name, "") for output in stream.query.outputs]
    times = [ROWTIME_COLUMN]
    if not late and _is_of_windows(stream.query):
        times.append(WINDOW_TIME)
    known = {column.name.lower() for column in columns}
    columns += [Column(time, "timestamp") for time in times if time not in known]
    options = {STREAM: stream.name, PLAN: plan_id(stream), **({IS_LATE: "true"} if late else {})}
    changes = None if late else change_log_of(stream)
    if changes is not None:
        options[CHANGES] = changes.value
        columns += [] if OP_COLUMN in known else [Column(OP_COLUMN, "int")]
    return Source(name, tuple(columns), CONNECTOR, event_time=EventTime(ROWTIME_COLUMN, "spark"), options=options)


def change_log_of(stream: Stream) -> ChangeLog | None:
    """What kind of change log a stream gives, if it gives one."""
    query = stream.query
    if isinstance(query, Forward):
        below = [change_log(source) for source in sources_of(query)] if query.changes is not None else []
        return next((kind for kind in (ChangeLog.AT_ANY_TIME, ChangeLog.OF_WINDOWS) if kind in below), None)
    if stream.emit.mode is not EmitMode.CHANGES:
        return None
    has_window = isinstance(query, WindowAggregate) and not isinstance(query.window, Unbounded)
    return ChangeLog.OF_WINDOWS if has_window else ChangeLog.AT_ANY_TIME


def change_log(source: Source) -> ChangeLog | None:
    """What kind of change log a source is: only streams can be one."""
    kind = source.options.get(CHANGES)
    return None if kind is None or not is_stream(source) else ChangeLog(kind)


def is_stream(source: Source) -> bool:
    return source.connector == CONNECTOR


def _is_of_windows(query: Query) -> bool:
    """Whether rows have the last moment of a window as their time: groups of windows, and what passes them on."""
    if isinstance(query, WindowAggregate):
        return not isinstance(query.window, Unbounded)
    if isinstance(query, Forward | Rank) and query.window is not None:
        return isinstance(query, Rank)
    if isinstance(query, Join) or query.time is not None:
        return False
    return all(Column(WINDOW_TIME, "timestamp") in source.columns for source in sources_of(query))


def _late_columns(stream: Stream) -> list[Column]:
    sides = originals_of(stream.query)
    if not isinstance(stream.query, Join):
        return list(sides[0])
    names = dict.fromkeys(["source", *(column.name for side in sides for column in side)])
    return [Column(name, "") for name in names]
