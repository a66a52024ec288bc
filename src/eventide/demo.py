"""`eventide demo`: a messy click stream, live on local Spark, and what happened to every row."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from eventide.cli.console import accounting_line, payload_grid, print_rows, sql_block, when
from eventide.cli.progress import ProgressView
from eventide.errors import EngineError, StreamFailedError

if TYPE_CHECKING:
    from eventide.database import Database

STREAM = "per_page"
SQL = """
CREATE SOURCE clicks (
  id BIGINT, ts STRING, visitor STRING, page STRING, amount DOUBLE,
  EVENT TIME ts TYPE iso8601,
  WATERMARK FOR ts AS ts - INTERVAL '3' SECOND
) WITH ('connector' = 'files', 'path' = '{folder}', 'format' = 'json');

CREATE STREAM per_page AS
SELECT window_start, window_end, page,
       count(*) AS clicks, count(DISTINCT visitor) AS visitors, round(sum(amount), 2) AS revenue
FROM clicks
GROUP BY page, TUMBLE(ts, INTERVAL '5' SECOND)
EMIT ON WINDOW CLOSE ALLOW LATENESS INTERVAL '2' SECOND LATE DATA TO late_clicks;
"""
PAGES = ("/home", "/search", "/product", "/cart", "/checkout")
WEIGHTS = (40, 25, 20, 10, 5)
BAD_TIMES = ("yesterday", "31.12.", "NaN", "12:61:00")
SHARE_LATE, SHARE_BAD, SHARE_FUTURE = 0.02, 0.001, 0.0003
PATIENCE = 240.0  # seconds without a row more, after which the demo gives up: machines may be slow


@dataclass
class ClickGenerator:
    """Writes files of clicks into `folder`, `rate` clicks per second for `seconds`, on its own thread."""

    folder: Path
    rate: int
    seconds: float
    pause: float = 0.5
    rows: int = 0
    files: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(7))
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="eventide-demo-clicks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        begin, before = time.monotonic(), self.rows
        total = int(self.rate * self.seconds)
        while self.rows < total and not self._stop.wait(self.pause):
            due = min(total, before + int(self.rate * (time.monotonic() - begin)))
            if due > self.rows:
                self.write(due - self.rows)

    def write(self, count: int) -> None:
        """Write one file, which readers see whole or not at all."""
        now = datetime.now(UTC)
        lines = (json.dumps(self.click(self.rows + n, now)) for n in range(count))
        hidden = self.folder / f"_{self.files:05d}.json"
        hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
        hidden.rename(self.folder / f"clicks-{self.files:05d}.json")
        self.rows += count
        self.files += 1

    def click(self, number: int, now: datetime) -> dict[str, object]:
        dice = self._random
        (page,) = dice.choices(PAGES, WEIGHTS)
        amount = round(dice.uniform(5, 250), 2) if page == "/checkout" else 0.0
        return {
            "id": number,
            "ts": self.timestamp(now),
            "visitor": f"v{dice.randrange(2000):04d}",
            "page": page,
            "amount": amount,
        }

    def timestamp(self, now: datetime) -> str:
        """Mostly up to 2 s ago, sometimes far too long ago, and now and then no time at all."""
        dice = self._random
        chance = dice.random()
        if chance < SHARE_BAD:
            return dice.choice(BAD_TIMES)
        if chance < SHARE_BAD + SHARE_FUTURE:
            ago = timedelta(days=-1)
        elif chance < SHARE_BAD + SHARE_FUTURE + SHARE_LATE:
            ago = timedelta(seconds=dice.uniform(12, 40))
        else:
            ago = timedelta(seconds=min(2.0, dice.expovariate(2.0)))
        return (now - ago).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_demo(*, seconds: int, rate: int, console: Console, dashboard: bool = False) -> None:
    """Run the whole demo, from an empty folder to balanced accounts; leaves nothing behind."""
    import eventide

    with tempfile.TemporaryDirectory(prefix="eventide-demo-") as name:
        folder = Path(name) / "clicks"
        folder.mkdir()
        generator = ClickGenerator(folder, rate, seconds)
        _introduce(generator, console)
        with console.status("starting Spark …"):
            db = eventide.connect()
        try:
            if dashboard:
                console.print(f"dashboard: {db.dashboard().url}", soft_wrap=True)
            _show(db, generator, console)
        finally:
            db.close()


def _introduce(generator: ClickGenerator, console: Console) -> None:
    _step(console, 1, "The clicks")
    console.print(
        f"{generator.rate:,} clicks per second for {generator.seconds:.0f} seconds, as JSON files in a "
        "temporary folder.\n"
        f"Like real ones, they are messy: most are up to 2 s out of order, {SHARE_LATE:.0%} come 12 to 40 s late, and\n"
        f"{SHARE_BAD + SHARE_FUTURE:.2%} have a timestamp that is invalid or in the future.",
        soft_wrap=True,
    )
    _step(console, 2, "The SQL")
    console.print(sql_block(SQL.format(folder="…/clicks")))


def _show(db: Database, generator: ClickGenerator, console: Console) -> None:
    db.execute(SQL.format(folder=generator.folder))
    _step(console, 3, "Live")
    console.print(
        "The watermark stays 3 s behind the newest click. A window closes when the watermark is 2 s past its end.",
        soft_wrap=True,
    )
    generator.write(generator.rate // 2)  # so that time has begun when the others come, however slow the machine is
    db.start()
    with console.status("reading the first clicks …"):
        _wait_for(db, generator)
    with _generating(generator):
        _watch(db, generator, console)
    with console.status("stopping: the last windows are emitted …"):
        db.stop(graceful=True)
    _results(db, console)
    _late(db, console)
    _errors(db, console)
    _accounts(db, generator, console)


@contextmanager
def _generating(generator: ClickGenerator) -> Iterator[None]:
    generator.start()
    try:
        yield
    finally:
        generator.stop()


@dataclass
class Reading:
    """How far the stream has read what the generator has written. `clock` gives seconds."""

    generator: ClickGenerator
    clock: Callable[[], float] = time.monotonic
    _rows: int = -1
    _since: float = 0.0

    def has_all(self, stream: Mapping[str, Any]) -> bool:
        """Whether it has read everything; raises if it has failed, or has read nothing more for a long time."""
        if stream["error"]:
            raise StreamFailedError(f"{STREAM}: {stream['error']}")
        rows, now = stream["rows_in"], self.clock()
        if rows != self._rows:
            self._rows, self._since = rows, now
        if rows < self.generator.rows and now - self._since > PATIENCE:
            raise StreamFailedError(f"only {rows:,} of {self.generator.rows:,} rows were read in time")
        return bool(rows >= self.generator.rows)


def _wait_for(db: Database, generator: ClickGenerator) -> None:
    """Wait until what has been written so far has been read."""
    reading = Reading(generator)
    while not reading.has_all(db.progress()[0]):
        time.sleep(0.2)


def _watch(db: Database, generator: ClickGenerator, console: Console) -> None:
    """Wait until the generator is done and all its rows have been read."""
    closed, reading = ClosedWindows(lambda: db.read(STREAM)), Reading(generator)
    with ProgressView(console, db.progress, plain_every=4.0) as view:
        while True:
            for line in closed.news():
                console.print(line, soft_wrap=True)
            (stream,) = view.update()
            is_done = not generator.running
            if reading.has_all(stream) and is_done:
                return
            time.sleep(1.0)


class ClosedWindows:
    """Reports each window once, when its rows appear in the stream's output."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self._told: set[datetime] = set()

    def news(self) -> list[Text]:
        windows: dict[datetime, list[Mapping[str, Any]]] = {}
        for row in self._read():
            windows.setdefault(row["window_start"], []).append(row)
        fresh = sorted(windows.keys() - self._told)
        self._told.update(fresh)
        return [self._line(windows[start]) for start in fresh]

    @staticmethod
    def _line(rows: list[Mapping[str, Any]]) -> Text:
        start, end = (when(rows[0][name]).partition(" ")[2] for name in ("window_start", "window_end"))
        clicks, revenue = sum(row["clicks"] for row in rows), sum(row["revenue"] for row in rows)
        return Text(f"  window {start} – {end} closed: {clicks:,} clicks, {revenue:,.2f} revenue", style="green")


