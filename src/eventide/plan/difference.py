"""A stream's meaning as text: what its plan id is made of, and what two plans differ in.

The text leaves out what does not change the results or the state: the stream's own name, sinks, where late rows go,
the number of shards, comments and white space. Its lines are made to be read in a difference.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from eventide.connectors.registry import TABLES, reads
from eventide.eventtime.durations import format_duration
from eventide.plan.joins import AnyTime, Asof, Interval, JoinBound, OverlappingPanes, OverlappingSessions, SameWindow
from eventide.plan.logical import (
    AggregateCall,
    Emit,
    Explode,
    Filter,
    Join,
    Lookup,
    Over,
    Project,
    Query,
    Rank,
    Relation,
    Scan,
    Source,
    Stream,
    StreamOptions,
    Union,
    WindowAggregate,
)
from eventide.plan.modes import FILTERED, IGNORE_NULLS, LatePolicy, RankFunction
from eventide.plan.names import without_owner
from eventide.plan.reads import sources_below
from eventide.plan.windows import (
    Calendar,
    CalendarUnit,
    Cumulate,
    Frame,
    Hop,
    LagFrame,
    RangeFrame,
    Session,
    Slide,
    Tumble,
    Unbounded,
    Window,
)

# Connector options that say which data is read; the others say how, and may change under a running stream.
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def canonical(stream: Stream) -> str:
    """The meaning of a stream, one fact a line."""
    return "\n".join([*_query(stream.query, stream.emit), *_options(stream.options), *_relations(stream.query)])


def difference(old: str, new: str) -> str:
    """What two canonical texts differ in: '-' before lines of the old one, '+' before those of the new one."""
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))
    changed = [f"  {line[0]} {line[1:]}" for line in lines[2:] if not line.startswith("@@")]
    return "\n".join(changed) if changed else "  no difference"


def window_text(window: Window) -> str:
    """`tumble size 10s`: a window in human durations."""
    match window:
        case Tumble():
            text = f"tumble size {format_duration(window.size)}"
        case Hop():
            text = f"hop size {format_duration(window.size)} slide {format_duration(window.slide)}"
        case Cumulate():
            text = f"cumulate size {format_duration(window.size)} step {format_duration(window.step)}"
        case Calendar():
            first = f", weeks from {_DAYS[window.first_day]}" if window.unit is CalendarUnit.WEEK else ""
            return f"calendar {window.count} {window.unit.value} of {window.zone}{first}"
        case Session():
            return f"session gap {format_duration(window.gap)}"
        case Slide():
            ahead = "" if window.lookahead is None else f" lookahead {format_duration(window.lookahead)}"
            return f"slide lookback {format_duration(window.lookback)}{ahead}"
        case Unbounded():
            return "none" if window.ttl is None else f"none, groups kept for {format_duration(window.ttl)}"
    return f"{text} offset {format_duration(window.offset)}" if window.offset else text


def explode_text(step: Explode) -> str:
    """`explode items as item`."""
    function = f"{'pos' if step.position else ''}explode{' outer' if step.outer else ''}"
    return f"{function} {step.sql} as {', '.join(step.names)}"


def lookup_text(step: Lookup) -> str:
    """`left join table customers on ...`."""
    return f"{'left join' if step.outer else 'join'} table {step.table.name} on {step.condition}"


def emit_text(emit: Emit) -> str:
    """`on window close, allowed lateness 1m`."""
    every = f" {format_duration(emit.every)}" if emit.every is not None else ""
    return f"{emit.mode.value}{every}, allowed lateness {format_duration(emit.allowed_lateness)}"


def join_emit_text(bound: JoinBound, at_close: bool, emit: Emit) -> str:
    """`as soon as a pair is certain, allowed lateness 0s`."""
    when = emit.mode.value if at_close or isinstance(bound, AnyTime) else "as soon as a pair is certain"
    return f"{when}, allowed lateness {format_duration(emit.allowed_lateness)}"


def call_text(call: AggregateCall) -> str:
    """The call as Spark SQL over the columns of the query's input."""
    if call.function == "count" and not call.inputs:
        return "count(1)"
    inputs, suffix = call.inputs, ""
    if FILTERED in call.parameters:
        inputs, suffix = inputs[:-1], f" FILTER (WHERE {inputs[-1]})"
    if IGNORE_NULLS in call.parameters:
        suffix += " IGNORE NULLS"
    constants = [parameter for parameter in call.parameters if parameter not in (FILTERED, IGNORE_NULLS)]
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{', '.join([*inputs, *constants])}){suffix}"


def _returns(call: AggregateCall) -> str:
    return "" if call.returns is None else f" returns {call.returns}"


