"""CREATE STREAM to the logical plan: the whole statement, resolved against a catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from eventide.errors import SqlError
from eventide.plan.logical import Emit, Forward, Join, Named, Query, Stream, StreamOptions, WindowAggregate
from eventide.plan.modes import EmitMode, LatePolicy
from eventide.plan.names import quoted
from eventide.plan.reads import names_its_time, sources_of, window_of
from eventide.plan.validate import Places
from eventide.plan.windows import Slide, Unbounded
from eventide.sql.event_times import carried_time
from eventide.sql.grouped import is_grouped, lower_grouped
from eventide.sql.joins import check_join_emit, join_below, lower_join
from eventide.sql.options import Options
from eventide.sql.relations import Readable, apply_watermark, lower_input, lower_union, project, with_lag, with_where
from eventide.sql.scope import Scope, resolve, single_reference, unknown_column
from eventide.sql.statements import CreateStream
from eventide.sql.syntax import EmitNode, SelectNode, WindowTable
from eventide.sql.tokens import Span, word


@dataclass(frozen=True)
class Lowered:
    """A stream and where its parts stand in the SQL."""

    stream: Stream
    places: Places


def lower(statement: CreateStream, catalog: Readable) -> Lowered:
    """Resolve a CREATE STREAM; every mistake that can be seen without Spark is an `SqlError` at its place."""
    options = _stream_options(statement.options)
    spans: dict[str, Span] = {"query": statement.query.span}
    query = _lower_query(statement, catalog, spans)
    emit = _emit(statement, query, options, spans)
    stream = Stream(statement.name, query, emit, options)
    _check_event_time(stream, statement, spans)
    return Lowered(stream, Places(statement.query.span.sql, _offsets(statement, spans)))


def _offsets(statement: CreateStream, spans: Mapping[str, Span]) -> dict[str, tuple[int, int]]:
    offsets = {part: (span.start, span.end) for part, span in spans.items()}
    for option, part in (("late.policy", "policy"), ("max_groups", "max_groups")):
        if option in statement.options.given:
            token = statement.options.place(option)
            offsets[part] = (token.start, token.end + 1)
    return offsets


def _lower_query(statement: CreateStream, catalog: Readable, spans: dict[str, Span]) -> Query:
    selects = statement.query.selects
    if len(selects) > 1:
        scope = lower_union(statement.query, catalog)
        outputs = tuple(Named(column.name, quoted(column.name)) for column in scope.columns)
        return Forward(scope.relation, scope.logical_columns(), outputs, time=carried_time(scope))
    select = selects[0]
    spans["from"] = select.source.span
    join = lower_join(select, catalog, statement.emit.mode)
    if join is not None:
        return join
    scope = _lower_from(select, catalog)
    if not is_grouped(select):
        return _forward(select, scope, spans)
    if select.order_by is not None:
        raise select.order_by.error(
            "the results of windows leave in the order in which the windows close", "leave ORDER BY out"
        )
    mode = statement.emit.mode or EmitMode.ON_WINDOW_CLOSE
    query, spans["window"] = lower_grouped(select, scope, mode, statement.options.duration("state_ttl"))
    return query


def _lower_from(select: SelectNode, catalog: Readable) -> Scope:
    """FROM and WHERE of the outermost SELECT, with the watermarks that it sets."""
    source = select.source
    if isinstance(source, WindowTable):
        scope = lower_input(source.input, catalog)
        scope = replace(scope, qualifier=source.alias or scope.qualifier)
    else:
        scope = lower_input(source, catalog)
    if select.watermark is not None:
        scope = apply_watermark(scope, select.watermark)
    if select.window is not None and "watermark" in select.window.durations:
        lag, span = select.window.durations["watermark"]
        scope = replace(scope, relation=with_lag(scope.relation, lag, span))
    return with_where(scope, select.where)


def _forward(select: SelectNode, scope: Scope, spans: dict[str, Span]) -> Forward:
    ordered = False
    if select.order_by is not None:
        spans["order"] = select.order_by
        _check_order(select.order_by, scope, select)
        ordered = True
    return Forward(
        scope.relation, scope.logical_columns(), project(scope, select.items).outputs, ordered, carried_time(scope)
    )


def _check_order(span: Span, scope: Scope, select: SelectNode) -> None:
    """ORDER BY the event time, ascending: the only order that a stream can keep."""
    tokens = span.tokens
    column = span.part(0, len(tokens) - 1) if len(tokens) > 1 and word(tokens[-1]) == "ASC" else span
    reference = single_reference(column)
    if reference is None:
        raise span.error(
            "a stream can be ordered by its event time only, ascending", "write ORDER BY and the event-time column"
        )
    found = resolve(scope, reference)
    if found is None:
        for item in select.items:
            if item.alias is not None and item.alias.lower() == reference.parts[0].lower():
                return _check_order(item.expression, scope, select)
        raise unknown_column(scope, reference)
    if not found[0].is_event_time:
        known = [candidate.name for candidate in scope.columns if candidate.is_event_time]
        help = f"write ORDER BY {known[0]}" if known else "declare EVENT TIME in the source"
        raise span.error(f"{found[0].name} is not the event time, and no other order can be kept", help)
    return None


@dataclass(frozen=True)
class _Lateness:
    """The allowed lateness, and how to raise an error at the place where it was given."""

    micros: int
    error: Callable[[str, str], SqlError]


def _emit(statement: CreateStream, query: Query, options: StreamOptions, spans: dict[str, Span]) -> Emit:
    node = statement.emit
    for part, name in (("mode", "emit"), ("lateness", "lateness"), ("late_to", "late_to")):
        if part in node.places:
            spans[name] = node.places[part]
    lateness = _lateness(statement)
    mode = node.mode or EmitMode.ON_WINDOW_CLOSE
    if isinstance(query, Forward):
        _check_forward_emit(query, node, lateness, options)
    elif isinstance(query, WindowAggregate):
        _check_final(node, lateness)
        _check_window_emit(query, node, mode, lateness)
    elif isinstance(query, Join):
        _check_final(node, lateness)
        check_join_emit(query, node)
    else:
        _check_rank_emit(node)
    return Emit(mode, node.every, lateness.micros if lateness else 0, node.late_to)


def _check_rank_emit(node: EmitNode) -> None:
    """The rows of a window are ranked once, when it closes."""
    if node.mode not in (None, EmitMode.ON_WINDOW_CLOSE):
        raise node.places["mode"].error("the best rows of a window are known when it closes", "leave EMIT out")


def _lateness(statement: CreateStream) -> _Lateness | None:
    """The allowed lateness, from the one of four places where it may stand."""
    node, select, options = statement.emit, statement.query.selects[0], statement.options
    found: list[_Lateness] = []
    if node.allowed_lateness is not None:
        found.append(_Lateness(node.allowed_lateness, node.places["lateness"].error))
    if select.window is not None and "allowed lateness" in select.window.durations:
        micros, span = select.window.durations["allowed lateness"]
        found.append(_Lateness(micros, span.error))
    join = join_below(select)
    if join is not None and join.within is not None and join.within.grace is not None:
        micros, span = join.within.grace
        found.append(_Lateness(micros, span.error))
    option = options.duration("allowed_lateness")
    if option is not None:
        found.append(_Lateness(option, lambda message, help: options.error("allowed_lateness", message, help)))
    if len(found) > 1:
        raise found[1].error("the allowed lateness is given twice", "keep one of them")
    return found[0] if found else None


def _check_forward_emit(query: Forward, node: EmitNode, lateness: _Lateness | None, options: StreamOptions) -> None:
    if node.mode is not None:
        raise node.places["mode"].error(
            "EMIT says when a window gives its rows, and there is no window", "leave EMIT out, or group by a window"
        )
    if lateness is not None:
        raise lateness.error(
            "lateness is allowed to windows, and there is no window", "leave it out, or group by a window"
        )
    if node.late_to is not None and not query.ordered and options.late_policy is LatePolicy.WINDOW:
        help = "add WITH ('late.policy' = 'strict') behind the stream's name, or leave LATE DATA TO out"
        raise node.places["late_to"].error("without a window no row is late, so nothing would ever arrive there", help)


def _check_final(node: EmitNode, lateness: _Lateness | None) -> None:
    if node.mode is not EmitMode.FINAL:
        return
    instead = "or write EMIT ON WINDOW CLOSE"
    if lateness is not None:
        raise lateness.error("EMIT FINAL allows no lateness", f"leave the lateness out, {instead}")
    if node.late_to is not None:
        raise node.places["late_to"].error(
            "EMIT FINAL counts late rows and does not keep them", f"leave LATE DATA TO out, {instead}"
        )


def _check_window_emit(query: WindowAggregate, node: EmitNode, mode: EmitMode, lateness: _Lateness | None) -> None:
    if isinstance(query.window, Unbounded) and lateness is not None:
        raise lateness.error("without a window no row is late", "leave the lateness out, or group by a window")
    if isinstance(query.window, Unbounded) and node.late_to is not None:
        raise node.places["late_to"].error("without a window no row is late", "leave LATE DATA TO out")
    if isinstance(query.window, Slide):
        if node.mode is not None and (query.window.lookahead is None or mode is not EmitMode.ON_WINDOW_CLOSE):
            raise node.places["mode"].error("a sliding window gives one row for each row that comes", "leave EMIT out")
        if lateness is not None:
            raise lateness.error("a sliding window allows no lateness", "leave it out")


def _stream_options(options: Options) -> StreamOptions:
    policy = LatePolicy(options.text("late.policy") or "window")
    if policy is LatePolicy.REASSIGN and "late.max_lateness" not in options.given:
        raise options.error(
            "late.policy", "late.policy 'reassign' needs 'late.max_lateness'", "add 'late.max_lateness' = '1 minute'"
        )
    if policy is not LatePolicy.REASSIGN and "late.max_lateness" in options.given:
        raise options.error(
            "late.max_lateness",
            "'late.max_lateness' is for 'late.policy' = 'reassign'",
            "leave it out, or set the policy",
        )
    return StreamOptions(
        policy,
        options.duration("late.max_lateness"),
        options.count("max_groups"),
        options.count("shards"),
        options.flag("eventtime.enabled") is not False,
        options.flag("fused_scan") is not False,
    )


def _check_event_time(stream: Stream, statement: CreateStream, spans: Mapping[str, Span]) -> None:
    """Options and query must agree on whose time counts."""
    options = statement.options
    if stream.options.max_groups is not None and not isinstance(stream.query, WindowAggregate):
        lacks = "a join has none" if isinstance(stream.query, Join) else "there is no window"
        raise options.error("max_groups", f"max_groups limits the groups of a window, and {lacks}", "leave it out")
    if "state_ttl" in options.given and not isinstance(window_of(stream.query), Unbounded):
        help = "leave it out; a window's state goes when it closes"
        raise options.error("state_ttl", "state_ttl is for groups without a window", help)
    if isinstance(window_of(stream.query), Unbounded) and stream.options.max_groups is not None:
        raise options.error("max_groups", "max_groups limits the groups of a window", "use state_ttl, or leave it out")
    if not stream.options.event_time and names_its_time(stream.query):
        raise options.error(
            "eventtime.enabled",
            "the query names the time of its rows",
            "leave 'eventtime.enabled' out, or the time in the query",
        )
    if options.flag("eventtime.enabled") and not names_its_time(stream.query):
        for source in sources_of(stream.query):
            if source.event_time is None:
                help = f"add EVENT TIME column TYPE type to the source {source.name}"
                raise options.error("eventtime.enabled", f"the source {source.name} has no event time", help)
