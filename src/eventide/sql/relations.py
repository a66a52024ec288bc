"""FROM, WHERE and subqueries: from the query as written to relations of the plan, with the event time kept in sight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

from eventide.errors import suggest
from eventide.plan.column_roles import RowTime, SideTime, WindowBound, roles_of
from eventide.plan.logical import (
    Explode,
    Filter,
    Lookup,
    Named,
    Project,
    Query,
    Relation,
    Scan,
    Source,
    Stream,
    Table,
    Union,
)
from eventide.plan.names import quoted
from eventide.plan.stream_source import (
    IS_LATE,
    OP_COLUMN,
    STREAM,
    TIME_COLUMNS,
    WINDOW_TIME,
    ChangeLog,
    change_log,
    is_stream,
    stream_source,
)
from eventide.sql.aggregate_calls import refuse_aggregates
from eventide.sql.conjuncts import conjunction
from eventide.sql.emits import Lateness
from eventide.sql.event_times import cast_type, not_a_time
from eventide.sql.lateral_views import with_view
from eventide.sql.lookups import with_lookup
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
from eventide.sql.shape import keeps_state, operator_below, ranks
from eventide.sql.syntax import (
    EmitNode,
    InputStep,
    JoinNode,
    LookupJoin,
    QueryNode,
    SelectItem,
    SelectNode,
    SubqueryRef,
    TableRef,
    Watermark,
    WindowTable,
)
from eventide.sql.tokens import Edit, Span, calls
from eventide.sql.type_names import TIME_TYPES
from eventide.sql.window_functions import WINDOW_FUNCTIONS
from eventide.sql.window_tables import in_windows, split_where

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
    def tables(self) -> Mapping[str, Table]: ...

    @property
    def late_names(self) -> Mapping[str, str]:
        """Every name under which late rows can be read, with the stream whose rows they are."""
        ...

    def stream(self, name: str) -> Stream:
        """A stream, named or inner, by the exact name."""
        ...


class Composing(Readable, Protocol):
    """The same for a part of a statement, which may read other parts of it."""

    state_ttl: int | None

    @property
    def tells_changes(self) -> bool:
        """Whether the statement emits whatever changes, and not only what is final."""
        ...

    def read(self, select: SelectNode, emit: EmitNode) -> Source:
        """The stream that a SELECT becomes because it keeps state, as something to read."""
        ...

    def read_query(self, query: Query, emit: EmitNode, lateness: Lateness | None) -> Source:
        """The same for a part that has been lowered; `lateness` is its own."""
        ...


@dataclass(frozen=True)
class Projected:
    """A select list over a scope: the columns that it gives, and what is known of each."""

    outputs: tuple[Named, ...]
    columns: tuple[ScopeColumn, ...]


def lower_input(node: TableRef | SubqueryRef, catalog: Composing) -> Scope:
    """The scope that a source, a stream or a subquery in FROM gives."""
    if isinstance(node, TableRef):
        scope = scan(_readable(node, catalog), catalog, node.alias)
    else:
        scope = replace(lower_union(node.query, catalog), qualifier=node.alias)
    scope = apply_watermark(scope, node.watermark) if node.watermark is not None else scope
    return reduce(with_step, node.steps, scope)


def with_step(scope: Scope, step: InputStep) -> Scope:
    return with_lookup(scope, step) if isinstance(step, LookupJoin) else with_view(scope, step)


def lower_union(query: QueryNode, catalog: Composing, emit: EmitNode | None = None) -> Scope:
    """A subquery: one SELECT, or several with UNION ALL. Those that keep state are streams of their own."""
    emit, is_alone = emit or EmitNode(is_inner=True), len(query.selects) == 1
    scopes = [_lower_part(select, catalog, emit, is_alone) for select in query.selects]
    if len(scopes) == 1:
        return scopes[0]
    scopes = _with_common_times(_with_common_op(scopes, query))
    first = scopes[0]
    for select, scope in zip(query.selects, scopes, strict=True):
        if len(scope.columns) != len(first.columns):
            counts = [sum(not column.is_hidden for column in each.columns) for each in (scope, first)]
            raise select.span.error(
                f"this SELECT has {counts[0]} columns, the first one {counts[1]}",
                "UNION ALL needs the same number of columns",
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
    conditions, scope = split_where(scope, where)
    found = conjunction([rewrite(each, columns_of(scope, _PseudoHint("WHERE"))) for each in conditions])
    return scope if found is None else replace(scope, relation=Filter(scope.relation, found))


def project(scope: Scope, items: tuple[SelectItem, ...], made_too: bool = True) -> Projected:
    """The select list of a query without aggregates; earlier aliases may be used in later items, as in Spark.

    `made_too`: whether expressions may be over what a window makes.
    """
    outputs: list[Named] = []
    columns: list[ScopeColumn] = []
    for item in items:
        if item.star:
            chosen = star_columns(scope, item)
            outputs += [Named(column.called, quoted(column.name)) for column in chosen]
            columns += [replace(column, name=column.called, label=None, qualifier=None) for column in chosen]
            _refuse_duplicate(item, [output.name for output in outputs])
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
        name = item.alias or (plain.called if plain is not None else output_name(item.expression, scope))
        is_passed = made_too or (plain is not None and plain.is_made and name == plain.name)
        outputs.append(Named(name, rewrite(item.expression, _Aliases(scope, list(outputs), is_passed))))
        if plain is None:
            columns.append(ScopeColumn(name, cast_type(item.expression)))
        else:
            columns.append(plain.renamed(name))
        _refuse_duplicate(item, [output.name for output in outputs])
    return Projected(tuple(outputs), tuple(columns))


def star_columns(scope: Scope, item: SelectItem) -> list[ScopeColumn]:
    """The columns that `*`, `s.*` or `* EXCEPT (...)` stands for."""
    listed = [column for column in scope.columns if not column.is_hidden]
    if item.qualifier is not None:
        wanted = item.qualifier.lower()
        listed = [c for c in scope.columns if wanted == (c.qualifier or scope.qualifier or "").lower()]
        listed = [column for column in listed if column.called.lower() not in TIME_COLUMNS or not column.is_hidden]
        if not listed:
            raise item.expression.error(f"there is nothing called {item.qualifier} in FROM", "write *")
    for name in item.excluded:
        if scope.find(name) is None:
            raise item.expression.error(
                f"there is no column {name}", suggest(name, [column.called for column in scope.columns])
            )
    excluded = {name.lower() for name in item.excluded}
    shown = [column for column in listed if not column.is_exploded]
    return [column for column in shown if column.called.lower() not in excluded]


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
            if is_stream(relation.source):
                raise span.error(
                    "rows of a stream bring their watermark with them",
                    "leave it out; it can only be declared for sources",
                )
            return replace(relation, watermark_lag=lag)
        case Union():
            return Union(tuple(with_lag(part, lag, span) for part in relation.inputs))
        case Filter() | Project() | Explode() | Lookup():
            return replace(relation, input=with_lag(relation.input, lag, span))


def scan(source: Source, catalog: Readable, alias: str | None = None) -> Scope:
    """The scope of a source, or of a stream as one."""
    event_time = source.event_time.column if source.event_time is not None else None
    fields = dict(message.column.split(".", 1) for message in source.messages)
    of_stream = is_stream(source)
    is_output = of_stream and IS_LATE not in source.options
    roles = roles_of(catalog.stream(source.options[STREAM]), catalog.stream) if is_output else {}
    columns = tuple(
        ScopeColumn(
            c.name,
            c.type,
            c.name == event_time or (of_stream and c.name == WINDOW_TIME) or roles.get(c.name) == RowTime(),
            fields.get(c.name),
            of_stream=of_stream,
            is_hidden=of_stream and c.name in (*TIME_COLUMNS, OP_COLUMN) and c.type != "",
            side_time=role if isinstance(role := roles.get(c.name), SideTime) else None,
            bound=role if isinstance(role, WindowBound) else None,
            changes=change_log(source) if c.name.lower() == OP_COLUMN else None,
        )
        for c in source.columns
    )
    time_of = TimeOf.SOURCE if event_time else TimeOf.NONE
    return Scope(Scan(source, alias=alias), columns, time_of, alias or source.name)


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
            return stream_source(name, catalog.stream(late_of), late=True)
    known = [*catalog.sources, *catalog.streams, *catalog.late_names]
    raise node.span.error(f"there is no source or stream {node.name}", suggest(node.name, known))


def lower_from(source: TableRef | SubqueryRef | WindowTable, catalog: Composing) -> Scope:
    """The scope of everything in FROM but joins."""
    return (
        in_windows(source, lower_input(source.input, catalog))
        if isinstance(source, WindowTable)
        else lower_input(source, catalog)
    )


def _lower_part(select: SelectNode, catalog: Composing, emit: EmitNode, is_alone: bool) -> Scope:
    """A SELECT in FROM, `is_alone`, or of a UNION ALL."""
    source = select.source
    operator = operator_below(select)
    is_around_places = operator is not None and ranks(operator)  # and may say which of them are wanted
    if keeps_state(select) or isinstance(source, JoinNode) or is_around_places:
        return replace(scan(catalog.read(select, emit), catalog), qualifier=None)
    scope = lower_from(source, catalog)
    if scope.window is not None and not is_alone:
        return replace(scan(catalog.read(select, emit), catalog), qualifier=None)
    if select.watermark is not None:
        scope = apply_watermark(scope, select.watermark)
    return selected(with_where(scope, select.where), select, select.items)


def selected(scope: Scope, select: SelectNode, items: tuple[SelectItem, ...]) -> Scope:
    """What a select list in FROM makes of a scope; `items` are those of `select`, or some of them."""
    if len(items) == 1 and items[0].star and not items[0].excluded:
        star_columns(scope, items[0])
        if all(column.qualifier is None for column in scope.columns):
            return scope
    projected = _with_hidden(project(scope, items, made_too=False), scope)
    if scope.time_of is TimeOf.COLUMN and not any(column.is_event_time for column in projected.columns):
        raise select.span.error("this SELECT drops the column of the watermark", "select it, too")
    return Scope(
        Project(scope.relation, projected.outputs),
        projected.columns,
        scope.time_of,
        window=scope.window,
        where=scope.where,
    )


def _with_hidden(projected: Projected, scope: Scope) -> Projected:
    """The event time of a stream's rows stays at hand whether it is selected or not."""
    taken = {column.name.lower() for column in projected.columns}
    hidden = tuple(column for column in scope.columns if column.is_hidden and column.name.lower() not in taken)
    columns = projected.columns + hidden
    known = [output.sql for output in projected.outputs] + [quoted(column.name) for column in hidden]
    outputs = [Named(c.name, sql) for c, sql in zip(columns, known, strict=True) if not c.is_made]
    return Projected(tuple(outputs), columns)