def bound_text(bound: JoinBound) -> str:
    """`interval -10s to 1m`: what makes two rows meet, in human durations."""
    match bound:
        case SameWindow():
            return window_text(bound.window)
        case OverlappingPanes():
            return f"{window_text(bound.left)} and {window_text(bound.right)}"
        case OverlappingSessions():
            return f"session gap {format_duration(bound.gap)}"
        case Interval():
            return f"interval {_signed(bound.lower)} to {_signed(bound.upper)}"
        case Asof():
            strict = ", not at the same time" if bound.strict else ""
            within = "" if bound.tolerance is None else f", within {format_duration(bound.tolerance)}"
            return f"asof {bound.which.value}{strict}{within}"
        case AnyTime():
            return "at any time" if bound.ttl is None else f"at any time, rows kept for {format_duration(bound.ttl)}"


def _signed(duration: int) -> str:
    return f"-{format_duration(-duration)}" if duration < 0 else format_duration(duration)


def _query(query: Query, emit: Emit) -> Iterator[str]:
    if isinstance(query, Join):
        yield from _join(query, emit)
        return
    if isinstance(query, Rank):
        yield from _rank(query, emit)
        return
    if isinstance(query, Over):
        yield from _over(query)
        return
    if isinstance(query, WindowAggregate):
        yield f"window: {window_text(query.window)}"
        yield f"emit: {emit_text(emit)}"
        yield from (f"key: {key.sql} as {key.name}" for key in query.keys)
        yield from (f"aggregate {call.name}: {call_text(call)}{_returns(call)}" for call in query.aggregates)
        if query.having is not None:
            yield f"having: {query.having}"
    else:
        yield f"forward: {'in event-time order' if query.ordered else 'as rows come'}"
        if query.window is not None:
            yield f"once for every window: {window_text(query.window)}"
        if query.where is not None:
            yield f"where: {query.where}"
    if query.time is not None:
        yield f"event time: {query.time}"
    if query.changes is not None:
        yield f"changes by: {query.changes}"
    yield from (f"output: {output.sql} as {output.name}" for output in query.outputs)
    yield from (f"input column: {column.name}{' ' + column.type if column.type else ''}" for column in query.columns)


def _join(query: Join, emit: Emit) -> Iterator[str]:
    yield f"join: {query.kind.value}, {bound_text(query.bound)}"
    yield f"emit: {join_emit_text(query.bound, query.at_close, emit)}"
    for left, right, null_safe in zip(query.left.keys, query.right.keys, query.null_safe, strict=True):
        yield f"key: {left} {'<=>' if null_safe else '='} {right}"
    if query.condition is not None:
        yield f"condition: {query.condition}"
    if query.where is not None:
        yield f"where: {query.where}"
    yield from (f"output: {output.sql} as {output.name}" for output in query.outputs)
    for side, name in ((query.left, "left"), (query.right, "right")):
        if side.time is not None:
            yield f"{name} event time: {side.time}"
        if side.changes is not None:
            yield f"{name} changes by: {side.changes}"
        yield from (f"{name} column: {c.name}{' ' + c.type if c.type else ''}" for c in side.columns)


def rank_text(function: RankFunction, partition: Iterable[str], order: Iterable[tuple[str, bool]]) -> str:
    """`row_number by window_end, in the order of t descending`."""
    by = ", ".join(partition) or "nothing"
    in_order = ", ".join(f"{sql} descending" if descending else sql for sql, descending in order)
    return f"{function.value} by {by}, in the order of {in_order}"


def _rank(query: Rank, emit: Emit) -> Iterator[str]:
    order = [(item.sql, item.descending) for item in query.order]
    yield f"place: {rank_text(query.function, query.partition, order)}"
    yield from (f"nulls: {'first' if item.nulls_first else 'last'}" for item in query.order)
    yield f"emit: {emit_text(emit)}"
    if query.window is not None:
        first = "last" if query.latest_first else "first"
        yield f"window: {window_text(query.window)}; of equal rows the {first} to come"
        if query.time is not None:
            yield f"event time: {query.time}"
    if not query.windowed:
        ttl = "" if query.ttl is None else f", partitions kept for {format_duration(query.ttl)}"
        yield f"window: none{ttl}; of equal rows the {'last' if query.latest_first else 'first'} to come"
    if query.changes is not None:
        yield f"changes by: {query.changes}"
    if query.where is not None:
        yield f"where: {query.where}"
    yield from (f"output: {output.sql} as {output.name}" for output in query.outputs)
    yield from (f"input column: {c.name}{' ' + c.type if c.type else ''}" for c in query.columns)


