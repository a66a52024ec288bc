"""ROW_NUMBER, RANK and DENSE_RANK with OVER: the place of each row among those of its window."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from eventide.errors import SqlError
from eventide.plan.logical import Named, Rank, SortItem
from eventide.plan.modes import EmitMode, RankFunction
from eventide.plan.names import quoted
from eventide.plan.places import PLACE, names_place, places_of
from eventide.plan.stream_source import WINDOW_TIME
from eventide.sql.change_logs import above_changes
from eventide.sql.cursor import Cursor
from eventide.sql.event_times import carried_time
from eventide.sql.relations import project
from eventide.sql.scope import (
    Scope,
    columns_of,
    duplicate,
    resolve,
    rewrite,
    single_reference,
)
from eventide.sql.shape import has_over
from eventide.sql.syntax import EmitNode, SelectItem, SelectNode
from eventide.sql.tokens import Span, split_commas, word

_FUNCTIONS = {function.value.upper(): function for function in RankFunction}
_HELP = "write ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS place"


@dataclass(frozen=True)
class _Over:
    function: RankFunction
    partition: tuple[Span, ...]
    order: tuple[Span, ...]
    span: Span


def lower_rank(select: SelectNode, scope: Scope, emit: EmitNode, state_ttl: int | None) -> Rank:
    """The places of rows: of windows when these have closed, else as a change log, kept for `state_ttl`."""
    overs = [_read_over(item) for item in select.items if not item.star and has_over(item.expression)]
    if len(overs) > 1:
        raise overs[1].span.error(
            "one SELECT puts its rows into one order", "ask for the other place in another stream"
        )
    over = overs[0]
    problem = _not_of_windows(over, scope) if scope.window is None else None
    if scope.window is not None:
        _check_partition(over, scope)
    windowed = problem is None
    if problem is not None and not emit.is_inner and emit.mode is not EmitMode.CHANGES:
        raise problem
    above = scope if windowed else above_changes(scope)
    outputs: list[Named] = []
    for item in select.items:
        if not item.star and has_over(item.expression):
            outputs.append(Named(item.alias or over.function.value, PLACE))
        else:
            outputs += project(above, (item,)).outputs
        twice = duplicate([output.name for output in outputs])
        if twice is not None:
            raise item.expression.error(f"two columns are called {twice}", "give one of them another name with AS")
    return Rank(
        scope.relation,
        scope.logical_columns(),
        over.function,
        tuple(rewrite(part, columns_of(scope)) for part in over.partition if _bound(part, scope) is None),
        tuple(sort_item(part, scope) for part in over.order),
        tuple(outputs),
        where=scope.where,
        time=carried_time(scope),
        windowed=windowed,
        latest_first=(not windowed or scope.window is not None) and _is_latest_first(over, scope),
        ttl=None if windowed else state_ttl,
        changes=scope.changes,
        window=scope.window,
    )


def _bound(part: Span, scope: Scope) -> str | None:
    """The column of the scope's own window that a part of PARTITION BY is, if it is one."""
    reference = single_reference(part)
    found = None if reference is None else resolve(scope, reference)
    return found[0].name.lower() if found is not None and found[0].is_made else None


def _check_partition(over: _Over, scope: Scope) -> None:
    """Rows that a table function puts into windows are ranked within these."""
    names = {_bound(part, scope) for part in over.partition}
    if not {"window_start", "window_end"} <= names and WINDOW_TIME not in names:
        raise over.span.error("rows of different windows cannot be ranked together", _HELP)
    if scope.op is not None:
        raise over.span.error(
            "rows of this change log can be taken back, also when their window has closed",
            "rank the rows that it comes from, or leave the window out and write EMIT CHANGES",
        )


