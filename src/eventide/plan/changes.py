"""What two texts of a stream differ in, and what becomes of the state that was kept under the first.

Pure: the engine, `validate --against`, KEEP STATE and ALTER all ask here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from eventide.eventtime.durations import format_duration
from eventide.plan.changed_inputs import changed_inputs
from eventide.plan.co_location import CoLocation, co_location
from eventide.plan.difference import bound_text, emit_text, join_emit_text, rank_text, window_text
from eventide.plan.identity import aggregate_identities, column_identities, key_identities, resolved
from eventide.plan.logical import Named, Stream, StreamOptions
from eventide.plan.modes import EmitMode, LatePolicy
from eventide.plan.physical import AggregateWindows, ForwardRows, JoinRows, OverRows, Physical, RankRows
from eventide.plan.planner import plan
from eventide.plan.verdicts import Difference, Verdict, cannot, changed, goes_on, next_window
from eventide.plan.windows import Session, Slide, Unbounded

_ONCE = (EmitMode.ON_WINDOW_CLOSE, EmitMode.FINAL)
_KIND: dict[type, str] = {
    AggregateWindows: "an aggregation",
    ForwardRows: "rows that are forwarded",
    JoinRows: "a join",
    RankRows: "places of rows",
    OverRows: "aggregates over frames of rows",
}


def differences(old: Stream, new: Stream, fused: Sequence[bool] | None = None) -> list[Difference]:
    """What becomes of each difference. `fused` says of each input of the old stream whether tasks read its files."""
    before, after = plan(old), plan(new)
    if type(before.operator) is not type(after.operator):
        kinds = (_KIND[type(each.operator)] for each in (before, after))
        return [cannot(changed("query", *kinds), "what the old one keeps is not what the new one needs")]
    return [
        *_operator(before, after),
        *_options(before, after),
        *changed_inputs(before, after, fused),
        *_ways(old, new),
    ]


def all_differences(
    old: Sequence[Stream], new: Sequence[Stream], fused: Mapping[str, Sequence[bool]] | None = None
) -> list[Difference]:
    """Those of all parts of a stream, its inner streams first; `fused` is by the name of a part."""
    known = fused or {}
    if len(old) != len(new):
        parts = (f"{len(streams)} parts that keep state" for streams in (old, new))
        return [cannot(changed("query", *parts), "what one part keeps is not what another needs")]
    return [
        found
        for before, after in zip(old, new, strict=True)
        for found in differences(before, after, known.get(before.name))
    ]


def refused(found: Sequence[Difference]) -> list[Difference]:
    """Those that keep the new text from going on."""
    return [difference for difference in found if difference.verdict is Verdict.CANNOT]


def keeps_groups(physical: Physical) -> bool:
    """Whether the value of every open window is at hand, rather than pieces that are put together at its close."""
    operator = physical.operator
    if not isinstance(operator, AggregateWindows) or isinstance(operator.window, Session | Slide | Unbounded):
        return False
    return physical.emit.mode not in _ONCE or physical.options.max_groups is not None


def lateness(stream: Stream) -> int:
    """How long after its end a window takes rows."""
    return 0 if stream.emit.mode is EmitMode.FINAL else stream.emit.allowed_lateness


def _operator(old: Physical, new: Physical) -> Iterator[Difference]:
    before, after = old.operator, new.operator
    if isinstance(before, AggregateWindows) and isinstance(after, AggregateWindows):
        yield from _aggregation(old, new, before, after)
    elif isinstance(before, ForwardRows) and isinstance(after, ForwardRows):
        yield from _forward(before, after)
    elif isinstance(before, JoinRows) and isinstance(after, JoinRows):
        yield from _join(old, new, before, after)
    elif isinstance(before, RankRows) and isinstance(after, RankRows):
        yield from _rank(old, new, before, after)
    elif isinstance(before, OverRows) and isinstance(after, OverRows):
        yield from _over(old, new, before, after)
    what = "having" if isinstance(after, AggregateWindows) else "where"
    words = [(each, _meanings(each)) for each in (old, new)]
    held = [None if each.having is None else _in_words(each.having, means) for each, means in words]
    if held[0] != held[1]:
        yield goes_on(changed(what, *held))
    yield from _outputs(*({named.name: _in_words(named.sql, means) for named in each.outputs} for each, means in words))
    if not isinstance(after, AggregateWindows):
        yield from _redefined(old, new)


# Aggregations -----------------------------------------------------------------------------------------------------


def _aggregation(
    old: Physical, new: Physical, before: AggregateWindows, after: AggregateWindows
) -> Iterator[Difference]:
    yield from _window(before, after)
    yield from _emit(old, new)
    yield from _keys(old, new, "the state of open windows is by the old keys")
    kept, wanted = aggregate_identities(old), aggregate_identities(new)
    for identity in dict.fromkeys(wanted.values()):
        if identity in kept.values():
            continue
        if isinstance(after.window, Unbounded):
            yield cannot(f"+ aggregate {identity}", "groups without a window never end, and their past is not known")
        else:
            why = "NULL for a group that had rows before the change, until its window has closed"
            yield next_window(f"+ aggregate {identity}", why)
    for identity in dict.fromkeys(kept.values()):
        if identity not in wanted.values():
            yield goes_on(f"- aggregate {identity}", "what was kept for it is forgotten")


def _window(before: AggregateWindows, after: AggregateWindows) -> Iterator[Difference]:
    if before.window == after.window:
        return
    what = changed("window", window_text(before.window), window_text(after.window))
    if isinstance(before.window, Unbounded) and isinstance(after.window, Unbounded):
        yield goes_on(what, "for each group from its next row on")
    else:
        yield cannot(what, "what is kept of open windows cannot be cut into others")


def _emit(old: Physical, new: Physical) -> Iterator[Difference]:
    was, now = old.emit, new.emit
    if (was.mode, was.every) != (now.mode, now.every):
        what = changed("emit", *(emit_text(emit).split(",")[0] for emit in (was, now)))
        if keeps_groups(new) and not keeps_groups(old):
            yield cannot(what, "windows that emit at their close are kept in pieces, without the value of each group")
        elif now.mode is EmitMode.CHANGES and was.mode in (EmitMode.EVERY, EmitMode.ON_WATERMARK):
            yield cannot(what, "what was given last is not kept, so it cannot be taken back; ON UPDATE can follow")
        else:
            yield goes_on(what, "from the next batch on; what waits comes at its window's close at the latest")
    if was.allowed_lateness != now.allowed_lateness:
        yield _lateness(was.allowed_lateness, now.allowed_lateness, _has_sessions(old))


def _has_sessions(physical: Physical) -> bool:
    return isinstance(physical.operator, AggregateWindows) and isinstance(physical.operator.window, Session)


def _lateness(old: int, new: int, of_sessions: bool = False) -> Difference:
    longer = "from the next batch on; windows that have closed stay closed"
    shorter = "windows that have waited long enough close with the next batch"
    what = changed("allowed lateness", format_duration(old), format_duration(new))
    if of_sessions and new < old:
        return cannot(what, "which rows still belong to an open session was decided with the longer one")
    return goes_on(what, longer if new > old else shorter)


def _keys(old: Physical, new: Physical, why: str) -> Iterator[Difference]:
    keys = [key_identities(each) for each in (old, new)]
    if keys[0] != keys[1]:
        yield cannot(changed("keys", *(", ".join(each) or None for each in keys)), why)


# Other queries ----------------------------------------------------------------------------------------------------


def _forward(before: ForwardRows, after: ForwardRows) -> Iterator[Difference]:
    if before.ordered and not after.ordered:
        yield cannot("order: by event time -> as rows come", "rows wait for their turn, and would never leave")
    if after.ordered and not before.ordered:
        yield goes_on("order: as rows come -> by event time")
    if before.window != after.window:
        yield goes_on(
            changed("window", *(None if w is None else window_text(w) for w in (before.window, after.window)))
        )


def _join(old: Physical, new: Physical, before: JoinRows, after: JoinRows) -> Iterator[Difference]:
    why = "rows that wait for partners are kept as the old join wants them"
    texts = (
        ("join", before.kind.value, after.kind.value),
        ("within", bound_text(before.bound), bound_text(after.bound)),
        ("condition", before.condition, after.condition),
        (
            "emit",
            *(
                join_emit_text(each.bound, each.at_close, plan.emit).split(",")[0]
                for each, plan in ((before, old), (after, new))
            ),
        ),
        ("NULL keys", before.null_safe, after.null_safe),
    )
    yield from (cannot(changed(what, was, now), why) for what, was, now in texts if was != now)
    yield from _keys(old, new, why)
    for side, columns in enumerate(zip((before.left, before.right), (after.left, after.right), strict=True)):
        names = [_named(plan, side, shown) for plan, shown in zip((old, new), columns, strict=True)]
        if names[0] != names[1]:
            yield cannot(changed(f"columns of the {'right' if side else 'left'} side", *map(", ".join, names)), why)
    if old.emit.allowed_lateness != new.emit.allowed_lateness:
        yield _lateness(old.emit.allowed_lateness, new.emit.allowed_lateness)


def _named(physical: Physical, side: int, shown: Sequence[Named]) -> list[str]:
    """The user's names of the columns that a pair shows of a side."""
    originals = next(input.originals for input in physical.inputs if input.side == side)
    return [next(original.name for original in originals if original.sql == column.sql) for column in shown]


