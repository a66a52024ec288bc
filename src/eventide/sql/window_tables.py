"""Window table functions whose rows are not grouped: each row once for every window that holds it."""

from __future__ import annotations

from dataclasses import replace

from eventide.plan.column_roles import WINDOW_END, WINDOW_START, WindowBound
from eventide.plan.logical import Named, Project
from eventide.plan.names import quoted
from eventide.plan.stream_source import WINDOW_TIME
from eventide.plan.windows import Session, Slide
from eventide.sql.conjuncts import conjunction, conjuncts
from eventide.sql.event_times import time_of
from eventide.sql.scope import Scope, ScopeColumn, TimeOf, columns_of, references, resolve, rewrite
from eventide.sql.syntax import WindowTable
from eventide.sql.tokens import Span
from eventide.sql.window_functions import window_of_table


def in_windows(table: WindowTable, scope: Scope) -> Scope:
    """The input of a window table with the window into which its rows go, and the columns that this makes."""
    call = window_of_table(table)
    if isinstance(call.window, Session | Slide):
        raise table.span.error(
            "which session a row is in is known only when the session has ended",
            "group by it: SELECT window_start, window_end, k, ... GROUP BY window_start, window_end, k",
        )
    if table.partition:
        raise table.partition[0].error("PARTITION BY is for SESSION", "leave it out")
    for name in (WINDOW_START, WINDOW_END, WINDOW_TIME):
        known = scope.find(name)
        if known is not None and not (known.is_hidden and name == WINDOW_TIME):
            raise table.span.error(
                f"{name} is a column of the input and of the window", f"rename it: TABLE (SELECT {name} AS other, ...)"
            )
    time = time_of(call, scope)
    scope = _without_window_time(_timed(scope, time, table.time))
    bounds = [
        ScopeColumn(which, "timestamp", bound=WindowBound(which, call.window, False), is_made=True)
        for which in (WINDOW_START, WINDOW_END)
    ]
    last = ScopeColumn(WINDOW_TIME, "timestamp", is_hidden=True, is_made=True)
    qualifier = table.alias or scope.qualifier
    return replace(scope, columns=(*scope.columns, *bounds, last), qualifier=qualifier, window=call.window)


def _timed(scope: Scope, time: str | None, place: Span) -> Scope:
    """The scope with the time of DESCRIPTOR as the event time, if that is another one."""
    if time is None or scope.time_of is TimeOf.COLUMN:
        return scope
    if all(quoted(column.name) != time for column in scope.columns):
        raise place.error("DESCRIPTOR takes a column", "compute it first: TABLE (SELECT *, expression AS t FROM ...)")
    marked = tuple(replace(column, is_event_time=quoted(column.name) == time) for column in scope.columns)
    return replace(scope, columns=marked, time_of=TimeOf.COLUMN)


def _without_window_time(scope: Scope) -> Scope:
    """The time of windows that the input has come from is not that of these."""
    kept = tuple(column for column in scope.columns if column.name != WINDOW_TIME)
    if len(kept) == len(scope.columns):
        return scope
    outputs = tuple(Named(column.name, quoted(column.name)) for column in kept)
    return replace(scope, relation=Project(scope.relation, outputs), columns=kept)


def without_made(scope: Scope) -> Scope:
    """What is below the window."""
    columns = tuple(column for column in scope.columns if not column.is_made)
    return replace(scope, columns=columns, window=None, where=None)


def split_where(scope: Scope, where: Span) -> tuple[list[Span], Scope]:
    """The conditions on rows, and the scope with those that are on their windows: these hold of all rows or of none."""
    of_rows: list[Span] = []
    of_windows: list[str] = [] if scope.where is None else [scope.where]
    for part in conjuncts(where) if scope.window is not None else [where]:
        found = [resolve(scope, reference) for reference in references(part)]
        made = [each is not None and each[0].is_made for each in found]
        if any(made) and all(made):
            of_windows.append(rewrite(part, columns_of(scope, made_too=True)))
        else:
            of_rows.append(part)
    return of_rows, replace(scope, where=conjunction(of_windows))
