"""EXISTS and IN with a subquery in WHERE: semi and anti joins, written as conditions.

What the subquery says of the rows around it becomes the condition of the join, the bound in time included; the rest of
its WHERE stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from eventide.errors import SqlError
from eventide.plan.modes import JoinKind
from eventide.sql.conjuncts import conjuncts
from eventide.sql.cursor import Cursor
from eventide.sql.scope import references
from eventide.sql.shape import keeps_state
from eventide.sql.syntax import (
    FromNode,
    JoinNode,
    QueryNode,
    SelectItem,
    SelectNode,
    SubqueryRef,
    TableRef,
    WindowTable,
)
from eventide.sql.tokens import Span, closing, is_close, is_open, split_commas, word

_ALONE = "connect it to other conditions by AND alone, or join the streams with LEFT JOIN"
_SUBQUERY = "__subquery"  # what a subquery is called that has no name of its own


@dataclass(frozen=True, eq=False)
class _Condition:
    """[NOT] EXISTS (query), or values [NOT] IN (query)."""

    span: Span
    query: Span  # with its parentheses
    kind: JoinKind
    values: tuple[Span, ...] = ()


def with_subqueries(select: SelectNode, parse: Callable[[Cursor], QueryNode]) -> SelectNode:
    """The SELECT with a join for every such condition; `parse` reads a query in parentheses."""
    if select.where is None or all(word(token) != "SELECT" for token in select.where.tokens):
        return select
    parts = conjuncts(select.where)
    found = [(part, _read(part)) for part in parts]
    source = select.source
    for part, condition in found:
        if condition is not None:
            source = _joined(source, condition, parse(Cursor(condition.query)))
        elif any(word(token) == "SELECT" for token in part.tokens):
            raise part.error("EXISTS and IN with a subquery are conditions of their own", _ALONE)
    return replace(select, source=source, where=_all_of(select.where, [part for part, made in found if made is None]))


def _all_of(where: Span, parts: list[Span]) -> Span | None:
    """The conditions that are left, connected by the AND of `where`."""
    if not parts:
        return None
    connecting = next((token for token in where.tokens if word(token) == "AND"), None)
    tokens = list(parts[0].tokens)
    for part in parts[1:]:
        tokens += [*([] if connecting is None else [connecting]), *part.tokens]
    return Span(where.sql, tuple(tokens))


def _read(part: Span) -> _Condition | None:
    tokens = part.tokens
    negated = word(tokens[0]) == "NOT"
    first = 1 if negated else 0
    kind = JoinKind.ANTI if negated else JoinKind.SEMI
    if len(tokens) > first + 1 and word(tokens[first]) == "EXISTS" and _is_query(part, first + 1):
        return _Condition(part, part.part(first + 1, len(tokens)), kind)
    depth = 0
    for index, token in enumerate(tokens):
        if word(token) == "IN" and depth == 0 and _is_query(part, index + 1):
            is_not_in = word(tokens[index - 1]) == "NOT"
            if negated and is_not_in:
                raise part.error("NOT and NOT IN together mean IN", "write IN (SELECT ...)")
            kind = JoinKind.ANTI if is_not_in else kind
            values = _values(part.part(first, index - 1 if is_not_in else index))
            return _Condition(part, part.part(index + 1, len(tokens)), kind, values)
        depth += is_open(token) - is_close(token)
    return None


def _is_query(part: Span, index: int) -> bool:
    tokens = part.tokens
    if index + 1 >= len(tokens) or not is_open(tokens[index]) or word(tokens[index + 1]) not in ("SELECT", "WITH"):
        return False
    return closing(part, index) == len(tokens) - 1


def _values(span: Span) -> tuple[Span, ...]:
    is_list = is_open(span.tokens[0]) and closing(span, 0) == len(span.tokens) - 1
    return tuple(split_commas(span.part(1, len(span.tokens) - 1))) if is_list else (span,)


def _joined(left: FromNode, condition: _Condition, query: QueryNode) -> JoinNode:
    select = query.selects[0]
    names = _qualifiers(left)
    keys: tuple[Span | str, ...]
    is_plain = len(query.selects) == 1 and not keeps_state(select) and isinstance(select.source, TableRef | SubqueryRef)
    if not is_plain:
        right: FromNode = SubqueryRef(query, condition.query, alias=_SUBQUERY)
        on, keys = None, tuple(_name(item) for item in select.items)
    else:
        own, about_both = _sorted(select, names)
        on = None if select.where is None else _all_of(select.where, about_both)
        right = _right(select, condition, own)
        keys = tuple(item.expression for item in select.items)
    if condition.values and (len(keys) != len(condition.values) or any(item.star for item in select.items)):
        raise condition.query.error(
            f"the subquery gives {len(keys)} columns, and {len(condition.values)} are compared with it",
            "name the columns in its SELECT",
        )
    equal = tuple(zip(condition.values, keys, strict=False)) if condition.values else ()
    if on is None and not equal:
        raise condition.span.error(
            "nothing says which rows of the subquery belong to a row", "compare columns, as in WHERE r.k = l.k"
        )
    return JoinNode(left, right, condition.kind, condition.span, condition.span, on=on, equal=equal)


def _right(select: SelectNode, condition: _Condition, own: list[Span]) -> FromNode:
    """What the subquery reads, with the conditions that are about that alone."""
    source = select.source
    if not isinstance(source, TableRef | SubqueryRef):
        return source
    if not own or select.where is None:
        return source
    everything = SelectItem(condition.query, star=True)
    filtered = SelectNode(select.span, (everything,), source, _all_of(select.where, own), watermark=select.watermark)
    name = source.alias or (source.name if isinstance(source, TableRef) else None)
    return SubqueryRef(QueryNode(select.span, (filtered,)), condition.query, alias=name)


def _sorted(select: SelectNode, outside: set[str]) -> tuple[list[Span], list[Span]]:
    """Conditions that name nothing of the rows outside, and the others. A name alone means a column inside."""
    own: list[Span] = []
    about_both: list[Span] = []
    inside = _qualifiers(select.source)
    for part in [] if select.where is None else conjuncts(select.where):
        named = {reference.parts[0].lower() for reference in references(part) if len(reference.parts) > 1}
        (about_both if named & (outside - inside) else own).append(part)
    return own, about_both


def _qualifiers(node: FromNode) -> set[str]:
    match node:
        case JoinNode():
            return _qualifiers(node.left) | _qualifiers(node.right)
        case WindowTable():
            return {node.alias.lower()} if node.alias is not None else _qualifiers(node.input)
        case TableRef():
            return {(node.alias or node.name).lower()}
        case SubqueryRef():
            return set() if node.alias is None else {node.alias.lower()}


def _name(item: SelectItem) -> str:
    if item.star:
        return "*"
    if item.alias is None and len(item.expression.tokens) not in (1, 3):
        raise _unnamed(item)
    return item.alias or item.expression.tokens[-1].text


def _unnamed(item: SelectItem) -> SqlError:
    return item.expression.error("this has no name", "give it one with AS")