@dataclass(frozen=True)
class _Aliases:
    """The lookup of a select list: columns first, then aliases to the left."""

    scope: Scope
    outputs: list[Named]
    made_too: bool = True

    def __call__(self, reference: Reference) -> Edit:
        if resolve(self.scope, reference) is None:
            for output in self.outputs:
                if output.name.lower() == reference.parts[0].lower():
                    return reference.upto(1, f"({output.sql})")
        return columns_of(self.scope, _PseudoHint("a query without a window"), self.made_too)(reference)


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
                "a window groups rows, so it belongs in GROUP BY", f"write GROUP BY {call.span.render()}"
            )


def _refuse_duplicate(item: SelectItem, names: list[str]) -> None:
    twice = duplicate(names)
    if twice is not None:
        raise item.expression.error(f"two columns are called {twice}", "give one of them another name with AS")


def _united(first: ScopeColumn, columns: list[ScopeColumn]) -> ScopeColumn:
    same = all(column.type == first.type for column in columns)
    is_event_time = all(column.is_event_time for column in columns)
    bound = first.bound if all(column.bound == first.bound for column in columns) else None
    return replace(
        first,
        type=first.type if same else "",
        is_event_time=is_event_time,
        time_field=None,
        of_stream=all(column.of_stream for column in columns),
        bound=bound,
    )


