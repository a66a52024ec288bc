"""FROM, WHERE and subqueries: from the query as written to relations of the plan, with the event time kept in sight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from eventide.errors import SqlError, suggest
from eventide.plan.logical import Explode, Filter, Named, Project, Relation, Scan, Source, Stream, Union
from eventide.plan.names import quoted
from eventide.plan.stream_source import CONNECTOR, TIME_COLUMNS, WINDOW_TIME, stream_source
from eventide.sql.aggregate_calls import find_aggregates, refuse_aggregates
from eventide.sql.composition import read_by_another
from eventide.sql.cursor import Cursor
from eventide.sql.lateral_views import with_view
from eventide.sql.naming import output_name
from eventide.sql.scope import (
    Reference,
    Scope,
    ScopeColumn,
    TimeOf,
    columns_of,
    duplicate,
    refuse_quoted_columns,
    resolve,
    rewrite,
    single_reference,
    unknown_column,
)
from eventide.sql.syntax import (
    JoinNode,
    QueryNode,
    SelectItem,
    SelectNode,
    SubqueryRef,
    TableRef,
    Watermark,
    WindowTable,
)
from eventide.sql.tokens import Edit, Span, calls, word
from eventide.sql.type_names import TIME_TYPES, read_type
from eventide.sql.window_functions import WINDOW_FUNCTIONS

PSEUDO_COLUMNS = ("window_start", "window_end", "window_id", "emit_epoch", "op")
UNBOUNDED = "an unbounded aggregate never closes"
ADD_WINDOW = (
    "add a window such as TUMBLE(ts, INTERVAL '10' SECOND) to GROUP BY, or EMIT ON UPDATE to be told of every change"
)


class Readable(Protocol):
    """What a query can read: the part of the catalog that lowering needs."""

    @property
    def sources(self) -> Mapping[str, Source]: ...

    @property
    def streams(self) -> Mapping[str, Stream]: ...

    @property
    def late_names(self) -> Mapping[str, str]:
        """Every name under which late rows can be read, with the stream whose rows they are."""
        ...


@dataclass(frozen=True)
class Projected:
    """A select list over a scope: the columns that it gives, and what is known of each."""

    outputs: tuple[Named, ...]
    columns: tuple[ScopeColumn, ...]


def lower_input(node: TableRef | SubqueryRef | JoinNode, catalog: Readable) -> Scope:
    """The scope that a source or a subquery in FROM gives; a join is no relation."""
    if isinstance(node, JoinNode):
        raise read_by_another(node)
    scope = _scan(node, catalog) if isinstance(node, TableRef) else lower_union(node.query, catalog)
    scope = replace(scope, qualifier=node.alias or (scope.qualifier if isinstance(node, TableRef) else None))
    scope = apply_watermark(scope, node.watermark) if node.watermark is not None else scope
    return reduce(with_view, node.views, scope)


def lower_union(query: QueryNode, catalog: Readable) -> Scope:
    """A subquery: one SELECT without aggregates, or several with UNION ALL."""
    scopes = [_lower_plain(select, catalog) for select in query.selects]
    first = scopes[0]
    if len(scopes) == 1:
        return first
    for select, scope in zip(query.selects, scopes, strict=True):
        if len(scope.columns) != len(first.columns):
            raise select.span.error(
                f"this SELECT has {len(scope.columns)} columns, the first one {len(first.columns)}",
                "UNION ALL wants the same number of columns",
            )
        if scope.time_of != first.time_of:
            raise select.span.error(
                "the parts of the UNION ALL take their event time from different places",
                "declare EVENT TIME in all sources, or in none",
            )
    columns = tuple(_united(column, [scope.columns[i] for scope in scopes]) for i, column in enumerate(first.columns))
    return Scope(Union(tuple(_renamed(scope, first) for scope in scopes)), columns, first.time_of)


def with_where(scope: Scope, where: Span | None) -> Scope:
    if where is None:
        return scope
    refuse_aggregates(where, "WHERE", "filter groups with HAVING")
    refuse_quoted_columns(scope, where)
    return replace(scope, relation=Filter(scope.relation, rewrite(where, columns_of(scope, _PseudoHint("WHERE")))))


def project(scope: Scope, items: tuple[SelectItem, ...]) -> Projected:
    """The select list of a query without aggregates; earlier aliases may be used in later items, as in Spark."""
    outputs: list[Named] = []
    columns: list[ScopeColumn] = []
    for item in items:
        if item.star:
            chosen = star_columns(scope, item)
            outputs += [Named(column.name, quoted(column.name)) for column in chosen]
            columns += chosen
            continue
        if item.generated is not None and item.alias is not None:
            outputs.append(Named(item.alias, quoted(item.generated)))
            columns.append(replace(_column(scope, item.generated), name=item.alias, is_exploded=False))
            _refuse_duplicate(item, [output.name for output in outputs])
            continue
        _refuse_windows(item.expression)
        refuse_quoted_columns(scope, item.expression)
        reference = single_reference(item.expression)
        found = resolve(scope, reference) if reference is not None else None
        plain = found[0] if found is not None and reference is not None and found[1] == len(reference.parts) else None
        name = item.alias or (plain.name if plain is not None else output_name(item.expression, scope))
        outputs.append(Named(name, rewrite(item.expression, _Aliases(scope, list(outputs)))))
        if plain is None:
            columns.append(ScopeColumn(name, cast_type(item.expression)))
        else:
            columns.append(ScopeColumn(name, plain.type, plain.is_event_time, of_stream=plain.of_stream))
        _refuse_duplicate(item, [output.name for output in outputs])
    return Projected(tuple(outputs), tuple(columns))


def star_columns(scope: Scope, item: SelectItem) -> list[ScopeColumn]:
    """The columns that `*`, `s.*` or `* EXCEPT (...)` stands for."""
    if item.qualifier is not None and item.qualifier.lower() != (scope.qualifier or "").lower():
        raise item.expression.error(f"there is nothing called {item.qualifier} in FROM", "write *")
    for name in item.excluded:
        if scope.find(name) is None:
            raise item.expression.error(
                f"there is no column {name}", suggest(name, [column.name for column in scope.columns])
            )
    excluded = {name.lower() for name in item.excluded}
    shown = [column for column in scope.columns if not (column.is_hidden or column.is_exploded)]
    return [column for column in shown if column.name.lower() not in excluded]


def _column(scope: Scope, name: str) -> ScopeColumn:
    return next(column for column in scope.columns if column.name == name)


def apply_watermark(scope: Scope, watermark: Watermark) -> Scope:
    """WATERMARK in the query: the lag of every source below, and the event time if it names another column."""
    scope = replace(scope, relation=with_lag(scope.relation, watermark.lag, watermark.span))
    reference = single_reference(watermark.column)
    if reference is None:
        raise watermark.column.error(
            "WATERMARK takes a column", "compute the time in a subquery: SELECT ..., expression AS ts"
        )
    found = resolve(scope, reference)
    if found is None:
        raise unknown_column(scope, reference)
    column = found[0]
    if column.is_event_time:
        return scope
    if column.type not in TIME_TYPES and column.type != "":
        raise not_a_time(column, watermark.column)
    marked = tuple(replace(other, is_event_time=other.name == column.name) for other in scope.columns)
    return replace(scope, columns=marked, time_of=TimeOf.COLUMN)


def with_lag(relation: Relation, lag: int, span: Span) -> Relation:
    """The same relation with `lag` at every source."""
    match relation:
        case Scan():
            if relation.watermark_lag is not None:
                raise span.error("the watermark is given twice", "keep one of them")
            return replace(relation, watermark_lag=lag)
        case Union():
            return Union(tuple(with_lag(part, lag, span) for part in relation.inputs))
        case Filter() | Project() | Explode():
            return replace(relation, input=with_lag(relation.input, lag, span))


def not_a_time(column: ScopeColumn, span: Span) -> SqlError:
    help = (
        f"declare it in the source: EVENT TIME {quoted(column.name)} TYPE unixtimestamp_ms (or another type), "
        "or cast it to TIMESTAMP"
    )
    return span.error(f"{column.name} is a {column.type} and not the event time of its source", help)


def cast_type(span: Span) -> str:
    """The type of CAST(... AS type) and ...::type; "" for every other expression."""
    tree = span.tree()
    if not isinstance(tree, exp.Cast | exp.TryCast) or span.tokens[0].token_type == TokenType.NUMBER:
        return ""
    last = max(
        (i for i, token in enumerate(span.tokens) if word(token) == "AS" or token.token_type == TokenType.DCOLON),
        default=None,
    )
    if last is None:
        return ""
    try:
        return read_type(Cursor(span.part(last + 1, len(span.tokens))))
    except SqlError:
        return ""  # a type that no source can have, such as an interval


def _scan(node: TableRef, catalog: Readable) -> Scope:
    source = _readable(node, catalog)
    event_time = source.event_time.column if source.event_time is not None else None
    fields = dict(message.column.split(".", 1) for message in source.messages)
    is_stream = source.connector == CONNECTOR
    columns = tuple(
        ScopeColumn(
            c.name,
            c.type,
            c.name == event_time or (is_stream and c.name == WINDOW_TIME),
            fields.get(c.name),
            of_stream=is_stream,
            is_hidden=is_stream and c.name in TIME_COLUMNS and c.type != "",
        )
        for c in source.columns
    )
    return Scope(Scan(source, alias=node.alias), columns, TimeOf.SOURCE if event_time else TimeOf.NONE, source.name)


def _readable(node: TableRef, catalog: Readable) -> Source:
    """The source of this name, or the stream or late rows of this name as one."""
    wanted = node.name.lower()
    for name, source in catalog.sources.items():
        if name.lower() == wanted:
            return source
    for name, stream in catalog.streams.items():
        if name.lower() == wanted:
            return stream_source(name, stream, late=False)
    for name, late_of in catalog.late_names.items():
        if name.lower() == wanted:
            return stream_source(name, catalog.streams[late_of], late=True)
    known = [*catalog.sources, *catalog.streams, *catalog.late_names]
    raise node.span.error(f"there is no source or stream {node.name}", suggest(node.name, known))


def _lower_plain(select: SelectNode, catalog: Readable) -> Scope:
    """A SELECT in FROM: filters and expressions only."""
    refuse_grouping(select)
    if isinstance(select.source, WindowTable):
        raise select.source.span.error(
            "a window cannot stand inside FROM or UNION ALL", "write it in the outermost SELECT, which groups by it"
        )
    scope = lower_input(select.source, catalog)
    if select.watermark is not None:
        scope = apply_watermark(scope, select.watermark)
    return selected(with_where(scope, select.where), select, select.items)


def refuse_grouping(select: SelectNode) -> None:
    """What only the outermost SELECT can do."""
    for span, what in ((select.group_span, "GROUP BY"), (select.having, "HAVING"), (select.order_by, "ORDER BY")):
        if span is not None:
            raise span.error(f"{what} cannot stand inside FROM or UNION ALL", "write it in the outermost SELECT")
    if select.window is not None:
        raise select.window.span.error(
            "a window cannot stand inside FROM or UNION ALL", "write it in the outermost SELECT"
        )


def selected(scope: Scope, select: SelectNode, items: tuple[SelectItem, ...]) -> Scope:
    """What a select list in FROM makes of a scope; `items` are those of `select`, or some of them."""
    for item in items:
        for found in [] if item.star else find_aggregates(item.expression):
            raise found.span.error(
                "an aggregate cannot stand inside FROM or UNION ALL", "aggregate in the outermost SELECT"
            )
    if len(items) == 1 and items[0].star and not items[0].excluded:
        star_columns(scope, items[0])
        return scope
    projected = _with_hidden(project(scope, items), scope)
    if scope.time_of is TimeOf.COLUMN and not any(column.is_event_time for column in projected.columns):
        raise select.span.error("this SELECT drops the column of the watermark", "select it, too")
    return Scope(Project(scope.relation, projected.outputs), projected.columns, scope.time_of)


def _with_hidden(projected: Projected, scope: Scope) -> Projected:
    """The event time of a stream's rows stays at hand whether it is selected or not."""
    taken = {column.name.lower() for column in projected.columns}
    hidden = tuple(column for column in scope.columns if column.is_hidden and column.name.lower() not in taken)
    named = tuple(Named(column.name, quoted(column.name)) for column in hidden)
    return Projected(projected.outputs + named, projected.columns + hidden)


