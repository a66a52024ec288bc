"""A SELECT over a join, down to `plan.logical.Join`."""

from __future__ import annotations

from eventide.errors import SqlError
from eventide.plan.joins import Asof, Interval
from eventide.plan.logical import Join, JoinSide
from eventide.plan.modes import EmitMode
from eventide.sql.aggregate_calls import find_aggregates, refuse_aggregates
from eventide.sql.composition import read_by_a_group, read_by_a_join
from eventide.sql.conjuncts import conjuncts
from eventide.sql.grouped import is_grouped
from eventide.sql.join_bounds import BoundFinder
from eventide.sql.join_conditions import Sorted, conjunction, sort_conditions
from eventide.sql.join_outputs import AboveJoin, join_outputs, refuse_windows
from eventide.sql.join_scope import JoinScope
from eventide.sql.join_sides import Side, lower_side
from eventide.sql.join_windows import Conditions
from eventide.sql.relations import Readable
from eventide.sql.scope import TimeOf, refuse_quoted_columns
from eventide.sql.select_above import select_above
from eventide.sql.syntax import EmitNode, JoinNode, SelectNode, SubqueryRef
from eventide.sql.tokens import Span

_AT_CLOSE = (EmitMode.ON_WINDOW_CLOSE, EmitMode.FINAL)


def join_below(select: SelectNode) -> JoinNode | None:
    """The join that a SELECT reads, itself or through subqueries; None if there is none."""
    source = select.source
    if isinstance(source, JoinNode):
        return source
    if isinstance(source, SubqueryRef) and len(source.query.selects) == 1:
        return join_below(source.query.selects[0])
    return None


def lower_join(select: SelectNode, catalog: Readable, mode: EmitMode | None) -> Join | None:
    """The join that a SELECT says, with all that SELECTs around it filter and compute; None if it reads no join."""
    join = join_below(select)
    if join is None:
        return None
    _refuse_clauses(select, join)
    if isinstance(select.source, SubqueryRef):
        below = lower_join(select.source.query.selects[0], catalog, mode)
        return None if below is None else select_above(select, select.source, below)
    return _lower(select, join, catalog, mode)


def _refuse_clauses(select: SelectNode, join: JoinNode) -> None:
    if is_grouped(select):
        found = [found for item in select.items if not item.star for found in find_aggregates(item.expression)]
        place = select.group_span or (found[0].span if found else select.having or select.span)
        raise read_by_a_group(place)
    if select.order_by is not None:
        raise select.order_by.error("pairs leave as soon as they are certain", "leave ORDER BY out")
    if select.watermark is not None:
        raise select.watermark.span.error(
            "a watermark belongs to one side of the join", "write it behind that side, before JOIN or ON"
        )


def _lower(select: SelectNode, join: JoinNode, catalog: Readable, mode: EmitMode | None) -> Join:
    if isinstance(join.left, JoinNode):
        raise read_by_a_join(join)
    if isinstance(join.right, JoinNode):
        raise read_by_a_join(join.right)
    left, right = lower_side(join.left, catalog), lower_side(join.right, catalog)
    _refuse_one_name(join, left, right)
    scope = JoinScope(left, right, join.kind)
    conditions = _conditions(select, join, scope)
    merged = tuple(name.tokens[0].text for name in join.using if left.window_bound_called(name.tokens[0].text) is None)
    bounded = BoundFinder(join, scope, conditions, mode).find()
    for condition in (*conditions.on, *conditions.where):
        refuse_windows(condition)
    _refuse_two_kinds_of_time(join, scope, bounded.times)
    scope = JoinScope(left, right, bounded.kind, merged)
    made = sort_conditions(scope, conditions, bounded.bound, AboveJoin(scope, bounded.bound))
    return Join(
        _side(left, made, 0, bounded.times[0]),
        _side(right, made, 1, bounded.times[1]),
        bounded.kind,
        bounded.bound,
        join_outputs(select.items, scope, bounded.bound),
        tuple(key.null_safe for key in made.keys),
        conjunction(made.condition),
        conjunction(made.where),
        mode in _AT_CLOSE,
    )


def _side(side: Side, made: Sorted, number: int, time: str | None) -> JoinSide:
    return JoinSide(
        made.filtered(side.scope.relation, number),
        side.scope.logical_columns(),
        tuple(key.sides[number] for key in made.keys),
        time,
    )


def _refuse_one_name(join: JoinNode, left: Side, right: Side) -> None:
    if left.qualifier is not None and right.qualifier is not None and left.qualifier.lower() == right.qualifier.lower():
        name = left.qualifier
        raise join.right.span.error(f"both sides are called {name}", f"write {name} AS a JOIN {name} AS b")


def _refuse_two_kinds_of_time(join: JoinNode, scope: JoinScope, times: tuple[str | None, str | None]) -> None:
    timeless = [
        side.scope.time_of is TimeOf.NONE and time is None for side, time in zip(scope.sides, times, strict=True)
    ]
    if timeless[0] != timeless[1]:
        place = (join.left if timeless[0] else join.right).span
        raise place.error(
            "this side has no event time, and the other one has",
            "declare EVENT TIME in its source, or write WATERMARK column DELAY OF INTERVAL 10 SECONDS behind it",
        )


def _conditions(select: SelectNode, join: JoinNode, scope: JoinScope) -> Conditions:
    for clause, span in (("ON", join.on), ("WHERE", select.where)):
        if span is not None:
            refuse_aggregates(span, clause, "aggregate in a stream of its own")
            for side in scope.sides:
                refuse_quoted_columns(side.scope, span)
    on = [] if join.on is None else conjuncts(join.on)
    return Conditions(on, [] if select.where is None else conjuncts(select.where), list(join.using))


def check_join_emit(query: Join, node: EmitNode) -> None:
    """A join has one way to emit, and with windows a second one."""
    if node.mode is None:
        return
    place = node.places["mode"]
    if node.mode not in _AT_CLOSE:
        raise _no_such_emit(place, query)
    if isinstance(query.bound, Interval | Asof):
        what = "an interval join" if isinstance(query.bound, Interval) else "an ASOF join"
        raise place.error(
            f"{what} has no windows that could close", "leave EMIT out: a pair is given as soon as it is certain"
        )


def _no_such_emit(place: Span, query: Join) -> SqlError:
    has_windows = not isinstance(query.bound, Interval | Asof)
    instead = "leave EMIT out" + (", or write EMIT ON WINDOW CLOSE" if has_windows else "")
    return place.error("a join gives each pair once, as soon as it is certain", instead)
