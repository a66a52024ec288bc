"""Random streams as SQL, and random stories to tell them: rows with disorder, batch borders, watermarks, stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from eventide.plan.logical import Stream
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from tests.properties.events import Event

HALF = 500  # microseconds: the step of event times, so that watermarks have something to round
AGGREGATES = (
    "count(*)",
    "count(v)",
    "sum(v)",
    "min(v)",
    "max(v)",
    "avg(v)",
    "count(DISTINCT v)",
    "sum(v * 2 + 1)",
    "max(upper(k))",
)
WINDOW_KINDS = ("tumble", "hop", "session", "slide", "forward", "ordered", "table", "place")  # plans are made of these
EMITS = (
    "",
    "",
    "",
    "EMIT FINAL",
    "EMIT ON WATERMARK",
    "EMIT ON UPDATE",
    "EMIT CHANGES",
    "EMIT EVERY INTERVAL '1' SECOND",
)

millis = st.one_of(st.integers(1, 20), st.integers(1, 6))

# What rows are made of: some values often, so that they meet; one time in many lies in the future.
KEYS, NUMBERS, VALUES = ("a", "a", "ü", None), (0, 0, 1, None), (None, *range(-5, 6))
EMIT_RULES = (
    *(2 * HALF * step for step in range(11)),
    *(2 * HALF * step for step in range(11)),
    *(HALF * step for step in range(-20, 60)),
    10**15,
)
times = st.sampled_from(EMIT_RULES[:-1])


@dataclass(frozen=True)
class Plan:
    sql: str
    kind: str
    sources: tuple[str, ...]
    max_groups: bool
    dedup: str | None

    @property
    def stream(self) -> Stream:
        catalog = Catalog()
        for statement in parse_statements(self.sql):
            catalog.apply(statement)
        return catalog.stream("o")


@st.composite
def plans(draw: st.DrawFn, kinds: tuple[str, ...] = WINDOW_KINDS, patient: bool = False) -> Plan:
    """`patient` plans have a watermark far behind, emit at close alone, and take no row for a duplicate or one too
    many.
    """
    kind = draw(st.sampled_from(kinds))
    dedup = None if patient else draw(st.sampled_from([None, None, None, None, "for a while", "for ever"]))
    dedup = "for a while" if dedup and kind == "ordered" else dedup  # see test_reference_and_kernels.py
    sources = ("s",) if draw(st.booleans()) else ("s", "t")
    statements = [
        _source(name, 1000 if patient else draw(lags(dedup)), draw(spans(dedup)) if name == "s" else None)
        for name in sources
    ]
    where = draw(st.sampled_from(["", "", " WHERE v > -3", " WHERE k IS NOT NULL"]))
    table = "s" if len(sources) == 1 else "(SELECT k, v, ts FROM s UNION ALL SELECT k, v + 1 AS v, ts FROM t)"
    policy = draw(
        st.sampled_from(["window", "window", "window", "strict", "reassign"] if kind != "ordered" else ["window"])
    )
    policy = "window" if dedup == "for ever" and policy == "reassign" else policy  # see test_reference_and_kernels.py
    limit = (
        draw(st.sampled_from([None, None, None, None, None, 1, 2]))
        if kind in ("tumble", "hop", "session") and not patient
        else None
    )
    options = [f"'late.policy' = '{policy}'"]
    options += [f"'late.max_lateness' = '{draw(millis)} milliseconds'"] if policy == "reassign" else []
    options += [f"'max_groups' = '{limit}'"] if limit else []
    if kind in ("forward", "ordered"):
        body = _forward(kind, table, where)
    elif kind in ("table", "place"):
        body = _table(draw, kind, table, where, patient)
    else:
        body = _windowed(draw, kind, table, where, patient)
    statements.append(f"CREATE STREAM o WITH ({', '.join(options)}) AS {body}")
    return Plan(";\n".join(statements), kind, sources, limit is not None, dedup)


def lags(dedup: str | None) -> st.SearchStrategy[int | None]:
    """Milliseconds. Ids that are to be known for a while only are told apart from forgotten ones by a watermark that
    stays behind.
    """
    return st.just(1000) if dedup == "for a while" else st.sampled_from([None, 0, 3, 10])


def spans(dedup: str | None) -> st.SearchStrategy[int | None]:
    """Milliseconds within which an id counts as known."""
    return {None: st.none(), "for a while": st.integers(1, 4), "for ever": st.just(10_000)}[dedup]


def _source(name: str, lag: int | None, within: int | None) -> str:
    columns = ["id STRING", "k STRING", "v BIGINT", "ts BIGINT", "EVENT TIME ts TYPE unixtimestamp_us"]
    columns += [] if lag is None else [f"WATERMARK FOR ts AS ts - INTERVAL '{lag}' MILLISECOND"]
    columns += [] if within is None else [f"DEDUPLICATE BY id WITHIN INTERVAL '{within}' MILLISECOND"]
    return f"CREATE SOURCE {name} ({', '.join(columns)})"


def _forward(kind: str, table: str, where: str) -> str:
    return f"SELECT k, v * 2 AS w, ts FROM {table}{where}{' ORDER BY ts' if kind == 'ordered' else ''}"


def _table(draw: st.DrawFn, kind: str, table: str, where: str, patient: bool) -> str:
    """Rows that a table function puts into windows, and the best of them."""
    size = draw(millis)
    step = draw(st.sampled_from([size, *(step for step in range(1, size) if size % step == 0)]))
    lengths = f"INTERVAL '{step}' MILLISECOND, INTERVAL '{size}' MILLISECOND"
    windows = {"TUMBLE": f"INTERVAL '{size}' MILLISECOND", "HOP": lengths, "CUMULATE": lengths}
    function = draw(st.sampled_from(sorted(windows)))
    named = table if table.startswith("(") else f"TABLE {table}"
    made = f"TABLE({function}({named}, DESCRIPTOR(ts), {windows[function]}))"
    if kind == "table":
        return f"SELECT k, v * 2 AS w, window_start, window_end FROM {made}{where}"
    place = draw(st.sampled_from(["ROW_NUMBER", "RANK", "DENSE_RANK"]))
    by = draw(st.sampled_from(["", ", k"]))
    order = draw(st.sampled_from(["v", "v DESC", "ts DESC", "ts, v"]))
    lateness = draw(st.sampled_from([0, 0, 4, 15]))
    tail = f" ALLOW LATENESS INTERVAL '{lateness}' MILLISECOND" if lateness else ""
    return (
        f"SELECT window_start, window_end, k, v, place FROM (SELECT *, {place}() OVER "
        f"(PARTITION BY window_start, window_end{by} ORDER BY {order}) AS place FROM {made}{where}) "
        f"WHERE place <= {draw(st.integers(1, 3))}{tail}"
    )


def _windowed(draw: st.DrawFn, kind: str, table: str, where: str, patient: bool) -> str:
    chosen = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))
    is_keyed = draw(st.sampled_from([True, True, False]))
    emit = draw(st.sampled_from(EMITS)) if kind != "slide" and not patient else ""
    lateness = draw(st.sampled_from([0, 0, 4, 15])) if kind != "slide" and emit != "EMIT FINAL" else 0
    columns = [
        "window_start",
        "window_end",
        "emit_epoch",
        *(["op"] if emit == "EMIT CHANGES" else []),
        *(["k"] if is_keyed else []),
    ]
    columns += [f"{call} AS a{number}" for number, call in enumerate(chosen)]
    groups = [*(["k"] if is_keyed else []), _window(draw, kind, patient)]
    having = draw(st.sampled_from(["", "", "", " HAVING count(*) > 1"])) if emit != "EMIT CHANGES" else ""
    tail = (f" {emit}" if emit else "") + (f" ALLOW LATENESS INTERVAL '{lateness}' MILLISECOND" if lateness else "")
    if lateness and not emit:
        tail = f" EMIT ON WINDOW CLOSE{tail}"
    return f"SELECT {', '.join(columns)} FROM {table}{where} GROUP BY {', '.join(groups)}{having}{tail}"


def _window(draw: st.DrawFn, kind: str, patient: bool) -> str:
    size = draw(millis)
    if kind == "tumble":
        return f"TUMBLE(ts, INTERVAL '{size}' MILLISECOND, INTERVAL '{draw(st.integers(0, size - 1))}' MILLISECOND)"
    if kind == "hop":
        slide = draw(st.integers(1, size))
        return f"HOP(ts, INTERVAL '{slide}' MILLISECOND, INTERVAL '{size}' MILLISECOND)"
    if kind == "session":
        return f"SESSION(ts, INTERVAL '{size}' MILLISECOND)"
    ahead = draw(st.sampled_from([0, 3, 10] if patient else [None, 0, 3, 10]))
    return f"slidingwindow('ms', {size}{'' if ahead is None else f', {ahead}'})"


# Stories ----------------------------------------------------------------------------------------------------------


def rows() -> st.SearchStrategy[tuple[Any, ...]]:
    """(id, k, v, ts), drawn as one number, which is fast. An id names a group, as that of a message delivered twice
    would.
    """
    return st.integers(0, len(KEYS) * len(NUMBERS) * len(VALUES) * len(EMIT_RULES) - 1).map(_row)


def _row(code: int) -> tuple[Any, ...]:
    code, time = divmod(code, len(EMIT_RULES))
    code, value = divmod(code, len(VALUES))
    key, number = divmod(code, len(NUMBERS))
    identity = None if NUMBERS[number] is None else f"{KEYS[key]}{NUMBERS[number]}"
    return (identity, KEYS[key], VALUES[value], EMIT_RULES[time])


@st.composite
def stories(draw: st.DrawFn, plan: Plan, most: int = 8) -> list[Event]:
    advances = [] if plan.dedup == "for a while" else ["advance", "advance"]
    verbs = draw(
        st.lists(st.sampled_from(["batch"] * 8 + advances + ["flush", "tick", "restart"]), min_size=5, max_size=most)
    )
    told = []
    for verb in verbs:
        source = draw(st.sampled_from(plan.sources))
        if verb == "batch":
            both = {name: draw(st.lists(rows(), min_size=3, max_size=6)) for name in plan.sources}
            told.append(Event(verb, both))
        else:
            told.append(Event(verb, source=source, at=draw(times)))
    return [*told, *(Event("advance", source=name, at=10**6) for name in plan.sources)]