def _rank(old: Physical, new: Physical, before: RankRows, after: RankRows) -> Iterator[Difference]:
    yield from _keys(old, new, "rows wait with the old ones")
    if before.window != after.window:
        windows = (None if each is None else window_text(each) for each in (before.window, after.window))
        yield cannot(changed("window", *windows), "rows wait in the old windows")
        return
    if before.told is not None or after.told is not None:
        yield from _places(old, new, before, after)
        return
    orders = [_order(old, before), _order(new, after)]
    if [column for column, _ in orders[0]] != [column for column, _ in orders[1]]:
        yield cannot(
            changed("order", *(", ".join(name for name, _ in each) for each in orders)), "rows wait with the old"
        )
    elif (before.function, orders[0], [key.nulls_first for key in before.order]) != (
        after.function,
        orders[1],
        [key.nulls_first for key in after.order],
    ):
        texts = (
            rank_text(each.function, key_identities(plan), order)
            for each, plan, order in ((before, old, orders[0]), (after, new, orders[1]))
        )
        yield goes_on(changed("place", *texts), "for rows that have not left yet")
    if old.emit.allowed_lateness != new.emit.allowed_lateness:
        yield _lateness(old.emit.allowed_lateness, new.emit.allowed_lateness)


def _over(old: Physical, new: Physical, before: OverRows, after: OverRows) -> Iterator[Difference]:
    why = "what is kept of the rows so far is what the old frames need"
    yield from _keys(old, new, why)
    if before.frame != after.frame:
        yield cannot("frame", why)
    calls = [", ".join(aggregate_identities(each).values()) for each in (old, new)]
    if calls[0] != calls[1]:
        yield cannot(changed("aggregates", *calls), why)
    columns = [", ".join(column.name for column in each.inputs[0].columns) for each in (old, new)]
    if columns[0] != columns[1]:
        yield cannot(changed("columns of the rows", *columns), why)
    if before.ttl != after.ttl:
        yield goes_on("state_ttl")


