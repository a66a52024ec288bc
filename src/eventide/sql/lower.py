"""CREATE STREAM to the logical plan: the whole statement, resolved against a catalog."""

from __future__ import annotations

from dataclasses import dataclass, replace

from eventide.errors import SqlError
from eventide.plan.fusion import depth_of
from eventide.plan.joins import AnyTime
from eventide.plan.logical import Forward, Join, Named, Over, Query, Rank, Stream, StreamOptions
from eventide.plan.modes import EmitMode, LatePolicy
from eventide.plan.names import quoted
from eventide.plan.reads import names_its_time, sources_of, window_of
from eventide.plan.stream_source import change_log
from eventide.plan.trigger import CONTINUOUS, parse_trigger
from eventide.plan.validate import Places
from eventide.plan.windows import RangeFrame, Unbounded
from eventide.sql.aggregate_calls import NO_OVER
from eventide.sql.change_logs import refuse_other_op
from eventide.sql.composition import Composition
from eventide.sql.emits import Lateness, mode_of, of_operator, of_statement
from eventide.sql.event_times import carried_time
from eventide.sql.grouped import lower_grouped
from eventide.sql.joins import lower_join, read_join
from eventide.sql.lookups import with_lookups
from eventide.sql.options import Options
from eventide.sql.over import lower_over
from eventide.sql.rank import check_places, lower_rank
from eventide.sql.relations import (
    Readable,
    apply_watermark,
    lower_from,
    lower_input,
    lower_union,
    project,
    scan,
    with_lag,
    with_where,
)
from eventide.sql.scope import Scope, resolve, single_reference, unknown_column
from eventide.sql.select_above import select_above
from eventide.sql.shape import aggregates, keeps_state, operator_below, query_below, ranks, runs
from eventide.sql.statements import CreateStream
from eventide.sql.syntax import EmitNode, JoinNode, SelectNode, SubqueryRef, WindowTable
from eventide.sql.tokens import Span, word


@dataclass(frozen=True)
class Lowered:
    """A stream, the inner streams that it needs, innermost first, and where its parts stand in the SQL."""

    stream: Stream
    inner: tuple[Stream, ...]
    places: Places


def lower(statement: CreateStream, catalog: Readable) -> Lowered:
    """Resolve a CREATE STREAM; every mistake that can be seen without Spark is an `SqlError` at its place."""
    statement = replace(statement, query=with_lookups(statement.query, catalog.tables))
    options, lateness = _stream_options(statement.options), of_statement(statement.emit, statement.options)
    ttl = statement.options.duration("state_ttl")
    composition = Composition(catalog, statement.name, lower_select, options, lateness, ttl, statement.emit)
    selects, emit = statement.query.selects, statement.emit
    if len(selects) == 1:
        query = lower_select(selects[0], composition, emit)
    else:
        query, emit = _lower_union(statement, composition)
    stream = composition.made(statement.name, query, emit, of_operator(selects[0], query))
    if lateness is not None and not composition.lateness_is_used:
        raise _useless(lateness, composition)
    streams = _with_late_name(statement, composition, [*composition.inner.values(), stream])
    for each in streams:
        _check_event_time(each, statement)
        refuse_other_op(each, statement.query.span)
        _check_late_policy(each, statement)
    _check_groups(statement, streams)
    return Lowered(streams[-1], tuple(streams[:-1]), Places(statement.query.span.sql, _offsets(statement)))


def lower_select(select: SelectNode, composition: Composition, emit: EmitNode) -> Query:
    """A SELECT, with those that it reads and that are one operator with it."""
    query = _lower_select(select, composition, emit)
    if isinstance(query, Rank):
        check_places(query, select)
    return query


def _lower_select(select: SelectNode, composition: Composition, emit: EmitNode) -> Query:
    below, source = query_below(select), select.source
    if below is not None and isinstance(source, SubqueryRef) and operator_below(below) is not None:
        query = _lower_select(below, composition, emit)
        merged = select_above(select, source, query, mode_of(emit, query))
        if merged is not None:
            return merged
        if isinstance(query, Rank):
            check_places(query, below)
        read = composition.read_query(query, emit, of_operator(below, query))
        return _forward(select, with_where(replace(scan(read, composition), qualifier=source.alias), select.where))
    has_over = ranks(select) or runs(select)
    is_plain = not aggregates(select) and not has_over and select.order_by is None
    if isinstance(source, JoinNode) and is_plain and not source.steps:
        return lower_join(select, source, composition, emit.mode)
    scope = _lower_from(select, composition)
    if runs(select):
        return _running(select, scope, emit, composition)
    if ranks(select):
        return _ranked(select, scope, emit, composition.state_ttl)
    if not aggregates(select):
        return _forward(select, scope)
    if select.order_by is not None:
        raise select.order_by.error(
            "the results of windows come out in the order in which the windows close", "leave ORDER BY out"
        )
    return lower_grouped(select, scope, emit, composition.state_ttl)


