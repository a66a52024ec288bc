"""How long after the end of its window a result can be read: tumbling windows of one second, no lag, a steady stream.

    python -m benchmarks.latency [--rates 10000 100000] [--seconds 120]

Every tenth of a second a file with the rows of that tenth appears. A result counts from the moment at which the clock
passed its window's end, when the last of its rows was written, to the moment at which the sink has it. The engines run
one after the other on one session, in batches as fast as each can. Rows that are still on their way when time is up are
not waited for.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import eventide
from benchmarks.engines.contract import Engine, Heard
from benchmarks.engines.eventide import Eventide
from benchmarks.engines.native import in_memory, with_rocksdb
from benchmarks.runner import heat, running
from benchmarks.workloads import Data, Tumble, Workload

_PER_SECOND = 10  # files
_WARM_SECONDS = 10
_WINDOW_MS = 1_000
WORKLOAD = Workload("latency", Data(keys=1_000, lag_ms=0, most_files=1_000), Tumble(_WINDOW_MS))


class Feed:
    """Writes the rows of each tenth of a second when it is over, into a folder that somebody watches."""

    def __init__(self, folder: Path, rate: int) -> None:
        self._folder, self._per_file = folder, rate // _PER_SECOND
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._write, name="feed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def _write(self) -> None:
        step, chance = 1_000 // _PER_SECOND, np.random.default_rng(7)
        begin = (int(time.time() * 1_000) // step + 1) * step
        while not self._done.is_set():
            keys = chance.integers(0, WORKLOAD.data.keys, self._per_file).tolist()
            times = (begin + np.arange(self._per_file) * step // self._per_file).tolist()
            text = "".join(f'{{"k":{k},"v":{k % 97},"ts":{ts}}}\n' for k, ts in zip(keys, times, strict=True))
            hidden = self._folder / f".{begin}"
            hidden.write_text(text)
            begin += step
            time.sleep(max(0.0, begin / 1_000 - time.time()))
            os.replace(hidden, self._folder / f"{begin}.json")


def delays(engine: Engine, rate: int, seconds: float) -> list[float]:
    """Of every window, seconds from its end to its result; without those of the first seconds."""
    with running(engine, WORKLOAD) as (run, watched):
        feed = Feed(watched, rate)
        began = time.time()
        try:
            while time.time() < began + _WARM_SECONDS + seconds:
                run.take()
        finally:
            feed.stop()
        return delays_of(run.heard, began + _WARM_SECONDS)


def delays_of(heard: list[Heard], since: float) -> list[float]:
    """One for each window that ended since then; a window counts when the first of its results comes."""
    found: dict[float, float] = {}
    for at, windows in heard:
        for start in [] if windows is None else windows["window_start"].cast(pa.timestamp("us", "UTC")).unique():
            end = start.as_py().timestamp() + _WINDOW_MS / 1_000
            if end >= since:
                found.setdefault(end, at - end)
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--seconds", type=float, default=120)
    given = parser.parse_args()
    with eventide.connect() as holder:
        engines: list[Engine] = [Eventide(holder.spark), with_rocksdb(holder.spark), in_memory(holder.spark)]
        for engine in engines:
            heat(engine)
        for rate in given.rates:
            for engine in engines:
                found = delays(engine, rate, given.seconds)
                p50, p99 = statistics.median(found), float(np.quantile(found, 0.99))
                print(f"{rate:>9,} rows/s  {engine.name:16} p50 {p50:5.2f} s  p99 {p99:5.2f} s  {len(found)} windows")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
