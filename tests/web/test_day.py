"""A day of batches, simulated: neither the server's memory nor the page's grows with it."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from eventide.diagnose.observer import RUNNING, Observed
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.storage.history import KINDS, PHASES, History
from eventide.storage.layout import Layout
from eventide.storage.results import Account
from eventide.web import snapshot
from eventide.web.snapshot import POINT_COLUMNS, Snapshots
from tests.web.browser import CHROMIUM, MISSING, Browser
from tests.web.simulated import SECOND, SQL

DAY = 24 * 3600
BEGIN = 1_738_324_800


class Running:
    """A database that runs, of which only per_page does anything."""

    kind = "live"

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self.history, self.account = History(), self.made(0)
        self._catalog = Catalog()
        for statement in parse_statements(SQL):
            self._catalog.apply(statement)

    def catalog(self) -> Catalog:
        return self._catalog

    def fused(self, name: str) -> None:
        return None

    def batch(self, number: int) -> None:
        self.account = self.made(number)
        self.history.add(self.account)

    def made(self, number: int) -> Account:
        now = (BEGIN + number) * SECOND
        counts = {"rows_in": 1000 + number % 7, "used": 990 + number % 7, "late": 10}
        totals = {name: value * (number + 1) for name, value in counts.items()}
        sources = {"clicks": {"max_timestamp_seen": now, "watermark": now - 3 * SECOND, "rows": totals["rows_in"]}}
        gauges = {"open_windows#0": 10, "state_bytes#0": 9000 + number % 100}
        took = dict.fromkeys(PHASES, 40_000)
        events = {"rows_out": 5, "windows_closed": 5}
        return Account(number, counts, totals, events, gauges, now - 4 * SECOND, sources, {}, now - 160_000, took=took)

    def observe(self, name: str, since: int = 0) -> Observed:
        stream = self._catalog.stream(name)
        if name != "per_page":
            return Observed(stream, RUNNING)
        points, took = self.history.points(since), self.history.took()
        return Observed(stream, RUNNING, None, self.account, self.account.watermark, points, took)


def test_the_server_needs_no_more_at_the_end_of_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(tmp_path)
    snapshots = Snapshots(running)
    clock = [BEGIN]
    monkeypatch.setattr(snapshot.time, "time_ns", lambda: clock[0] * 1_000_000_000)

    def live(first: int, last: int) -> int:
        """So many batches, with a page that listens now and then; returns the bytes that are held after it."""
        for number in range(first, last, 5):  # a batch every five seconds
            running.batch(number)
            clock[0] = BEGIN + number
            if number % 950 == 0:
                snapshots.take(BEGIN + number - 2)
        snapshots.take()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early, late = live(0, 6 * 3600), live(6 * 3600, DAY)
    finally:
        tracemalloc.stop()
    assert late - early < 200_000, f"{early:,} bytes after six hours, {late:,} after a day"
    whole = snapshots.take()
    assert len(whole["streams"][0]["points"]) == 900


class Fast:
    """A view in which a minute passes with every look, as the page sees it."""

    def __init__(self, root: Path) -> None:
        self._running = Running(root)
        self._first = Snapshots(self._running).take()
        self.looks = 0

    def snapshot(self, since: int = 0) -> dict[str, Any]:
        self.looks += 1
        streams = [dict(each) for each in self._first["streams"]]
        now = BEGIN + 60 * self.looks
        rows = [self._row(now - 60 + second) for second in range(60)]
        streams[0] |= {"points": rows if since else rows[-1:], "state": "running", "batch": 60 * self.looks}
        streams[0] |= {"watermark": now * 1000 - 4000, "standing": None}
        return {**self._first, "now": now * 1000, "streams": streams}

    def _row(self, second: int) -> list[Any]:
        known = {"second": second, "batch": second - BEGIN, "at": second * 1000, "batches": 1}
        known |= dict.fromkeys(KINDS, second % 50) | dict.fromkeys(PHASES, 30.0)
        known |= {"watermark": second * 1000 - 4000, "newest": second * 1000, "open": 10, "state_bytes": 9000}
        return [known.get(name, 1) for name in POINT_COLUMNS]

    def detail(self, what: str, stream: str, query: Any) -> dict[str, Any]:
        if what == "timeline":
            last = 60 * self.looks
            at = (BEGIN + last) * 1000
            late = [[at - place, at - 9000 - 100 * place] for place in range(12)]
            return {"last": last, "batches": [{"batch": last, "windows": [[at // 10_000 * 10_000, 5]], "late": late}]}
        return {"columns": ["n"], "types": {"n": "int64"}, "rows": [[self.looks]] * 50, "total": self.looks}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_the_page_needs_no_more_at_the_end_of_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette", reason="the dashboard needs eventide[dashboard]")
    from eventide.web import app
    from eventide.web.serve import Dashboard

    monkeypatch.setattr(app, "_EVERY", 0.02)
    view = Fast(tmp_path)
    with Dashboard(view, port=0) as dashboard, Browser(tmp_path / "profile") as browser:
        browser.call("Performance.enable")
        browser.open(dashboard.url)

        def held(looks: int) -> tuple[float, float]:
            """Bytes of scripts and elements of the page when so many minutes have passed."""
            while view.looks < looks:
                browser.wait("document.querySelectorAll('.tile').length > 4")
            browser.call("HeapProfiler.collectGarbage")
            found = {each["name"]: each["value"] for each in browser.call("Performance.getMetrics")["metrics"]}
            return found["JSHeapUsedSize"], found["Nodes"]

        early, late = held(120), held(1440)  # two hours, a day
        assert browser.problems == []
    assert late[0] < early[0] + 3_000_000 and late[1] < early[1] * 1.5 + 500, (early, late)
    print(
        f"page: {early[0]:,.0f} bytes after two hours, {late[0]:,.0f} after a day; {early[1]:.0f}, {late[1]:.0f} nodes"
    )