def _running(select: SelectNode, scope: Scope, emit: EmitNode, composition: Composition) -> Over:
    if aggregates(select):
        raise select.span.error(NO_OVER, "group in a subquery, and run over its rows")
    if scope.window is not None:
        raise select.span.error(
            "running aggregates go on from window to window",
            "leave the window table out, or GROUP BY window_start, window_end",
        )
    if select.order_by is not None:
        raise select.order_by.error("running aggregates come out in event-time order", "leave ORDER BY out")
    return lower_over(select, scope, emit, composition)


def _ranked(select: SelectNode, scope: Scope, emit: EmitNode, state_ttl: int | None) -> Rank:
    if aggregates(select):
        raise select.span.error("rows are grouped first and then ranked", "group in a subquery, and rank its rows")
    if select.order_by is not None:
        raise select.order_by.error("ranked rows come out by window and place", "leave ORDER BY out")
    return lower_rank(select, scope, emit, state_ttl)


def _lower_union(statement: CreateStream, composition: Composition) -> tuple[Forward, EmitNode]:
    """UNION ALL outermost. EMIT is about the windows of its parts, if any has one."""
    selects, emit = statement.query.selects, statement.emit
    scope = lower_union(statement.query, composition, emit)
    outputs = tuple(Named(column.name, quoted(column.name)) for column in scope.columns if not column.is_hidden)
    columns, time = scope.logical_columns(), carried_time(scope)
    query = Forward(scope.relation, columns, outputs, time=time, changes=scope.changes)
    return query, replace(emit, mode=None, every=None) if any(keeps_state(select) for select in selects) else emit


def _useless(lateness: Lateness, composition: Composition) -> SqlError:
    if composition.inner:
        return lateness.error(
            "only windows that read a source can allow lateness, and here an ordered stream reads it",
            "leave it out; behind the watermark, rows of an ordered stream are late",
        )
    return lateness.error(
        "only windows can allow lateness, and there is no window", "leave it out, or group by a window"
    )


def _offsets(statement: CreateStream) -> dict[str, tuple[int, int]]:
    offsets = {"query": (statement.query.span.start, statement.query.span.end)}
    if "late.policy" in statement.options.given:
        token = statement.options.place("late.policy")
        offsets["policy"] = (token.start, token.end + 1)
    return offsets


def _lower_from(select: SelectNode, catalog: Composition) -> Scope:
    """FROM and WHERE of a SELECT that is an operator of its own, with the watermarks that it sets."""
    source = select.source
    if isinstance(source, JoinNode):
        return read_join(select, source, catalog)
    if isinstance(source, WindowTable) and aggregates(select):
        scope = lower_input(source.input, catalog)
        scope = replace(scope, qualifier=source.alias or scope.qualifier)
    else:
        scope = lower_from(source, catalog)
    if select.watermark is not None:
        scope = apply_watermark(scope, select.watermark)
    if select.window is not None and "watermark" in select.window.durations:
        lag, span = select.window.durations["watermark"]
        scope = replace(scope, relation=with_lag(scope.relation, lag, span))
    return with_where(scope, select.where)


def _forward(select: SelectNode, scope: Scope) -> Forward:
    ordered = False
    if select.order_by is not None:
        _check_order(select.order_by, scope, select)
        if scope.op is not None:
            raise select.order_by.error("a change log leaves in the order of its changes", "leave ORDER BY out")
        ordered = True
    outputs = project(scope, select.items).outputs
    columns, time = scope.logical_columns(), carried_time(scope)
    return Forward(scope.relation, columns, outputs, ordered, time, scope.changes, scope.window, scope.where)


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
        known = [candidate.called for candidate in scope.columns if candidate.is_event_time]
        help = f"write ORDER BY {known[0]}" if known else "declare EVENT TIME in the source"
        raise span.error(f"{found[0].called} is not the event time, and no other order can be kept", help)
    return None


