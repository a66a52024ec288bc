"""Places of groups in the SELECT that makes them: rows are grouped below, and ranked above."""

from __future__ import annotations

from dataclasses import replace

from eventide.sql.cursor import is_name
from eventide.sql.over_clauses import OverClauses, find_over, without_direction
from eventide.sql.scope import single_reference
from eventide.sql.shape import aggregates, has_over, ranks
from eventide.sql.syntax import QueryNode, SelectItem, SelectNode, SubqueryRef
from eventide.sql.tokens import Span


def ranked_above(select: SelectNode) -> SelectNode:
    """SELECT ..., ROW_NUMBER() OVER (...) ... GROUP BY ... QUALIFY ... as a SELECT around one that groups."""
    if not aggregates(select) or not ranks(select):
        return select
    spans = [item.expression for item in select.items if not item.star and has_over(item.expression)]
    spans += [] if select.qualify is None else [select.qualify]
    below = [replace(item, alias=_name(item)) for item in select.items if item.star or not has_over(item.expression)]
    known = {item.expression.render(): item.alias for item in below if item.alias is not None}
    aliases = {alias.lower() for alias in known.values()}
    for part in (part for span in spans for clauses in find_over(span) for part in _parts(clauses)):
        reference = single_reference(part)
        if part.render() in known or (reference is not None and reference.parts[-1].lower() in aliases):
            continue
        alias = reference.parts[-1] if reference is not None else f"__q{len(below)}"
        known[part.render()] = alias
        aliases.add(alias.lower())
        below.append(SelectItem(part, alias))
    grouped = replace(select, items=tuple(below), qualify=None)
    items = tuple(item if item.star or has_over(item.expression) else _passed(item) for item in select.items)
    source = SubqueryRef(QueryNode(select.span, (grouped,)), select.span)
    return SelectNode(select.span, items, source, qualify=select.qualify, named=known)


def _parts(clauses: OverClauses) -> list[Span]:
    return [*clauses.partition, *(without_direction(part) for part in clauses.order)]


def _name(item: SelectItem) -> str | None:
    if item.star or item.alias is not None:
        return item.alias
    last = item.expression.tokens[-1]
    is_column = single_reference(item.expression) is not None and is_name(last, item.expression.sql)
    return last.text if is_column else item.expression.render()


def _passed(item: SelectItem) -> SelectItem:
    """A column of what is below, under its own name."""
    name = _name(item)
    return replace(item, alias=name, generated=name)
