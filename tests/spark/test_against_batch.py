"""A stream over a bounded data set agrees with plain Spark SQL in batch mode: values and types.

Three streams, one per window kind that Spark has: tumbling windows with every aggregate over every type, the others
with every aggregate over some. The rows come in three batches, out of order. Spark's sessions do not take an event
exactly `gap` after the last one and Eventide's do, so times are multiples of 4 ms and the gap is not: no two events are
exactly a gap apart. In Spark 4.3 DISTINCT within session windows counts values twice that two rows of a session have;
see `without_distinct`.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import eventide
from eventide.connectors.arrow_types import to_arrow

pytestmark = pytest.mark.slow  # hundreds of aggregates; without Spark they are compared in tests/kernels/aggregates

BATCH = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # compiling code for hundreds of aggregates takes minutes
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
Value = Any
NAN = float("nan")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

SOURCE = """
    u INT, k STRING, b BOOLEAN, i INT, n BIGINT, t TINYINT, d DOUBLE, f FLOAT, m DECIMAL(12,3), w DECIMAL(38,4), s
      STRING, y DATE,
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
            "d": maybe(
                chance.choice(
                    [NAN, -0.0, 0.0, 1.5, -2.25, 1e-300, chance.gauss(0, 5), math.inf if chance.random() < 0.1 else 7.0]
                )
            ),
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
    """Equal, or nearly so for floats: sums of floats depend on the order."""
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


def by_time(
    sql: str, function: str, value: str, where: str = "true", agree: Callable[[Value, Value], bool] = same
) -> Check:
    """first and last: in batch mode by the event time."""
    return Check(sql, f"({function}(named_struct('v', {value}), at) FILTER (WHERE {where})).v", agree)


def checks(kinds: Iterable[str], numbers: Iterable[str]) -> list[Check]:
    """Every aggregate, over all of these columns where it takes any type."""
    return [
        Check("count(*)"),
        Check("count(1)"),
        Check("count(*) FILTER (WHERE i > 0)"),
        Check("count(i, s)"),
        *_simple(kinds, numbers),
        *_chosen(kinds),
        *_approximate([kind for kind in kinds if kind not in ("a", "r")]),
        *_collected(kinds),
        *[Check(f"{function}(b)") for function in ("bool_and", "every", "bool_or", "some", "any")],
        Check("bool_or(d > 0) FILTER (WHERE i < 0)"),
        *[Check(f"{function}(z - timestamp'1970-01-01 00:00:00')") for function in ("sum", "avg", "max")],
        Check("sum(i) / count(*) + max(t)"),
        Check("sum(CASE WHEN s LIKE 'z%' THEN m ELSE 0 END)"),
    ]


def _simple(kinds: Iterable[str], numbers: Iterable[str]) -> list[Check]:
    spreads = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
    return [
        *[Check(f"{function}({c})") for function in ("count", "min", "max") for c in kinds],
        *[Check(f"{function}({c})") for function in ("sum", "avg") for c in numbers],
        *[Check(f"{function}({c})") for function in spreads for c in ("i", "d", "m")],
        *[Check(f"{function}(t)") for function in ("mean", "variance", "stddev", "std")],
        *[
            Check(f"{function}({c}) FILTER (WHERE b)")
            for function in ("sum", "min", "avg", "stddev")
            for c in ("i", "m")
        ],
    ]


def distincts(kinds: Iterable[str]) -> list[Check]:
    return [
        Check("count(DISTINCT i, s)"),
        *[Check(f"count(DISTINCT {c})") for c in kinds],
        *[Check(f"{function}(DISTINCT {c})") for function in ("sum", "avg") for c in ("i", "d", "m")],
        Check("count(DISTINCT i) FILTER (WHERE b)"),
        Check("collect_list(DISTINCT i)", agree=same_multiset),
    ]