def _results(db: Database, console: Console) -> None:
    result = db.read(STREAM)
    best = sorted(result, key=lambda row: (-row["revenue"], -row["clicks"]))[:5]
    _step(console, 4, "The result: where the money came from")
    print_rows(console, result.columns, best)


def _late(db: Database, console: Console) -> None:
    late = db.accounting(STREAM)["late"]
    _step(console, 5, f"Late: {late:,} clicks came after their window had closed")
    console.print(
        f"Spark alone would have dropped these {late:,} rows silently. Here each one is kept, like this one:",
        soft_wrap=True,
    )
    _payloads(db, "late", 1, console)


def _errors(db: Database, console: Console) -> None:
    errors = db.accounting(STREAM)["error"]
    _step(console, 6, f"Errors: {errors:,} clicks without a usable time")
    console.print("They neither stopped the stream nor moved the watermark.")
    _payloads(db, "error", 2, console)


def _payloads(db: Database, kind: str, count: int, console: Console) -> None:
    """One payload for each reason before a second for any."""
    by_reason: dict[str, list[Mapping[str, Any]]] = {}
    for payload in db.side_output(STREAM, kind=kind):
        by_reason.setdefault(payload["reason"], []).append(payload)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_reason.values()))
    for payload in itertools.islice(filter(None, turns), count):
        console.print(Padding(payload_grid(payload), (1, 0, 0, 2)))


def _accounts(db: Database, generator: ClickGenerator, console: Console) -> None:
    accounts = db.accounting(STREAM)
    if accounts["rows_in"] != generator.rows:
        raise EngineError(f"{generator.rows:,} clicks were written, but {accounts['rows_in']:,} are accounted for")
    _step(console, 7, f"The accounts: {generator.rows:,} clicks were written")
    console.print(accounting_line(accounts))
    console.print(Text("\nYour turn: .venv/bin/eventide sql, or the first example in README.md", style="dim"))


def _step(console: Console, number: int, title: str) -> None:
    console.print(Text(f"\n{number}  {title}", style="bold cyan"))
