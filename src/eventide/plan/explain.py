"""EXPLAIN: the physical plan as a tree, from what leaves the query down to what it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from eventide.admission.options import AdmissionSpec
from eventide.eventtime.durations import format_duration
from eventide.plan.difference import (
    bound_text,
    emit_text,
    explode_text,
    frame_text,
    join_emit_text,
    lookup_text,
    rank_text,
    window_text,
)
from eventide.plan.fusion import Fused, chain, output_stages, pack_stages
from eventide.plan.logical import Explode, Filter, Lookup, Named, Step, Table
from eventide.plan.modes import LatePolicy
from eventide.plan.physical import (
    AggregateWindows,
    EventTimeWatermark,
    ForwardRows,
    Input,
    JoinRows,
    OverRows,
    Physical,
    RankRows,
)
from eventide.plan.stream_source import IS_LATE, STREAM, is_stream
from eventide.plan.trigger import Trigger


@dataclass
class Node:
    """A line of the tree, facts about it, and what feeds it.

    `stage` is what figures go by: `route`, `output`, `operator`, and with the name of an input `pack`, `watermark` and
    `scan`. `stream` is set where the plan of a stream begins.
    """

    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    stage: str | None = None
    stream: str | None = None


@dataclass(frozen=True)
class Known:
    """What is known beside a plan. `read` gives the plan of a stream that is read, which then stands under the input
    that reads it; `fused` what a stream that was compiled runs as one.
    """

    read: Callable[[str], Physical | None] = lambda stream: None
    fused: Callable[[str], Fused | None] = lambda stream: None


def explain(physical: Physical, *, analyzed: Mapping[str, str] | None = None, known: Known | None = None) -> str:
    """The plan as text. `analyzed` gives Spark's type of an output, a packed column or an aggregate by its name."""
    return "\n".join(_lines(explained(physical, analyzed=analyzed, known=known), "", ""))


def explained(physical: Physical, *, analyzed: Mapping[str, str] | None = None, known: Known | None = None) -> Node:
    """The plan as a tree."""
    return _stream(physical, analyzed or {}, known or Known())


def _stream(physical: Physical, types: Mapping[str, str], known: Known) -> Node:
    fused = known.fused(physical.stream.name)
    finish, operator = _finish(physical, types, fused), _operator(physical, types)
    finish.inputs = [operator]
    operator.inputs = [
        _input(physical, number, types, known, fused or Fused(((),) * len(physical.inputs)))
        for number in range(len(physical.inputs))
    ]
    name = physical.stream.name
    facts = [("plan", physical.plan_id)]
    if physical.options.trigger != Trigger():
        facts.append(("trigger", str(physical.options.trigger)))
    return Node(f"Stream {name}", facts, [_route(physical, finish)], "stream", name)


def _route(physical: Physical, below: Node) -> Node:
    stream = physical.stream
    late = stream.emit.late_to
    facts = [("main", stream.name), ("late", f"{stream.name}$late" + (f", also as {late}" if late else ""))]
    return Node("Route", facts, [below], "route")


def _finish(physical: Physical, types: Mapping[str, str], fused: Fused | None) -> Node:
    clause = "where" if isinstance(physical.operator, JoinRows) else "having"
    facts = [(clause, physical.having)] if physical.having is not None else []
    facts.append(("columns", _columns(physical.outputs, types)))
    if fused is not None and fused.outputs_by_spark is not None:
        facts.append(("not fused", fused.outputs_by_spark))
    elif fused is not None:
        facts.append(("fused", f"{chain(output_stages(physical))}, in the task of a shard"))
    return Node("Output", facts, stage="output")


