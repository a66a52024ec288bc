"""A SELECT around a subquery that keeps state: the two are one operator, since the SELECT only filters and computes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from eventide.errors import suggest
from eventide.plan.change_logs import op_of
from eventide.plan.logical import Filter, Forward, Join, Named, Over, Query, Rank, WindowAggregate
from eventide.plan.modes import EmitMode
from eventide.plan.stream_source import OP_COLUMN, TIME_COLUMNS
from eventide.sql.aggregate_calls import refuse_aggregates
from eventide.sql.conjuncts import conjunction
from eventide.sql.naming import name_of_expression
from eventide.sql.scope import Reference, duplicate, references, rewrite
from eventide.sql.syntax import SelectItem, SelectNode, SubqueryRef
from eventide.sql.tokens import Edit

_NAME = re.compile(r"\w+")


def select_above(select: SelectNode, source: SubqueryRef, below: Query, mode: EmitMode) -> Query | None:
    """`below`, which emits in `mode`, with the outputs of `select`, which names the outputs of `below`.

    None if `select` names the time of the rows, which rows have only once they have left an operator.
    """
    if _names_time(select, below):
        return None
    where = None
    if select.where is not None:
        refuse_aggregates(select.where, "WHERE", "filter groups with HAVING")
        where = rewrite(select.where, _Outputs(below.outputs, source.alias, op=op_of(below, mode)))
    outputs = _selected(select.items, below, source.alias, op_of(below, mode))
    match below:
        case Join():
            return replace(below, outputs=outputs, where=_both(below.where, where))
        case WindowAggregate():
            return replace(below, outputs=outputs, having=_both(below.having, where))
        case Rank() | Over():
            return replace(below, outputs=outputs, where=_both(below.where, where))
        case Forward() if below.window is not None:
            return replace(below, outputs=outputs, where=_both(below.where, where))
        case Forward():
            return replace(below, outputs=outputs, input=below.input if where is None else Filter(below.input, where))


def _both(one: str | None, other: str | None) -> str | None:
    return conjunction([condition for condition in (one, other) if condition is not None])


def _names_time(select: SelectNode, below: Query) -> bool:
    known = {output.name.lower() for output in below.outputs}
    spans = [item.expression for item in select.items if not item.star]
    named = [reference for span in (*spans, select.where) if span is not None for reference in references(span)]
    return any(part.lower() in TIME_COLUMNS and part.lower() not in known for each in named for part in each.parts)


def _selected(items: tuple[SelectItem, ...], below: Query, qualifier: str | None, op: str | None) -> tuple[Named, ...]:
    outputs: list[Named] = []
    for item in items:
        known = _Outputs(below.outputs, qualifier, tuple(outputs), op)
        if item.star:
            outputs += known.star(item)
        else:
            name = item.alias or name_of_expression(item.expression, known.name)
            outputs.append(Named(name, rewrite(item.expression, known)))
        twice = duplicate([output.name for output in outputs])
        if twice is not None:
            raise item.expression.error(f"two columns are called {twice}", "give one of them another name with AS")
    return tuple(outputs)


@dataclass(frozen=True)
class _Outputs:
    """The lookup above a subquery: its outputs, the op of a change log, then aliases to the left."""

    below: tuple[Named, ...]
    qualifier: str | None
    aliases: tuple[Named, ...] = ()
    op: str | None = None

    def __call__(self, reference: Reference) -> Edit:
        found = self._find(reference)
        if found is None:
            found = next(
                ((alias, 1) for alias in self.aliases if alias.name.lower() == reference.parts[0].lower()), None
            )
        if found is None:
            raise reference.error(
                f"there is no column {'.'.join(reference.parts)}",
                suggest(reference.parts[-1], [output.name for output in self.below]),
            )
        output, parts = found
        return reference.upto(parts, output.sql if _NAME.fullmatch(output.sql) else f"({output.sql})")

    def name(self, reference: Reference) -> tuple[str, int] | None:
        found = self._find(reference)
        return None if found is None else (found[0].name, found[1])

    def star(self, item: SelectItem) -> list[Named]:
        if item.qualifier is not None and item.qualifier.lower() != (self.qualifier or "").lower():
            raise item.expression.error(f"there is nothing called {item.qualifier} in FROM", "write *")
        names = {output.name.lower() for output in self.below}
        for name in item.excluded:
            if name.lower() not in names:
                raise item.expression.error(f"there is no column {name}", suggest(name, names))
        excluded = {name.lower() for name in item.excluded}
        return [output for output in self.below if output.name.lower() not in excluded]

    def _find(self, reference: Reference) -> tuple[Named, int] | None:
        parts = [part.lower() for part in reference.parts]
        by_name = {output.name.lower(): output for output in self.below}
        if len(parts) > 1 and parts[0] == (self.qualifier or "").lower() and parts[1] in by_name:
            return by_name[parts[1]], 2
        if parts[0] == OP_COLUMN and self.op is not None:
            return by_name.get(OP_COLUMN, Named(OP_COLUMN, self.op)), 1
        return (by_name[parts[0]], 1) if parts[0] in by_name else None
