"""What lowers but cannot run yet is refused at its place."""

from __future__ import annotations

import pytest

from eventide.errors import SqlError
from eventide.plan import validate
from eventide.plan.logical import EmitMode, LatePolicy, Tumble
from eventide.plan.validate import Places
from tests.sql.support import SOURCES, stream


@pytest.fixture(autouse=True)
def only_tumbling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "RUNNABLE_WINDOWS", (Tumble,))
    monkeypatch.setattr(validate, "RUNNABLE_EMITS", frozenset({EmitMode.ON_WINDOW_CLOSE}))
    monkeypatch.setattr(validate, "RUNNABLE_POLICIES", frozenset({LatePolicy.WINDOW}))
    monkeypatch.setattr(validate, "RUNNABLE_FEATURES", frozenset({"forward"}))


@pytest.mark.parametrize(
    ("sql", "at", "message"),
    [
        ("SELECT sum(v) FROM s GROUP BY SESSION(ts, '1s')", "SESSION(ts, '1s')", "session windows cannot run yet"),
        ("SELECT sum(v) FROM s GROUP BY HOP(ts, '1s', '2s')", "HOP(ts, '1s', '2s')", "hop windows cannot run yet"),
        ("SELECT sum(v) FROM s GROUP BY TUMBLE(ts, '1s') EMIT CHANGES", "EMIT CHANGES", "EMIT CHANGES cannot run yet"),
        ("SELECT k FROM s ORDER BY ts", "ts", "ORDER BY cannot run yet"),
        ("CREATE STREAM o WITH ('late.policy' = 'strict') AS SELECT k FROM s", "'strict'", "late.policy 'strict' cannot run yet"),
        ("CREATE STREAM o WITH ('max_groups' = '5') AS SELECT k FROM s GROUP BY k, TUMBLE(ts, '1s')", "'5'", "max_groups cannot run yet"),
        ("SELECT k FROM n", "n", "processing time cannot run yet"),
    ],
)
def test_what_no_kernel_runs_is_refused_at_its_place(sql: str, at: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as raised:
        stream(sql)
    error = raised.value
    assert error.sql[error.start : error.end] == at
    assert error.help


def test_deduplication_is_refused_where_its_source_is_read() -> None:
    sources = "CREATE SOURCE s (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts, DEDUPLICATE BY k WITHIN '1 minute')"
    with pytest.raises(SqlError, match="DEDUPLICATE BY") as raised:
        stream("SELECT k FROM s", sources)
    assert raised.value.sql[raised.value.start : raised.value.end] == "s"


def test_a_plan_without_places_is_refused_without_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stream("SELECT sum(v) FROM s GROUP BY TUMBLE(ts, '1s')", SOURCES)
    monkeypatch.setattr(validate, "RUNNABLE_WINDOWS", ())
    with pytest.raises(SqlError, match="tumble windows cannot run yet") as raised:
        validate.validate(made, Places())
    assert raised.value.start is None
