"""JOIN of a table: rows are enriched before anything is done with them, so that it is a step of the input it follows.

Whether a name is that of a table only the catalog knows. So the joins of a query are sorted out here, when it is
lowered: those with a table become steps of what they are joined to, and those of two streams stay joins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from eventide.plan.logical import Lookup, Table
from eventide.plan.modes import JoinKind
from eventide.plan.names import quoted
from eventide.plan.stream_source import TIME_COLUMNS
from eventide.sql.aggregate_calls import refuse_aggregates
from eventide.sql.scope import Scope, ScopeColumn, columns_of, fresh_name, refuse_quoted_columns, rewrite
from eventide.sql.syntax import (
    FromNode,
    InputStep,
    JoinNode,
    LateralView,
    LookupJoin,
    QueryNode,
    SubqueryRef,
    TableRef,
    WindowTable,
)
from eventide.sql.tokens import Span

Tables = Mapping[str, Table]

_HELP = "write FROM stream [LEFT] JOIN table ON stream.k = table.k"


def with_lookups(query: QueryNode, tables: Tables) -> QueryNode:
    """The query with joins of tables as steps; `tables` are by name."""
    if not tables:
        return query
    return _Lookups({name.lower(): table for name, table in tables.items()}).query(query)


@dataclass(frozen=True)
class _Lookups:
    tables: Tables  # by lower-case name

    def query(self, query: QueryNode) -> QueryNode:
        return replace(
            query, selects=tuple(replace(select, source=self._source(select.source)) for select in query.selects)
        )

    def _source(self, node: FromNode) -> FromNode:
        match node:
            case TableRef():
                return self._stream(node)
            case SubqueryRef():
                return self._input(node)
            case WindowTable():
                return replace(node, input=self._input(node.input))
            case JoinNode():
                return self._join(node)

    def _input(self, node: TableRef | SubqueryRef) -> TableRef | SubqueryRef:
        return self._stream(node) if isinstance(node, TableRef) else replace(node, query=self.query(node.query))

    def _stream(self, node: TableRef) -> TableRef:
        if self._table(node) is not None:
            raise node.span.error(f"{node.name} is a table, which is looked up and not a stream", _HELP)
        return node

    def _table(self, node: FromNode) -> Table | None:
        return self.tables.get(node.name.lower()) if isinstance(node, TableRef) else None

    def _join(self, node: JoinNode) -> FromNode:
        if self._table(node.right) is not None:
            return self._looked_up(node, self._source(node.left), node.right, (JoinKind.INNER, JoinKind.LEFT))
        if self._table(node.left) is not None:
            return self._looked_up(node, self._source(node.right), node.left, (JoinKind.INNER, JoinKind.RIGHT))
        return replace(node, left=self._source(node.left), right=self._source(node.right))

    def _looked_up(
        self, join: JoinNode, stream: FromNode, node: FromNode, kinds: tuple[JoinKind, JoinKind]
    ) -> FromNode:
        """`stream` with the table that `node` names; of `kinds` the second keeps rows of the stream without any."""
        table = self._table(node)
        if table is None or not isinstance(node, TableRef):
            return join
        _check(join, node, kinds)
        outer = join.kind is kinds[1]
        lookup = LookupJoin(table, node.alias or node.name, outer, join.on, join.using, join.words)
        return _after(stream, (lookup, *node.steps))


def _check(join: JoinNode, node: TableRef, kinds: tuple[JoinKind, JoinKind]) -> None:
    name = node.name
    if node.watermark is not None:
        raise node.watermark.span.error(f"{name} is a table, and has no watermark", "leave it out")
    if join.asof:
        place = join.system_time or join.match or join.words
        raise place.error(f"{name} is a table, of which there is one version at a time", f"leave it out: {_HELP}")
    if join.within is not None:
        raise join.within.span.error(f"{name} is a table, whose rows have no time", f"leave WITHIN out: {_HELP}")
    if join.kind not in kinds:
        help = "write stream [LEFT] JOIN table; for rows without any, LEFT JOIN and WHERE a column of the table IS NULL"
        raise join.words.error(f"{name} is a table, and only rows of a stream come out of this join", help)
    if join.on is None and not join.using:
        raise join.words.error(f"nothing says which rows of {name} are meant", "add ON or USING")


def _after(node: FromNode, steps: tuple[InputStep, ...]) -> FromNode:
    """What `node` gives, with the steps."""
    match node:
        case WindowTable():
            inside = (*node.input.steps, *steps)
            return replace(node, input=replace(node.input, alias=node.alias or node.input.alias, steps=inside))
        case TableRef() | SubqueryRef() | JoinNode():
            return replace(node, steps=(*node.steps, *steps))


def spans_of(step: InputStep) -> list[Span]:
    """What names the columns that a step needs of the rows in front of it."""
    if isinstance(step, LateralView):
        return [step.argument]
    return list(step.using) if step.on is None else [step.on]


def with_lookup(scope: Scope, join: LookupJoin) -> Scope:
    """The scope with the columns of the table after its own."""
    taken = {column.qualifier or scope.qualifier for column in scope.columns}
    if join.alias.lower() in {name.lower() for name in taken if name is not None}:
        raise join.span.error(f"both sides are called {join.alias}", f"write {join.table.name} AS another name")
    merged = {name.tokens[0].text.lower() for name in join.using}
    columns = _columns(scope, join, merged)
    joined = replace(scope, columns=(*scope.columns, *columns))
    conditions = [_equal(scope, joined, join, name) for name in join.using]
    if join.on is not None:
        refuse_aggregates(join.on, "ON", "aggregate in a subquery")
        refuse_quoted_columns(joined, join.on)
        conditions = [rewrite(join.on, columns_of(joined))]
    names = tuple(column.name for column in columns)
    return replace(joined, relation=Lookup(scope.relation, join.table, " AND ".join(conditions), names, join.outer))


def _columns(scope: Scope, join: LookupJoin, merged: set[str]) -> list[ScopeColumn]:
    """Those of the table. One that is called as another gets a name of its own; USING hides what it merges."""
    taken = {column.name.lower() for column in scope.columns} | set(TIME_COLUMNS)
    made: list[ScopeColumn] = []
    for column in join.table.columns:
        own = column.name.lower() not in taken
        name = column.name if own else fresh_name(f"{join.alias}_{column.name}", taken)
        taken.add(name.lower())
        is_hidden = column.name.lower() in merged
        made.append(ScopeColumn(name, column.type, is_hidden=is_hidden, label=column.name, qualifier=join.alias))
    return made


def _equal(scope: Scope, joined: Scope, join: LookupJoin, name: Span) -> str:
    """The condition that USING says."""
    text = name.tokens[0].text
    own, other = scope.find(text), joined.qualified(join.alias, text)
    if own is None or other is None:
        lacks = join.alias if own is not None else scope.qualifier or "the stream"
        raise name.error(f"{lacks} has no column {text}", "USING takes columns that both sides have")
    return f"{quoted(own.name)} = {quoted(other.name)}"
