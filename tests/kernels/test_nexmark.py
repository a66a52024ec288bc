"""Queries of Nexmark on bare kernels: what they have given when all events are in is what DuckDB answers.

Those that need expressions which only Spark knows are in tests/spark/test_nexmark.py, as are all the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.nexmark.answers import Answers
from benchmarks.nexmark.events import Events
from benchmarks.nexmark.material import Material, prepare
from benchmarks.nexmark.queries import Places, query_sql
from eventide.testing.kernel_database import KernelDatabase

ROWS, BATCH = 2_000, 500
EVENTS = Events(per_second=100, disorder=50)  # no two at the same time, so that every row of an answer is certain
SOURCES = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, expires TIMESTAMP, "
    "seller BIGINT, category BIGINT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING",
}
COMMON = "dateTime TIMESTAMP, extra STRING, WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND"


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return prepare(EVENTS, tmp_path_factory.mktemp("nexmark"), batch_rows=ROWS, warm_batches=0, batches=1)


@pytest.fixture(scope="module")
def answers(material: Material) -> Answers:
    return material.answers()


@pytest.fixture(scope="module")
def batches() -> list[list[dict[str, Any]]]:
    return [EVENTS.table(first, BATCH).to_pylist() for first in range(0, ROWS, BATCH)]


@pytest.mark.parametrize(
    "name", ["q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q11", "q18", "q19", "q20"]
)
def test_a_query_answers_as_duckdb_does(
    name: str, material: Material, answers: Answers, batches: list[list[dict[str, Any]]]
) -> None:
    db = KernelDatabase()
    for source, columns in SOURCES.items():
        db.execute(f"CREATE SOURCE {source} ({columns}, {COMMON})")
    db.execute(query_sql(name, Places(Path("events"), Path("side_input"), Path("output"))))
    for batch in batches:
        for source in SOURCES:
            rows = [{**row[source], "dateTime": row["dateTime"]} for row in batch if row[source] is not None]
            db.write(source, rows)
        db.tick()
    for source in SOURCES:
        db.advance_watermark(source, material.end_ms)
    db.tick()
    assert answers.rows(name) > 0
    assert answers.differences(name, db.read(name).arrow()) == []
