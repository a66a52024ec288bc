"""The demo's clicks, and the windows it reports."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eventide.demo import BAD_TIMES, PATIENCE, ClickGenerator, ClosedWindows, Reading
from eventide.errors import StreamFailedError


def clicks(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for file in sorted(folder.glob("clicks-*.json")) for line in file.read_text().splitlines()]


def test_the_generator_writes_as_many_clicks_as_it_should_and_no_half_files(tmp_path: Path) -> None:
    generator = ClickGenerator(tmp_path, rate=5000, seconds=0.3, pause=0.05)
    generator.start()
    while generator.running:
        pass
    assert [click["id"] for click in clicks(tmp_path)] == list(range(1500))
    assert generator.rows == 1500 and generator.files > 1
    assert not list(tmp_path.glob("_*"))


def test_a_generator_can_be_stopped_early(tmp_path: Path) -> None:
    generator = ClickGenerator(tmp_path, rate=1000, seconds=3600, pause=0.05)
    generator.start()
    generator.stop()
    assert not generator.running and generator.rows < 1000


def test_clicks_are_messy_in_the_way_that_the_demo_says(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    generator = ClickGenerator(tmp_path, rate=1, seconds=1)
    times = [generator.timestamp(now) for _ in range(20_000)]
    delays = [now - datetime.fromisoformat(time) for time in times if time not in BAD_TIMES]
    late = sum(delay > timedelta(seconds=10) for delay in delays)
    future = sum(delay < timedelta(0) for delay in delays)
    assert 300 < late < 500 and 5 <= len(times) - len(delays) < 50 and 0 < future < 20
    assert all(delay <= timedelta(seconds=2.1) or delay > timedelta(seconds=10) for delay in delays)


def test_a_slow_machine_is_waited_for_as_long_as_it_reads_more(tmp_path: Path) -> None:
    now = 0.0
    reading = Reading(ClickGenerator(tmp_path, rate=1, seconds=1, rows=100), clock=lambda: now)
    for rows in (0, 0, 10, 50, 99):
        assert not reading.has_all({"error": None, "rows_in": rows})
        now += 0.9 * PATIENCE if rows else 0.4 * PATIENCE
    now += 0.2 * PATIENCE
    with pytest.raises(StreamFailedError, match="only 99 of 100 rows"):
        reading.has_all({"error": None, "rows_in": 99})
    assert reading.has_all({"error": None, "rows_in": 100})
    with pytest.raises(StreamFailedError, match="per_page: it stopped"):
        reading.has_all({"error": "it stopped", "rows_in": 100})


def test_each_closed_window_is_reported_once() -> None:
    noon = datetime(2025, 1, 31, 12, tzinfo=UTC)

    def row(second: int, page: str) -> dict[str, object]:
        start = noon + timedelta(seconds=second)
        return {
            "window_start": start,
            "window_end": start + timedelta(seconds=5),
            "page": page,
            "clicks": 1000,
            "revenue": 2.5,
        }

    rows = [row(5, "/cart"), row(0, "/home"), row(0, "/cart")]
    windows = ClosedWindows(lambda: rows)
    assert [line.plain.strip() for line in windows.news()] == [
        "window 12:00:00 – 12:00:05 closed: 2,000 clicks, 5.00 revenue",
        "window 12:00:05 – 12:00:10 closed: 1,000 clicks, 2.50 revenue",
    ]
    rows.append(row(10, "/home"))
    assert len(windows.news()) == 1 and windows.news() == []
