"""Which expressions of a plan can make much of little: where memory runs out, one of them may be why."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import expressions as exp
from sqlglot.errors import ParseError

from eventide.plan.logical import Explode, Filter, Lookup
from eventide.plan.physical import JoinRows, Physical
from eventide.tasks.scalars import parsed

# Functions whose result may be much larger than what they take.
_GROWING = frozenset(
    "sequence generate_series repeat array_repeat lpad rpad space concat array_join explode split transform".split()
)


def growing(physical: Physical) -> list[str]:
    """The expressions that call a function whose result may be large; all that call any, if there is none."""
    calls = {sql: _called(sql) for sql in _expressions(physical)}
    grow = [sql for sql, names in calls.items() if names & _GROWING]
    return grow or [sql for sql, names in calls.items() if names]


def _expressions(physical: Physical) -> Iterator[str]:
    for input in physical.inputs:
        for step in input.steps:
            if isinstance(step, Filter | Lookup):
                yield step.condition
            elif isinstance(step, Explode):
                yield step.sql
            else:
                yield from (column.sql for column in step.columns)
        yield from (column.sql for column in input.packed)
        if input.time is not None:
            yield input.time
    if isinstance(physical.operator, JoinRows) and physical.operator.condition is not None:
        yield physical.operator.condition
    if physical.having is not None:
        yield physical.having
    yield from (column.sql for column in physical.outputs)


def _called(sql: str) -> set[str]:
    """The functions that an expression calls, by the names that SQL has for them."""
    try:
        tree = parsed(sql)
    except ParseError:
        return set()
    found = set()
    for call in tree.find_all(exp.Func):
        found.add(call.name.lower() if isinstance(call, exp.Anonymous) else call.sql_name().lower())
    return found - {"and", "or", "cast", "case"}
