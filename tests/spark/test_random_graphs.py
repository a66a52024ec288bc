"""Random graphs of two and three levels on Spark, against the reference model: every level gives the same rows.

A level reads the one below it as a subquery or as a stream with a name; so the same query is one statement or several.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

import eventide
from eventide.testing import ReferenceDatabase
from eventide.testing.aggregates import frozen

GRAPHS = int(os.environ.get("EVENTIDE_SPARK_GRAPHS", "12"))
AT_ONCE = 3
SOURCE = "CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms, "
LEVELS = (
    "SELECT window_start, window_end, k, sum(v) AS v FROM {below} GROUP BY k, TUMBLE({time}, INTERVAL '{size}' SECOND)",
    "SELECT window_start, window_end, 'all' AS k, max(v) AS v FROM {below} "
    "GROUP BY HOP({time}, INTERVAL '{size}' SECOND, INTERVAL '{twice}' SECOND)",
    "SELECT window_start, window_end, k, count(*) AS v FROM {below} "
    "GROUP BY k, SESSION({time}, INTERVAL '{size}' SECOND)",
)
ABOVE_WINDOWS = (
    "SELECT window_start, window_end, min(k) AS k, sum(v) AS v FROM {below} GROUP BY window_start, window_end",
    "SELECT window_start, window_end, k, v + 1 AS v FROM {below} WHERE v > 1",
)
FORWARD = "SELECT k, v * 2 AS v, ts FROM {below} WHERE v <> 3"


def graph(random: Random) -> str:
    """The SQL of a source and of streams, the last of which is called o."""
    statements = [f"{SOURCE}WATERMARK FOR ts AS ts - INTERVAL '{random.choice((0, 1, 3))}' SECOND)"]
    below, time = "s", "ts"
    depth = random.choice((2, 3))
    for level in range(depth):
        kinds = [*LEVELS, FORWARD] if time == "ts" and level < depth - 1 else LEVELS if time == "ts" else None
        text = random.choice(kinds or [*LEVELS, *ABOVE_WINDOWS])
        size = random.choice((1, 2, 5)) * (level + 1)
        query = text.format(below=below, time=time, size=size, twice=size * 2)
        time = "ts" if text is FORWARD else "window_time"
        if level == depth - 1:
            late = random.choice(("", " ALLOW LATENESS INTERVAL '2' SECOND"))
            statements.append(f"CREATE STREAM o AS {query}" + (late if "s" in below.split() else ""))
        elif random.random() < 0.4:
            statements.append(f"CREATE STREAM named{level} AS {query}")
            below = f"named{level}"
        else:
            below = f"({query}) AS inner{level}"
    return ";\n".join(statements)


def story(random: Random) -> list[list[tuple[str, int, int]]]:
    """Writes of rows that come somewhat out of order."""
    now, writes = 0, []
    for _ in range(random.choice((3, 4, 5))):
        rows = [
            (random.choice("ab"), random.randrange(6), max(0, now + random.randrange(-4000, 4000)))
            for _ in range(random.randrange(1, 6))
        ]
        writes.append(rows)
        now += random.randrange(1000, 9000)
    return [*writes, [("z", 1, now + 60_000)]]


def tell(seed: int, folder: Path, spark: Any) -> None:
    random = Random(seed)
    sql, writes = graph(random), story(random)
    model = ReferenceDatabase()
    db = eventide.connect(folder, spark=spark, shards=2)
    try:
        for each in (model, db):
            each.execute(sql)
        for number, rows in enumerate(writes):
            if random.random() < 0.3:
                db.close()
                db = eventide.connect(folder, spark=spark, shards=2)
            for each in (model, db):
                each.write("s", rows)
                each.tick()
            for name in model.names:
                given, wanted = (Counter(frozen(row) for row in each.read(name)) for each in (db, model))
                assert given == wanted, (sql, writes[: number + 1], name)
                assert db.accounting(name) == model.accounting(name), (sql, writes[: number + 1], name)
    finally:
        db.close()


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory, keep_spark: Any) -> Iterator[list[Future[None]]]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield [pool.submit(tell, seed, tmp_path_factory.mktemp("graph"), keep_spark) for seed in range(GRAPHS)]
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(GRAPHS))
def test_every_level_gives_what_the_reference_model_gives(number: int, telling: list[Future[None]]) -> None:
    telling[number].result()
