"""What an expression of a plan means, whatever it is called on its way: written over the columns of the source.

Two texts of a stream can then be compared by meaning, and state that was kept under one is found again under the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import sqlglot
from sqlglot import expressions as exp

from eventide.plan.logical import Explode, Filter, Lookup
from eventide.plan.names import quoted
from eventide.plan.physical import AggregateWindows, Input, OverRows, PackedAggregate, Physical

_Definitions = Mapping[str, exp.Expression]  # by the name of a column, in lower case


def key_identities(physical: Physical) -> tuple[str, ...]:
    """What each key of the operator means, in order."""
    numbers = range(len(physical.inputs[0].keys))
    return tuple(_of_all(physical, [input.keys[number].sql for input in physical.inputs]) for number in numbers)


def aggregate_identities(physical: Physical) -> dict[str, str]:
    """What each aggregate means, by its name in the plan; equal texts mean the same state."""
    calls = physical.operator.aggregates if isinstance(physical.operator, AggregateWindows | OverRows) else ()
    return {call.name: _aggregate(physical, call) for call in calls}


def time_identities(physical: Physical) -> tuple[str | None, ...]:
    """What the query itself says the event time is, for each input."""
    return tuple(None if input.time is None else resolved(input, input.time) for input in physical.inputs)


def column_identities(physical: Physical, side: int) -> dict[str, str]:
    """What each column of a side's rows means, by name."""
    inputs = [input for input in physical.inputs if input.side == side]
    return {
        column.name: _together([resolved(input, quoted(column.name)) for input in inputs])
        for column in inputs[0].columns
    }


def resolved(input: Input, sql: str) -> str:
    """An expression over the columns of an input, written over those of its source."""
    return _over(sql, _definitions(input)).sql(dialect="spark")


def _aggregate(physical: Physical, call: PackedAggregate) -> str:
    inputs = [_of_all(physical, [name] * len(physical.inputs)) for name in call.inputs]
    distinct = "distinct " if call.distinct else ""
    returns = "" if call.returns is None else f" returns {call.returns}"
    constants = f"; {', '.join(call.parameters)}" if call.parameters else ""
    return f"{call.function}({distinct}{', '.join(inputs)}{constants}){returns}"


def _of_all(physical: Physical, packed: list[str]) -> str:
    """What a packed column means, given its name in each input."""
    found = [
        resolved(input, next(column.sql for column in input.packed if column.name == name))
        for input, name in zip(physical.inputs, packed, strict=True)
    ]
    return _together(found)


def _together(meanings: list[str]) -> str:
    return meanings[0] if len(set(meanings)) == 1 else " | ".join(meanings)


def _definitions(input: Input) -> _Definitions:
    known: dict[str, exp.Expression] = {}
    for step in input.steps:
        if isinstance(step, Filter):
            continue
        if isinstance(step, Explode):
            made = exp.func("explode", _over(step.sql, known))
            known.update({name.lower(): exp.Dot(this=made.copy(), expression=_name(name)) for name in step.names})
        elif isinstance(step, Lookup):
            found = exp.func("lookup", exp.to_identifier(step.table.name), _over(step.condition, known))
            columns = zip(step.names, step.table.columns, strict=True)
            known.update({name.lower(): exp.Dot(this=found.copy(), expression=_name(c.name)) for name, c in columns})
        else:
            known = {column.name.lower(): _over(column.sql, known) for column in step.columns}
    return known


def _over(sql: str, known: _Definitions) -> exp.Expression:
    """The tree of an expression with each column replaced by what it stands for, and names in one spelling."""

    def replaced(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column):
            return node
        first, *rest = node.parts
        meaning = known.get(first.name.lower(), exp.column(_name(first.name)))
        for part in rest:
            meaning = exp.Dot(this=meaning.copy(), expression=_name(part.name))
        return exp.paren(meaning.copy()) if isinstance(meaning, exp.Binary | exp.Unary) else meaning.copy()

    return _parsed(sql).transform(replaced)


@lru_cache(maxsize=1024)
def _parsed(sql: str) -> exp.Expr:
    """Shared: `transform` works on a copy."""
    return sqlglot.parse_one(sql, dialect="spark")


def _name(name: str) -> exp.Identifier:
    return exp.to_identifier(name.lower(), quoted=False)
