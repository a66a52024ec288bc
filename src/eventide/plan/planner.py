"""From the logical to the physical plan."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from eventide.connectors.registry import reads
from eventide.errors import SqlError
from eventide.kernels.contract import CHANGES
from eventide.plan.difference import call_text, canonical
from eventide.plan.logical import (
    AggregateCall,
    Column,
    Explode,
    Filter,
    Forward,
    Join,
    JoinSide,
    Lookup,
    Named,
    Over,
    Project,
    Rank,
    Relation,
    Scan,
    Source,
    Step,
    Stream,
    Union,
    WindowAggregate,
)
from eventide.plan.names import quoted
from eventide.plan.physical import (
    AggregateWindows,
    EventTimeWatermark,
    ForwardRows,
    Input,
    JoinRows,
    Operator,
    OverRows,
    PackedAggregate,
    Physical,
    ProcessTimeWatermark,
    RankRows,
    SortColumn,
    ToldPlaces,
)
from eventide.plan.places import names_place, places_of
from eventide.plan.rules import RULES
from eventide.plan.used_columns import columns_in


def plan(stream: Stream) -> Physical:
    """The stages of the streaming query that computes `stream`."""
    physical = _unoptimized(stream)
    for rule in RULES:
        physical = rule(physical)
    return physical


def plan_id(stream: Stream) -> str:
    """32 hex digits that change exactly when the stream means something else."""
    return hashlib.sha256(canonical(stream).encode()).hexdigest()[:32]


def _unoptimized(stream: Stream) -> Physical:
    query = stream.query
    match query:
        case WindowAggregate():
            return _aggregate(stream, query)
        case Forward():
            originals = _originals(query.columns)
            inputs = _inputs(
                stream, query.input, query.columns, query.time, packed=originals, keys=(), changes=query.changes
            )
            return _physical(stream, inputs, ForwardRows(query.ordered, query.window), query.where, query.outputs)
        case Join():
            return _join(stream, query)
        case Rank():
            return _rank(stream, query)
        case Over():
            return _over(stream, query)


def _aggregate(stream: Stream, query: WindowAggregate) -> Physical:
    keys = tuple(Named(f"__k{number}", key.sql) for number, key in enumerate(query.keys))
    packed, calls = _packed_calls(query.aggregates)
    inputs = _inputs(
        stream,
        query.input,
        query.columns,
        query.time,
        packed=(*keys, *packed, *_originals(query.columns)),
        keys=tuple(Named(key.name, packed.name) for key, packed in zip(query.keys, keys, strict=True)),
        changes=query.changes,
    )
    return _physical(stream, inputs, AggregateWindows(query.window, calls), query.having, query.outputs)


def _packed_calls(calls: Iterable[AggregateCall]) -> tuple[list[Named], tuple[PackedAggregate, ...]]:
    """The columns that aggregates take, and the aggregates over them."""
    packed: list[Named] = []
    made = []
    for call in calls:
        names = tuple(f"__i{len(packed) + number}" for number in range(len(call.inputs)))
        packed += [Named(name, sql) for name, sql in zip(names, call.inputs, strict=True)]
        made.append(
            PackedAggregate(
                call.name, call.function, names, call.distinct, call.parameters, call_text(call), call.returns
            )
        )
    return packed, tuple(made)


def _join(stream: Stream, query: Join) -> Physical:
    used = _names_in(query.condition, query.where, *(output.sql for output in query.outputs))
    inputs: tuple[Input, ...] = ()
    columns: list[tuple[Named, ...]] = []
    for number, (side, letter) in enumerate(((query.left, "l"), (query.right, "r"))):
        keys = tuple(Named(f"__k{place}", sql) for place, sql in enumerate(side.keys))
        inputs += _inputs(
            stream,
            side.input,
            side.columns,
            side.time,
            packed=(*keys, *_originals(side.columns)),
            keys=tuple(Named(key.sql, key.name) for key in keys),
            side=number,
            changes=side.changes,
        )
        columns.append(_pair_columns(side, letter, used))
    operator = JoinRows(query.kind, query.bound, query.null_safe, query.condition, query.at_close, *columns)
    return _physical(stream, inputs, operator, query.where, query.outputs)


def _rank(stream: Stream, query: Rank) -> Physical:
    keys = tuple(Named(f"__k{number}", sql) for number, sql in enumerate(query.partition))
    order = tuple(Named(f"__i{number}", item.sql) for number, item in enumerate(query.order))
    inputs = _inputs(
        stream,
        query.input,
        query.columns,
        query.time,
        packed=(*keys, *order, *_originals(query.columns)),
        keys=tuple(Named(key.sql, key.name) for key in keys),
        changes=query.changes,
    )
    columns = tuple(
        SortColumn(column.name, item.descending, item.nulls_first)
        for column, item in zip(order, query.order, strict=True)
    )
    if query.windowed:
        latest_first = query.latest_first and query.window is not None
        ranked = RankRows(query.function, columns, window=query.window, latest_first=latest_first)
        return _physical(stream, inputs, ranked, query.where, query.outputs)
    places = places_of(query.where)
    if places is None:
        raise SqlError("a change log tells of some places only", help="add a condition such as WHERE place <= 10")
    texts = [output.sql for output in query.outputs] + ([] if places.rest is None else [places.rest])
    told = ToldPlaces(
        places.first,
        places.last,
        any(names_place(text) for text in texts),
        _shown(query.columns, query.outputs, places.rest),
        query.latest_first,
        query.ttl,
    )
    return _physical(stream, inputs, RankRows(query.function, columns, told), places.rest, query.outputs)


def _over(stream: Stream, query: Over) -> Physical:
    keys = tuple(Named(f"__k{number}", sql) for number, sql in enumerate(query.partition))
    packed, calls = _packed_calls(query.aggregates)
    order = tuple(Named(f"__i{len(packed) + number}", item.sql) for number, item in enumerate(query.order))
    sorted_by = tuple(
        SortColumn(column.name, item.descending, item.nulls_first)
        for column, item in zip(order, query.order, strict=True)
    )
    inputs = _inputs(
        stream,
        query.input,
        query.columns,
        query.time,
        packed=(*keys, *packed, *order, *_originals(query.columns)),
        keys=tuple(Named(key.sql, key.name) for key in keys),
        changes=query.changes,
    )
    shown = _shown(query.columns, query.outputs, query.where) if order else ()
    operator = OverRows(query.frame, calls, query.ttl, sorted_by, shown)
    return _physical(stream, inputs, operator, query.where, query.outputs)


def _shown(columns: tuple[Column, ...], outputs: tuple[Named, ...], where: str | None) -> tuple[str, ...]:
    """The packed originals that outputs and a condition name."""
    used = columns_in([output.sql for output in outputs] + ([] if where is None else [where]))
    return tuple(f"__o{number}" for number, column in enumerate(columns) if column.name.lower() in used)


def _pair_columns(side: JoinSide, letter: str, used: set[str]) -> tuple[Named, ...]:
    """The columns of one side that a pair has."""
    names = [f"__{letter}{number}" for number in range(len(side.columns))]
    return tuple(Named(name, f"__o{number}") for number, name in enumerate(names) if name in used)


def _names_in(*texts: str | None) -> set[str]:
    """The columns of pairs that some expressions name."""
    return {name for text in texts if text is not None for name in re.findall(r"__[lr]\d+\b", text)}


def _originals(columns: tuple[Column, ...]) -> tuple[Named, ...]:
    return tuple(Named(f"__o{number}", quoted(column.name)) for number, column in enumerate(columns))


def _physical(
    stream: Stream,
    inputs: tuple[Input, ...],
    operator: Operator,
    having: str | None,
    outputs: tuple[Named, ...],
) -> Physical:
    return Physical(stream, plan_id(stream), inputs, operator, having, outputs, stream.emit, stream.options)


def _inputs(
    stream: Stream,
    relation: Relation,
    columns: tuple[Column, ...],
    time: str | None,
    *,
    packed: tuple[Named, ...],
    keys: tuple[Named, ...],
    side: int = 0,
    changes: str | None = None,
) -> tuple[Input, ...]:
    """The inputs that a relation reads: one, or one for each part of a UNION ALL."""
    change = () if changes is None else (Named(f"{CHANGES}0", changes),)
    originals = tuple(Named(column.name, f"__o{number}") for number, column in enumerate(columns))
    return tuple(
        Input(
            scan.source,
            columns,
            steps,
            time,
            _watermark(stream, scan, time),
            (*change, *packed),
            keys,
            originals,
            side,
            change[0].name if change else None,
        )
        for scan, steps in (_named(scan, steps, columns) for scan, steps in _flatten(relation))
    )


def _named(scan: Scan, steps: tuple[Step, ...], columns: tuple[Column, ...]) -> tuple[Scan, tuple[Step, ...]]:
    """With a last step, if need be, that gives the columns the names that the relation has for them."""
    own = [column.name for column in scan.source.columns]
    for step in steps:
        if isinstance(step, Project):
            own = [column.name for column in step.columns]
        elif isinstance(step, Explode | Lookup):
            own += step.names
    wanted = [column.name for column in columns]
    if own == wanted:
        return scan, steps
    renamed = tuple(Named(name, quoted(mine)) for name, mine in zip(wanted, own, strict=True))
    return scan, (*steps, Project(scan, renamed))


def _flatten(relation: Relation) -> list[tuple[Scan, tuple[Step, ...]]]:
    """One scan with its steps, innermost first, for every source below a UNION ALL."""
    match relation:
        case Scan():
            return [(relation, ())]
        case Union():
            return [part for parts in relation.inputs for part in _flatten(parts)]
        case Filter() | Project() | Explode() | Lookup():
            return [(scan, (*steps, relation)) for scan, steps in _flatten(relation.input)]


def _watermark(stream: Stream, scan: Scan, time: str | None) -> EventTimeWatermark | ProcessTimeWatermark:
    source = scan.source
    words = _event_time(stream, source, time)
    if words is None:
        return ProcessTimeWatermark()
    if source.connector == "stream":
        return EventTimeWatermark(0, words, told=True)
    lag = scan.watermark_lag if scan.watermark_lag is not None else source.watermark_lag
    carried = source.watermark_sql if scan.watermark_lag is None and time is None else None
    # which rows are admitted is known only behind the partitions
    by_partition = reads(source.connector).has_partitions and source.admission is None
    return EventTimeWatermark(lag or 0, words, carried, by_partition=by_partition)


def _event_time(stream: Stream, source: Source, time: str | None) -> str | None:
    """What gives the event time of a source's rows, in words; None for processing time."""
    if not stream.options.event_time:
        return None
    if time is not None:
        return time
    if source.event_time is None:
        return None
    return ", else ".join(f"{time.column} as {time.type}" for time in source.messages or (source.event_time,))
