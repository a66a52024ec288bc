"""A stream under twice the load that it can take, for SOAK_SECONDS: `python scripts/soak_overload.py`.

One stream reads two sources: gold, of which nothing is shed, and bronze, which pays. How much batches of the target's
length can take is measured first, on a stream of which nothing is shed; where the machine is so busy that the fixed
cost of a batch does not leave two thirds of it, the target is longer. Then rows come at twice that rate, and every ten
seconds a line tells how it goes. Fails unless the accounts balance, all of gold has come through, its lag was within
LONGEST_LAG targets in 95 of 100 batches once the first ones, which are cold, were over, memory has stopped growing, and
nothing is shed any more BACK_WITHIN batches after the load has gone.
"""

from __future__ import annotations

import math
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

TARGET = float(os.environ.get("SOAK_TARGET", "3"))  # seconds, at least
FIXED_SHARE = 1 / 3  # of the target, that the fixed cost of a batch may be
GOLD_A_SECOND = 50
PROBE_ROWS, PROBES = (100, 10_000), 4  # small and large batches by turns, after a first one that is cold
LARGEST_WRITE = 5_000  # rows: a batch takes whole writes
COLD = 8  # batches of the stream that are not judged
LONGEST_LAG = 3.0  # targets: the batch before, its own, and what the machine does beside
CALM, BACK_WITHIN = 0.4, 10  # of the capacity, that comes when the load goes; batches after which nothing is shed
MOST_GROWTH = 1.1  # of memory, from the third quarter of the run to the last

COLUMNS = "id BIGINT, kind STRING, v DOUBLE, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms"
SELECT = "SELECT id, kind, length(sha2(repeat(kind, 20000), 512)) AS work, ts FROM"  # a row costs more than its write
PROBE_SQL = f"CREATE SOURCE plain ({COLUMNS}); CREATE STREAM probe AS {SELECT} plain;"


def overload_sql(target: float) -> str:
    shed = f"'shed.policy' = 'strict', 'shed.target_latency' = '{round(1000 * target)} milliseconds'"
    return f"""
        CREATE SOURCE gold ({COLUMNS}) WITH ('sla.priority' = 'critical', {shed});
        CREATE SOURCE bronze ({COLUMNS}) WITH ('sla.priority' = 'low', {shed});
        CREATE STREAM o AS {SELECT} (SELECT * FROM gold UNION ALL SELECT * FROM bronze);
    """


@dataclass
class Tally:
    """What came out: gold rows, and how late each batch of them was, in seconds, oldest first."""

    gold: int = 0
    lags: list[float] = field(default_factory=list)

    def take(self, batch: int, rows: pa.Table) -> None:
        now = time.time()
        gold = [row["ts"] for row in rows.to_pylist() if row["kind"] == "gold"]
        self.gold += len(gold)
        if gold:
            self.lags.append(now - min(gold) / 1000)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def batch_cost(db: Any) -> tuple[float, float]:
    """(seconds that every batch costs, seconds per row), once everything is warm: of the quickest batches."""
    small, large = PROBE_ROWS
    took: dict[int, list[float]] = {small: [], large: []}
    for size in (small, *PROBES * (small, large)):
        db.write("plain", rows(0, size, "bronze"))
        began = time.monotonic()
        db.tick()
        took[size].append(time.monotonic() - began)
    fixed, full = min(took[small][1:]), min(took[large])
    return fixed, max(full - fixed, 0.1 * full) / large


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
    begin, before = time.monotonic(), dict(written)
    while (passed := time.monotonic() - begin) < seconds:
        for kind, each in (("gold", GOLD_A_SECOND), ("bronze", rate)):
            due = before[kind] + int(each * passed) - written[kind]
            for first in range(written[kind], written[kind] + due, LARGEST_WRITE):
                count = min(LARGEST_WRITE, written[kind] + due - first)
                db.write(kind, rows(first, count, kind))
            written[kind] += max(due, 0)
        time.sleep(0.2)


