"""What kind of SELECT a SELECT is: whether it groups, and whether it keeps state."""

from __future__ import annotations

from eventide.sql.aggregate_calls import find_aggregates
from eventide.sql.syntax import JoinNode, SelectNode, SubqueryRef
from eventide.sql.tokens import Span, closing, is_open, word


def aggregates(select: SelectNode) -> bool:
    """Whether a query aggregates: by clause, or by an aggregate function in it."""
    if select.group_by or select.having is not None or select.window is not None or select.distinct is not None:
        return True
    spans = [item.expression for item in select.items if not item.star and item.generated is None]
    return any(
        each.over is None and not _is_within_over(each.span, span) for span in spans for each in find_aggregates(span)
    )


def _is_within_over(aggregate: Span, span: Span) -> bool:
    """Whether an aggregate stands in the parentheses of OVER: it is that of a group which is ranked."""
    opened = [
        index + 1
        for index, token in enumerate(span.tokens[:-1])
        if word(token) == "OVER" and is_open(span.tokens[index + 1])
    ]
    return any(span.part(first, closing(span, first) + 1).covers(aggregate.start, aggregate.end) for first in opened)


def ranks(select: SelectNode) -> bool:
    """Whether a SELECT asks for the place of its rows, with OVER."""
    return (_has_over(select) or select.qualify is not None) and not runs(select)


def runs(select: SelectNode) -> bool:
    """Whether a SELECT asks for running aggregates, with OVER."""
    spans = [item.expression for item in select.items if not item.star]
    spans += [] if select.qualify is None else [select.qualify]
    return any(each.over is not None for span in spans for each in find_aggregates(span))


def _has_over(select: SelectNode) -> bool:
    return any(has_over(item.expression) for item in select.items if not item.star)


def has_over(span: Span) -> bool:
    return any(word(token) == "OVER" for token in span.tokens)


def keeps_state(select: SelectNode) -> bool:
    """Whether a SELECT needs an operator of its own; others filter and compute, and are merged into their reader."""
    is_operator = aggregates(select) or select.order_by is not None or isinstance(select.source, JoinNode)
    return is_operator or _has_over(select) or select.qualify is not None


def query_below(select: SelectNode) -> SelectNode | None:
    """The one SELECT that another one, which only filters and computes, reads from a subquery; None if there is none.

    If that keeps state, the two are one operator.
    """
    source = select.source
    if keeps_state(select) or select.watermark is not None or not isinstance(source, SubqueryRef) or source.steps:
        return None
    return source.query.selects[0] if len(source.query.selects) == 1 and source.watermark is None else None


def operator_below(select: SelectNode) -> SelectNode | None:
    """The SELECT that keeps state and is one operator with this one: itself, or one that it reads."""
    if keeps_state(select):
        return select
    below = query_below(select)
    return None if below is None else operator_below(below)