def check_places(query: Rank, select: SelectNode) -> None:
    """A ranking without a window tells of some places only."""
    if query.windowed or places_of(query.where) is not None:
        return
    if query.where is not None and names_place(query.where):
        raise select.span.error(
            "which places are wanted must be plain to see",
            "write WHERE place <= 10, place = 1 or place BETWEEN 2 AND 5",
        )
    raise select.span.error(
        "without a window every row would be told anew whenever one comes before it",
        "say in the SELECT around it which places are wanted, as in WHERE place <= 10",
    )


def _read_over(item: SelectItem) -> _Over:
    """`FUNCTION() OVER (PARTITION BY ... ORDER BY ...)`, and nothing around it."""
    span = item.expression
    cursor = Cursor(span)
    first = cursor.next()
    function = _FUNCTIONS.get(word(first))
    if function is None:
        raise span.error(
            f"{first.text} with OVER is not supported",
            "ROW_NUMBER(), RANK() and DENSE_RANK() are; for sums over rows around each row use slidingwindow('ss', 10)",
        )
    if cursor.parenthesized("nothing") is not None:
        raise span.error(f"{function.value.upper()} takes no argument", _HELP)
    cursor.expect("OVER", help=_HELP)
    inside = cursor.parenthesized("PARTITION BY ... ORDER BY ...")
    if inside is None or cursor.peek() is not None:
        raise span.error("the place of a row is a select item of its own", f"{_HELP}, and compute around it")
    return _Over(function, *_clauses(inside), span)


def _clauses(inside: Span) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    cursor = Cursor(inside)
    partition: list[Span] = []
    if cursor.accept("PARTITION BY"):
        partition = list(split_commas(cursor.until(lambda at: at.at_words("ORDER BY"), "columns")))
    if not cursor.accept("ORDER BY"):
        raise inside.error("a place needs an order", _HELP)
    order = list(split_commas(cursor.until(lambda at: at.at_words("ROWS") or at.at_words("RANGE"), "columns")))
    if cursor.peek() is not None:
        raise cursor.error("a place has no frame", "leave ROWS or RANGE out")
    return tuple(partition), tuple(order)


def _is_latest_first(over: _Over, scope: Scope) -> bool:
    """Whether rows are ordered by their time alone, the last first: then of several at that time the last to come."""
    first = sort_item(over.order[0], scope)
    times = [quoted(column.name) for column in scope.columns if column.is_event_time]
    return len(over.order) == 1 and first.descending and first.sql in times


def _not_of_windows(over: _Over, scope: Scope) -> SqlError | None:
    """The error if rows shall be those of windows, ranked within theirs: a place is certain when that has closed."""
    names = set()
    for part in over.partition:
        reference = single_reference(part)
        found = None if reference is None else resolve(scope, reference)
        if found is not None and found[0].of_stream:
            names.add(found[0].name.lower())
    has_windows = any(column.name == WINDOW_TIME and column.of_stream for column in scope.columns)
    if not has_windows or scope.op is not None:
        return over.span.error(
            "the place of a row is certain only when its window has closed, and these rows are not those of windows",
            "add EMIT CHANGES to be told of every change; or group by a window in a subquery, and rank its rows: "
            "SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS place FROM (...)",
        )
    if not {"window_start", "window_end"} <= names and WINDOW_TIME not in names:
        help = f"{_HELP}; or add EMIT CHANGES to be told of every change"
        return over.span.error("rows of different windows cannot be ranked together", help)
    return None


def sort_item(span: Span, scope: Scope) -> SortItem:
    tokens, nulls_first = span.tokens, None
    if len(tokens) > 2 and word(tokens[-2]) == "NULLS" and word(tokens[-1]) in ("FIRST", "LAST"):
        nulls_first, span = word(tokens[-1]) == "FIRST", span.part(0, len(tokens) - 2)
    descending = word(span.tokens[-1]) == "DESC" or span.tokens[-1].token_type == TokenType.DESC
    if descending or word(span.tokens[-1]) == "ASC":
        span = span.part(0, len(span.tokens) - 1)
    sql = rewrite(span, columns_of(scope))
    return SortItem(sql, descending, (not descending) if nulls_first is None else nulls_first)
