"""What load shedding asks of a stream's plan: the windows that may go as a whole, and the weight of what is left."""

from __future__ import annotations

import sqlglot
from sqlglot import expressions as exp

from eventide.admission.options import AdmissionSpec, ShedMode
from eventide.plan.joins import JoinBound, OverlappingSessions, SameWindow
from eventide.plan.logical import Filter, Join, Query, Relation, Scan, Source, Stream, Union, WindowAggregate
from eventide.plan.modes import LatePolicy
from eventide.plan.names import quoted
from eventide.plan.physical import AggregateWindows, Input, JoinRows, Physical
from eventide.plan.reads import sources_of
from eventide.plan.windows import Calendar, Cumulate, Hop, Session, Tumble, Window

SHED_RATIO = "shed_ratio"  # the share of a window's rows that was shed, as it is estimated from those that were kept
_SESSIONS = "where a session begins and ends is not known before all its rows have come"
SHED_WEIGHT = "coalesce(1e0, 0e0)"  # how many rows one stands for: 1, and more where tasks shed, which they write over


def sheds_windows(source: Source) -> bool:
    return _sheds_windows(source.admission)


def _sheds_windows(spec: AdmissionSpec | None) -> bool:
    return spec is not None and spec.shed is not None and spec.sheds and spec.shed.mode is ShedMode.WINDOWS


def shed_window(physical: Physical) -> tuple[int, int] | None:
    """Offset and size of the spans of time that may go as a whole; None if rows go one by one."""
    if not any(sheds_windows(input.source) for input in physical.inputs):
        return None
    operator, span = physical.operator, None
    if isinstance(operator, AggregateWindows):
        span = _span(operator.window)
    elif isinstance(operator, JoinRows):
        span = _span(_shared(operator.bound))
    return None if span is None else (span.offset, span.size)


def whole_span(query: Query) -> Tumble | None:
    """The spans of time that windows lie in, such that no window has rows of two of them; None if there are none."""
    return _span(_window(query))


def _window(query: Query) -> Window | None:
    match query:
        case WindowAggregate():
            return query.window
        case Join():
            return _shared(query.bound)
        case _:
            return None


def _shared(bound: JoinBound) -> Window | None:
    return bound.window if isinstance(bound, SameWindow) else None


def _span(window: Window | None) -> Tumble | None:
    match window:
        case Tumble():
            return window
        case Cumulate():
            return Tumble(window.size, window.offset)
        case _:
            return None


def weight_column(input: Input) -> str | None:
    """The packed column that says how many rows one stands for; None if nobody asks."""
    return next((column.name for column in input.packed if column.sql == SHED_WEIGHT), None)


def why_not_windows(stream: Stream) -> tuple[str, str] | None:
    """What forbids that whole windows of a stream are shed, and what to do; None if nothing does, or none are."""
    sources = list(sources_of(stream.query))
    shedding = [source for source in sources if sheds_windows(source)]
    if not shedding:
        return None
    name, rows = shedding[0].name, "'shed.mode' = 'rows'"
    query = stream.query
    if whole_span(query) is None:
        return f"{name} sheds whole windows, and {_why_cut(query)}", f"{_whole_instead(query)}, or give {name} {rows}"
    if stream.options.late_policy is LatePolicy.REASSIGN:
        return (
            f"{name} sheds whole windows, and 'late.policy' = 'reassign' moves rows to others",
            f"leave the policy out, or give {name} {rows}",
        )
    if len({_fate(source) for source in sources}) > 1:
        return (
            f"{name} sheds whole windows, and what it meets in them would not go with it",
            "give all sources of the stream the same shed.mode, sla.class and sla.priority",
        )
    if not all(_is_of_keys(source, query) for source in shedding):
        return (
            f"{name} sheds whole windows, and its sla.priority may differ between rows of one",
            f"let it read only columns by which the stream groups, or give {name} {rows}",
        )
    return None


def _why_cut(query: Query) -> str:
    """Why no row can go without cutting a window that stays."""
    if isinstance(query, Join) and isinstance(query.bound, OverlappingSessions):
        return _SESSIONS
    match _window(query):
        case Hop():
            return "here each row is in several that overlap: one that goes would be missing in others"
        case Session():
            return _SESSIONS
        case Calendar():
            return "those of a calendar differ in length"
        case _:
            return "here rows are in none that all of them share"


def _whole_instead(query: Query) -> str:
    return "join WITHIN TUMBLE(…)" if isinstance(query, Join) else "group by TUMBLE(…) or CUMULATE(…)"


def _fate(source: Source) -> tuple[object, ...]:
    """What decides whether a window of the source goes."""
    spec = source.admission
    return () if spec is None or not _sheds_windows(spec) else (spec.priority, spec.priority_sql)


def _is_of_keys(source: Source, query: Query) -> bool:
    """Whether all rows of a group, or of a key of a join, have one priority."""
    sql = None if source.admission is None else source.admission.priority_sql
    if sql is None:
        return True
    names = sorted(quoted(name).lower() for name in priority_columns(sql))
    match query:
        case WindowAggregate():
            keys = {key.sql.lower() for key in query.keys}
            return _is_plain(query.input) and keys.issuperset(names)
        case Join():
            sides = [[key.lower() for key in side.keys] for side in (query.left, query.right)]
            is_plain = _is_plain(query.left.input) and _is_plain(query.right.input)
            if not is_plain or any(name not in keys for keys in sides for name in names):
                return False
            left, right = ([keys.index(name) for name in names] for keys in sides)
            return left == right
        case _:
            return False


def _is_plain(relation: Relation) -> bool:
    """Whether the columns of the relation are those of its sources, under their names."""
    match relation:
        case Scan():
            return True
        case Filter():
            return _is_plain(relation.input)
        case Union():
            return all(map(_is_plain, relation.inputs))
        case _:
            return False


def priority_columns(sql: str) -> set[str]:
    """The columns that an expression reads, as they are written."""
    return {column.parts[0].name for column in sqlglot.parse_one(sql, dialect="spark").find_all(exp.Column)}