def without_distinct(kinds: Iterable[str]) -> list[Check]:
    """Counts of distinct values, written so that Spark gets them right in session windows."""
    return [Check(f"count(DISTINCT {c})", f"cast(size(array_distinct(collect_list({c}))) AS BIGINT)") for c in kinds]


def _chosen(kinds: Iterable[str]) -> list[Check]:
    return [
        *[Check(f"{function}({c}, u)") for function in ("min_by", "max_by") for c in kinds],
        *[Check(f"{function}(s, named_struct('d', d, 'at', at))") for function in ("min_by", "max_by")],
        Check("max_by(s, u) FILTER (WHERE i > 0)"),
        *[by_time(f"first({c})", "min_by", c) for c in kinds],
        *[by_time(f"last({c})", "max_by", c) for c in kinds],
        by_time("first_value(s, true)", "min_by", "s", "s IS NOT NULL"),
        by_time("last_value(m) IGNORE NULLS", "max_by", "m", "m IS NOT NULL"),
        by_time("first(i) FILTER (WHERE b)", "min_by", "i", "b"),
        by_time("last(i) FILTER (WHERE b)", "max_by", "i", "b"),
        by_time("last(i) FILTER (WHERE b) IGNORE NULLS", "max_by", "i", "b AND i IS NOT NULL"),
    ]


def _approximate(kinds: Iterable[str]) -> list[Check]:
    return [
        *[Check(f"approx_count_distinct({c})", agree=near) for c in kinds],
        Check("approx_count_distinct(s, 0.01)", agree=near),
        *[Check(f"percentile_approx({c}, 0.5)") for c in kinds if c in ("i", "n", "t", "f", "m", "y", "z")],
        Check("percentile_approx(i, array(0.0, 0.25, 0.9, 1.0), 1000)"),
        Check("approx_percentile(m, 0.75, 100) FILTER (WHERE b)"),
        *[Check(f"median({c})") for c in ("i", "n", "d", "m")],
        Check("percentile(i, array(0.0, 0.3, 1.0)) FILTER (WHERE b)"),
        Check("median(z - timestamp'1970-01-01 00:00:00')"),
        Check("count_if(i > 0)"),
        *[Check(f"mode({c}, true)") for c in ("i", "s", "y")],
    ]


def _collected(kinds: Iterable[str]) -> list[Check]:
    in_order = (
        "transform(array_sort(collect_list(named_struct('at', at, 'v', {c})) FILTER (WHERE {c} IS NOT NULL)), e -> e.v)"
    )
    return [
        *[Check(f"collect_list({c})", in_order.format(c=c)) for c in kinds],
        Check("array_agg(i) FILTER (WHERE b)", agree=same_multiset),
        *[Check(f"collect_set({c})", agree=same_set) for c in kinds],
        Check("collect_set(i) FILTER (WHERE b)", agree=same_set),
    ]


ALL, SOME = ("b", "i", "n", "t", "d", "f", "m", "w", "s", "y", "z", "x", "a", "r"), ("d", "m", "s")


@dataclass(frozen=True)
class Case:
    keys: str
    window: str
    batch_window: str
    checks: list[Check]

    @property
    def keys_listed(self) -> str:
        return ", ".join(f"{key} AS k{number}" for number, key in enumerate(self.keys.split(", ")))

    def listed(self, sql: Callable[[Check], str]) -> str:
        return ", ".join(f"{sql(check)} AS c{number}" for number, check in enumerate(self.checks))


WINDOWS = {
    "tumbling": Case(
        "k",
        "TUMBLE(at, INTERVAL '20' SECOND)",
        "window(at, '20 seconds')",
        checks(ALL, ("i", "n", "t", "d", "f", "m", "w")) + distincts(("d", "m", "s", "r", "a")),
    ),
    "hopping": Case(
        "d, m > 0",
        "HOP(at, INTERVAL '10' SECOND, INTERVAL '25' SECOND)",
        "window(at, '25 seconds', '10 seconds')",
        checks(SOME, ("d", "m")) + distincts("d"),
    ),
    "session": Case(
        "r, b",
        "SESSION(at, INTERVAL '2.502' SECOND)",
        "session_window(at, '2502 milliseconds')",
        checks(SOME, ("d", "m")) + without_distinct("s"),
    ),
}


