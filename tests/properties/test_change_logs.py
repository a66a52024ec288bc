"""Random graphs of change logs on bare kernels: batch by batch as the reference model has it, and summed up as DuckDB
answers the same query over all rows.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from eventide.testing import KernelDatabase, ReferenceDatabase
from eventide.testing.aggregates import frozen

STORIES = int(os.environ.get("EVENTIDE_CHANGE_LOGS", "60"))
SOURCES = "".join(
    f"CREATE SOURCE {name} (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);\n" for name in "st"
)
# Each has the columns k, v and w, so that each can stand on each.
GROUPS = (
    "SELECT k, sum(v) AS v, count(*) AS w FROM {below} GROUP BY k",
    "SELECT CASE WHEN v > 3 THEN 'big' ELSE k END AS k, max(w) AS v, count(DISTINCT v) AS w FROM {below} "
    "GROUP BY CASE WHEN v > 3 THEN 'big' ELSE k END",
    "SELECT k, min(v) AS v, max(v) AS w FROM {below} WHERE v <> 2 GROUP BY k",
    "SELECT 'all' AS k, count(v) AS v, sum(w) AS w FROM {below} AS everything",
)
RANKS = (
    "SELECT k, v, w FROM (SELECT k, v, w, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, w) AS place FROM {below}) "
    "WHERE place <= 2",
    "SELECT k, place AS v, v AS w FROM (SELECT k, v, DENSE_RANK() OVER (PARTITION BY k ORDER BY v, w DESC) AS place "
    "FROM {below}) WHERE place BETWEEN 1 AND 3",
    "SELECT k, v, w FROM (SELECT k, v, w, RANK() OVER (ORDER BY v) AS place FROM {below}) WHERE place < 4 AND v > 0",
)
JOINS = (
    *(
        f"SELECT coalesce(a.k, b.k) AS k, a.v AS v, b.v AS w FROM {{below}} AS a {kind} JOIN t AS b ON a.k = b.k{more}"
        for kind in ("INNER", "LEFT", "RIGHT", "FULL")
        for more in ("", " AND a.v < b.v")
    ),
    "SELECT a.k AS k, a.v AS v, b.w AS w FROM {below} AS a LEFT JOIN {below} AS b ON a.v = b.w",
    "SELECT a.k AS k, a.v AS v, a.w AS w FROM {below} AS a LEFT SEMI JOIN t AS b ON a.k = b.k AND b.v > 2",
    "SELECT a.k AS k, a.v AS v, a.w AS w FROM {below} AS a LEFT ANTI JOIN t AS b ON a.k = b.k",
)
OVERS = (
    "SELECT k, v, sum(w) OVER (PARTITION BY k ORDER BY v, w DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS w "
    "FROM {below}",
    "SELECT k, count(*) OVER (ORDER BY v DESC) AS v, max(w) OVER (ORDER BY v DESC) AS w FROM {below}",
)
SETS = (
    "SELECT DISTINCT k, v, w FROM {below} AS a",
    "SELECT k, v, w FROM {below} AS a WHERE EXISTS (SELECT 1 FROM t AS b WHERE b.k = a.k AND b.v > a.v)",
    "SELECT k, v, w FROM {below} AS a WHERE NOT EXISTS (SELECT 1 FROM t AS b WHERE b.k = a.k)",
    "SELECT k, v, w FROM {below} AS a WHERE k IN (SELECT k FROM t WHERE v > 2)",
    "SELECT k, v, w FROM {below} AS a QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, w) <= 2",
    "SELECT k, v, w FROM {below} AS a UNION SELECT k, v, ts AS w FROM t",
)
OTHERS = (
    "SELECT k, v + 1 AS v, w FROM {below} WHERE v > 1",
    "SELECT k, v, w FROM {below} UNION ALL SELECT k, ts AS v, v AS w FROM t",
)
SOURCE = "(SELECT k, v, ts AS w FROM s)"


def query(random: Random) -> str:
    """Two or three levels, the outermost of which keeps state."""
    below, kind = SOURCE, ""
    for level in range(random.choice((2, 3))):
        kinds = (*GROUPS, *RANKS, *SETS, *random.choices(JOINS, k=6), *(OVERS if level else ()))
        kind = random.choice((*kinds, *OTHERS) if level == 1 else kinds)
        below = f"({kind.format(below=below)})"
    if kind in OTHERS:
        below = f"({GROUPS[0].format(below=below)})"
    return below[1:-1]


def story(random: Random) -> list[dict[str, list[tuple[str | None, int | None, int]]]]:
    def row() -> tuple[str | None, int | None, int]:
        return random.choice(("a", "b", "c", None)), random.choice((0, 1, 2, 3, 4, 5, None)), random.randrange(20)

    return [{name: [row() for _ in range(random.randrange(4))] for name in "st"} for _ in range(random.randrange(2, 6))]


def summed_up(rows: list[dict[str, Any]]) -> Counter[Any]:
    """What a change log has left; nothing may be taken back that was not there."""
    left: Counter[Any] = Counter()
    for row in rows:
        values = frozen([value for name, value in row.items() if name != "op"])
        left[values] += row["op"]
        assert left[values] >= 0, (values, rows)
    return +left


def answer(sql: str, told: list[dict[str, list[tuple[str | None, int | None, int]]]]) -> Counter[Any]:
    """DuckDB's; it puts NULL where Spark puts it."""
    with duckdb.connect() as connection:
        connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        for name in "st":
            rows = [row for batch in told for row in batch[name]]
            columns = list(zip(*rows, strict=True)) or [[], [], []]
            kinds = (pa.string(), pa.int64(), pa.int64())
            arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
            connection.register(name, pa.table(arrays, names=["k", "v", "ts"]))
        asked = sql.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
        return Counter(frozen(list(row)) for row in connection.sql(asked).fetchall())


def test_the_answer_of_no_rows_at_all_is_not_told() -> None:
    """The only difference to an answer over all rows: a group without keys begins with its first row."""
    assert answer("SELECT count(*) FROM s", [{"s": [], "t": []}]) == Counter({(0,): 1})
    database = KernelDatabase()
    database.execute(SOURCES + "CREATE STREAM o AS SELECT op, count(*) AS n FROM s EMIT CHANGES")
    database.tick()
    assert list(database.read("o")) == []


@pytest.mark.parametrize("seed", range(STORIES))
def test_kernels_give_what_the_model_gives_and_what_duckdb_answers(seed: int) -> None:
    random = Random(seed)
    sql, told = query(random), story(random)
    statement = f"{SOURCES}CREATE STREAM o AS SELECT op, k, v, w FROM ({sql}) EMIT CHANGES"
    databases = (ReferenceDatabase(), KernelDatabase())
    for database in databases:
        database.execute(statement)
    for batch in told:
        for database in databases:
            for name, rows in batch.items():
                database.write(name, rows)
            database.tick()
        model, kernels = databases
        for name in model.names:
            wanted, given = (Counter(frozen(row) for row in each.read(name)) for each in (model, kernels))
            assert given == wanted, (sql, told, name)
    left = summed_up(list(kernels.read("o")))
    begun = sql.replace(
        "AS everything", "AS everything HAVING count(*) > 0"
    )  # a group without keys that has no row yet
    assert left in (answer(sql, told), answer(begun, told)), (sql, told)
