"""Tumbling count, sum and maximum per key with Pathway, over JSON lines. Reads a job from standard input and prints the
results.

In its static mode, which reads the files once and emits each window once: the cheapest way.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pathway as pw


class Event(pw.Schema):
    k: int
    v: int
    ts: int


def compute(job: dict[str, Any]) -> list[int]:
    [folder] = {Path(path).parent for path in job["files"]}
    rows = pw.io.jsonlines.read(str(folder), schema=Event, mode="static")
    windows = rows.windowby(rows.ts, window=pw.temporal.tumbling(duration=job["size_ms"]), instance=rows.k).reduce(
        n=pw.reducers.count(), t=pw.reducers.sum(pw.this.v), m=pw.reducers.max(pw.this.v)
    )
    totals = [0, 0, 0, 0]

    def keep(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        sign = 1 if is_addition else -1
        for at, value in enumerate((1, row["n"], row["t"], row["m"])):
            totals[at] += sign * value

    pw.io.subscribe(windows, keep)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return totals


def main() -> None:
    job = json.load(sys.stdin)
    began, cpu = time.perf_counter(), time.process_time()
    totals = compute(job)
    print(json.dumps({"totals": totals, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