@dataclass
class Outcome:
    stream: pa.Table
    batch: list[dict[str, Value]]
    batch_types: list[pa.DataType]


@pytest.fixture(scope="module")
def outcomes(keep_spark: Any) -> Any:
    """Both results of every window kind."""
    given = rows(600, seed=7)
    with eventide.connect(spark=keep_spark) as db:
        db.execute(f"CREATE SOURCE e ({SOURCE}, WATERMARK FOR at AS at - INTERVAL '1' HOUR)")
        for name, case in WINDOWS.items():
            items = f"window_start, window_end, {case.keys_listed}, {case.listed(lambda check: check.sql)}"
            db.execute(f"CREATE STREAM {name} AS SELECT {items} FROM e GROUP BY {case.keys}, {case.window}")
        for part in (given[:300], given[300:500], given[500:]):
            db.write("e", part)
            db.tick()
        db.advance_watermark("e", dt.datetime(1970, 1, 2, tzinfo=dt.UTC))
        db.tick()
        yield {
            name: Outcome(db.read(name).arrow(), *in_batch_mode(keep_spark, given, case))
            for name, case in WINDOWS.items()
        }


def in_batch_mode(
    spark: Any, given: list[dict[str, Value]], case: Case
) -> tuple[list[dict[str, Value]], list[pa.DataType]]:
    session = spark.newSession()
    for setting, value in BATCH.items():
        session.conf.set(setting, value)
    session.createDataFrame(given, SOURCE).createOrReplaceTempView("e")
    bounds = f"{case.batch_window}.start AS window_start, {case.batch_window}.end AS window_end"
    items = f"{bounds}, {case.keys_listed}, {case.listed(lambda check: check.batch_sql)}"
    table = session.sql(f"SELECT {items} FROM e GROUP BY {case.keys}, {case.batch_window}").toArrow()
    schema = session.sql(f"SELECT {case.listed(lambda check: check.sql)} FROM e").schema
    return table.to_pylist(), [to_arrow(field.dataType) for field in schema.fields]


def by_group(table: list[dict[str, Value]]) -> dict[str, dict[str, Value]]:
    names = [name for name in table[0] if not name.startswith("c")]
    return {repr([order(row[name]) for name in names]): row for row in table}


@pytest.mark.parametrize("name", WINDOWS)
def test_groups_match_sparks(outcomes: dict[str, Outcome], name: str) -> None:
    ours, spark = by_group(outcomes[name].stream.to_pylist()), by_group(outcomes[name].batch)
    assert len(ours) == outcomes[name].stream.num_rows
    assert ours.keys() == spark.keys()


@pytest.mark.parametrize("name", WINDOWS)
def test_types_match_sparks(outcomes: dict[str, Outcome], name: str) -> None:
    schema = outcomes[name].stream.schema
    found = {check.sql: schema.field(f"c{number}").type for number, check in enumerate(WINDOWS[name].checks)}
    assert found == dict(zip(found, outcomes[name].batch_types, strict=True))


@pytest.mark.parametrize("name", WINDOWS)
def test_values_match_sparks(outcomes: dict[str, Outcome], name: str) -> None:
    ours, spark = by_group(outcomes[name].stream.to_pylist()), by_group(outcomes[name].batch)
    wrong = []
    for number, check in enumerate(WINDOWS[name].checks):
        for group, row in spark.items():
            found, wanted = ours[group][f"c{number}"], row[f"c{number}"]
            if not (
                found is wanted is None or (found is not None and wanted is not None and check.agree(found, wanted))
            ):
                wrong.append(f"{check.sql} of {group}: {found!r}, Spark has {wanted!r}")
                break
    assert not wrong, "\n".join(wrong)
