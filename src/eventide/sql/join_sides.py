"""The two sides of a join: what each reads, whose time counts, and the windows into which Flink's tables put it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eventide.plan.change_logs import CHANGE
from eventide.plan.logical import Project
from eventide.plan.names import quoted
from eventide.sql.event_times import carried_time, time_of
from eventide.sql.relations import Composing, apply_watermark, lower_input, selected, with_where
from eventide.sql.scope import Reference, Scope, single_reference
from eventide.sql.shape import keeps_state
from eventide.sql.syntax import SelectItem, SelectNode, SubqueryRef, TableRef, WindowTable
from eventide.sql.window_functions import WindowCall, window_of_table

WINDOW_BOUNDS = ("window_start", "window_end")


@dataclass(frozen=True)
class Side:
    """`window` is that of a table function, `window_columns` the names under which the side gives its bounds."""

    scope: Scope
    time: str | None
    window: WindowCall | None = None
    window_columns: Mapping[str, str] = field(default_factory=dict)  # name: window_start or window_end

    @property
    def qualifier(self) -> str | None:
        return self.scope.qualifier

    @property
    def qualifiers(self) -> set[str]:
        """The same in lower case."""
        return {qualifier.lower() for qualifier in self.listed_qualifiers}

    @property
    def listed_qualifiers(self) -> list[str]:
        """Everything that may stand in front of a column's name; more than one for a side that is itself a join."""
        own = dict.fromkeys(column.qualifier or self.qualifier for column in self.scope.columns)
        return [qualifier for qualifier in own if qualifier is not None]

    def window_bound(self, reference: Reference) -> str | None:
        """`window_start` or `window_end`, if that is what a reference with this side's name means."""
        parts = [part.lower() for part in reference.parts]
        if len(parts) == 2 and self.qualifier is not None and parts[0] == self.qualifier.lower():
            return self.window_bound_called(parts[1])
        return None

    def window_bound_called(self, name: str) -> str | None:
        """The same for a name without a qualifier."""
        return next((bound for known, bound in self.window_columns.items() if known.lower() == name.lower()), None)


def without_op(side: Side) -> Side:
    """The side, whose op nobody can name: what comes out of the join has its own."""
    op = side.scope.op
    if op is None:
        return side
    columns = tuple(replace(c, label=CHANGE, is_hidden=True) if c is op else c for c in side.scope.columns)
    return replace(side, scope=replace(side.scope, columns=columns))


def lower_side(node: TableRef | SubqueryRef | WindowTable, catalog: Composing) -> Side:
    if isinstance(node, WindowTable):
        return _window_table(node, catalog)
    windowed = _windowed(node, catalog) if isinstance(node, SubqueryRef) else None
    if windowed is not None:
        return windowed
    scope = lower_input(node, catalog)
    return Side(scope, carried_time(scope))


def _windowed(node: SubqueryRef, catalog: Composing) -> Side | None:
    """A subquery that filters and computes over a window table, at whatever depth; None for others."""
    select = node.query.selects[0]
    if len(node.query.selects) != 1 or not isinstance(select.source, WindowTable | SubqueryRef):
        return None
    if keeps_state(select):
        return None
    below = select.source
    inner = _window_table(below, catalog) if isinstance(below, WindowTable) else _windowed(below, catalog)
    if inner is None:
        return None
    side = _selected(select, inner)
    scope = replace(side.scope, qualifier=node.alias)
    return replace(side, scope=scope if node.watermark is None else apply_watermark(scope, node.watermark))


def _window_table(table: WindowTable, catalog: Composing) -> Side:
    if table.function == "session":
        raise table.span.error(
            "sessions of two sides seldom have the same bounds", "write l JOIN r WITHIN SESSION(INTERVAL '5' MINUTE)"
        )
    if table.partition:
        raise table.partition[0].error("PARTITION BY is for SESSION", "leave it out; the keys are in ON")
    scope = lower_input(table.input, catalog)
    scope = replace(scope, qualifier=table.alias or scope.qualifier)
    for name in WINDOW_BOUNDS:
        if scope.find(name) is not None:
            raise table.span.error(
                f"{name} is a column of the input and of the window", f"rename it: TABLE (SELECT {name} AS other, ...)"
            )
    call = window_of_table(table)
    return Side(scope, time_of(call, scope), call, {name: name for name in WINDOW_BOUNDS})


def _selected(select: SelectNode, inner: Side) -> Side:
    """A SELECT over a window table: the bounds of the window pass through it, under whatever names."""
    scope = inner.scope
    if select.watermark is not None:
        scope = apply_watermark(scope, select.watermark)
    scope = with_where(scope, select.where)
    passed: dict[str, str] = {}
    items: list[SelectItem] = []
    for item in select.items:
        bound = None if item.star else _bound(item, inner)
        if item.star:
            passed.update(inner.window_columns)
        if bound is not None:
            passed[item.alias or item.expression.tokens[-1].text] = bound
        else:
            items.append(item)
    if not items:
        raise select.span.error("this SELECT gives nothing but the window", "select the columns to join by, too")
    made = selected(scope, select, tuple(items))
    return Side(made, _time_behind(select, inner.time, made), inner.window, passed)


def _bound(item: SelectItem, inner: Side) -> str | None:
    reference = single_reference(item.expression)
    if reference is None:
        return None
    if len(reference.parts) == 1 and inner.scope.find(reference.parts[0]) is None:
        return inner.window_bound_called(reference.parts[0])
    return inner.window_bound(reference)


def _time_behind(select: SelectNode, time: str | None, made: Scope) -> str | None:
    """The time that the window table names, as the columns of a SELECT above it call it."""
    if time is None or not isinstance(made.relation, Project):
        return time
    name = next((column.name for column in made.relation.columns if column.sql == time), None)
    if name is None:
        raise select.span.error("this SELECT drops the time of the window", f"select {time}, too")
    return quoted(name)
