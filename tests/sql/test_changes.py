"""What two texts of a stream differ in, and what becomes of each difference: changes.yaml."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from eventide.plan.changes import all_differences, differences, refused
from eventide.plan.difference import canonical
from eventide.plan.verdicts import Verdict
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from tests.sql.support import HERE

CASES: list[dict[str, Any]] = yaml.safe_load((HERE / "changes.yaml").read_text())
SOURCES = (
    "CREATE SOURCE s (k STRING, v BIGINT, ts TIMESTAMP, user STRING, WATERMARK FOR ts AS ts)",
    "CREATE SOURCE l (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)",
    "CREATE SOURCE r (k STRING, w BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)",
    "CREATE SOURCE f (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
    "WITH ('connector' = 'files', 'path' = 'in')",
)
WORDS = {Verdict.GOES_ON: "goes on", Verdict.NEXT_WINDOW: "next window", Verdict.CANNOT: "cannot"}


def catalog(text: str, source: str | None = None) -> Catalog:
    made = Catalog()
    replaced = [source.replace("CREATE", "CREATE OR REPLACE", 1)] if source else []
    for statement in parse_statements(";".join([*SOURCES, *replaced, text])):
        made.apply(statement)
    return made


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_differences(case: dict[str, Any]) -> None:
    old = catalog(f"CREATE STREAM o {case['old']}").streams["o"]
    new = catalog(f"CREATE STREAM o {case['new']}", case.get("source")).streams["o"]
    found = differences(old, new)
    assert [f"{WORDS[each.verdict]}: {each.what}" for each in found] == case["found"]
    assert all(each.reason for each in found)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_text_does_not_differ_from_itself(case: dict[str, Any]) -> None:
    new = catalog(f"CREATE STREAM o {case['new']}", case.get("source")).streams["o"]
    assert differences(new, new) == []


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_whatever_changes_the_plans_text_is_a_difference(case: dict[str, Any]) -> None:
    """So that nothing that is versioned goes on unsaid."""
    old = catalog(f"CREATE STREAM o {case['old']}").streams["o"]
    new = catalog(f"CREATE STREAM o {case['new']}", case.get("source")).streams["o"]
    if canonical(old) != canonical(new) and case["name"] != "an aggregate over a column with another name is the same":
        assert differences(old, new)


def test_files_that_spark_has_read_from_the_start_may_be_filtered_by_spark() -> None:
    text = "CREATE STREAM o AS SELECT k, v FROM f"
    old = catalog(text).streams["o"]
    new = catalog(f"{text} WHERE soundex(k) = 'A100'").streams["o"]
    assert refused(differences(old, new))
    assert not refused(differences(old, new, fused=[False]))


NESTED = "CREATE STREAM o AS SELECT k, max(n) AS most FROM ({}) GROUP BY k, TUMBLE(window_time, INTERVAL '1' MINUTE)"
COUNTS = "SELECT k, count(*) AS n{} FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"


def test_the_parts_of_a_stream_are_compared_one_by_one() -> None:
    old = catalog(NESTED.format(COUNTS.format(""))).parts("o")
    new = catalog(NESTED.format(COUNTS.format(", sum(v) AS total"))).parts("o")
    found = [str(each) for each in all_differences(old, new)]
    assert [text.split(":")[0] for text in found] == ["+ aggregate sum(v)", "+ output total", "+ $1"]


def test_another_number_of_parts_cannot_go_on() -> None:
    old = catalog(f"CREATE STREAM o AS {COUNTS.format('')}").parts("o")
    new = catalog(NESTED.format(COUNTS.format(""))).parts("o")
    (found,) = all_differences(old, new)
    assert found.verdict is Verdict.CANNOT