def _operator(physical: Physical, types: Mapping[str, str]) -> Node:
    facts: list[tuple[str, str]] = []
    match physical.operator:
        case ForwardRows(ordered=ordered, window=window):
            title = "Forward in event-time order" if ordered else "Forward as rows come"
            title += "" if window is None else f", once for every window: {window_text(window)}"
        case AggregateWindows(window=window, aggregates=aggregates):
            title = f"Window {window_text(window)}"
            keys = physical.inputs[0].keys
            facts.append(("emit", emit_text(physical.emit)))
            facts.append(("keys", ", ".join(_aliased(key.sql, key.name) for key in keys) or "none: one group"))
            facts += [("aggregate", f"{call.name} = {call.sql}{_typed(call.name, types)}") for call in aggregates]
        case JoinRows():
            title, facts = _join(physical, physical.operator)
        case RankRows(function=function, order=order):
            partition = [key.name for key in physical.inputs[0].keys]
            title = f"Place by {rank_text(function, partition, [(key.column, key.descending) for key in order])}"
            told, window = physical.operator.told, physical.operator.window
            if window is not None:
                title += f", in every window: {window_text(window)}"
                facts.append(("emit", emit_text(physical.emit)))
            if told is not None:
                facts.append(("places", f"{told.first} to {told.last}, every change told"))
                facts += [] if told.ttl is None else [("partitions kept for", format_duration(told.ttl))]
        case OverRows(frame=frame, aggregates=aggregates, ttl=ttl):
            by = ", ".join(key.name for key in physical.inputs[0].keys) or "nothing"
            title = f"Running aggregates over {frame_text(frame)}, by {by}"
            facts += [("aggregate", f"{call.name} = {call.sql}{_typed(call.name, types)}") for call in aggregates]
            facts += [] if ttl is None else [("kept for", format_duration(ttl))]
    policy = physical.options.late_policy
    if policy is not LatePolicy.WINDOW:
        within = (
            "" if physical.options.max_lateness is None else f" within {format_duration(physical.options.max_lateness)}"
        )
        facts.append(("late policy", f"{policy.value}{within}"))
    if physical.options.max_groups is not None:
        facts.append(("max groups", str(physical.options.max_groups)))
    if physical.options.checked_sums:
        facts.append(("sums", "a sum that BIGINT cannot hold is an error"))
    if physical.options.keep is not None:
        keep = physical.options.keep
        facts.append(("results kept", f"for {format_duration(keep)}" if keep else "until they are read"))
    return Node(title, facts, stage="operator")


def _join(physical: Physical, join: JoinRows) -> tuple[str, list[tuple[str, str]]]:
    left, right = (next(input for input in physical.inputs if input.side == side) for side in (0, 1))
    keys = [
        f"{one.name} {'<=>' if null_safe else '='} {other.name}"
        for one, other, null_safe in zip(left.keys, right.keys, join.null_safe, strict=True)
    ]
    facts = [
        ("emit", join_emit_text(join.bound, join.at_close, physical.emit)),
        ("keys", ", ".join(keys) or "none: every row meets every row"),
    ]
    if join.condition is not None:
        facts.append(("condition", join.condition))
    facts += [("left", _pair_columns(join.left, left)), ("right", _pair_columns(join.right, right))]
    return f"Join {join.kind.value}, {bound_text(join.bound)}", facts


def _pair_columns(columns: tuple[Named, ...], input: Input) -> str:
    """`__l0 = id, __l1 = amount`: what the columns of a pair are called by the user."""
    names = {column.sql: column.name for column in input.originals}
    return ", ".join(f"{column.name} = {names[column.sql]}" for column in columns) or "no columns"


def _input(physical: Physical, number: int, types: Mapping[str, str], known: Known, fused: Fused) -> Node:
    input = physical.inputs[number]
    shards = "" if physical.options.shards is None else f" in {physical.options.shards} shards"
    by = ", ".join(key.sql for key in input.keys)
    side = f" the {('left', 'right')[input.side]} side" if isinstance(physical.operator, JoinRows) else ""
    title = f"Pack and shuffle{side}{shards}" + (f" by {by}" if by else "")
    facts = [] if input.changes is None else [("change log", f"{input.changes} says which rows are taken back")]
    facts += [("column", f"{column.name} = {column.sql}{_typed(column.name, types)}") for column in input.packed]
    return Node(title, facts, [_watermark(physical, number, known, fused)], f"pack {input.source.name}")


def _watermark(physical: Physical, number: int, known: Known, fused: Fused) -> Node:
    input = physical.inputs[number]
    below = _source(input, known, fused.further[number], fused.shares_scan(number))
    for step in input.steps:
        below = _step(step, below)
    stage = f"watermark {input.source.name}"
    if isinstance(input.watermark, EventTimeWatermark) and input.watermark.told:
        return Node("Watermark of the stream", [("rule", "told with its batches")], [below], stage)
    if isinstance(input.watermark, EventTimeWatermark):
        rule = f"max(event time) - {format_duration(input.watermark.lag)}"
        if input.watermark.by_partition:
            rule += ", the least of all partitions, told when their batch has ended"
        if len(physical.inputs) > 1:
            rule += ", the least of all sources"
        if input.source.admission is not None and input.source.admission.needs_history:
            rule += ", of admitted rows, told when their batch has ended"
        facts = [("event time", input.watermark.time), ("rule", rule)]
        return Node(f"Watermark lag {format_duration(input.watermark.lag)}", facts, [below], stage)
    rule = "the event time of a row is when its batch began"
    return Node("Watermark of processing time", [("rule", rule)], [below], stage)


