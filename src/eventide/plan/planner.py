"""From the logical to the physical plan."""

from __future__ import annotations

import hashlib

from eventide.plan.difference import call_text, canonical
from eventide.plan.logical import (
    Explode,
    Filter,
    Named,
    Project,
    Relation,
    Scan,
    Source,
    Step,
    Stream,
    Union,
    WindowAggregate,
)
from eventide.plan.names import quoted
from eventide.plan.physical import Branch, EventTimeWatermark, PackedAggregate, Physical, ProcessTimeWatermark
from eventide.plan.rules import RULES


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
    keys = query.keys if isinstance(query, WindowAggregate) else ()
    aggregates = query.aggregates if isinstance(query, WindowAggregate) else ()
    packed_keys = [Named(f"__k{number}", key.sql) for number, key in enumerate(keys)]
    packed_inputs: list[Named] = []
    packed_aggregates = []
    for call in aggregates:
        names = tuple(f"__i{len(packed_inputs) + number}" for number in range(len(call.inputs)))
        packed_inputs += [Named(name, sql) for name, sql in zip(names, call.inputs, strict=True)]
        packed_aggregates.append(
            PackedAggregate(
                call.name, call.function, names, call.distinct, call.parameters, call_text(call), call.returns
            )
        )
    packed_originals = [Named(f"__o{number}", quoted(column.name)) for number, column in enumerate(query.columns)]
    return Physical(
        stream=stream,
        plan_id=plan_id(stream),
        branches=tuple(_branch(stream, scan, steps) for scan, steps in _flatten(query.input)),
        time=query.time,
        packed=(*packed_keys, *packed_inputs, *packed_originals),
        keys=tuple(Named(key.name, packed.name) for key, packed in zip(keys, packed_keys, strict=True)),
        originals=tuple(
            Named(column.name, packed.name) for column, packed in zip(query.columns, packed_originals, strict=True)
        ),
        aggregates=tuple(packed_aggregates),
        window=query.window if isinstance(query, WindowAggregate) else None,
        ordered=not isinstance(query, WindowAggregate) and query.ordered,
        having=query.having if isinstance(query, WindowAggregate) else None,
        outputs=query.outputs,
        emit=stream.emit,
        options=stream.options,
    )


def _flatten(relation: Relation) -> list[tuple[Scan, tuple[Step, ...]]]:
    """One scan with its steps, innermost first, for every source below a UNION ALL."""
    match relation:
        case Scan():
            return [(relation, ())]
        case Union():
            return [branch for part in relation.inputs for branch in _flatten(part)]
        case Filter() | Project() | Explode():
            return [(scan, (*steps, relation)) for scan, steps in _flatten(relation.input)]


def _branch(stream: Stream, scan: Scan, steps: tuple[Step, ...]) -> Branch:
    source = scan.source
    time = _event_time(stream, source)
    if time is None:
        return Branch(source, steps, ProcessTimeWatermark())
    lag = scan.watermark_lag if scan.watermark_lag is not None else source.watermark_lag
    carried = source.watermark_sql if scan.watermark_lag is None and stream.query.time is None else None
    return Branch(source, steps, EventTimeWatermark(lag or 0, time, carried))


def _event_time(stream: Stream, source: Source) -> str | None:
    """What gives the event time of a source's rows, in words; None for processing time."""
    if not stream.options.event_time:
        return None
    if stream.query.time is not None:
        return stream.query.time
    if source.event_time is None:
        return None
    return ", else ".join(f"{time.column} as {time.type}" for time in source.messages or (source.event_time,))
