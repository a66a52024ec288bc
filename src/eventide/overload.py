"""`eventide demo --overload`: the whole way from limits to a sink, under twice the load that the engine can take."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from eventide.cli.console import accounting_line, sql_block
from eventide.errors import EngineError, StreamFailedError

if TYPE_CHECKING:
    from eventide.database import Database

SQL = """
CREATE SOURCE orders (id STRING, buyer STRING, amount DOUBLE, ts BIGINT,
  EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND,
  DEDUPLICATE BY id WITHIN INTERVAL '1' MINUTE)
WITH ('sla.class' = 'gold', 'sla.max_events_per_sec' = '1000', 'sla.burst' = '100000', 'sla.max_lag' = '1 minute',
  'shed.policy' = 'bypass');

CREATE SOURCE clicks (buyer STRING, page STRING, ts BIGINT,
  EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('sla.class' = 'bronze', 'sla.max_events_per_sec' = '{tokens}', 'sla.burst' = '{tokens}',
  'sla.max_lag' = '1 minute', 'shed.policy' = 'strict', 'shed.target_latency' = '{target} seconds');

CREATE STREAM bought_after AS
SELECT o.id, c.page FROM orders o JOIN clicks c WITHIN TUMBLE(INTERVAL '10' SECOND) ON o.buyer = c.buyer;

CREATE STREAM visits AS
SELECT o.id, c.page FROM orders o JOIN clicks c WITHIN SESSION(INTERVAL '1' SECOND) ON o.buyer = c.buyer;

CREATE STREAM revenue AS
SELECT window_start, count(*) AS orders, sum(amount) AS total
FROM orders GROUP BY TUMBLE(ts, INTERVAL '5' SECOND);

CREATE SINK books FROM revenue WITH ('connector' = 'files', 'path' = '{books}', 'format' = 'parquet');
"""
STREAMS = ("bought_after", "visits", "revenue")
ORDERS_A_SECOND, AGAIN = 20, 0.1  # share of orders that are delivered twice
SHARE_OF_TOKENS = 0.7  # of the clicks: the others are rejected by the rate
PATIENCE = 240.0  # seconds within which all that was written must have been read


@dataclass
class Shop:
    """Writes orders and clicks, `rate` clicks per second for `seconds`, on its own thread."""

    db: Database
    rate: int
    seconds: float
    orders: int = 0
    written: dict[str, int] = field(default_factory=lambda: {"orders": 0, "clicks": 0})
    failure: Exception | None = None
    _random: random.Random = field(default_factory=lambda: random.Random(7))
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        begin, passed = time.monotonic(), 0.0
        try:
            while passed < self.seconds and not self._stop.wait(0.25):
                now = min(time.monotonic() - begin, self.seconds)
                self.open_for(now - passed, passed)
                passed = now
        except Exception as error:
            self.failure = error

    def open_for(self, seconds: float, passed: float) -> None:
        """What comes within `seconds`, all of it now."""
        now = time.time_ns() // 1_000_000
        clicks = round((passed + seconds) * self.rate) - round(passed * self.rate)
        orders = round((passed + seconds) * ORDERS_A_SECOND) - round(passed * ORDERS_A_SECOND)
        self._write("orders", list(self._bought(orders, now)))
        self._write("clicks", [(self._buyer(), f"/page/{self._random.randrange(50)}", now) for _ in range(clicks)])

    def _bought(self, count: int, now: int) -> Iterator[tuple[str, str, float, int]]:
        for _ in range(count):
            order = (f"o{self.orders}", self._buyer(), round(self._random.uniform(5, 250), 2), now)
            self.orders += 1
            yield order
            if self._random.random() < AGAIN:
                yield order

    def _buyer(self) -> str:
        return f"b{self._random.randrange(5000)}"

    def _write(self, source: str, rows: list[tuple[Any, ...]]) -> None:
        self.written[source] += self.db.write(source, rows)

    @contextmanager
    def opened(self) -> Iterator[threading.Thread]:
        thread = threading.Thread(target=self.run, name="eventide-demo-shop", daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            self._stop.set()
            thread.join()


def run_overload(*, seconds: int, rate: int, console: Console) -> None:
    """Run the demo, from an empty folder to balanced accounts; leaves nothing behind."""
    import eventide

    with tempfile.TemporaryDirectory(prefix="eventide-demo-") as name:
        sql = SQL.format(books=Path(name) / "books", tokens=round(rate * SHARE_OF_TOKENS), target=2)
        _step(console, 1, "The SQL: gold orders, bronze clicks, two joins, an aggregate, a sink")
        console.print(sql_block(sql.replace(name, "…")))
        with console.status("starting Spark …"):
            db = eventide.connect()
        try:
            db.execute(sql)
            shop = Shop(db, rate, seconds)
            _step(console, 2, f"Live: {ORDERS_A_SECOND} orders and {rate:,} clicks per second, for {seconds} seconds")
            _watch(db, shop, console)
            with console.status("stopping: the last windows are emitted …"):
                db.stop(graceful=True)
            _settle(db, shop, console)
        finally:
            db.close()


def _watch(db: Database, shop: Shop, console: Console) -> None:
    """Wait until everything that was written has been read."""
    db.start()
    give_up = time.monotonic() + shop.seconds + PATIENCE
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    with shop.opened() as thread:
        if live is not None:
            live.start()
        try:
            while thread.is_alive() or not _all_read(db, shop):
                _check(db, shop, give_up)
                _show(db, live, console)
                time.sleep(1.0 if live is not None else 4.0)
        finally:
            if live is not None:
                live.stop()
    _show(db, None, console)


def _check(db: Database, shop: Shop, give_up: float) -> None:
    if shop.failure is not None:
        raise StreamFailedError(f"the shop has failed: {shop.failure}")
    for stream in db.progress():
        if stream["error"]:
            raise StreamFailedError(f"{stream['stream']}: {stream['error']}")
    if time.monotonic() > give_up:
        raise StreamFailedError("not all that was written was read in time")


def _all_read(db: Database, shop: Shop) -> bool:
    read = {stream["stream"]: int(stream["rows_in"]) for stream in db.progress()}
    both = sum(shop.written.values())
    return read["revenue"] >= shop.written["orders"] and all(read[name] >= both for name in STREAMS[:2])


def _show(db: Database, live: Live | None, console: Console) -> None:
    table = load_table(db.progress())
    if live is None:
        console.print(table)
    else:
        live.update(table, refresh=True)


def load_table(progress: list[dict[str, Any]]) -> Table:
    """A line for each stream and each of its sources."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("stream", "source", "class", "admitted", "rejected", "shed", "lag p99", "load", "goes"):
        table.add_column(name, justify="left" if name in ("stream", "source", "class") else "right", no_wrap=True)
    for stream in progress:
        for source, figures in stream["admission"].items():
            table.add_row(*_line(stream, source, figures))
    return table


def _line(stream: Mapping[str, Any], source: str, figures: Mapping[str, Any]) -> list[str]:
    rejected = sum(int(count) for name, count in figures.items() if name.startswith("rejected_"))
    load, lag = stream["load"], figures.get("lag_p99_ms")
    return [
        stream["stream"],
        source,
        str(figures.get("class", "–")),
        f"{int(figures['admitted']):,}",
        f"{rejected:,}",
        f"{int(figures['shed']):,}",
        "–" if lag is None else f"{lag:,.0f} ms",
        "–" if load is None else f"{load:.2f}",
        f"{stream['shed_share']:.0%}",
    ]


def _settle(db: Database, shop: Shop, console: Console) -> None:
    _step(console, 3, "Gold is complete")
    revenue = db.read("revenue").fetchall()
    counted, total = sum(row["orders"] for row in revenue), sum(row["total"] for row in revenue)
    if counted != shop.orders:
        raise EngineError(f"{shop.orders:,} orders were placed, and {counted:,} are in the books")
    console.print(f"{counted:,} of {shop.orders:,} orders are in the books, {total:,.2f} in all, each once.")
    _step(console, 4, "Bronze pays")
    console.print(db.why("visits"), soft_wrap=True, highlight=False)
    _step(console, 5, "The accounts")
    for name in STREAMS:
        console.print(Text(f"{name}: "), accounting_line(db.accounting(name)))


def _step(console: Console, number: int, title: str) -> None:
    console.print(Text(f"\n{number}  {title}", style="bold cyan"))
