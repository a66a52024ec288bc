"""Aggregates with OVER: a row for each row, with aggregates over a frame of those before it in event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import TokenType

from eventide.plan.logical import AggregateCall, Named, Over, SortItem
from eventide.plan.modes import EmitMode
from eventide.plan.names import quoted
from eventide.plan.windows import Frame, LagFrame, RangeFrame, RowsFrame
from eventide.sql.aggregate_calls import HOW_TO_WRITE_OVER, RUNNING, FoundAggregate, find_aggregates, to_plan
from eventide.sql.change_logs import above_changes
from eventide.sql.cursor import Cursor
from eventide.sql.event_times import carried_time
from eventide.sql.rank import sort_item
from eventide.sql.relations import Composing, project
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
from eventide.sql.syntax import EmitNode, SelectItem, SelectNode
from eventide.sql.tokens import Edit, Span, split_commas, word

_LAG = "write lag(v) OVER (PARTITION BY k ORDER BY ts), lag(v, 2) or lag(v, 1, 0)"
_FRAMES = "RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW, or ROWS BETWEEN 10 PRECEDING AND CURRENT ROW"


@dataclass(frozen=True)
class _Window:
    partition: tuple[str, ...]
    frame: Frame
    order: tuple[SortItem, ...]  # of a change log; else it is the event time


def lower_over(select: SelectNode, scope: Scope, emit: EmitNode, catalog: Composing) -> Over:
    """Running aggregates: of rows that the watermark has passed; or as a change log, over change logs and with EMIT
    CHANGES. A part of a statement that emits changes is one if it has another order than that of time.
    """
    needs_changes = scope.op is not None or (catalog.tells_changes and not _go_by_time(select, scope))
    is_told = emit.mode is EmitMode.CHANGES or (emit.is_inner and needs_changes)
    if scope.op is not None and not is_told:
        raise select.span.error(
            "rows of a change log can be taken back, and so can running aggregates over them",
            "write EMIT CHANGES at the end",
        )
    lowering, above = _Lowering(scope, is_told, select.named), above_changes(scope) if is_told else scope
    outputs: list[Named] = []
    for item in select.items:
        if not item.star and has_over(item.expression):
            outputs.append(Named(_name(item), lowering.expression(item.expression)))
        else:
            outputs += project(above, (item,)).outputs
        twice = duplicate([output.name for output in outputs])
        if twice is not None:
            raise item.expression.error(f"two columns are called {twice}", "give one of them another name with AS")
    where = None if select.qualify is None else lowering.expression(select.qualify, outputs)
    window = lowering.window or _Window((), RangeFrame(), ())
    is_bounded = not is_told and isinstance(window.frame, RangeFrame) and window.frame.preceding is not None
    return Over(
        scope.relation,
        scope.logical_columns(),
        window.partition,
        window.frame,
        tuple(lowering.aggregates),
        tuple(outputs),
        where=where,
        time=carried_time(scope),
        ttl=None if is_bounded else catalog.state_ttl,
        order=window.order,
        changes=scope.changes,
    )


def _name(item: SelectItem) -> str:
    found = find_aggregates(item.expression)
    if item.alias is None and (len(found) != 1 or len(found[0].span.tokens) != len(item.expression.tokens)):
        raise item.expression.error("this has no name", "give it one with AS")
    return item.alias or found[0].call.name


class _Lowering:
    """The expressions above the frames; collects the aggregates, which all have the same window."""

    def __init__(self, scope: Scope, is_told: bool, named: Mapping[str, str]) -> None:
        self.scope, self.is_told, self.named = scope, is_told, named
        self.window: _Window | None = None
        self.aggregates: list[AggregateCall] = []

    def expression(self, span: Span, outputs: Sequence[Named] = ()) -> str:
        """An expression over the input, the aggregates and, in QUALIFY, what is selected."""
        refuse_quoted_columns(self.scope, span)
        edits = [self._below(found) or self._aggregate(found) for found in find_aggregates(span)]
        for index, token in enumerate(span.tokens):
            is_covered = any(edit.start <= token.start < edit.end for edit in edits)
            if word(token) == "OVER" and not is_covered:
                raise span.part(max(index - 3, 0), index + 1).error(
                    "a place and running aggregates cannot be asked for in one SELECT", "put one of them in a subquery"
                )
        lookup = columns_of(self.scope)
        for reference in references(span):
            start, end = reference.places[0][0], reference.places[-1][1]
            if any(edit.start <= start and end <= edit.end for edit in edits):
                continue
            alias = next(
                (each for each in outputs if [each.name.lower()] == [p.lower() for p in reference.parts]), None
            )
            edits.append(lookup(reference) if alias is None else reference.upto(1, f"({alias.sql})"))
        return span.render(edits)

    def _aggregate(self, found: FoundAggregate) -> Edit:
        if found.over is None:
            raise found.span.error(
                "an aggregate with OVER and one without cannot be in one SELECT", "group in a subquery"
            )
        if found.call.name in RUNNING:
            return self._lag(found, found.over)
        self._set(_read_window(found.over, self.scope, self.is_told), found.over)
        planned = to_plan(found, f"__a{len(self.aggregates)}", self._input, over_is_read=True)
        return Edit(found.span.start, found.span.end, self._named(planned))

    def _below(self, found: FoundAggregate) -> Edit | None:
        """The column that an aggregate is, if a SELECT below has computed it."""
        known = self.named.get(found.span.render())
        return None if known is None else Edit(found.span.start, found.span.end, quoted(known))

    def _lag(self, found: FoundAggregate, over: Span) -> Edit:
        """lag(v[, n[, default]]): the first value of the frame that is one row; without any, NULL or the default."""
        if found.call.name == "lead":
            help = "write lag(v) OVER (...), which looks back; slidingwindow('ss', 60, 10) looks ahead, too"
            raise found.span.error("the row behind a row has not come yet", help)
        if self.is_told:
            raise found.span.error("lag goes by the event time, once that is certain", "leave EMIT CHANGES out")
        parts = split_commas(found.call.arguments)
        if not 1 <= len(parts) <= 3:
            raise found.span.error(f"lag takes 1 to 3 arguments, not {len(parts)}", _LAG)
        count = 1
        if len(parts) > 1:
            text = parts[1].tokens[0].text
            if len(parts[1].tokens) != 1 or not text.isdecimal() or int(text) == 0:
                raise parts[1].error("this is not a number of rows above 0", _LAG)
            count = int(text)
        window = _read_window(over, self.scope, self.is_told)
        if window.frame != RangeFrame():
            raise over.error("lag has no frame", "leave ROWS or RANGE out")
        self._set(replace(window, frame=LagFrame(count)), over)
        value = self._named(AggregateCall(f"__a{len(self.aggregates)}", "first", (self._input(parts[0]),)))
        if len(parts) < 3:
            return Edit(found.span.start, found.span.end, value)
        there = self._named(AggregateCall(f"__a{len(self.aggregates)}", "count", ()))
        sql = f"(CASE WHEN {there} > 0 THEN {value} ELSE {self._input(parts[2])} END)"
        return Edit(found.span.start, found.span.end, sql)

    def _set(self, window: _Window, over: Span) -> None:
        if self.window is not None and window != self.window:
            raise over.error(
                "all aggregates of a SELECT have the same OVER",
                "put one of them in a subquery: "
                "SELECT *, sum(v) OVER (...) AS t FROM (SELECT *, lag(v) OVER (...) AS p FROM s)",
            )
        self.window = window

    def _named(self, planned: AggregateCall) -> str:
        """The name of an aggregate, which is computed once however often it is wanted."""
        same = [known for known in self.aggregates if replace(known, name=planned.name) == planned]
        if not same:
            self.aggregates.append(planned)
        return same[0].name if same else planned.name

    def _input(self, span: Span) -> str:
        return rewrite(span, columns_of(self.scope))


def _parts(inside: Span) -> tuple[list[Span], Span, Cursor]:
    """PARTITION BY, ORDER BY, and what is left for the frame."""
    cursor = Cursor(inside)
    partition: list[Span] = []
    if cursor.accept("PARTITION BY"):
        partition = split_commas(cursor.until(lambda at: at.at_words("ORDER BY"), "columns"))
    if not cursor.accept("ORDER BY"):
        raise inside.error("running aggregates need an order", HOW_TO_WRITE_OVER)
    return partition, cursor.until(lambda at: at.at_words("ROWS") or at.at_words("RANGE"), "the event time"), cursor


def _read_window(inside: Span, scope: Scope, is_told: bool) -> _Window:
    partition, order, cursor = _parts(inside)
    frame = _read_frame(cursor) if cursor.peek() is not None else RangeFrame()
    if not is_told or (isinstance(frame, RangeFrame) and frame.preceding is not None):
        _check_order(order, scope)
    items = tuple(sort_item(part, scope) for part in split_commas(order)) if is_told else ()
    return _Window(tuple(rewrite(part, columns_of(scope)) for part in partition), frame, items)


def _go_by_time(select: SelectNode, scope: Scope) -> bool:
    """Whether all aggregates of a SELECT are over rows in the order of their event time."""
    found = [each.over for item in select.items if not item.star for each in find_aggregates(item.expression)]
    return all(_is_time(_parts(inside)[1], scope) for inside in found if inside is not None)


def _is_time(order: Span, scope: Scope) -> bool:
    """Whether an order is that of the event time, ascending."""
    is_ascending = len(order.tokens) > 1 and word(order.tokens[-1]) == "ASC"
    reference = single_reference(order.part(0, len(order.tokens) - 1) if is_ascending else order)
    found = None if reference is None else resolve(scope, reference)
    if reference is not None and found is None:
        raise unknown_column(scope, reference)
    return found is not None and found[0].is_event_time


def _check_order(order: Span, scope: Scope) -> None:
    """The only order in which rows are certain is that of the event time, ascending."""
    if not _is_time(order, scope):
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
