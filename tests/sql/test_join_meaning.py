"""What ON and WHERE are taken apart into means what they say together: DuckDB computes both over the same rows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pytest

from eventide.plan.joins import Interval
from eventide.plan.logical import Filter, Join, JoinSide
from eventide.plan.modes import JoinKind
from tests.sql.support import JOIN_SOURCES, stream

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
OF_LEFT = ("l.v > 1", "v IS NULL", "l.k = 'a'", "v IN (0, 2, 3)", "NOT (l.v = 2 AND l.k = 'b')", "coalesce(v, 1) < 3")
OF_RIGHT = ("w > 1", "r.w IS NULL", "r.k <> 'a'", "w BETWEEN 0 AND 2", "CASE WHEN w = 1 OR r.k = 'b' THEN true END")
OF_BOTH = (
    "l.k = r.k",
    "r.k IS NOT DISTINCT FROM l.k",
    "v = w",
    "w = v % 2",
    "v + w > 2",
    "v < w OR w IS NULL",
    "upper(l.k) = upper(r.k)",
    "l.ts < r.ts",
)
BOUNDS = ("r.ts BETWEEN l.ts - 3 AND l.ts + 2", "l.ts <= r.ts AND r.ts - l.ts < 4", "abs(l.ts - r.ts) <= 3")


def rows(chance: random.Random) -> list[tuple[Any, ...]]:
    return [
        (chance.choice([None, "a", "b"]), chance.choice([None, 0, 1, 2, 3]), chance.randint(0, 12))
        for _ in range(chance.randint(0, 14))
    ]


def query(chance: random.Random) -> str:
    kind = chance.choice(KINDS)
    left_only = kind in ("SEMI JOIN", "ANTI JOIN")
    on = chance.sample(OF_LEFT + OF_RIGHT, chance.randint(0, 2)) + chance.sample(OF_BOTH, chance.randint(0, 2))
    where = chance.sample(OF_LEFT if left_only else OF_LEFT + OF_RIGHT + OF_BOTH, chance.randint(0, 2))
    (where if not left_only and chance.random() < 0.3 else on).append(chance.choice(BOUNDS))
    chance.shuffle(on)
    outputs = "l.k, l.v, l.ts" if left_only else "l.k AS a, v, l.ts AS t, r.k AS b, w, r.ts AS u"
    condition = " AND ".join(f"({each})" if chance.random() < 0.3 or " OR " in each else each for each in on) or "TRUE"
    filtered = " AND ".join(f"({each})" for each in where)
    return f"SELECT {outputs} FROM l {kind} r ON {condition}" + (f" WHERE {filtered}" if filtered else "")


def side_sql(side: JoinSide, name: str, letter: str) -> str:
    conditions, relation = [], side.input
    while isinstance(relation, Filter):
        conditions.append(relation.condition)
        relation = relation.input
    columns = [f"{column.name} AS __{letter}{number}" for number, column in enumerate(side.columns)]
    keys = [f"{key} AS __{letter}k{number}" for number, key in enumerate(side.keys)]
    return f"(SELECT {', '.join([*columns, *keys])} FROM {name} WHERE {' AND '.join(conditions) or 'TRUE'})"


def plan_sql(join: Join) -> str:
    """The plan as one query, put together from its parts."""
    assert isinstance(join.bound, Interval)
    low, high = (bound / 1_000 for bound in (join.bound.lower, join.bound.upper))  # the times here are milliseconds
    conditions = [f"__r2 - __l2 BETWEEN {low} AND {high}", join.condition or "TRUE"]
    for number, null_safe in enumerate(join.null_safe):
        conditions.append(f"__lk{number} {'IS NOT DISTINCT FROM' if null_safe else '='} __rk{number}")
    kind = {JoinKind.SEMI: "SEMI", JoinKind.ANTI: "ANTI"}.get(join.kind, join.kind.value.upper())
    outputs = ", ".join(f"{output.sql} AS {output.name}" for output in join.outputs)
    sides = f"{side_sql(join.left, 'l', 'l')} x {kind} JOIN {side_sql(join.right, 'r', 'r')} y"
    on = " AND ".join(f"({condition})" for condition in conditions)
    return f"SELECT {outputs} FROM {sides} ON {on} WHERE {join.where or 'TRUE'}"


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.mark.parametrize("seed", range(400))
def test_the_parts_mean_what_the_query_says(seed: int, database: duckdb.DuckDBPyConnection) -> None:
    chance = random.Random(seed)
    for name, column in (("l", "v"), ("r", "w")):
        database.execute(f"CREATE OR REPLACE TABLE {name} (k VARCHAR, {column} BIGINT, ts BIGINT)")
        made = rows(chance)
        if made:
            database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", made)
    sql = query(chance)
    join = stream(sql, JOIN_SOURCES).query
    assert isinstance(join, Join)
    expected = Counter(database.execute(sql).fetchall())
    assert Counter(database.execute(plan_sql(join)).fetchall()) == expected