def main() -> int:
    seconds = float(os.environ.get("SOAK_SECONDS", "240"))
    tally, written = Tally(), {"gold": 0, "bronze": 0}
    with tempfile.TemporaryDirectory(prefix="eventide-soak-") as folder, eventide.connect(Path(folder) / "cp") as db:
        db.execute(PROBE_SQL)
        fixed, per_row = batch_cost(db)
        db.execute("DROP STREAM probe")
        target = max(TARGET, fixed / FIXED_SHARE)
        most = (target - fixed) / per_row / target
        say(f"a batch costs {fixed:.2f} s and {per_row * 1e6:.0f} µs a row; load average {os.getloadavg()[0]:.1f}")
        say(f"capacity {most:,.0f} rows/s; {2 * most:,.0f} come, for {seconds:g} s, target {target:.1f} s")
        db.execute(overload_sql(target))
        db.foreach("o", tally.take)
        db.start()
        producer = threading.Thread(target=produce, args=(db, 2 * most, seconds, written), daemon=True)
        samples = watch(db, tally, written, producer)
        after = threading.Thread(target=produce, args=(db, most * CALM, 2 * BACK_WITHIN * target, written), daemon=True)
        calmed = batches_until_calm(db, tally, after)
        after.join()
        db.stop(graceful=True)
        return verdict(db.accounting("o"), tally, written, samples, LONGEST_LAG * target, calmed)


def watch(db: Any, tally: Tally, written: dict[str, int], producer: threading.Thread) -> list[int]:
    """Memory in MiB, every ten seconds while rows come."""
    begin, samples = time.monotonic(), []
    producer.start()
    while producer.is_alive():
        producer.join(10.0)
        line = db.progress()[0]
        samples.append(memory())
        lag = tally.lags[-1] if tally.lags else 0.0
        say(
            f"{time.monotonic() - begin:4.0f} s  load {line['load'] or 0:.2f}  goes {line['shed_share'] or 0:.0%}  "
            f"shed {line['shed']:,}  gold lag {lag:.1f} s  memory {samples[-1]:,} MiB  written {written['bronze']:,}"
        )
    return samples


def batches_until_calm(db: Any, tally: Tally, producer: threading.Thread) -> int | None:
    """How many batches have ended from when the load went until nothing was shed any more; None if it never came to
    that.
    """
    before = len(tally.lags)
    producer.start()
    while producer.is_alive():
        if not db.progress()[0]["shed_share"]:
            return len(tally.lags) - before
        time.sleep(0.05)
    return None


def verdict(
    counts: dict[str, int],
    tally: Tally,
    written: dict[str, int],
    samples: list[int],
    longest_lag: float,
    calmed: int | None,
) -> int:
    late = sorted(tally.lags[COLD:]) or [math.inf]
    half, last = len(samples) // 2, len(samples) * 3 // 4
    before, after = (statistics.median(some) for some in (samples[half:last], samples[last:]))
    p95 = late[len(late) * 95 // 100]
    wrong = {
        "accounts do not balance": counts["rows_in"] != sum(n for kind, n in counts.items() if kind != "rows_in"),
        "rows are missing": counts["rows_in"] != sum(written.values()),
        "gold is missing": tally.gold != written["gold"],
        "gold is late": p95 > longest_lag,
        f"shedding goes on {BACK_WITHIN} batches after the load went": calmed is None or calmed > BACK_WITHIN,
        "memory grows": after > MOST_GROWTH * before,
    }
    cold = ", ".join(f"{lag:.1f}" for lag in tally.lags[:COLD])
    print(
        f"{counts}; gold {tally.gold} of {written['gold']}, lag while cold {cold} s, "
        f"then p50 {late[len(late) // 2]:.1f} s p95 {p95:.1f} s, bound {longest_lag:.1f} s, of {len(late)} batches; "
        f"memory {before:,.0f} then {after:,.0f} MiB; nothing is shed {calmed} batches after the load went"
    )
    for what in (what for what, is_so in wrong.items() if is_so):
        print(what)
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.exit(main())