def frame_text(frame: Frame) -> str:
    """`range of 1m before`"""
    if frame.preceding is None:
        return "everything before"
    if isinstance(frame, RangeFrame):
        return f"range of {format_duration(frame.preceding)} before"
    if isinstance(frame, LagFrame):
        return f"row {frame.preceding} before"
    return f"{frame.preceding} rows before"


def _over(query: Over) -> Iterator[str]:
    kept = "" if query.ttl is None else f", kept for {format_duration(query.ttl)}"
    peers = ", with all of the same time" if isinstance(query.frame, RangeFrame) else ""
    yield f"over: {frame_text(query.frame)}{peers}{kept}, by {', '.join(query.partition) or 'nothing'}"
    for item in query.order:
        nulls = "first" if item.nulls_first else "last"
        yield f"order: {item.sql}{' descending' if item.descending else ''}, nulls {nulls}, as a change log"
    if query.changes is not None:
        yield f"changes by: {query.changes}"
    yield from (f"aggregate {call.name}: {call_text(call)}{_returns(call)}" for call in query.aggregates)
    if query.time is not None:
        yield f"event time: {query.time}"
    if query.where is not None:
        yield f"where: {query.where}"
    yield from (f"output: {output.sql} as {output.name}" for output in query.outputs)
    yield from (f"input column: {c.name}{' ' + c.type if c.type else ''}" for c in query.columns)


def _relations(query: Query) -> Iterator[str]:
    if not isinstance(query, Join):
        yield from _relation(query.input, "")
        return
    for side in (query.left, query.right):
        yield from _relation(side.input, "")


def _options(options: StreamOptions) -> Iterator[str]:
    if options.late_policy is not LatePolicy.WINDOW:
        within = "" if options.max_lateness is None else f" within {format_duration(options.max_lateness)}"
        yield f"late policy: {options.late_policy.value}{within}"
    if options.max_groups is not None:
        yield f"max groups: {options.max_groups}"
    if not options.event_time:
        yield "time: processing time"
    if options.checked_sums:
        yield "sums: checked"


def _relation(relation: Relation, indent: str) -> Iterator[str]:
    deeper = indent + "  "
    match relation:
        case Scan():
            lag = relation.watermark_lag if relation.watermark_lag is not None else relation.source.watermark_lag
            yield f"{indent}scan {without_owner(relation.source.name)} watermark lag {format_duration(lag or 0)}"
            yield from (f"{deeper}{line}" for line in _source(relation.source))
        case Filter():
            yield f"{indent}filter {relation.condition}"
            yield from _relation(relation.input, deeper)
        case Project():
            yield f"{indent}project " + ", ".join(f"{column.sql} as {column.name}" for column in relation.columns)
            yield from _relation(relation.input, deeper)
        case Explode():
            yield f"{indent}{explode_text(relation)}"
            yield from _relation(relation.input, deeper)
        case Lookup():
            yield f"{indent}{lookup_text(relation)}"
            yield from (f"{deeper}{line}" for line in _table(relation))
            yield from _relation(relation.input, deeper)
        case Union():
            # a source's ids were compared with those of all others before release 0.2: that is another meaning
            own_ids = any(source.dedup is not None for source in sources_below(relation))
            yield f"{indent}union all{', ids compared within each source' if own_ids else ''}"
            for part in relation.inputs:
                yield from _relation(part, deeper)


def _table(step: Lookup) -> Iterator[str]:
    table = step.table
    yield f"connector {table.connector}"
    yield from (
        f"{name} {table.options[name]}" for name in TABLES[table.connector].identifying if name in table.options
    )
    columns = zip(table.columns, step.names, strict=True)
    yield from (f"column {column.name} {column.type} as {name}" for column, name in columns)


def _source(source: Source) -> Iterator[str]:
    yield f"connector {source.connector}"
    yield from (
        f"{name} {source.options[name]}" for name in reads(source.connector).identifying if name in source.options
    )
    if (
        "target_latency" in source.options and source.connector == "files"
    ):  # its value may change, but the log of what was read is another one
        yield "batches sized by a target latency"
    yield from (f"column {column.name} {column.type}{_metadata(source, column.name)}" for column in source.columns)
    for time in source.messages or ((source.event_time,) if source.event_time is not None else ()):
        yield f"event time {time.column} type {time.type}"
    if source.watermark_sql is not None:
        yield f"watermark {source.watermark_sql}"
    if source.refuses_empty_rows:
        yield "empty rows are errors"
    if source.dedup is not None:
        yield f"deduplicate by {', '.join(source.dedup.columns)} within {format_duration(source.dedup.within)}"


def _metadata(source: Source, column: str) -> str:
    return f" metadata {source.metadata[column]}" if column in source.metadata else ""
