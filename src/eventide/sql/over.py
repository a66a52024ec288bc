"""Aggregates with OVER: a row for each row, with aggregates over a frame of those before it in event time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import TokenType

from eventide.plan.logical import AggregateCall, Named, Over
from eventide.plan.windows import Frame, RangeFrame, RowsFrame
from eventide.sql.aggregate_calls import HOW_TO_WRITE_OVER, FoundAggregate, find_aggregates, to_plan
from eventide.sql.cursor import Cursor
from eventide.sql.event_times import carried_time
from eventide.sql.relations import project
from eventide.sql.scope import (
    Scope,
    columns_of,
    duplicate,
    references,
    refuse_quoted_columns,
    resolve,
    rewrite,
    single_reference,
    unknown_column,
)
from eventide.sql.shape import has_over
from eventide.sql.syntax import SelectItem, SelectNode
from eventide.sql.tokens import Edit, Span, split_commas, word

_FRAMES = "RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW, or ROWS BETWEEN 10 PRECEDING AND CURRENT ROW"


@dataclass(frozen=True)
class _Window:
    partition: tuple[str, ...]
    frame: Frame


def lower_over(select: SelectNode, scope: Scope, state_ttl: int | None) -> Over:
    if scope.op is not None:
        raise select.span.error(
            "rows of a change log can be taken back, and running aggregates have come out by then",
            "group without OVER, and EMIT CHANGES",
        )
    lowering = _Lowering(scope)
    outputs: list[Named] = []
    for item in select.items:
        if not item.star and has_over(item.expression):
            outputs.append(Named(_name(item), lowering.expression(item.expression)))
        else:
            outputs += project(scope, (item,)).outputs
        twice = duplicate([output.name for output in outputs])
        if twice is not None:
            raise item.expression.error(f"two columns are called {twice}", "give one of them another name with AS")
    window = lowering.window or _Window((), RangeFrame())
    is_bounded = isinstance(window.frame, RangeFrame) and window.frame.preceding is not None
    return Over(
        scope.relation,
        scope.logical_columns(),
        window.partition,
        window.frame,
        tuple(lowering.aggregates),
        tuple(outputs),
        time=carried_time(scope),
        ttl=None if is_bounded else state_ttl,
    )


def _name(item: SelectItem) -> str:
    found = find_aggregates(item.expression)
    if item.alias is None and (len(found) != 1 or len(found[0].span.tokens) != len(item.expression.tokens)):
        raise item.expression.error("this has no name", "give it one with AS")
    return item.alias or found[0].call.name


class _Lowering:
    """The expressions above the frames; collects the aggregates, which all have the same window."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.window: _Window | None = None
        self.aggregates: list[AggregateCall] = []

    def expression(self, span: Span) -> str:
        refuse_quoted_columns(self.scope, span)
        edits = [self._aggregate(found) for found in find_aggregates(span)]
        for index, token in enumerate(span.tokens):
            is_covered = any(edit.start <= token.start < edit.end for edit in edits)
            if word(token) == "OVER" and not is_covered:
                raise span.part(max(index - 3, 0), index + 1).error(
                    "a place and running aggregates cannot be asked for in one SELECT", "put one of them in a subquery"
                )
        lookup = columns_of(self.scope)
        for reference in references(span):
            start, end = reference.places[0][0], reference.places[-1][1]
            if not any(edit.start <= start and end <= edit.end for edit in edits):
                edits.append(lookup(reference))
        return span.render(edits)

    def _aggregate(self, found: FoundAggregate) -> Edit:
        if found.over is None:
            raise found.span.error(
                "an aggregate with OVER and one without cannot be in one SELECT", "group in a subquery"
            )
        window = _read_window(found.over, self.scope)
        if self.window is not None and window != self.window:
            raise found.over.error(
                "all aggregates of a SELECT have the same OVER", "make one stream for each, and join them"
            )
        self.window = window
        planned = to_plan(found, f"__a{len(self.aggregates)}", self._input, over_is_read=True)
        same = [known for known in self.aggregates if replace(known, name=planned.name) == planned]
        if not same:
            self.aggregates.append(planned)
        return Edit(found.span.start, found.span.end, same[0].name if same else planned.name)

    def _input(self, span: Span) -> str:
        return rewrite(span, columns_of(self.scope))


def _read_window(inside: Span, scope: Scope) -> _Window:
    cursor = Cursor(inside)
    partition: list[Span] = []
    if cursor.accept("PARTITION BY"):
        partition = split_commas(cursor.until(lambda at: at.at_words("ORDER BY"), "columns"))
    if not cursor.accept("ORDER BY"):
        raise inside.error("running aggregates need an order", HOW_TO_WRITE_OVER)
    order = cursor.until(lambda at: at.at_words("ROWS") or at.at_words("RANGE"), "the event time")
    _check_order(order, scope)
    frame = _read_frame(cursor) if cursor.peek() is not None else RangeFrame()
    return _Window(tuple(rewrite(part, columns_of(scope)) for part in partition), frame)


def _check_order(order: Span, scope: Scope) -> None:
    """The only order in which rows are certain is that of the event time, ascending."""
    is_ascending = len(order.tokens) > 1 and word(order.tokens[-1]) == "ASC"
    column = order.part(0, len(order.tokens) - 1) if is_ascending else order
    reference = single_reference(column)
    found = None if reference is None else resolve(scope, reference)
    if reference is not None and found is None:
        raise unknown_column(scope, reference)
    if found is None or not found[0].is_event_time:
        known = [candidate.called for candidate in scope.columns if candidate.is_event_time]
        help = f"write ORDER BY {known[0]}" if known else "declare EVENT TIME in the source"
        raise order.error("running aggregates go by the event time, ascending", help)


def _read_frame(cursor: Cursor) -> Frame:
    is_range = cursor.accept("RANGE")
    if not is_range:
        cursor.expect("ROWS", help=f"write {_FRAMES}")
    has_end = cursor.accept("BETWEEN")
    preceding: int | None = None
    if not cursor.accept("UNBOUNDED"):
        preceding = cursor.duration("an interval") if is_range else _count(cursor)
    if cursor.at_words("FOLLOWING"):
        raise _no_following(cursor)
    cursor.expect("PRECEDING", help=f"write {_FRAMES}")
    if has_end:
        cursor.expect("AND", help=f"write {_FRAMES}")
        if not cursor.accept("CURRENT", "ROW"):
            raise _no_following(cursor)
    cursor.end()
    return RangeFrame(preceding) if is_range else RowsFrame(preceding)


def _no_following(cursor: Cursor) -> Exception:
    return cursor.error(
        "a frame ends with the current row", "write AND CURRENT ROW; slidingwindow('ss', 60, 10) looks ahead, too"
    )


def _count(cursor: Cursor) -> int:
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER or not token.text.isdecimal():
        raise cursor.expected("a number of rows", f"write {_FRAMES}")
    return int(cursor.next().text)
