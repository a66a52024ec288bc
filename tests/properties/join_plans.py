"""Random joins of two sources, and random stories to tell them: rows of both sides with disorder, watermarks, stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from eventide.plan.joins import (
    Asof,
    Interval,
    JoinBound,
    Nearest,
    OverlappingPanes,
    OverlappingSessions,
    SameWindow,
)
from eventide.plan.logical import Column, Emit, EventTime, Join, JoinSide, Named, Scan, Source, Stream
from eventide.plan.modes import JoinKind
from eventide.plan.windows import Cumulate, Hop, Tumble

LEFT = (Column("k", "string"), Column("n", "bigint"), Column("v", "bigint"), Column("ts", "bigint"))
RIGHT = (Column("k", "string"), Column("n", "bigint"), Column("w", "bigint"), Column("ts", "bigint"))
CONDITIONS = (None, None, None, "__l2 <= __r2", "__l2 + __r2 > 0", "__l1 <> 0 AND __r2 IS NOT NULL", "false")
OUTPUTS = ("window_start", "window_end", "__time", "__l0", "__l2", "__l3", "__r2", "__r3")
KEYS, NUMBERS, VALUES = ("a", "a", "b", "ü", None), (0, 0, 0, 1, None), (None, 1, 2, 3, -4)
TIMES = (*range(0, 24), *range(0, 24), *range(-30, 60))

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
) -> Stream:
    """A join of l (k, n, v, ts) and r (k, n, w, ts)."""
    left, right = source("l", LEFT, lag), source("r", RIGHT, lag)
    join = Join(
        JoinSide(Scan(left), LEFT, keys),
        JoinSide(Scan(right), RIGHT, keys),
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


@dataclass(frozen=True)
class Event:
    verb: str
    rows: dict[str, list[tuple[Any, ...]]] | None = None
    at: int = 0
    source: str = ""


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
    )


def row() -> st.SearchStrategy[tuple[Any, ...]]:
    """(k, n, v or w, ts), drawn as one number, which is fast."""
    return st.integers(0, len(KEYS) * len(NUMBERS) * len(VALUES) * len(TIMES) - 1).map(_row)


def _row(code: int) -> tuple[Any, ...]:
    code, time = divmod(code, len(TIMES))
    code, value = divmod(code, len(VALUES))
    key, number = divmod(code, len(NUMBERS))
    return (KEYS[key], NUMBERS[number], VALUES[value], TIMES[time])


@st.composite
def stories(draw: st.DrawFn, most: int = 8) -> list[Event]:
    verbs = ["batch"] * 8 + ["advance"] * 4 + ["flush", "tick", "restart"]
    told = []
    for verb in draw(st.lists(st.sampled_from(verbs), min_size=4, max_size=most)):
        if verb == "batch":
            told.append(Event(verb, {name: draw(st.lists(row(), max_size=6)) for name in ("l", "r")}))
        else:
            told.append(Event(verb, at=draw(st.sampled_from(TIMES)), source=draw(st.sampled_from(["l", "r", "both"]))))
    return [*told, Event("advance", at=10**6, source="both")]