def _with_late_name(statement: CreateStream, composition: Composition, streams: list[Stream]) -> list[Stream]:
    """LATE DATA TO goes to the one stream of the statement in which rows can be late."""
    node = statement.emit
    if node.late_to is None:
        return streams
    place, can_be_late = node.places["late_to"], [each for each in streams if _has_late_rows(each, composition)]
    if not can_be_late:
        help = "add WITH ('late.policy' = 'strict') after the stream's name, or leave LATE DATA TO out"
        raise place.error("without a window no row is late, so nothing would ever arrive there", help)
    if len(can_be_late) > 1:
        names = " and ".join(f"{each.name}$late" for each in can_be_late)
        raise place.error(
            f"rows of this query can be late in {len(can_be_late)} places",
            f"leave it out, and read {names}; or make streams of the subqueries, each with a LATE DATA TO",
        )
    if can_be_late[0].emit.mode is EmitMode.FINAL:
        raise place.error(
            "EMIT FINAL counts late rows and does not keep them",
            "leave LATE DATA TO out, or write EMIT ON WINDOW CLOSE",
        )
    return [
        replace(each, emit=replace(each.emit, late_to=node.late_to)) if each is can_be_late[0] else each
        for each in streams
    ]


def _has_late_rows(stream: Stream, composition: Composition) -> bool:
    is_free = isinstance(stream.query, Forward) and not stream.query.ordered
    is_free = is_free and stream.options.late_policy is LatePolicy.WINDOW
    is_strict = isinstance(stream.query, Over) and not stream.query.order
    return composition.is_entrance(stream.query) and not is_free and (is_strict or not _is_unbounded(stream))


def _is_unbounded(stream: Stream) -> bool:
    """Whether what it keeps is not bounded by time."""
    if isinstance(stream.query, Rank):
        return not stream.query.windowed
    if isinstance(stream.query, Join):
        return isinstance(stream.query.bound, AnyTime)
    if isinstance(stream.query, Over):
        frame = stream.query.frame
        return bool(stream.query.order) or not isinstance(frame, RangeFrame) or frame.preceding is None
    return isinstance(window_of(stream.query), Unbounded)


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
    if options.flag("fusion.enabled") is False and "fusion.max_depth" in options.given:
        raise options.error("fusion.max_depth", "nothing is fused, so there is no depth", "leave one of the two out")
    return StreamOptions(
        policy,
        options.duration("late.max_lateness"),
        options.count("max_groups"),
        options.count("shards"),
        options.flag("eventtime.enabled") is not False,
        options.flag("fused_scan") is not False,
        depth_of(options.flag("fusion.enabled"), options.count("fusion.max_depth")),
        options.text("sum.overflow") == "error",
        options.keep("results.keep"),
        parse_trigger(options.text("trigger") or CONTINUOUS),
    )


def _check_groups(statement: CreateStream, streams: list[Stream]) -> None:
    """Options that limit the groups that are kept need some that they can limit."""
    options = statement.options
    if "state_ttl" in options.given and not any(_is_unbounded(each) for each in streams):
        help = "leave it out; a window's state goes when it closes"
        raise options.error("state_ttl", "state_ttl is for groups, places and joins without a window", help)
    if "max_groups" not in options.given or any(each.options.max_groups is not None for each in streams):
        return
    if any(_is_unbounded(each) for each in streams):
        raise options.error("max_groups", "max_groups limits the groups of a window", "use state_ttl, or leave it out")
    lacks = "a join has none" if isinstance(streams[-1].query, Join) else "there is no window"
    raise options.error("max_groups", f"max_groups limits the groups of a window, and {lacks}", "leave it out")


def _check_late_policy(stream: Stream, statement: CreateStream) -> None:
    """A change log from which late rows were left out would no longer add up."""
    reads_changes = any(change_log(source) is not None for source in sources_of(stream.query))
    if reads_changes and stream.options.late_policy is not LatePolicy.WINDOW:
        raise statement.options.error(
            "late.policy", "a change log would not add up without its late rows", "leave late.policy out"
        )


def _check_event_time(stream: Stream, statement: CreateStream) -> None:
    """Options and query must agree on whose time counts."""
    options = statement.options
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
