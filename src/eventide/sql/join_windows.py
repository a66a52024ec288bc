"""Joins by equal windows of both sides: Flink's window tables, and Spark's window(l.ts, ...) = window(r.ts, ...)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from eventide.errors import SqlError
from eventide.plan.column_roles import WindowBound
from eventide.plan.joins import SameWindow
from eventide.plan.modes import JoinKind
from eventide.plan.windows import Calendar, Session, Slide
from eventide.sql.conjuncts import comparison, unwrapped
from eventide.sql.event_times import time_of
from eventide.sql.join_scope import JoinScope
from eventide.sql.join_sides import WINDOW_BOUNDS, Side
from eventide.sql.scope import references, single_reference
from eventide.sql.syntax import JoinNode
from eventide.sql.tokens import Call, Span, calls
from eventide.sql.window_functions import WINDOW_FUNCTIONS, WindowCall, window_of_call

Read = TypeVar("Read")


@dataclass
class Conditions:
    """What ON, WHERE and USING say and is not yet part of the plan."""

    on: list[Span] = field(default_factory=list)
    where: list[Span] = field(default_factory=list)
    using: list[Span] = field(default_factory=list)
    equal: list[tuple[Span, Span | str]] = field(default_factory=list)


def take(conditions: list[Span], read: Callable[[Span], Read | None]) -> list[Read]:
    """What `read` makes of the conditions that it understands; these are then no longer in the list."""
    found = [(condition, read(condition)) for condition in conditions]
    conditions[:] = [condition for condition, made in found if made is None]
    return [made for _, made in found if made is not None]


# Flink --------------------------------------------------------------------------------------------------------------


def same_tables(join: JoinNode, scope: JoinScope, conditions: Conditions, where: list[str]) -> SameWindow:
    """Both sides are window tables, joined on equal window_start and window_end; `where` is what WHERE says of that."""
    left, right = scope.left.window, scope.right.window
    if left is None or right is None:
        raise _lonely(scope, left or right, join)
    if left.window != right.window:
        raise right.span.error("the windows of the two sides differ", "give both the same lengths")
    equal = [*where, *take(conditions.on, lambda condition: equal_bound(condition, scope))]
    equal += take(conditions.using, lambda name: _shared_bound(name, scope))
    for bound in WINDOW_BOUNDS:
        if bound not in equal:
            place = join.on or (join.using[0] if join.using else join.words)
            names = [side.qualifier or alias for side, alias in zip(scope.sides, "ab", strict=True)]
            raise place.error(
                "rows of two windows meet where both window_start and window_end are equal",
                f"add {names[0]}.{bound} = {names[1]}.{bound}",
            )
    return _same_window(left)


def _lonely(scope: JoinScope, call: WindowCall | None, join: JoinNode) -> SqlError:
    place = call.span if call is not None else join.words
    other = scope.left if scope.left.window is None else scope.right
    return place.error(
        "only one side of the join is in windows",
        f"put {other.qualifier or 'the other side'} into the same windows, or join the sources themselves with WITHIN",
    )


def equal_bound(condition: Span, scope: JoinScope) -> str | None:
    """`window_start`, if a condition is a.window_start = b.window_start."""
    compared = comparison(condition)
    if compared is None or compared.operator not in ("=", "<=>"):
        return None
    for one, other in ((compared.left, compared.right), (compared.right, compared.left)):
        left, right = _bound(one, scope.left), _bound(other, scope.right)
        if left is not None and left == right:
            return left
    return None


def _bound(span: Span, side: Side) -> str | None:
    reference = single_reference(span)
    return None if reference is None else side.window_bound(reference)


def _shared_bound(name: Span, scope: JoinScope) -> str | None:
    """The same for a name in USING."""
    left, right = (side.window_bound_called(name.tokens[0].text) for side in scope.sides)
    return left if left == right else None


# Windows of streams --------------------------------------------------------------------------------------------------


def same_columns(scope: JoinScope, conditions: Conditions, kind: JoinKind) -> SameWindow | None:
    """Both sides are streams of windows, joined on equal bounds of these; None if they are not.

    The conditions stay: they are keys of the join, which tell windows apart that end at the same time.
    """
    equal: list[WindowBound] = []
    for condition in (*conditions.on, *(conditions.where if kind is JoinKind.INNER else ())):
        compared = comparison(condition)
        if compared is not None and compared.operator in ("=", "<=>"):
            found = [_column_bound(part, scope) for part in (compared.left, compared.right)]
            if found[0] is not None and found[0] == found[1] and found[0].is_rowtime:
                equal.append(found[0])
    for name in conditions.using:
        columns = [side.scope.find(name.tokens[0].text) for side in scope.sides]
        bounds = [None if column is None else column.bound for column in columns]
        if bounds[0] is not None and bounds[0] == bounds[1] and bounds[0].is_rowtime:
            equal.append(bounds[0])
    if {bound.which for bound in equal} != set(WINDOW_BOUNDS) or len({bound.window for bound in equal}) != 1:
        return None
    return SameWindow(equal[0].pane)


def _column_bound(span: Span, scope: JoinScope) -> WindowBound | None:
    reference = single_reference(span)
    found = None if reference is None else scope.find(reference)
    return None if found is None else found.column.bound


# Spark --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EqualCalls:
    """window(l.ts, ...) = window(r.ts, ...), with the times that it names where they are not the event times."""

    bound: SameWindow
    times: tuple[str | None, str | None]
    span: Span


def equal_calls(condition: Span, scope: JoinScope) -> EqualCalls | None:
    compared = comparison(condition)
    if compared is None or compared.operator not in ("=", "<=>"):
        return None
    one, other = _window_call(compared.left), _window_call(compared.right)
    if one is None or other is None:
        return None
    windows = {_side(call, scope): window_of_call(call) for call in (one, other)}
    if set(windows) != {0, 1}:
        raise condition.error(
            "one of the windows is over the left side's time and one over the right side's",
            f"write window({scope.time_name(0)}, '10 seconds') = window({scope.time_name(1)}, '10 seconds')",
        )
    left, right = windows[0], windows[1]
    if left.window != right.window:
        raise condition.error("the two windows differ", "give both the same lengths")
    return EqualCalls(
        _same_window(left), (time_of(left, scope.left.scope), time_of(right, scope.right.scope)), condition
    )


def _window_call(span: Span) -> Call | None:
    inner = unwrapped(span)
    whole = next((call for call in calls(inner) if call.index == 0 and call.after == len(inner.tokens)), None)
    return whole if whole is not None and whole.name in WINDOW_FUNCTIONS else None


def _side(call: Call, scope: JoinScope) -> int | None:
    sides = {scope.known(reference).side for reference in references(call.span)}
    return sides.pop() if len(sides) == 1 else None


def _same_window(call: WindowCall) -> SameWindow:
    window = call.window
    if isinstance(window, Session):
        raise call.span.error(
            "sessions of two sides seldom have the same bounds", "write WITHIN SESSION(gap): sessions that overlap meet"
        )
    if isinstance(window, Slide):
        raise call.span.error("a sliding window is that of one row", "write WITHIN INTERVAL '10' SECOND")
    if isinstance(window, Calendar):
        raise call.span.error(
            "a join has no windows of the calendar", "join within a fixed time, and group by the calendar above it"
        )
    return SameWindow(window)