@dataclass(frozen=True)
class _Aliases:
    """The lookup of a select list: columns first, then aliases to the left."""

    scope: Scope
    outputs: list[Named]

    def __call__(self, reference: Reference) -> Edit:
        if resolve(self.scope, reference) is None:
            for output in self.outputs:
                if output.name.lower() == reference.parts[0].lower():
                    return reference.upto(1, f"({output.sql})")
        return columns_of(self.scope, _PseudoHint("a query without a window"))(reference)


@dataclass(frozen=True)
class _PseudoHint:
    where: str

    def __call__(self, reference: Reference) -> str | None:
        if reference.parts[0].lower() not in (*PSEUDO_COLUMNS, "window"):
            return None
        return f"{reference.parts[0]} is made by a window and is not known in {self.where}"


def _refuse_windows(span: Span) -> None:
    for call in calls(span):
        if call.name in WINDOW_FUNCTIONS:
            raise call.span.error(
                "a window groups rows, so it stands in GROUP BY", f"write GROUP BY {call.span.render()}"
            )


def _refuse_duplicate(item: SelectItem, names: list[str]) -> None:
    twice = duplicate(names)
    if twice is not None:
        raise item.expression.error(f"two columns are called {twice}", "give one of them another name with AS")


def _united(first: ScopeColumn, columns: list[ScopeColumn]) -> ScopeColumn:
    same = all(column.type == first.type for column in columns)
    return ScopeColumn(first.name, first.type if same else "", all(column.is_event_time for column in columns))


def _renamed(scope: Scope, first: Scope) -> Relation:
    """UNION ALL goes by position and takes the names of the first part."""
    if [column.name for column in scope.columns] == [column.name for column in first.columns]:
        return scope.relation
    names = [column.name for column in first.columns]
    if isinstance(scope.relation, Project):
        outputs = [output.sql for output in scope.relation.columns]
        return Project(scope.relation.input, tuple(Named(name, sql) for name, sql in zip(names, outputs, strict=True)))
    own = [quoted(column.name) for column in scope.columns]
    return Project(scope.relation, tuple(Named(name, sql) for name, sql in zip(names, own, strict=True)))
