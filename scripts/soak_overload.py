"""A stream under twice the load that it can take, for SOAK_SECONDS: `python scripts/soak_overload.py`.

One stream reads two sources: gold, of which nothing is shed, and bronze, which pays. How much the machine can take is
measured first. Then rows come at twice that rate, and every ten seconds a line tells how it goes. Fails unless the
accounts balance, all of gold has come through, no batch of it was later than LONGEST_LAG targets once the load was
known, and memory has stopped growing.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

import eventide

TARGET = float(os.environ.get("SOAK_TARGET", "3"))  # seconds
GOLD_A_SECOND = 50
PROBE_ROWS, PROBES = 20_000, 6
SETTLED = 0.4  # share of the run after which load and memory must be steady
LONGEST_LAG = 3.0  # targets: the batch before, its own, and what the machine does beside
MOST_GROWTH = 1.25

SQL = f"""
CREATE SOURCE gold (id BIGINT, kind STRING, v DOUBLE, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)
WITH ('sla.priority' = 'critical', 'shed.policy' = 'strict', 'shed.target_latency' = '{TARGET} seconds');
CREATE SOURCE bronze (id BIGINT, kind STRING, v DOUBLE, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)
WITH ('sla.priority' = 'low', 'shed.policy' = 'strict', 'shed.target_latency' = '{TARGET} seconds');
CREATE STREAM o AS SELECT id, kind, v * 2 AS twice, ts FROM (SELECT * FROM gold UNION ALL SELECT * FROM bronze);
"""


@dataclass
class Tally:
    """What came out: gold rows, and how late each batch of them was, in seconds."""

    gold: int = 0
    lags: list[tuple[float, float]] = field(default_factory=list)

    def take(self, batch: int, rows: pa.Table) -> None:
        now = time.time()
        gold = [row["ts"] for row in rows.to_pylist() if row["kind"] == "gold"]
        self.gold += len(gold)
        if gold:
            self.lags.append((time.monotonic(), now - min(gold) / 1000))


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def capacity(db: Any) -> float:
    """Rows per second that ticks work off, once everything is warm."""
    took = []
    for number in range(PROBES):
        db.write("bronze", rows(number * PROBE_ROWS, PROBE_ROWS, "bronze"))
        began = time.monotonic()
        db.tick()
        took.append(time.monotonic() - began)
    return PROBE_ROWS / min(took)


def rows(first: int, count: int, kind: str) -> list[tuple[int, str, float, int]]:
    now = time.time_ns() // 1_000_000
    return [(first + n, kind, 1.5, now) for n in range(count)]


def memory() -> int:
    """MiB of this process and all that it started."""
    me, total = psutil.Process(), 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total >> 20


def produce(db: Any, rate: float, seconds: float, written: dict[str, int]) -> None:
    begin = time.monotonic()
    while (passed := time.monotonic() - begin) < seconds:
        for kind, each in (("gold", GOLD_A_SECOND), ("bronze", rate)):
            due = int(each * passed) - written[kind]
            if due > 0:
                db.write(kind, rows(written[kind], due, kind))
                written[kind] += due
        time.sleep(0.2)


def main() -> int:
    seconds = float(os.environ.get("SOAK_SECONDS", "240"))
    tally, written = Tally(), {"gold": 0, "bronze": 0}
    with tempfile.TemporaryDirectory(prefix="eventide-soak-") as folder, eventide.connect(Path(folder) / "cp") as db:
        db.execute(SQL)
        db.foreach("o", tally.take)
        most = capacity(db)
        say(f"capacity {most:,.0f} rows/s; {2 * most:,.0f} come, for {seconds:g} s, target {TARGET:g} s")
        db.start()
        begin = time.monotonic()
        producer = threading.Thread(target=produce, args=(db, 2 * most, seconds, written), daemon=True)
        producer.start()
        samples: list[tuple[float, int]] = []
        while producer.is_alive():
            producer.join(10.0)
            line = db.progress()[0]
            samples.append((time.monotonic() - begin, memory()))
            lag = tally.lags[-1][1] if tally.lags else 0.0
            say(
                f"{samples[-1][0]:4.0f} s  load {line['load'] or 0:.2f}  goes {line['shed_share']:.0%}  shed "
                f"{line['shed']:,}  gold lag {lag:.1f} s  memory {samples[-1][1]:,} MiB  written {written['bronze']:,}"
            )
        db.stop(graceful=True)
        return verdict(db.accounting("o"), tally, written, samples, begin + SETTLED * seconds, begin + seconds)


def verdict(
    counts: dict[str, int],
    tally: Tally,
    written: dict[str, int],
    samples: list[tuple[float, int]],
    since: float,
    until: float,
) -> int:
    late = sorted(lag for at, lag in tally.lags if since <= at <= until) or [0.0]
    half = len(samples) // 2
    before, after = (
        statistics.median(size for _, size in some) for some in (samples[:half] or samples, samples[half:])
    )
    wrong = {
        "accounts do not balance": counts["rows_in"] != sum(n for kind, n in counts.items() if kind != "rows_in"),
        "rows are missing": counts["rows_in"] != sum(written.values()) + PROBES * PROBE_ROWS,
        "gold is missing": tally.gold != written["gold"],
        "gold is late": late[len(late) * 95 // 100] > LONGEST_LAG * TARGET,
        "memory grows": after > MOST_GROWTH * before,
    }
    print(
        f"{counts}; gold {tally.gold} of {written['gold']}, lag p50 {late[len(late) // 2]:.1f} s p95 "
        f"{late[len(late) * 95 // 100]:.1f} s; memory {before:,.0f} then {after:,.0f} MiB"
    )
    for what in (what for what, is_so in wrong.items() if is_so):
        print(what)
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main())