def _places(old: Physical, new: Physical, before: RankRows, after: RankRows) -> Iterator[Difference]:
    """Of a change log of places only the best rows are kept, with all their columns."""
    kept = [(each.function, each.told, _order(plan, each)) for each, plan in ((before, old), (after, new))]
    columns = [[column.name for column in plan.inputs[0].columns] for plan in (old, new)]
    if kept[0] != kept[1] or columns[0] != columns[1]:
        yield cannot("the rows whose places are told", "of the others nothing is kept")


def _order(physical: Physical, operator: RankRows) -> list[tuple[str, bool]]:
    first = physical.inputs[0]
    meaning = {column.name: resolved(first, column.sql) for column in first.packed}
    return [(meaning[key.column], key.descending) for key in operator.order]


# What every query has ---------------------------------------------------------------------------------------------


def _in_words(sql: str, means: Mapping[str, str]) -> str:
    """An expression over what the operator gives, with what the operator's own columns stand for."""
    return re.sub(r"\b__[aklr]\d+\b", lambda found: means.get(found[0], found[0]), sql)


def _meanings(physical: Physical) -> dict[str, str]:
    """What the columns stand for that the operator gives, by their names in the plan."""
    keys = {f"__k{number}": meaning for number, meaning in enumerate(key_identities(physical))}
    means = {**keys, **aggregate_identities(physical)}
    if isinstance(physical.operator, JoinRows):
        for side, shown in enumerate((physical.operator.left, physical.operator.right)):
            names = _named(physical, side, shown)
            means |= {column.name: f"{'lr'[side]}.{name}" for column, name in zip(shown, names, strict=True)}
    return means


