"""ROW_NUMBER, RANK and DENSE_RANK with OVER: the place of each row among those of its window."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from eventide.plan.logical import Named, Rank, SortItem
from eventide.plan.modes import RankFunction
from eventide.plan.stream_source import WINDOW_TIME
from eventide.sql.cursor import Cursor
from eventide.sql.event_times import carried_time
from eventide.sql.relations import project
from eventide.sql.scope import Scope, columns_of, duplicate, resolve, rewrite, single_reference
from eventide.sql.shape import has_over
from eventide.sql.syntax import SelectItem, SelectNode
from eventide.sql.tokens import Span, split_commas, word

PLACE = "__place"  # what the operator calls it
_FUNCTIONS = {function.value.upper(): function for function in RankFunction}
_HELP = "write ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS place"


@dataclass(frozen=True)
class _Over:
    function: RankFunction
    partition: tuple[Span, ...]
    order: tuple[Span, ...]
    span: Span


def lower_rank(select: SelectNode, scope: Scope) -> Rank:
    overs = [_read_over(item) for item in select.items if not item.star and has_over(item.expression)]
    if len(overs) > 1:
        raise overs[1].span.error(
            "one SELECT puts its rows into one order", "ask for the other place in another stream"
        )
    over = overs[0]
    _check_partition(over, scope)
    outputs: list[Named] = []
    for item in select.items:
        if not item.star and has_over(item.expression):
            outputs.append(Named(item.alias or over.function.value, PLACE))
        else:
            outputs += project(scope, (item,)).outputs
        twice = duplicate([output.name for output in outputs])
        if twice is not None:
            raise item.expression.error(f"two columns are called {twice}", "give one of them another name with AS")
    return Rank(
        scope.relation,
        scope.logical_columns(),
        over.function,
        tuple(rewrite(part, columns_of(scope)) for part in over.partition),
        tuple(_sort_item(part, scope) for part in over.order),
        tuple(outputs),
        time=carried_time(scope),
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


def _check_partition(over: _Over, scope: Scope) -> None:
    """A place is certain when the window has closed: the rows must be those of windows, ranked within theirs."""
    names = set()
    for part in over.partition:
        reference = single_reference(part)
        found = None if reference is None else resolve(scope, reference)
        if found is not None and found[0].of_stream:
            names.add(found[0].name.lower())
    has_windows = any(column.name == WINDOW_TIME and column.of_stream for column in scope.columns)
    if not has_windows:
        raise over.span.error(
            "the place of a row is certain only when its window has closed, and these rows are not those of windows",
            "group by a window in a subquery, and rank its rows: "
            "SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS place FROM (...)",
        )
    if not {"window_start", "window_end"} <= names and WINDOW_TIME not in names:
        raise over.span.error("rows of different windows cannot be ranked together", _HELP)


def _sort_item(span: Span, scope: Scope) -> SortItem:
    tokens, nulls_first = span.tokens, None
    if len(tokens) > 2 and word(tokens[-2]) == "NULLS" and word(tokens[-1]) in ("FIRST", "LAST"):
        nulls_first, span = word(tokens[-1]) == "FIRST", span.part(0, len(tokens) - 2)
    descending = word(span.tokens[-1]) == "DESC" or span.tokens[-1].token_type == TokenType.DESC
    if descending or word(span.tokens[-1]) == "ASC":
        span = span.part(0, len(span.tokens) - 1)
    sql = rewrite(span, columns_of(scope))
    return SortItem(sql, descending, (not descending) if nulls_first is None else nulls_first)
