"""Random joins as SQL: what `join_plans` counts in microseconds is said in milliseconds, as Spark's watermark is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import assume, strategies as st

from eventide.plan.joins import Asof, Interval, JoinBound, Nearest, OverlappingPanes, OverlappingSessions, SameWindow
from eventide.plan.logical import Join, Stream
from eventide.plan.modes import JoinKind
from eventide.plan.reads import sources_of
from eventide.plan.windows import Cumulate, Hop, Tumble
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from tests.properties.events import Event
from tests.properties.join_plans import BOUNDS, joins, stories

_KINDS = {kind: f"{kind.value.upper()} JOIN" for kind in JoinKind}
_NAMES = {"__l1": "l.n", "__l2": "l.v", "__r2": "r.w"}
_MATCH = {Nearest.BEFORE: ("l.ts >= r.ts", "l.ts > r.ts"), Nearest.AFTER: ("l.ts <= r.ts", "l.ts < r.ts")}
_APART = {Nearest.BEFORE: "l.ts - r.ts", Nearest.AFTER: "r.ts - l.ts", Nearest.EITHER: "abs(l.ts - r.ts)"}


@dataclass(frozen=True)
class JoinPlan:
    sql: str
    kind: str
    stream: Stream
    sources: tuple[str, ...]


@st.composite
def told_joins(draw: st.DrawFn, most: int) -> tuple[JoinPlan, list[Event]]:
    """A join of any family, and a story of the sources that it has."""
    family = draw(st.sampled_from(list(BOUNDS)))
    join = draw(joins(family))
    assume(not _is_tumbling_twice(join.query.bound))
    plan = plan_of(family, join)
    events = [
        event for event in draw(stories(most)) if event.verb != "tick" and event.source in ("", "all", *plan.sources)
    ]
    return plan, [
        replace(
            event,
            rows=event.rows and {name: rows for name, rows in event.rows.items() if name in plan.sources},
            at=event.at * 1000,
        )
        for event in events
    ]


def _is_tumbling_twice(bound: JoinBound) -> bool:
    """A hop of its own size is a tumbling window, and two of these are written as one."""
    hops = [window for window in vars(bound).values() if isinstance(window, Hop)]
    return isinstance(bound, OverlappingPanes) and hops[0].slide == hops[0].size


def plan_of(family: str, stream: Stream) -> JoinPlan:
    sql = sql_of(stream)
    catalog = Catalog()
    for statement in parse_statements(sql):
        catalog.apply(statement)
    names = tuple(dict.fromkeys(source.name for source in sources_of(stream.query)))
    return JoinPlan(sql, family, catalog.streams["o"], names)


def sql_of(stream: Stream) -> str:
    join = stream.query
    if not isinstance(join, Join):
        raise TypeError("not a join")
    sources = {source.name: source for source in sources_of(join)}
    declared = "".join(
        f"CREATE SOURCE {name} ({', '.join(f'{column.name} {column.type}' for column in source.columns)}, "
        f"EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - {_millis(source.watermark_lag or 0)}); "
        for name, source in sources.items()
    )
    right = "(SELECT * FROM r UNION ALL SELECT * FROM s) AS r" if "s" in sources else "r"
    emit = "EMIT ON WINDOW CLOSE " if join.at_close else ""
    lateness = f"ALLOW LATENESS {_millis(stream.emit.allowed_lateness)}"
    return f"{declared}CREATE STREAM o AS SELECT {_outputs(join)} FROM l {_joined(join, right)} {emit}{lateness}"


def _outputs(join: Join) -> str:
    windows = [] if isinstance(join.bound, Interval | Asof) else ["window_start", "window_end"]
    right = [] if join.kind in (JoinKind.SEMI, JoinKind.ANTI) else ["r.w AS w", "r.ts AS rt"]
    return ", ".join([*windows, "rowtime", "l.k AS k", "l.v AS v", "l.ts AS lt", *right])


def _joined(join: Join, right: str) -> str:
    bound = join.bound
    conditions = [
        f"l.{key} {'<=>' if null_safe else '='} r.{key}"
        for key, null_safe in zip(join.left.keys, join.null_safe, strict=True)
    ]
    condition = join.condition
    for name, column in _NAMES.items():
        condition = condition and condition.replace(name, column)
    conditions += [f"({condition})"] if condition else []
    words, within = _KINDS[join.kind], ""
    if isinstance(bound, Asof):
        words = "ASOF LEFT JOIN" if join.kind is JoinKind.LEFT else "ASOF JOIN"
        within = f"MATCH_CONDITION ({_match(bound)})"
    elif isinstance(bound, Interval):
        conditions.append(f"r.ts BETWEEN l.ts {bound.lower:+d} AND l.ts {bound.upper:+d}")
    else:
        within = f"WITHIN {_within(bound)}"
    on = f"ON {' AND '.join(conditions)}" if conditions else ""
    return f"{words} {right} {within} {on}"


def _within(bound: JoinBound) -> str:
    match bound:
        case SameWindow(window=window):
            return _window(window)
        case OverlappingPanes(left=left, right=right):
            return f"{_window(left)} AND {_window(right)}"
        case OverlappingSessions(gap=gap):
            return f"SESSION({_millis(gap)})"
    raise TypeError(f"{bound} is not written with WITHIN")


def _window(window: Tumble | Hop | Cumulate) -> str:
    match window:
        case Tumble(size=size, offset=offset):
            return f"TUMBLE({_millis(size)}, {_millis(offset % size)})"
        case Hop(size=size, slide=slide, offset=offset):
            return f"HOP({_millis(slide)}, {_millis(size)}, {_millis(offset % slide)})"
        case Cumulate(size=size, step=step, offset=offset):
            return f"CUMULATE({_millis(step)}, {_millis(size)}, {_millis(offset % size)})"


def _match(bound: Asof) -> str:
    """Without what SQL cannot say: the nearest one that is not at the same time, or none at all."""
    is_strict = bound.strict and bound.tolerance != 0
    which = "NEAREST(l.ts, r.ts)" if bound.which is Nearest.EITHER else _MATCH[bound.which][is_strict]
    within = "" if bound.tolerance is None else f" AND {_APART[bound.which]} <= {_millis(bound.tolerance)}"
    return which + within


def _millis(count: int) -> str:
    return f"INTERVAL '{count}' MILLISECOND"
