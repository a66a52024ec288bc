"""Random joins of two sources, and random stories to tell them: rows of both sides with disorder, watermarks, stops."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from eventide.kernels.contract import ROWTIME
from eventide.plan.joins import (
    Asof,
    Interval,
    JoinBound,
    Nearest,
    OverlappingPanes,
    OverlappingSessions,
    SameWindow,
)
from eventide.plan.logical import Column, Emit, EventTime, Join, JoinSide, Named, Scan, Source, Stream, Union
from eventide.plan.modes import JoinKind
from eventide.plan.windows import Cumulate, Hop, Tumble
from tests.properties.events import Event

LEFT = (Column("k", "string"), Column("n", "bigint"), Column("v", "bigint"), Column("ts", "bigint"))
RIGHT = (Column("k", "string"), Column("n", "bigint"), Column("w", "bigint"), Column("ts", "bigint"))
CONDITIONS = (None, None, None, "__l2 <= __r2", "__l2 + __r2 > 0", "__l1 <> 0 AND __r2 IS NOT NULL", "false")
OUTPUTS = ("window_start", "window_end", ROWTIME, "__l0", "__l2", "__l3", "__r2", "__r3")
SOURCES = ("l", "r", "s")
KEYS, NUMBERS, VALUES = ("a", "a", "a", "a", "ü", None), (0, 0, 0, 0, 1, None), (None, 1, 2, 3, -4)
OFFSETS = (*range(-4, 8), *range(-4, 8), *range(-20, 20))  # of times, from the time at which a story has arrived

sizes = st.integers(1, 12)
kinds = st.sampled_from(list(JoinKind))


def source(name: str, columns: tuple[Column, ...], lag: int = 0) -> Source:
    return Source(name, columns, event_time=EventTime("ts", "unixtimestamp_us"), watermark_lag=lag)


def stream(
    kind: JoinKind,
    bound: JoinBound,
    keys: tuple[str, ...] = ("k",),
    null_safe: tuple[bool, ...] = (False,),
    condition: str | None = None,
    at_close: bool = False,
    lateness: int = 0,
    lag: int = 1000,
    sources: tuple[str, ...] = SOURCES[:2],
) -> Stream:
    """A join of l (k, n, v, ts) and r (k, n, w, ts), or of l and the union of r and s."""
    left, *others = (source(name, LEFT if name == "l" else RIGHT, lag) for name in sources)
    right = Union(tuple(map(Scan, others))) if len(others) > 1 else Scan(others[0])
    join = Join(
        JoinSide(Scan(left), LEFT, keys),
        JoinSide(right, RIGHT, keys),
        kind,
        bound,
        tuple(Named(f"c{number}", sql) for number, sql in enumerate(OUTPUTS)),
        null_safe,
        condition,
        None,
        at_close,
    )
    return Stream("o", join, Emit(allowed_lateness=lateness))


@st.composite
def paned(draw: st.DrawFn) -> Tumble | Hop | Cumulate:
    size, offset = draw(sizes), draw(st.integers(-3, 3))
    match draw(st.integers(0, 3)):
        case 0:
            return Hop(size, draw(st.integers(1, size)), offset)
        case 1:
            step = draw(st.integers(1, 4))
            return Cumulate(step * draw(st.integers(1, 4)), step, offset)
        case _:
            return Tumble(size, offset)


@st.composite
def panes(draw: st.DrawFn) -> OverlappingPanes:
    size, offset = draw(sizes), draw(st.integers(-3, 3))
    pair = (Tumble(draw(sizes), draw(st.integers(-3, 3))), Hop(size, draw(st.integers(1, size)), offset))
    return OverlappingPanes(*(pair if draw(st.booleans()) else pair[::-1]))


intervals = st.tuples(st.integers(-12, 12), st.integers(-12, 12)).map(lambda ends: Interval(min(ends), max(ends)))
asofs = st.builds(Asof, st.sampled_from(list(Nearest)), st.booleans(), st.one_of(st.none(), st.integers(0, 12)))
sessions = st.builds(OverlappingSessions, sizes)
BOUNDS: dict[str, st.SearchStrategy[Any]] = {
    "window": paned().map(SameWindow),
    "panes": panes(),
    "interval": intervals,
    "asof": asofs,
    "sessions": sessions,
}


@st.composite
def joins(draw: st.DrawFn, family: str) -> Stream:
    bound = draw(BOUNDS[family])
    keys = draw(st.sampled_from([("k",), ("k",), ("n",), ("k", "n"), ()]))
    return stream(
        draw(st.sampled_from([JoinKind.INNER, JoinKind.LEFT]) if family == "asof" else kinds),
        bound,
        keys,
        draw(st.sampled_from([(False,) * len(keys), (True,) * len(keys), (True, *(False,) * len(keys))[: len(keys)]])),
        draw(st.sampled_from(CONDITIONS)),
        draw(st.booleans()) if family in ("window", "panes") else False,
        draw(st.sampled_from([0, 0, 3, 10])),
        draw(st.sampled_from([0, 2, 8, 1000])),
        draw(st.sampled_from([SOURCES[:2], SOURCES[:2], SOURCES])),
    )


def row() -> st.SearchStrategy[tuple[Any, ...]]:
    """(k, n, v or w, ts), drawn as one number, which is fast."""
    return st.integers(0, len(KEYS) * len(NUMBERS) * len(VALUES) * len(OFFSETS) - 1).map(_row)


def _row(code: int) -> tuple[Any, ...]:
    code, offset = divmod(code, len(OFFSETS))
    code, value = divmod(code, len(VALUES))
    key, number = divmod(code, len(NUMBERS))
    return (KEYS[key], NUMBERS[number], VALUES[value], OFFSETS[offset])


@st.composite
def stories(draw: st.DrawFn, most: int = 10) -> list[Event]:
    """Time goes on from event to event, and rows and watermarks lie around it."""
    verbs = ["batch"] * 8 + ["advance"] * 5 + ["flush", "tick", "restart"]
    told, now = [], 0
    for verb in draw(st.lists(st.sampled_from(verbs), min_size=4, max_size=most)):
        now += draw(st.sampled_from([0, 1, 3, 8]))
        if verb == "batch":
            told.append(Event(verb, {name: _later(draw(st.lists(row(), max_size=5)), now) for name in SOURCES}))
        else:
            source = draw(st.sampled_from([*SOURCES, "all", "all", "all"]))
            told.append(Event(verb, at=now + draw(st.sampled_from(OFFSETS)), source=source))
    return [*told, Event("advance", at=10**6, source="all")]


def _later(rows: list[tuple[Any, ...]], now: int) -> list[tuple[Any, ...]]:
    return [(*values, ts + now) for *values, ts in rows]