def _redefined(old: Physical, new: Physical) -> Iterator[Difference]:
    """Columns of the rows that mean something else now."""
    for side in sorted({input.side for input in new.inputs} & {input.side for input in old.inputs}):
        before, after = column_identities(old, side), column_identities(new, side)
        for name in after:
            if name in before and before[name] != after[name]:
                why = "from the next batch on; rows that wait keep what they have"
                yield goes_on(changed(f"column {name}", before[name], after[name]), why)


def _outputs(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    for name, sql in after.items():
        if name not in before:
            yield goes_on(f"+ output {name}", "from the next batch on; rows given before have NULL there")
        elif before[name] != sql:
            yield goes_on(f"output {name}", "from the next batch on; rows given before stay as they are")
    for name in before:
        if name not in after:
            yield goes_on(f"- output {name}")
    if list(before) != list(after) and sorted(before) == sorted(after):
        yield goes_on("order of the outputs")


def _options(old: Physical, new: Physical) -> Iterator[Difference]:
    before, after = old.options, new.options
    if _policy(before) != _policy(after):
        yield goes_on(changed("late policy", _policy(before), _policy(after)))
    if before.max_groups != after.max_groups:
        yield _quota(old, new)
    elif co_location(old) is not co_location(new) and not _holds_nothing(old):
        where = (_PLACES[co_location(each)] for each in (old, new))
        yield cannot(changed("rows that meet in a shard", *where), "state lies in the shards where it was first put")
    if before.event_time != after.event_time:
        times = ("event time" if each.event_time else "processing time" for each in (before, after))
        yield cannot(changed("time", *times), "rows that are kept were put into windows by the old one")
    if after.shards is not None and before.shards != after.shards:
        yield goes_on(changed("shards", before.shards, after.shards), "if the checkpoint has as many: they are fixed")


_PLACES = {
    CoLocation.KEY: "by key",
    CoLocation.WINDOW: "by window",
    CoLocation.IDENTITY: "by id",
    CoLocation.EVERYTHING: "all",
    CoLocation.NOTHING: "any",
}


def _quota(old: Physical, new: Physical) -> Difference:
    before, after = old.options.max_groups, new.options.max_groups
    what = changed("max_groups", before, after)
    if co_location(old) is not co_location(new):
        help = "; a large number has the same effect" if after is None else ""
        return cannot(what, f"groups lie in other shards with a limit than without one{help}")
    if keeps_groups(new) and not keeps_groups(old):
        return cannot(what, "windows that emit at their close are kept in pieces, without the value of each group")
    return goes_on(what, "from the next batch on; groups that are there stay")


def _holds_nothing(physical: Physical) -> bool:
    """Whether there is no state that could lie in the wrong shard."""
    return isinstance(physical.operator, ForwardRows) and not physical.operator.ordered and not physical.deduplicates


def _policy(options: StreamOptions) -> str:
    if options.late_policy is LatePolicy.WINDOW:
        return "window"
    within = "" if options.max_lateness is None else f" within {format_duration(options.max_lateness)}"
    return f"{options.late_policy.value}{within}"


def _ways(old: Stream, new: Stream) -> Iterator[Difference]:
    """Where rows go that are not used."""
    if old.emit.late_to != new.emit.late_to:
        yield goes_on(changed("late data to", old.emit.late_to, new.emit.late_to))
    if old.routes != new.routes:
        yield goes_on("routes of side output")
