"""Tumbling count, sum and maximum per key with Bytewax, over JSON lines. Reads a job from standard input and prints the
results.

One worker reads the files in order: several would read them at once, and most rows would be late. For the same reason
the clock stands still; otherwise the watermark would move with the time that processing takes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window
from bytewax.testing import TestingSink, run_main

LINES_AT_ONCE = 1_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Lines(StatefulSourcePartition[str, None]):
    def __init__(self, files: list[str]) -> None:
        self._lines = lines(files)

    def next_batch(self) -> list[str]:
        found = list(islice(self._lines, LINES_AT_ONCE))
        if not found:
            raise StopIteration
        return found

    def snapshot(self) -> None:
        return None


def lines(files: list[str]) -> Iterator[str]:
    for path in files:
        with Path(path).open() as file:
            yield from file


class Files(FixedPartitionedSource[str, None]):
    def __init__(self, files: list[str]) -> None:
        self._files = files

    def list_parts(self) -> list[str]:
        return ["all"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> Lines:
        return Lines(self._files)


def event_time(row: tuple[int, int]) -> datetime:
    return datetime.fromtimestamp(row[0] / 1000, UTC)


def decode(line: str) -> tuple[str, tuple[int, int]]:
    row = json.loads(line)
    return str(row["k"]), (row["ts"], row["v"])


def add(so_far: tuple[int, int, int], row: tuple[int, int]) -> tuple[int, int, int]:
    count, total, highest = so_far
    return count + 1, total + row[1], max(highest, row[1])


def merge(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], max(one[2], other[2])


def compute(job: dict[str, Any]) -> list[int]:
    flow = Dataflow("windows")
    rows = op.map("decode", op.input("lines", flow, Files(job["files"])), decode)
    clock = EventClock(event_time, timedelta(milliseconds=job["lag_ms"]), now_getter=lambda: EPOCH)
    windower = TumblingWindower(timedelta(milliseconds=job["size_ms"]), EPOCH)
    windows = fold_window("windows", rows, clock, windower, lambda: (0, 0, 0), add, merge, ordered=False)
    given: list[Any] = []
    op.output("out", windows.down, TestingSink(given))
    run_main(flow)
    values = [value for _, (_, value) in given]
    return [len(values), *(sum(value[at] for value in values) for at in range(3))]


def main() -> None:
    job = json.load(sys.stdin)
    began, cpu = time.perf_counter(), time.process_time()
    totals = compute(job)
    print(json.dumps({"totals": totals, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
