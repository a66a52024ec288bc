"""Which packed columns only a late row needs: those that the operator does not use, where rows leave for no reason
but being late that is known later.
"""

from __future__ import annotations

import pytest

from eventide.plan.late_columns import late_only_columns
from eventide.plan.planner import plan
from tests.sql.support import catalog

SOURCES = """
CREATE SOURCE s (k STRING, v BIGINT, note STRING, at BIGINT, EVENT TIME at TYPE unixtimestamp_ms {clause})
WITH ('connector' = 'files', 'path' = 'in');
CREATE SOURCE r (k STRING, w BIGINT, extra STRING, at BIGINT, EVENT TIME at TYPE unixtimestamp_ms)
WITH ('connector' = 'files', 'path' = 'other');
"""
WINDOWS = "SELECT k, sum(v) AS t FROM s GROUP BY k, TUMBLE(at, INTERVAL '1' SECOND)"


def spared(create: str, clause: str = "") -> list[set[str]]:
    """The user's names of such columns, for every input."""
    physical = plan(catalog(f"{SOURCES.format(clause=clause)} {create};").streams["o"])
    packed = [late_only_columns(physical, input) for input in physical.inputs]
    return [
        {column.name for column in input.originals if column.sql in names}
        for input, names in zip(physical.inputs, packed, strict=True)
    ]


def test_windows_need_keys_and_inputs() -> None:
    assert spared(f"CREATE STREAM o AS {WINDOWS}") == [{"note", "at"}]


def test_joins_need_what_pairs_show() -> None:
    join = "SELECT l.v, r.w FROM s l JOIN r WITHIN INTERVAL '1' SECOND ON l.k = r.k"
    assert spared(f"CREATE STREAM o AS {join}") == [{"note", "at"}, {"extra", "at"}]
    assert spared(f"CREATE STREAM o AS {join} AND l.note > r.extra") == [{"at"}, {"at"}]


@pytest.mark.parametrize(
    ("create", "clause"),
    [
        ("CREATE STREAM o AS SELECT k, v FROM s", ""),
        ("CREATE STREAM o AS SELECT k FROM s ORDER BY at", ""),
        (f"CREATE STREAM o AS {WINDOWS}", ", DEDUPLICATE BY k WITHIN '1h'"),
        (f"CREATE STREAM o WITH ('max_groups' = '5') AS {WINDOWS}", ""),
    ],
    ids=["rows", "rows in order", "duplicates", "evicted"],
)
def test_rows_that_leave_for_other_reasons_keep_all(create: str, clause: str) -> None:
    assert spared(create, clause) == [set()]
