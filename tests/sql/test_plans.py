"""Every spelling of a query, and what it means: plans.yaml."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from eventide.plan.difference import canonical
from eventide.plan.planner import plan
from eventide.sql.parser import parse_statements
from tests.sql.support import HERE, SOURCES, catalog, meaning, stream

CASES: list[dict[str, Any]] = yaml.safe_load((HERE / "plans.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_query_means(case: dict[str, Any]) -> None:
    assert "\n".join(meaning(stream(case["sql"]))) == case["meaning"].rstrip("\n")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_catalog_restored_from_its_texts_has_the_same_plans(case: dict[str, Any]) -> None:
    made = catalog(SOURCES)
    create = case["sql"] if case["sql"].startswith("CREATE") else f"CREATE STREAM o AS {case['sql']}"
    for statement in parse_statements(create):
        made.apply(statement)
    restored = type(made).from_texts(made.texts())
    assert canonical(restored.streams["o"]) == canonical(made.streams["o"])
    assert plan(restored.streams["o"]) == plan(made.streams["o"])


def test_all_tumbling_spellings_are_one_plan() -> None:
    spellings = [
        "SELECT k, sum(v) AS t FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)",
        "select K, SUM(V) as t from S group by k, tumble(TS, interval 10 seconds)",
        "SELECT k, sum(v) AS t FROM s GROUP BY k, window(ts, '10 seconds')",
        "SELECT k, sum(v) AS t FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, "
        "window_end, k",
        "SELECT k, sum(v) AS t FROM s GROUP BY k, tumblingwindow('ss', 10)",
        "SELECT k, sum(v) AS t FROM s GROUP BY k WINDOW TUMBLING (ON ts, SIZE INTERVAL '10' SECOND)",
        "SELECT x.k, sum(x.v) AS t FROM s AS x GROUP BY x.k, TUMBLE(x.ts, SIZE => '10s') EMIT ON WINDOW CLOSE",
    ]
    texts = {canonical(stream(spelling)).replace("as K", "as k") for spelling in spellings}
    assert len(texts) == 1


def test_white_space_and_comments_do_not_change_the_plan_id() -> None:
    plain = "SELECT k, sum(v + 1) AS t FROM s WHERE v > 0 GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"
    spaced = plain.replace(" ", "\n -- why\n ").replace("v + 1", "v+1").replace("sum(", "sum /* all */ ( ")
    assert plan(stream(plain)).plan_id == plan(stream(spaced)).plan_id


@pytest.mark.parametrize(
    "other",
    [
        "SELECT k, sum(v) AS t FROM s GROUP BY k, TUMBLE(ts, INTERVAL '11' SECOND)",
        "SELECT k, sum(v) AS u FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)",
        "SELECT k, sum(v) AS t FROM s WHERE v > 0 GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)",
        "SELECT k, sum(v) AS t FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND) ALLOW LATENESS INTERVAL '1' SECOND",
        "SELECT k, max(v) AS t FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)",
    ],
)
def test_another_meaning_has_another_plan_id(other: str) -> None:
    assert (
        plan(stream(other)).plan_id
        != plan(stream("SELECT k, sum(v) AS t FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)")).plan_id
    )


def test_the_names_of_the_stream_and_of_its_late_rows_are_not_part_of_the_meaning() -> None:
    query = "SELECT k, sum(v) AS t FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"
    assert plan(stream(query)).plan_id == plan(stream(f"{query} LATE DATA TO elsewhere")).plan_id
    assert len(plan(stream(query)).plan_id) == 32
