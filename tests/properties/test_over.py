"""Running aggregates on bare kernels, over random rows in random batches: as the reference model has them, batch by
batch, and all of them as DuckDB computes them.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from eventide.testing import KernelDatabase, ReferenceDatabase
from eventide.testing.aggregates import frozen

SOURCE = (
    "CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, id BIGINT, EVENT TIME ts TYPE unixtimestamp_ms, "
    "WATERMARK FOR ts AS ts - INTERVAL '20' MILLISECOND);\n"
)
FRAMES = (
    "RANGE BETWEEN INTERVAL '5' MILLISECOND PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN INTERVAL '0' MILLISECOND PRECEDING AND CURRENT ROW",
    "RANGE UNBOUNDED PRECEDING",
    "",
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS 0 PRECEDING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
)
CALLS = ("sum(v)", "count(*)", "max(v)", "avg(v)", "count(DISTINCT v)")
Row = tuple[str | None, int | None, int, int]


def query(random: Random) -> str:
    by = random.choice(("PARTITION BY k ", ""))
    over = f"OVER ({by}ORDER BY ts {random.choice(FRAMES)})"
    one, other = random.choice((*CALLS, "min(k)")), random.choice(CALLS)
    return f"SELECT id, k, {one} {over} AS a, coalesce({other} {over}, 0) AS b FROM s"


def lagging(random: Random) -> str:
    """lag, alone or beside an aggregate over another frame."""
    by, count = random.choice(("PARTITION BY k ", "")), random.randrange(1, 4)
    lag = f"lag(v{random.choice(('', f', {count}', f', {count}, 7'))}) OVER ({by}ORDER BY ts )"
    frame = random.choice([frame for frame in FRAMES if frame.startswith("ROWS")])
    other = random.choice((f"{random.choice(CALLS)} OVER ({by}ORDER BY ts {frame})", "v + 1"))
    return f"SELECT id, k, {lag} AS a, coalesce({other}, 0) AS b FROM s"


def story(random: Random) -> list[list[Row]]:
    """Rows at most 20 milliseconds out of order, so that none is late; numbered as they come."""
    now, number, told = 0, 0, []
    for _ in range(random.randrange(2, 7)):
        rows: list[Row] = []
        for _ in range(random.randrange(6)):
            ts = max(0, now - random.randrange(20))
            rows.append((random.choice(("a", "b", None)), random.choice((None, 1, 2, 3, 4)), ts, number))
            number += 1
        told.append(rows)
        now += random.randrange(15)
    return [*told, [("z", 0, now + 1000, number)], [("z", 0, now + 2000, number + 1)]]


def answer(sql: str, told: list[list[Row]]) -> Counter[Any]:
    """DuckDB's; there, rows of equal times have no order of arrival, and a range of times is one of numbers."""
    asked = sql.replace("INTERVAL '5' MILLISECOND", "5").replace("INTERVAL '0' MILLISECOND", "0")
    asked = asked.replace("ORDER BY ts ROWS", "ORDER BY ts, id ROWS")
    asked = re.sub(r"(lag\(.*?) ORDER BY ts \)|(lag\(.*?\()ORDER BY ts \)", r"\1\2 ORDER BY ts, id)", asked)
    with duckdb.connect() as connection:
        columns = list(zip(*(row for rows in told[:-1] for row in rows), strict=True))
        kinds = (pa.string(), pa.int64(), pa.int64(), pa.int64())
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        connection.register("s", pa.table(arrays, names=["k", "v", "ts", "id"]))
        return Counter(frozen(list(row)) for row in connection.sql(asked).fetchall())


@pytest.mark.parametrize("seed", range(40))
def test_kernels_give_what_the_model_gives_and_what_duckdb_answers(seed: int) -> None:
    random = Random(seed)
    sql, told = (lagging if seed % 4 == 3 else query)(random), story(random)
    model, kernels = ReferenceDatabase(), KernelDatabase()
    for database in (model, kernels):
        database.execute(f"{SOURCE}CREATE STREAM o AS {sql}")
    for rows in told:
        for database in (model, kernels):
            database.write("s", rows)
            database.tick()
        wanted, given = ([frozen(row) for row in each.read("o")] for each in (model, kernels))
        assert Counter(given) == Counter(wanted), (sql, told)
    left = Counter(frozen(list(row.values())) for row in kernels.read("o"))
    assert kernels.accounting("o")["late"] == 0
    assert left == answer(sql, told), (sql, told)