def _with_common_op(scopes: list[Scope], query: QueryNode) -> list[Scope]:
    """If a part of a union is a change log, the union is one: to it the rows of other parts are added for good."""
    kinds = [scope.op.changes for scope in scopes if scope.op is not None]
    if not kinds:
        return scopes
    kind = ChangeLog.AT_ANY_TIME if ChangeLog.AT_ANY_TIME in kinds else ChangeLog.OF_WINDOWS
    scopes = [_with_op(scope, kind) for scope in scopes]
    if len({scope.op is not None and scope.op.is_hidden for scope in scopes}) > 1:
        raise query.span.error("op is selected in some parts of the UNION ALL", "select it in all of them, or in none")
    return scopes


def _with_op(scope: Scope, kind: ChangeLog) -> Scope:
    known = scope.op or scope.find(OP_COLUMN)
    if known is not None:
        columns = tuple(replace(column, changes=kind if column is known else None) for column in scope.columns)
        return replace(scope, columns=columns)
    outputs = (*(Named(column.name, quoted(column.name)) for column in scope.columns), Named(OP_COLUMN, "1"))
    op = ScopeColumn(OP_COLUMN, "int", of_stream=True, is_hidden=True, changes=kind)
    return replace(scope, relation=Project(scope.relation, outputs), columns=(*scope.columns, op))


def _with_common_times(scopes: list[Scope]) -> list[Scope]:
    """The parts of a union without the hidden times that not all of them have; those of all stand last."""
    common = [
        name
        for name in (*TIME_COLUMNS, OP_COLUMN)
        if all(any(column.is_hidden and column.name == name for column in scope.columns) for scope in scopes)
    ]
    return [_with_times(scope, common) for scope in scopes]


def _with_times(scope: Scope, times: list[str]) -> Scope:
    hidden = {column.name: column for column in scope.columns if column.is_hidden}
    columns = (*(column for column in scope.columns if not column.is_hidden), *(hidden[name] for name in times))
    if columns == scope.columns:
        return scope
    outputs = tuple(Named(column.name, quoted(column.name)) for column in columns)
    return replace(scope, relation=Project(scope.relation, outputs), columns=columns)


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
