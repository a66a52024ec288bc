"""What load shedding asks of a stream: whole windows, and the share that went."""

from __future__ import annotations

import pytest

from eventide.errors import SqlError
from eventide.plan.physical import AggregateWindows
from eventide.plan.planner import plan
from eventide.plan.shedding import SHED_WEIGHT, shed_window, weight_column
from eventide.plan.used_columns import used_columns
from tests.sql.support import stream

COLUMNS = "k STRING, p STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms"
MINUTES = "TUMBLE(ts, INTERVAL '1' MINUTE)"


def sources(first: str, second: str = "'shed.mode' = 'rows'") -> str:
    return f"CREATE SOURCE a ({COLUMNS}) WITH ({first}); CREATE SOURCE b ({COLUMNS}) WITH ({second});"


WHOLE = "'shed.mode' = 'windows'"


def test_a_stream_of_tumbling_windows_may_lose_whole_ones() -> None:
    physical = plan(stream(f"SELECT k, count(*) AS n FROM a GROUP BY k, {MINUTES}", sources(WHOLE)))
    assert shed_window(physical) == (0, 60_000_000)
    by_rows = plan(stream(f"SELECT k, count(*) AS n FROM b GROUP BY k, {MINUTES}", sources(WHOLE)))
    assert shed_window(by_rows) is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(*) AS n FROM a GROUP BY k, CUMULATE(ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
        "SELECT a.v FROM a JOIN b WITHIN TUMBLE(INTERVAL '1' MINUTE) ON a.k = b.k",
        "SELECT a.v FROM a LEFT JOIN b WITHIN TUMBLE(INTERVAL '1' MINUTE) ON a.k = b.k AND a.v > b.v",
    ],
)
def test_so_may_streams_whose_windows_lie_in_spans_that_share_no_row(query: str) -> None:
    both = f"{WHOLE}, 'sla.priority' = 'k'"
    assert shed_window(plan(stream(query, sources(both, both)))) == (0, 60_000_000)


REFUSED = [
    ("SELECT k FROM a", WHOLE, WHOLE, "in none that all"),
    ("SELECT count(*) AS n FROM a GROUP BY HOP(ts, INTERVAL '1' SECOND, INTERVAL '2' SECOND)", WHOLE, WHOLE, "overlap"),
    ("SELECT k, count(*) AS n FROM a GROUP BY k, SESSION(ts, INTERVAL '1' SECOND)", WHOLE, WHOLE, "a session begins"),
    (
        "SELECT a.v FROM a JOIN b WITHIN HOP(INTERVAL '1' SECOND, INTERVAL '2' SECOND) ON a.k = b.k",
        WHOLE,
        WHOLE,
        "over",
    ),
    ("SELECT a.v FROM a JOIN b WITHIN SESSION(INTERVAL '1' SECOND) ON a.k = b.k", WHOLE, WHOLE, "a session begins"),
    (
        "SELECT a.v FROM a JOIN b WITHIN TUMBLE(INTERVAL '1' SECOND) ON a.k = b.k",
        WHOLE,
        "'shed.mode' = 'rows'",
        "not go",
    ),
    (
        "SELECT a.v FROM a JOIN b WITHIN TUMBLE(INTERVAL '1' SECOND) ON a.k = b.p AND a.p = b.k",
        f"{WHOLE}, 'sla.priority' = 'k'",
        f"{WHOLE}, 'sla.priority' = 'k'",
        "may differ",
    ),
    (
        f"SELECT count(*) AS n FROM (SELECT * FROM a UNION ALL SELECT * FROM b) GROUP BY {MINUTES}",
        WHOLE,
        "'shed.mode' = 'rows'",
        "would not go with it",
    ),
    (f"SELECT k, count(*) AS n FROM a GROUP BY k, {MINUTES}", f"{WHOLE}, 'sla.priority' = 'p'", WHOLE, "may differ"),
    (
        f"CREATE STREAM o WITH ('late.policy' = 'reassign', 'late.max_lateness' = '1 s') AS "
        f"SELECT k, count(*) AS n FROM a GROUP BY k, {MINUTES}",
        WHOLE,
        WHOLE,
        "moves rows",
    ),
]


@pytest.mark.parametrize(("query", "first", "second", "message"), REFUSED)
def test_windows_that_would_not_be_whole_are_refused(query: str, first: str, second: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as raised:
        stream(query, sources(first, second))
    assert raised.value.start is not None and raised.value.help


@pytest.mark.parametrize("priority", ["k", "CASE WHEN k = 'vip' THEN 'high' ELSE 'low' END", "high"])
def test_a_priority_that_all_rows_of_a_window_share_is_taken(priority: str) -> None:
    quoted = priority.replace("'", "''")
    made = sources(f"{WHOLE}, 'sla.priority' = '{quoted}'")
    assert stream(f"SELECT k, count(*) AS n FROM a WHERE v > 1 GROUP BY k, {MINUTES}", made)


def test_the_share_that_was_shed_is_a_column_of_every_window() -> None:
    made = plan(stream(f"SELECT k, count(*) AS n, shed_ratio FROM b GROUP BY k, {MINUTES}", sources(WHOLE)))
    assert isinstance(made.operator, AggregateWindows)
    assert [call.function for call in made.operator.aggregates] == ["count", "sum"]  # count(*) is shared
    assert [output.name for output in made.outputs] == ["k", "n", "shed_ratio"]
    (weight,) = [column.name for column in made.inputs[0].packed if column.sql == SHED_WEIGHT]
    assert weight_column(made.inputs[0]) == weight


def test_a_column_of_that_name_comes_first() -> None:
    own = "CREATE SOURCE a (shed_ratio DOUBLE, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);"
    made = plan(stream(f"SELECT max(shed_ratio) AS most FROM a GROUP BY {MINUTES}", own))
    assert weight_column(made.inputs[0]) is None


def test_what_a_priority_reads_is_read_though_the_query_does_not_use_it() -> None:
    made = plan(stream("SELECT v FROM b", sources(WHOLE, "'shed.mode' = 'rows', 'sla.priority' = 'p'")))
    assert "p" in used_columns(made.inputs[0])
