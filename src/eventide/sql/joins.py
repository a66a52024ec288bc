"""A SELECT over a join, down to `plan.logical.Join`. A join of joins reads the joins below it as inner streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from eventide.plan.logical import Join, JoinSide, Named
from eventide.plan.modes import EmitMode, JoinKind
from eventide.sql.aggregate_calls import refuse_aggregates
from eventide.sql.conjuncts import conjunction, conjuncts
from eventide.sql.emits import AT_CLOSE, of_join
from eventide.sql.join_bounds import Bounded, BoundFinder, Emission
from eventide.sql.join_conditions import Sorted, sort_conditions
from eventide.sql.join_outputs import AboveJoin, join_outputs, refuse_windows
from eventide.sql.join_pairs import Names, pair_columns, pair_scope
from eventide.sql.join_scope import JoinScope
from eventide.sql.join_sides import Side, lower_side, without_op
from eventide.sql.join_windows import Conditions
from eventide.sql.lookups import spans_of
from eventide.sql.relations import Composing, with_step, with_where
from eventide.sql.scope import Scope, TimeOf, references, refuse_quoted_columns
from eventide.sql.syntax import EmitNode, FromNode, JoinNode, SelectNode, SubqueryRef
from eventide.sql.tokens import Span

# Joins whose left rows a condition on these alone may filter before the join, though it stands in WHERE.
_KEEPS_LEFT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


def join_below(select: SelectNode) -> JoinNode | None:
    """The join that a SELECT reads, itself or through subqueries; None if there is none."""
    source = select.source
    if isinstance(source, JoinNode):
        return source
    if isinstance(source, SubqueryRef) and len(source.query.selects) == 1:
        return join_below(source.query.selects[0])
    return None


def lower_join(select: SelectNode, join: JoinNode, catalog: Composing, mode: EmitMode | None) -> Join:
    """The join of a SELECT."""
    _refuse_watermark(select)
    joined = _Joiner(catalog, _named_above(select)).outermost(join, _where(select), mode)
    return joined.query(join_outputs(select.items, joined.scope, joined.bounded))


def read_join(select: SelectNode, join: JoinNode, catalog: Composing) -> Scope:
    """The pairs of a join, WHERE included, for a SELECT that groups or orders them."""
    _refuse_watermark(select)
    return _Joiner(catalog, _named_above(select)).read(join, _where(select))


def _refuse_watermark(select: SelectNode) -> None:
    if select.watermark is not None:
        raise select.watermark.span.error(
            "a watermark belongs to one side of the join", "write it after that side, before JOIN or ON"
        )


def _where(select: SelectNode) -> list[Span]:
    if select.where is None:
        return []
    refuse_aggregates(select.where, "WHERE", "filter groups with HAVING")
    return conjuncts(select.where)


def _named_above(select: SelectNode) -> Names:
    """The columns that the clauses of a SELECT name above its FROM and WHERE."""
    if any(item.star for item in select.items):
        return Names(all=True)
    window = None if select.window is None else select.window.on
    spans = (*(item.expression for item in select.items), select.group_span, select.having, select.order_by, window)
    return Names().with_those_of(*spans)


@dataclass(frozen=True)
class _Joined:
    """A join whose names are resolved, and which lacks only what is selected of it."""

    scope: JoinScope
    bounded: Bounded
    made: Sorted
    mode: EmitMode | None

    def query(self, outputs: tuple[Named, ...]) -> Join:
        return Join(
            self._side(0),
            self._side(1),
            self.bounded.kind,
            self.bounded.bound,
            outputs,
            tuple(key.null_safe for key in self.made.keys),
            conjunction(self.made.condition),
            conjunction(self.made.where),
            self.mode in AT_CLOSE,
        )

    def _side(self, number: int) -> JoinSide:
        scope = self.scope.sides[number].scope
        return JoinSide(
            self.made.filtered(scope.relation, number),
            scope.logical_columns(),
            tuple(key.sides[number] for key in self.made.keys),
            self.bounded.times[number],
            scope.changes,
        )


@dataclass(frozen=True)
class _Joiner:
    """The joins of one SELECT; `names` are what is needed of their pairs."""

    catalog: Composing
    names: Names

    def outermost(self, join: JoinNode, where: list[Span], mode: EmitMode | None) -> _Joined:
        scope, rest = self._scope(join, where)
        return self._joined(join, scope, rest, mode)

    def read(self, join: JoinNode, where: list[Span]) -> Scope:
        """The pairs of a join, of which all of `where` holds, as an inner stream."""
        scope, rest = self._scope(join, where)
        own = [condition for condition in rest if not join.steps or _is_about(condition, scope)]
        pairs = self._read(join, self._joined(join, scope, own, None))
        return reduce(with_where, [condition for condition in rest if condition not in own], pairs)

    def _read(self, join: JoinNode, joined: _Joined) -> Scope:
        """The pairs, with the steps after the join."""
        names = self.names.with_those_of(*(span for step in join.steps for span in spans_of(step)))
        columns = pair_columns(joined.scope, joined.bounded, names)
        query = joined.query(tuple(Named(column.name, text) for column, text in columns))
        source = self.catalog.read_query(query, EmitNode(is_inner=True), of_join(join))
        return reduce(with_step, join.steps, pair_scope(source, [column for column, _ in columns], self.catalog))

    def _scope(self, join: JoinNode, where: list[Span]) -> tuple[JoinScope, list[Span]]:
        """The sides of a join, and the conditions that are left to it: joins below take those that are about them."""
        compared = [span for pair in join.equal for span in pair if isinstance(span, Span)]
        named = self.names.with_those_of(join.on, join.match, join.system_time, *join.using, *compared, *where)
        below = replace(self, names=named)
        left, rest = below._side(join.left, where if join.kind in _KEEPS_LEFT else [])
        right, _ = below._side(join.right, [])
        rest = rest if join.kind in _KEEPS_LEFT else where
        _refuse_one_name(join, left, right)
        scope = JoinScope(left, right, join.kind)
        for condition in where:
            scope.behind().sides_of(condition)  # an error for a name that both sides have
        return scope, rest

    def _side(self, node: FromNode, where: list[Span]) -> tuple[Side, list[Span]]:
        if not isinstance(node, JoinNode):
            return without_op(lower_side(node, self.catalog)), where
        scope, rest = self._scope(node, where)
        own = [condition for condition in rest if _is_about(condition, scope)]
        joined = self._joined(node, scope, own, None)
        read = without_op(Side(self._read(node, joined), None))
        return read, [condition for condition in rest if condition not in own]

    def _joined(self, join: JoinNode, scope: JoinScope, where: list[Span], mode: EmitMode | None) -> _Joined:
        return _joined(join, scope, where, Emission(mode, self.catalog.tells_changes, self.catalog.state_ttl))


def _is_about(condition: Span, scope: JoinScope) -> bool:
    named = references(condition)
    return bool(named) and all(scope.find(reference) is not None for reference in named)


def _joined(join: JoinNode, scope: JoinScope, where: list[Span], emission: Emission) -> _Joined:
    conditions = _conditions(join, where, scope)
    left, right = scope.sides
    merged = tuple(name.tokens[0].text for name in join.using if left.window_bound_called(name.tokens[0].text) is None)
    bounded = BoundFinder(join, scope, conditions, emission).find()
    for condition in (*conditions.on, *conditions.where):
        refuse_windows(condition)
    _refuse_two_kinds_of_time(join, scope, bounded.times)
    scope = JoinScope(left, right, bounded.kind, merged)
    made = sort_conditions(scope, conditions, bounded.bound, AboveJoin(scope, bounded))
    return _Joined(scope, bounded, made, emission.mode)


def _refuse_one_name(join: JoinNode, left: Side, right: Side) -> None:
    for name in right.listed_qualifiers:
        if name.lower() in left.qualifiers:
            raise join.right.span.error(f"both sides are called {name}", f"write {name} AS a JOIN {name} AS b")


def _refuse_two_kinds_of_time(join: JoinNode, scope: JoinScope, times: tuple[str | None, str | None]) -> None:
    timeless = [
        side.scope.time_of is TimeOf.NONE and time is None for side, time in zip(scope.sides, times, strict=True)
    ]
    if timeless[0] != timeless[1]:
        place = (join.left if timeless[0] else join.right).span
        raise place.error(
            "this side has no event time, and the other one has",
            "declare EVENT TIME in its source, or write WATERMARK column DELAY OF INTERVAL 10 SECONDS after it",
        )


def _conditions(join: JoinNode, where: list[Span], scope: JoinScope) -> Conditions:
    if join.on is not None:
        refuse_aggregates(join.on, "ON", "aggregate in a subquery")
    for span in where if join.on is None else (join.on, *where):
        for side in scope.sides:
            refuse_quoted_columns(side.scope, span)
    on = [] if join.on is None else conjuncts(join.on)
    return Conditions(on, list(where), list(join.using), list(join.equal))
