"""EXPLAIN: the physical plan as a tree, from what leaves the query down to what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventide.eventtime.durations import format_duration
from eventide.plan.difference import emit_text, explode_text, window_text
from eventide.plan.logical import Explode, Filter, LatePolicy, Named, Step
from eventide.plan.physical import Branch, EventTimeWatermark, Physical


@dataclass
class _Node:
    """A line of the tree, facts about it, and what feeds it."""

    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[_Node] = field(default_factory=list)


def explain(physical: Physical, *, analyzed: Mapping[str, str] | None = None) -> str:
    """The plan as text. `analyzed` gives Spark's type of an output, a packed column or an aggregate by its name."""
    types = analyzed or {}
    node = _finish(physical, types)
    node.inputs = [_operator(physical, types)]
    node.inputs[0].inputs = [_pack(physical, types)]
    node.inputs[0].inputs[0].inputs = [_watermark(physical, branch) for branch in physical.branches]
    top = _Node(f"Stream {physical.stream.name}", [("plan", physical.plan_id)], [_route(physical, node)])
    return "\n".join(_lines(top, "", ""))


def _route(physical: Physical, below: _Node) -> _Node:
    stream = physical.stream
    late = stream.emit.late_to
    facts = [("main", stream.name), ("late", f"{stream.name}$late" + (f", also as {late}" if late else ""))]
    return _Node("Route", facts, [below])


def _finish(physical: Physical, types: Mapping[str, str]) -> _Node:
    facts = [("having", physical.having)] if physical.having is not None else []
    return _Node("Output", [*facts, ("columns", _columns(physical.outputs, types))])


def _operator(physical: Physical, types: Mapping[str, str]) -> _Node:
    facts: list[tuple[str, str]] = []
    if physical.window is None:
        title = "Forward in event-time order" if physical.ordered else "Forward as rows come"
    else:
        title = f"Window {window_text(physical.window)}"
        facts.append(("emit", emit_text(physical.emit)))
        facts.append(("keys", ", ".join(_aliased(key.sql, key.name) for key in physical.keys) or "none: one group"))
        facts += [("aggregate", f"{call.name} = {call.sql}{_typed(call.name, types)}") for call in physical.aggregates]
    policy = physical.options.late_policy
    if policy is not LatePolicy.WINDOW:
        within = (
            "" if physical.options.max_lateness is None else f" within {format_duration(physical.options.max_lateness)}"
        )
        facts.append(("late policy", f"{policy.value}{within}"))
    if physical.options.max_groups is not None:
        facts.append(("max groups", str(physical.options.max_groups)))
    return _Node(title, facts)


def _pack(physical: Physical, types: Mapping[str, str]) -> _Node:
    shards = "" if physical.options.shards is None else f" in {physical.options.shards} shards"
    by = ", ".join(key.sql for key in physical.keys)
    title = f"Pack and shuffle{shards}" + (f" by {by}" if by else "")
    return _Node(
        title, [("column", f"{column.name} = {column.sql}{_typed(column.name, types)}") for column in physical.packed]
    )


def _watermark(physical: Physical, branch: Branch) -> _Node:
    below = _source(branch)
    for step in branch.steps:
        below = _step(step, below)
    if isinstance(branch.watermark, EventTimeWatermark):
        rule = f"max(event time) - {format_duration(branch.watermark.lag)}"
        if len(physical.branches) > 1:
            rule += ", the least of all sources"
        facts = [("event time", branch.watermark.time), ("rule", rule)]
        return _Node(f"Watermark lag {format_duration(branch.watermark.lag)}", facts, [below])
    return _Node("Watermark of processing time", [("rule", "the event time of a row is when its batch began")], [below])


def _step(step: Step, below: _Node) -> _Node:
    if isinstance(step, Explode):
        return _Node(explode_text(step).capitalize(), inputs=[below])
    if isinstance(step, Filter):
        return _Node(f"Filter {step.condition}", inputs=[below])
    return _Node(f"Project {_columns(step.columns, {})}", inputs=[below])


def _source(branch: Branch) -> _Node:
    source = branch.source
    facts = [("columns", ", ".join(f"{column.name} {column.type}" for column in source.columns))]
    facts += [(name, value) for name, value in sorted(source.options.items())]
    if source.dedup is not None:
        facts.append(
            ("deduplicate", f"by {', '.join(source.dedup.columns)} within {format_duration(source.dedup.within)}")
        )
    if source.idle_timeout is not None:
        facts.append(("idle after", format_duration(source.idle_timeout)))
    facts.append(("max future skew", format_duration(source.max_future_skew)))
    if branch.fusion is not None:
        facts.append(("fused", "tasks read, decode, filter, project and pack the files by themselves"))
    elif branch.not_fused is not None:
        facts.append(("not fused", branch.not_fused))
    return _Node(f"Scan {source.name} ({source.connector})", facts)


def _columns(columns: tuple[Named, ...], types: Mapping[str, str]) -> str:
    return ", ".join(_aliased(column.sql, column.name) + _typed(column.name, types) for column in columns)


def _aliased(sql: str, name: str) -> str:
    return sql if sql == name else f"{sql} AS {name}"


def _typed(name: str, types: Mapping[str, str]) -> str:
    return f": {types[name]}" if name in types else ""


def _lines(node: _Node, first: str, rest: str) -> list[str]:
    lines = [first + node.title]
    bar = "│ " if node.inputs else "  "
    lines += [f"{rest}{bar}  {name}: {value}" for name, value in node.facts]
    for number, below in enumerate(node.inputs):
        last = number == len(node.inputs) - 1
        lines += _lines(below, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
    return lines
