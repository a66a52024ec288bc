"""The page docs/time.md is true: its example runs, and its timelines come out as drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from eventide.testing import ReferenceDatabase

PAGE = (Path(__file__).parent.parent.parent / "docs" / "time.md").read_text(encoding="utf-8")
SOURCE = "CREATE SOURCE {0} (v BIGINT, ts DOUBLE, EVENT TIME ts TYPE unixtimestamp_s{1}); "
NOW = 10**12  # microseconds: what the page's rows call the future is far ahead of this


def database(query: str, more: str = "", sources: tuple[str, ...] = ("s",), clock: Any = None) -> ReferenceDatabase:
    db = ReferenceDatabase(clock=clock or (lambda: NOW))
    db.execute("".join(SOURCE.format(name, more) for name in sources) + f"CREATE STREAM o AS {query}")
    return db


def tell(db: ReferenceDatabase, *times: float, source: str = "s") -> list[tuple[Any, ...]]:
    """Write rows with these times as one batch; returns what has been emitted since."""
    before = len(db.read("o"))
    db.write(source, [(1, float(at)) for at in times])
    db.tick()
    return [tuple(row.values()) for row in db.read("o")][before:]


def seconds(rows: list[tuple[Any, ...]]) -> list[tuple[float, ...]]:
    return [tuple(value.timestamp() if hasattr(value, "timestamp") else value for value in row) for row in rows]


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, re.S))
def test_the_example_on_the_page_runs(block: str) -> None:
    exec(compile(block, "docs/time.md", "exec"), {})


def test_the_watermark_is_drawn_as_it_moves() -> None:
    db = database("SELECT v FROM s", ", WATERMARK FOR ts AS ts - INTERVAL '7' SECOND")
    tell(db, 4, 7)
    assert db.watermark("o") == 0
    tell(db, 17)
    assert db.watermark("o") == 10_000


def test_three_sources_have_the_minimum_or_none() -> None:
    db = database(
        "SELECT v FROM (SELECT v FROM a UNION ALL SELECT v FROM b UNION ALL SELECT v FROM c)", sources=("a", "b", "c")
    )
    tell(db, 9, source="a")
    tell(db, 0.5, source="b")
    assert db.watermark("o") is None
    tell(db, 5, source="c")
    assert db.watermark("o") == 500


def test_batch_two_is_judged_by_the_watermark_of_batch_one() -> None:
    db = database("SELECT window_start, count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)")
    assert seconds(tell(db, 1, 25)) == [(0, 1)]
    assert seconds(tell(db, 31, 26)) == [(20, 2)]
    assert db.accounting("o")["late"] == 0


def test_window_borders_are_as_drawn() -> None:
    tumbling = database("SELECT window_start, count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)")
    assert seconds(tell(tumbling, 0, 10, 20)) == [(0, 1), (10, 1)]
    hopping = database(
        "SELECT window_start, count(*) AS n FROM s GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
    )
    assert seconds(tell(hopping, 7, 100))[:2] == [(0, 1), (5, 1)]
    sliding = database("SELECT count(*) AS n FROM s GROUP BY slidingwindow('ss', 10)")
    assert tell(sliding, 9, 10, 20)[-1] == (2,)


def test_sessions_are_as_drawn() -> None:
    query = "SELECT window_start, window_end, count(*) AS n FROM s GROUP BY SESSION(ts, INTERVAL '{}' SECOND)"
    assert seconds(tell(database(query.format(5)), 1, 4, 9, 20)) == [(1, 14, 3)]
    assert seconds(tell(database(query.format(5)), 1, 4, 9, 14, 20)) == [(1, 19, 4)]
    merging = database(query.format(3), ", WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE")
    tell(merging, 1, 5)
    tell(merging, 3.5)
    merging.advance_watermark("s", 8000)
    merging.tick()
    assert seconds([tuple(row.values()) for row in merging.read("o")]) == [(1, 8, 3)]


@pytest.mark.parametrize(("watermark", "late"), [(9_999, 0), (10_000, 0), (19_999, 0), (20_000, 1)])
def test_a_row_is_late_where_the_picture_says_so(watermark: int, late: int) -> None:
    query = (
        "SELECT count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '10' SECOND) EMIT ON WINDOW CLOSE ALLOW "
        "LATENESS INTERVAL '10' SECOND"
    )
    db = database(query)
    db.advance_watermark("s", watermark)
    db.tick()
    tell(db, 5)
    assert db.accounting("o")["late"] == late


def test_a_graceful_stop_leaves_the_watermark_and_closes_the_window() -> None:
    db = database("SELECT window_start, count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)")
    tell(db, 11)
    db.stop(graceful=False)
    assert len(db.read("o")) == 0
    db.stop(graceful=True)
    assert (len(db.read("o")), db.watermark("o")) == (1, 11_000)
    tell(db, 12)
    assert db.accounting("o")["late"] == 1


def test_windows_over_windows_are_as_drawn() -> None:
    db = database("SELECT count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)")
    db.execute(
        "CREATE STREAM hours AS SELECT window_start, sum(n) AS n, max(rowtime) AS newest, max(window_time) AS same "
        "FROM o GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR)"
    )
    tell(db, 30, 3570)
    assert db.watermark("hours") == 3_570_000 and len(db.read("hours")) == 0
    tell(db, 3600)
    assert seconds([tuple(row.values()) for row in db.read("hours")]) == [(0, 2, 3599.999999, 3599.999999)]
    assert db.accounting("hours")["late"] == 0
