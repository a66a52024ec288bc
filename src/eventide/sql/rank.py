"""ROW_NUMBER, RANK and DENSE_RANK with OVER: the place of each row among those of its window."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.errors import SqlError
from eventide.plan.logical import Named, Rank, SortItem
from eventide.plan.modes import EmitMode
from eventide.plan.names import quoted
from eventide.plan.places import PLACE, names_place, places_of
from eventide.plan.stream_source import WINDOW_TIME
from eventide.sql.change_logs import above_changes
from eventide.sql.conjuncts import conjunction
from eventide.sql.event_times import carried_time
from eventide.sql.over_clauses import HOW_TO_RANK, OverClauses, find_over, read_direction
from eventide.sql.relations import project
from eventide.sql.scope import (
    Scope,
    columns_of,
    duplicate,
    references,
    resolve,
    rewrite,
    single_reference,
)
from eventide.sql.shape import has_over
from eventide.sql.syntax import EmitNode, SelectNode
from eventide.sql.tokens import Edit, Span


def lower_rank(select: SelectNode, scope: Scope, emit: EmitNode, state_ttl: int | None) -> Rank:
    """The places of rows: of windows when these have closed, else as a change log, kept for `state_ttl`."""
    over = _read_over(select)
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
        tuple(_column(part, scope, select.named) for part in over.partition if _bound(part, scope) is None),
        tuple(sort_item(part, scope, select.named) for part in over.order),
        tuple(outputs),
        where=conjunction([each for each in (scope.where, _qualified(select, scope, outputs)) if each is not None]),
        time=carried_time(scope),
        windowed=windowed,
        latest_first=(not windowed or scope.window is not None) and _is_latest_first(over, scope, select.named),
        ttl=None if windowed else state_ttl,
        changes=scope.changes,
        window=scope.window,
    )


def _bound(part: Span, scope: Scope) -> str | None:
    """The column of the scope's own window that a part of PARTITION BY is, if it is one."""
    reference = single_reference(part)
    found = None if reference is None else resolve(scope, reference)
    return found[0].name.lower() if found is not None and found[0].is_made else None


def _check_partition(over: OverClauses, scope: Scope) -> None:
    """Rows that a table function puts into windows are ranked within these."""
    names = {_bound(part, scope) for part in over.partition}
    if not {"window_start", "window_end"} <= names and WINDOW_TIME not in names:
        raise over.span.error("rows of different windows cannot be ranked together", HOW_TO_RANK)
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


def _read_over(select: SelectNode) -> OverClauses:
    """The one place that a SELECT asks for, in its items or in QUALIFY."""
    found: list[OverClauses] = []
    for item in select.items:
        if item.star or not has_over(item.expression):
            continue
        inside = find_over(item.expression)
        if len(inside) != 1 or len(inside[0].span.tokens) != len(item.expression.tokens):
            raise item.expression.error(
                "the place of a row is a select item of its own", f"{HOW_TO_RANK}, and compute around it"
            )
        found += inside
    if select.qualify is not None:
        found += find_over(select.qualify)
    if not found:
        raise (select.qualify or select.span).error("QUALIFY is about the place of a row", HOW_TO_RANK)
    texts = {each.span.render().lower() for each in found}
    if len(texts) > 1:
        raise found[1].span.error(
            "one SELECT puts its rows into one order", "ask for the other place in another stream"
        )
    return found[0]


def _qualified(select: SelectNode, scope: Scope, outputs: list[Named]) -> str | None:
    """QUALIFY over columns of the input, what is selected, and the place."""
    span = select.qualify
    if span is None:
        return None
    edits = [Edit(each.span.start, each.span.end, PLACE) for each in find_over(span)]
    by_alias = {output.name.lower(): output.sql for output in outputs}
    for reference in references(span):
        start, end = reference.places[0][0], reference.places[-1][1]
        if any(edit.start <= start and end <= edit.end for edit in edits):
            continue
        known = by_alias.get(reference.parts[0].lower()) if len(reference.parts) == 1 else None
        edits.append(
            reference.upto(1, f"({known})") if known is not None else columns_of(scope, made_too=True)(reference)
        )
    return span.render(edits)


def _is_latest_first(over: OverClauses, scope: Scope, named: Mapping[str, str]) -> bool:
    """Whether rows are ordered by their time alone, the last first: then of several at that time the last to come."""
    first = sort_item(over.order[0], scope, named)
    times = [quoted(column.name) for column in scope.columns if column.is_event_time]
    return len(over.order) == 1 and first.descending and first.sql in times


def _not_of_windows(over: OverClauses, scope: Scope) -> SqlError | None:
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
            "SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS place FROM (...); "
            "to number rows by event time: count(*) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING)",
        )
    if not {"window_start", "window_end"} <= names and WINDOW_TIME not in names:
        help = f"{HOW_TO_RANK}; or add EMIT CHANGES to be told of every change"
        return over.span.error("rows of different windows cannot be ranked together", help)
    return None


def sort_item(span: Span, scope: Scope, named: Mapping[str, str] | None = None) -> SortItem:
    """`named` are columns that expressions stand for."""
    what, descending, nulls_first = read_direction(span)
    return SortItem(_column(what, scope, named or {}), descending, nulls_first)


def _column(span: Span, scope: Scope, named: Mapping[str, str]) -> str:
    known = named.get(span.render())
    return rewrite(span, columns_of(scope)) if known is None else quoted(known)
