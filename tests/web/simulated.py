"""A checkpoint that grows as if streams were running, without Spark: accounts, results and payloads, batch by batch.

clicks ──▶ per_page ──▶ pages
              ├──▶ late_clicks ──▶ lates
              └──▶ busiest
orders ──▶ buyers ◀── clicks
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.storage.atomic import write_json
from eventide.storage.layout import Layout, Lock
from eventide.storage.payloads import PAYLOAD_SCHEMA
from eventide.storage.results import OUTPUT_TIME, Account, Results

SECOND = 1_000_000
SQL = """
CREATE SOURCE clicks (id BIGINT, ts STRING, visitor STRING, page STRING, amount DOUBLE,
  EVENT TIME ts TYPE iso8601, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'files', 'path' = 'clicks', 'format' = 'json');
CREATE SOURCE orders (id BIGINT, ts TIMESTAMP, visitor STRING, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND);
CREATE STREAM per_page AS
SELECT window_start, window_end, page, count(*) AS clicks, round(sum(amount), 2) AS revenue
FROM clicks
GROUP BY page, TUMBLE(ts, INTERVAL '10' SECOND)
EMIT ON WINDOW CLOSE ALLOW LATENESS INTERVAL '4' SECOND LATE DATA TO late_clicks;
CREATE STREAM busiest AS
SELECT window_start, window_end, sum(clicks) AS clicks, max(revenue) AS best
FROM per_page GROUP BY TUMBLE(window_time, INTERVAL '30' SECOND);
CREATE STREAM buyers AS
SELECT o.id, c.page FROM orders o JOIN clicks c WITHIN INTERVAL '5' SECOND ON o.visitor = c.visitor;
CREATE SINK pages FROM per_page WITH ('connector' = 'files', 'path' = 'out', 'format' = 'parquet');
CREATE SINK lates FROM late_clicks WITH ('connector' = 'files', 'path' = 'late', 'format' = 'json');
"""
PAGES = ("/", "/search", "/product", "/cart", "/checkout")
_TIME = pa.timestamp("us", tz="UTC")
_ROWS = pa.schema(
    [
        ("window_start", _TIME),
        ("window_end", _TIME),
        ("page", pa.string()),
        ("clicks", pa.int64()),
        ("revenue", pa.float64()),
        (OUTPUT_TIME, pa.int64()),
    ]
)


@dataclass
class Simulation:
    """The stream per_page of `SQL`, or of other statements that define one alike."""

    root: Path
    sql: str = SQL
    stream: str = "per_page"
    source: str = "clicks"
    pages: tuple[str, ...] = PAGES
    late_text: str = "/search"
    batch: int = 0
    totals: dict[str, int] = field(default_factory=dict)
    rows_read: int = 0
    newest: int | None = None
    watermark: int | None = None
    closed_to: int | None = None
    lanes: dict[str, dict[str, int]] = field(default_factory=dict)  # of the source's partitions
    lock: Lock | None = None
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def __post_init__(self) -> None:
        self.layout = Layout(self.root)
        self.layout.make_private()
        catalog = Catalog()
        for statement in parse_statements(self.sql):
            catalog.apply(statement)
        write_json(self.layout.catalog, catalog.texts())
        self.results = Results(self.layout.results(self.stream))

    def hold(self) -> None:
        """As a process does that has the checkpoint open."""
        self.lock = Lock(self.layout.lock)

    def release(self) -> None:
        if self.lock is not None:
            self.lock.release()

    def step(self, now: int, rows: int = 2000, errors: int = 2, late: int = 5) -> None:
        """One batch that ended at `now`, in microseconds."""
        mark, size, lateness = self.watermark, 10 * SECOND, 4 * SECOND
        ends = self._closing(mark, size, lateness)
        main = [self._row(end, page) for end in ends for page in self.pages]
        late = late if mark is not None else 0
        side = [self._late(now, mark or 0) for _ in range(late)] + [self._error(now) for _ in range(errors)]
        counts = {"rows_in": rows, "used": rows - late - errors, "late": late, "error": errors}
        events = {"rows_out": len(main), "windows_closed": len(ends) * len(self.pages)}
        for name, value in {**counts, **events}.items():
            self.totals[name] = self.totals.get(name, 0) + value
        self.rows_read += rows
        self.newest = now - self.rng.randrange(300_000)
        open_now = 2 * len(self.pages)
        took = {"plan": 40_000, "compute": 90_000 + self.rng.randrange(60_000), "sinks": 9_000, "store": 6_000}
        gauges = {"open_windows#0": open_now, "open_groups#0": open_now, "state_bytes#0": 900 * open_now + rows // 9}
        if mark is not None and self.closed_to is not None:
            gauges["next_close#0"] = self.closed_to + size + lateness
        sources = {self.source: {"max_timestamp_seen": self.newest, "rows": self.rows_read}}
        if mark is not None:
            sources[self.source]["watermark"] = mark
        began = now - sum(took.values())
        lanes = {self.source: self.lanes} if self.lanes else {}
        totals = dict(self.totals)
        account = Account(self.batch, counts, totals, events, gauges, mark, sources, {}, began, lanes, took=took)
        table = pa.Table.from_pylist(main, schema=_ROWS)
        self.results.write(table, pa.Table.from_pylist(side, schema=PAYLOAD_SCHEMA), account)
        self.watermark = self.newest - 3 * SECOND
        write_json(self.layout.stream(self.stream) / "watermark.json", self.watermark)
        self.batch += 1

    def run(self, since: int, until: int, every: int = SECOND, **figures: int) -> None:
        for now in range(since, until, every):
            self.step(now, rows=1800 + self.rng.randrange(500), **figures)

    def _closing(self, mark: int | None, size: int, lateness: int) -> list[int]:
        if mark is None:
            return []
        due = (mark - lateness) // size * size
        first = self.closed_to if self.closed_to is not None else due
        self.closed_to = max(first, due)
        return list(range(first + size, due + 1, size))

    def _row(self, end: int, page: str) -> dict[str, Any]:
        clicks = self.rng.randrange(800, 6000)
        start, revenue = end - 10 * SECOND, round(clicks * self.rng.random(), 2)
        values = {"window_start": start, "window_end": end, "page": page, "clicks": clicks, "revenue": revenue}
        return {**values, OUTPUT_TIME: end - 1}

    def _late(self, now: int, mark: int) -> dict[str, Any]:
        at = mark - 6 * SECOND - round(self.rng.expovariate(1 / 9) * SECOND)
        start = at // (10 * SECOND) * 10 * SECOND
        row = {"id": self.rng.randrange(10**6), "page": self.late_text, "visitor": f"v{self.rng.randrange(2000):04d}"}
        window = {"start": start, "end": start + 10 * SECOND}
        return self._payload("late", "allowed_lateness_exceeded", now, event_time=at, window=window, row=row)

    def _error(self, now: int) -> dict[str, Any]:
        detail = "'yesterday' is not a time of type iso8601"
        return self._payload("error", "event_time_unparseable", now, row={"ts": "yesterday"}, error_detail=detail)

    def _payload(self, kind: str, reason: str, now: int, row: dict[str, Any], **more: Any) -> dict[str, Any]:
        shown = {"original_event": json.dumps(row), "shard": 0, "plan_id": "p", "source": self.source}
        return {"kind": kind, "reason": reason, "processing_time": now, "watermark": self.watermark, **shown, **more}
