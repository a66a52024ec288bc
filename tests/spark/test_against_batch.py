"""A stream over a bounded data set gives what plain Spark SQL gives in batch mode: values and types.

Three streams, one per window kind that Spark has, each with every aggregate; the rows come in three batches, out of order.
Spark's sessions do not take an event exactly `gap` after the last one and Eventide's do, so times are multiples of 4 ms and
the gap is not: no two events are exactly a gap apart.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import eventide
from eventide.spark.types import to_arrow

Value = Any
NAN = float("nan")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

SOURCE = """
    u INT, k STRING, b BOOLEAN, i INT, n BIGINT, t TINYINT, d DOUBLE, f FLOAT, m DECIMAL(12,3), w DECIMAL(38,4), s STRING, y DATE,
    z TIMESTAMP, x BINARY, a ARRAY<INT>, r STRUCT<p: INT, q: STRING>, at TIMESTAMP
"""


def rows(count: int, seed: int) -> list[dict[str, Value]]:
    """Random rows in random order around 1970, every time at most once; `u` is unique where it is not NULL."""
    chance = random.Random(seed)
    times = chance.sample(range(-45_000, 45_000, 4), count)

    def maybe(value: Value) -> Value:
        return None if chance.random() < 0.15 else value

    def row(number: int, ms: int) -> dict[str, Value]:
        return {
            "u": maybe(number),
            "k": chance.choice(["a", "b", "ü", "", None]),
            "b": maybe(chance.random() < 0.6),
            "i": maybe(chance.randint(-9, 9)),
            "n": maybe(chance.choice([chance.randint(-9, 9), 2**52 + chance.randint(0, 9)])),
            "t": maybe(chance.randint(-128, 127)),
            "d": maybe(chance.choice([NAN, -0.0, 0.0, 1.5, -2.25, 1e-300, chance.gauss(0, 5), math.inf if chance.random() < 0.1 else 7.0])),
            "f": maybe(chance.choice([0.5, -0.0, -1.25, 3.0])),
            "m": maybe(Decimal(chance.randint(-(10**6), 10**6)).scaleb(-3)),
            "w": maybe(Decimal(chance.randint(-(10**20), 10**20)).scaleb(-4)),
            "s": maybe(chance.choice(["", "x", "Zebra", "zebra", "ä", "日本", "a b"])),
            "y": maybe(dt.date(1969, 12, 1) + dt.timedelta(chance.randint(0, 60))),
            "z": maybe(EPOCH + dt.timedelta(microseconds=chance.randint(-(10**12), 10**12))),
            "x": maybe(chance.choice([b"", b"\x00", b"\xff\x01"])),
            "a": maybe([chance.randint(0, 2) for _ in range(chance.randint(0, 2))]),
            "r": maybe({"p": maybe(chance.randint(0, 1)), "q": maybe(chance.choice("pq"))}),
            "at": EPOCH + dt.timedelta(milliseconds=ms),
        }

    return [row(number, ms) for number, ms in enumerate(times)]


# How results are compared -----------------------------------------------------------------------------------------


def same(ours: Value, spark: Value) -> bool:
    """Equal, floats nearly: sums of floats depend on the order."""
    if isinstance(ours, float) and isinstance(spark, float):
        if math.isnan(ours) or math.isnan(spark):
            return math.isnan(ours) and math.isnan(spark)
        return math.isclose(ours, spark, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(ours, list) and isinstance(spark, list):
        return len(ours) == len(spark) and all(same(one, other) for one, other in zip(ours, spark, strict=True))
    return type(ours) is type(spark) and bool(ours == spark)


def same_multiset(ours: list[Value], spark: list[Value]) -> bool:
    return same(sorted(ours, key=order), sorted(spark, key=order))


def same_set(ours: list[Value], spark: list[Value]) -> bool:
    """Spark keeps each NaN of a set, and both zeros; Eventide one of each, as count(DISTINCT) does in both."""
    distinct = {order(value): value for value in spark}
    return len({order(value) for value in ours}) == len(ours) and same_multiset(ours, list(distinct.values()))


def near(ours: int, spark: int) -> bool:
    return abs(ours - spark) <= 1 + 0.15 * spark


def order(value: Value) -> str:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value + 0.0)
    return repr(value)


@dataclass(frozen=True)
class Check:
    """An aggregate, the deterministic SQL that says the same in batch mode, and when results agree."""

    sql: str
    batch: str = ""
    agree: Callable[[Value, Value], bool] = same

    @property
    def batch_sql(self) -> str:
        return self.batch or self.sql


def by_time(sql: str, function: str, value: str, where: str = "true", agree: Callable[[Value, Value], bool] = same) -> Check:
    """first and last: in batch mode by the event time."""
    return Check(sql, f"({function}(named_struct('v', {value}), at) FILTER (WHERE {where})).v", agree)


ALL = ("b", "i", "n", "t", "d", "f", "m", "w", "s", "y", "z", "x", "a", "r")
NUMBERS = ("i", "n", "t", "d", "f", "m", "w")
CHECKS = [
    Check("count(*)"),
    Check("count(1)"),
    Check("count(*) FILTER (WHERE i > 0)"),
    Check("count(i, s)"),
    Check("count(DISTINCT i, s)"),
    *[Check(f"count({c})") for c in ALL],
    *[Check(f"count(DISTINCT {c})") for c in ALL],
    *[Check(f"{function}({c})") for function in ("min", "max") for c in ALL],
    *[Check(f"{function}({c})") for function in ("sum", "avg") for c in NUMBERS],
    *[Check(f"{function}(DISTINCT {c})") for function in ("sum", "avg") for c in ("i", "d", "m")],
    *[Check(f"{function}({c})") for function in ("var_samp", "var_pop", "stddev_samp", "stddev_pop") for c in ("i", "d", "m", "f")],
    *[Check(f"{function}(n)") for function in ("mean", "variance", "stddev", "std")],
    *[Check(f"{f}({c}) FILTER (WHERE b)") for f in ("sum", "min", "avg", "stddev") for c in ("i", "m")],
    *[Check(f"{function}({c}, u)") for function in ("min_by", "max_by") for c in ALL],
    *[Check(f"{function}(s, named_struct('d', d, 'u', u))") for function in ("min_by", "max_by")],
    Check("max_by(s, u) FILTER (WHERE i > 0)"),
    *[by_time(f"first({c})", "min_by", c) for c in ALL],
    *[by_time(f"last({c})", "max_by", c) for c in ALL],
    by_time("first_value(s, true)", "min_by", "s", "s IS NOT NULL"),
    by_time("last_value(m) IGNORE NULLS", "max_by", "m", "m IS NOT NULL"),
    by_time("first(i) FILTER (WHERE b)", "min_by", "i", "b"),
    by_time("last(i) FILTER (WHERE b)", "max_by", "i", "b"),
    by_time("last(i) IGNORE NULLS FILTER (WHERE b)", "max_by", "i", "b AND i IS NOT NULL"),
    *[Check(f"approx_count_distinct({c})", agree=near) for c in ALL if c not in ("a", "r")],
    Check("approx_count_distinct(s, 0.01)", agree=near),
    *[Check(f"percentile_approx({c}, 0.5)") for c in ("i", "n", "t", "f", "m", "y", "z")],
    Check("percentile_approx(i, array(0.0, 0.25, 0.9, 1.0), 1000)"),
    Check("approx_percentile(m, 0.75, 100) FILTER (WHERE b)"),
    *[
        Check(f"collect_list({c})", f"transform(array_sort(collect_list(named_struct('at', at, 'v', {c})) FILTER (WHERE {c} IS NOT NULL)), e -> e.v)")
        for c in ALL
    ],
    Check("array_agg(i) FILTER (WHERE b)", agree=same_multiset),
    Check("collect_list(DISTINCT i)", agree=same_multiset),
    *[Check(f"collect_set({c})", agree=same_set) for c in ALL],
    Check("collect_set(i) FILTER (WHERE b)", agree=same_set),
    *[Check(f"{function}(b)") for function in ("bool_and", "every", "bool_or", "some", "any")],
    Check("bool_or(d > 0) FILTER (WHERE i < 0)"),
    Check("sum(z - timestamp'1970-01-01 00:00:00')"),
    Check("avg(z - timestamp'1970-01-01 00:00:00')"),
    Check("max(z - timestamp'1970-01-01 00:00:00')"),
    Check("sum(i) / count(*) + max(t)"),
    Check("sum(CASE WHEN s LIKE 'z%' THEN m ELSE 0 END)"),
]

WINDOWS = {
    "tumbling": ("k", "TUMBLE(at, INTERVAL '20' SECOND)", "window(at, '20 seconds')"),
    "hopping": ("d, m > 0", "HOP(at, INTERVAL '10' SECOND, INTERVAL '25' SECOND)", "window(at, '25 seconds', '10 seconds')"),
    "session": ("r, b", "SESSION(at, INTERVAL '2.502' SECOND)", "session_window(at, '2502 milliseconds')"),
}


@dataclass
class Outcome:
    stream: pa.Table
    batch: list[dict[str, Value]]
    batch_types: list[pa.DataType]


@pytest.fixture(scope="module")
def outcomes(keep_spark: Any) -> Any:
    """Both results of every window kind."""
    given = rows(1200, seed=7)
    with eventide.connect(spark=keep_spark) as db:
        db.execute(f"CREATE SOURCE e ({SOURCE}, WATERMARK FOR at AS at - INTERVAL '1' HOUR)")
        items = ", ".join(f"{check.sql} AS c{number}" for number, check in enumerate(CHECKS))
        for name, (keys, window, _) in WINDOWS.items():
            listed = ", ".join(f"{key} AS k{number}" for number, key in enumerate(keys.split(", ")))
            db.execute(f"CREATE STREAM {name} AS SELECT window_start, window_end, {listed}, {items} FROM e GROUP BY {keys}, {window}")
        for part in (given[:500], given[500:900], given[900:]):
            db.write("e", part)
            db.tick()
        db.advance_watermark("e", dt.datetime(1970, 1, 2, tzinfo=dt.UTC))
        db.tick()
        yield {name: Outcome(db.read(name).arrow(), *in_batch_mode(keep_spark, given, name)) for name in WINDOWS}


def in_batch_mode(spark: Any, given: list[dict[str, Value]], name: str) -> tuple[list[dict[str, Value]], list[pa.DataType]]:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.createDataFrame(given, SOURCE).createOrReplaceTempView("e")
    keys, _, window = WINDOWS[name]
    listed = ", ".join(f"{key} AS k{number}" for number, key in enumerate(keys.split(", ")))
    bounds = f"{window}.start AS window_start, {window}.end AS window_end"
    texts = ", ".join(f"{check.batch_sql} AS c{number}" for number, check in enumerate(CHECKS))
    table = session.sql(f"SELECT {bounds}, {listed}, {texts} FROM e GROUP BY {keys}, {window}").toArrow()
    plain = ", ".join(f"{check.sql} AS c{number}" for number, check in enumerate(CHECKS))
    types = [to_arrow(field.dataType) for field in session.sql(f"SELECT {plain} FROM e").schema.fields]
    return table.to_pylist(), types


def by_group(table: list[dict[str, Value]]) -> dict[str, dict[str, Value]]:
    names = [name for name in table[0] if not name.startswith("c")]
    return {repr([order(row[name]) for name in names]): row for row in table}


@pytest.mark.parametrize("name", WINDOWS)
def test_groups_are_those_of_spark(outcomes: dict[str, Outcome], name: str) -> None:
    ours, spark = by_group(outcomes[name].stream.to_pylist()), by_group(outcomes[name].batch)
    assert len(ours) == outcomes[name].stream.num_rows
    assert ours.keys() == spark.keys()


@pytest.mark.parametrize("name", WINDOWS)
def test_types_are_those_of_spark(outcomes: dict[str, Outcome], name: str) -> None:
    schema = outcomes[name].stream.schema
    found = {check.sql: schema.field(f"c{number}").type for number, check in enumerate(CHECKS)}
    wanted = dict(zip([check.sql for check in CHECKS], outcomes[name].batch_types, strict=True))
    assert found == wanted


@pytest.mark.parametrize("name", WINDOWS)
def test_values_are_those_of_spark(outcomes: dict[str, Outcome], name: str) -> None:
    ours, spark = by_group(outcomes[name].stream.to_pylist()), by_group(outcomes[name].batch)
    wrong = []
    for number, check in enumerate(CHECKS):
        for group, row in spark.items():
            found, wanted = ours[group][f"c{number}"], row[f"c{number}"]
            if not (found is wanted is None or (found is not None and wanted is not None and check.agree(found, wanted))):
                wrong.append(f"{check.sql} of {group}: {found!r}, Spark has {wanted!r}")
                break
    assert not wrong, "\n".join(wrong)