def _step(step: Step, below: Node) -> Node:
    if isinstance(step, Explode):
        return Node(_title(explode_text(step)), inputs=[below])
    if isinstance(step, Lookup):
        return Node(_title(lookup_text(step)), _table_facts(step.table), [below])
    if isinstance(step, Filter):
        return Node(f"Filter {step.condition}", inputs=[below])
    return Node(f"Project {_columns(step.columns, {})}", inputs=[below])


def _title(text: str) -> str:
    return text[0].upper() + text[1:]


def _table_facts(table: Table) -> list[tuple[str, str]]:
    facts = [("columns", ", ".join(f"{column.name} {column.type}" for column in table.columns))]
    facts += [(name, value) for name, value in sorted(table.options.items())]
    refresh = "only by REFRESH TABLE" if table.refresh is None else f"every {format_duration(table.refresh)}"
    return [*facts, ("read anew", refresh)]


def _source(input: Input, known: Known, further: tuple[str, ...], shares_scan: bool) -> Node:
    source = input.source
    if is_stream(source):
        below = known.read(source.options[STREAM])
        what = f"Late rows of {source.options[STREAM]}" if IS_LATE in source.options else f"Rows of {source.name}"
        facts = [("columns", ", ".join(column.name for column in source.columns))]
        return Node(what, facts, [] if below is None else [_stream(below, {}, known)], f"scan {source.name}")
    facts = [("columns", ", ".join(f"{column.name} {column.type}" for column in source.columns))]
    facts += [(name, value) for name, value in sorted(source.options.items())]
    if source.dedup is not None:
        facts.append(
            ("deduplicate", f"by {', '.join(source.dedup.columns)} within {format_duration(source.dedup.within)}")
        )
    if source.idle_timeout is not None:
        facts.append(("idle after", format_duration(source.idle_timeout)))
    facts.append(("max future skew", format_duration(source.max_future_skew)))
    if source.refuses_empty_rows:
        facts.append(("empty rows", "errors"))
    if source.admission is not None and source.admission.sla.limits_anything:
        facts.append(("admits", source.admission.sla.describe()))
    facts += _load(source.admission)
    stages = (*pack_stages(input), *further)
    if input.fusion is not None:
        facts.append(("fused", f"{chain(stages)}, in the task that reads; the shuffle ends it"))
        if shares_scan:
            facts.append(("read once", f"with the other inputs of {source.name}"))
    elif input.not_fused is not None:
        facts.append(("not fused", input.not_fused))
    if input.fusion is None and len(stages) > 1:
        handed = "rows" if input.decoding is None else "lines"
        facts.append(("fused", f"{chain(stages)}, in the task that Spark hands {handed} to; the shuffle ends it"))
    return Node(f"Scan {source.name} ({source.connector})", facts, stage=f"scan {source.name}")


def _load(spec: AdmissionSpec | None) -> list[tuple[str, str]]:
    """What becomes of a source under load."""
    if spec is None or spec.shed is None:
        return []
    target = format_duration(spec.shed.target_latency)
    if spec.throttles:
        return [("throttled", f"takes what batches of {target} can work off; writers wait")]
    if not spec.sheds:
        return [("sheds", "nothing")]
    first = spec.priority_sql or spec.priority.word
    return [("sheds", f"{spec.shed.mode.value} when batches last longer than {target}; priority {first}")]


def _columns(columns: tuple[Named, ...], types: Mapping[str, str]) -> str:
    return ", ".join(_aliased(column.sql, column.name) + _typed(column.name, types) for column in columns)


def _aliased(sql: str, name: str) -> str:
    return sql if sql == name else f"{sql} AS {name}"


def _typed(name: str, types: Mapping[str, str]) -> str:
    return f": {types[name]}" if name in types else ""


def _lines(node: Node, first: str, rest: str) -> list[str]:
    lines = [first + node.title]
    bar = "│ " if node.inputs else "  "
    lines += [f"{rest}{bar}  {name}: {value}" for name, value in node.facts]
    for number, below in enumerate(node.inputs):
        last = number == len(node.inputs) - 1
        lines += _lines(below, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
    return lines
