"""Which columns of a source a query reads: those that reach the operator, and what filters and clauses look at.

All columns of a relation reach the operator, since a late row's payload has them; a subquery leaves some out.
"""

from __future__ import annotations

import pytest

from eventide.plan.planner import plan
from eventide.plan.used_columns import used_columns
from tests.sql.support import catalog

SOURCE = """
CREATE SOURCE s (K STRING, v BIGINT, at BIGINT, arr ARRAY<BIGINT>, st STRUCT<id: BIGINT>, received_at TIMESTAMP,
  `odd name` DOUBLE, EVENT TIME at TYPE unixtimestamp_ms {clause}) WITH ('connector' = 'files', 'path' = 'in');
"""
OF_TIME = {"at", "received_at"}


def read(query: str, clause: str = "") -> list[set[str]]:
    physical = plan(catalog(f"{SOURCE.format(clause=clause)} CREATE STREAM o AS {query};").streams["o"])
    return [set(used_columns(input)) for input in physical.inputs]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k FROM s", {"K", "v", "arr", "st", "odd name"}),
        ("SELECT y FROM (SELECT v + 1 AS y FROM s WHERE k = 'a')", {"K", "v"}),
        ("SELECT y FROM (SELECT z AS y FROM (SELECT v AS z, arr FROM s))", {"v"}),
        ("SELECT y FROM (SELECT `odd name` AS y FROM s)", {"odd name"}),
        ("SELECT id FROM (SELECT st.id AS id FROM s)", {"st"}),
        ("SELECT x FROM (SELECT x FROM s LATERAL VIEW explode(arr) t AS x)", {"arr"}),
        ("SELECT v FROM (SELECT v FROM (SELECT arr FROM s) LATERAL VIEW explode(arr) t AS v)", {"arr"}),
    ],
)
def test_what_a_query_reads(query: str, expected: set[str]) -> None:
    assert read(query) == [expected | OF_TIME]


def test_each_input_of_a_union_reads_its_own() -> None:
    union = "SELECT y FROM (SELECT v AS y FROM s UNION ALL SELECT st.id AS other FROM s)"
    assert read(union) == [{"v"} | OF_TIME, {"st"} | OF_TIME]


def test_what_tells_rows_apart_is_read() -> None:
    query = "SELECT y FROM (SELECT v AS y FROM s)"
    assert read(query, ", DEDUPLICATE BY st.id WITHIN '1h'") == [{"v", "st"} | OF_TIME]
