"""Columns of an input with the same SQL travel to the operator once, whether as key, input or original."""

from __future__ import annotations

from dataclasses import replace

from eventide.kernels.contract import KEY
from eventide.plan.logical import Named
from eventide.plan.physical import (
    AggregateWindows,
    ForwardRows,
    Input,
    JoinRows,
    Operator,
    OverRows,
    Physical,
    RankRows,
)


def share_packed_columns(plan: Physical) -> Physical:
    """Keys keep their names and numbers; inputs and originals that are left are numbered anew without gaps."""
    shared = [_shared(input) for input in plan.inputs]
    by_side = {input.side: renamed for input, renamed in shared}
    return replace(plan, inputs=tuple(input for input, _ in shared), operator=_renamed(plan.operator, by_side))


def _shared(input: Input) -> tuple[Input, dict[str, str]]:
    """The input with each expression once, and the new name of every packed column."""
    by_sql: dict[str, str] = {}
    renamed: dict[str, str] = {}
    packed: list[Named] = []
    counts: dict[str, int] = {}
    for column in input.packed:
        prefix = column.name[:3]
        if column.sql not in by_sql or prefix == KEY:
            name = f"{prefix}{counts.get(prefix, 0)}"
            counts[prefix] = counts.get(prefix, 0) + 1
            by_sql.setdefault(column.sql, name)
            packed.append(Named(name, column.sql))
            renamed[column.name] = name
        else:
            renamed[column.name] = by_sql[column.sql]
    changed = replace(
        input,
        packed=tuple(packed),
        keys=tuple(replace(key, sql=renamed[key.sql]) for key in input.keys),
        originals=tuple(replace(original, sql=renamed[original.sql]) for original in input.originals),
    )
    return changed, renamed


def _renamed(operator: Operator, by_side: dict[int, dict[str, str]]) -> Operator:
    match operator:
        case ForwardRows():
            return operator
        case AggregateWindows() | OverRows():
            calls = [
                replace(call, inputs=tuple(by_side[0][name] for name in call.inputs)) for call in operator.aggregates
            ]
            return replace(operator, aggregates=tuple(calls))
        case RankRows():
            order = [replace(key, column=by_side[0][key.column]) for key in operator.order]
            told = operator.told
            if told is not None:
                told = replace(told, shown=tuple(dict.fromkeys(by_side[0][name] for name in told.shown)))
            return replace(operator, order=tuple(order), told=told)
        case JoinRows():
            left, right = (
                tuple(replace(column, sql=by_side[side][column.sql]) for column in columns)
                for side, columns in ((0, operator.left), (1, operator.right))
            )
            return replace(operator, left=left, right=right)
