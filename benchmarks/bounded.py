"""What a checkpoint accumulates: the storage of one stream, driven through many batches without Spark.

    python -m benchmarks.bounded [--batches 1_000 100_000]

Every batch publishes a manifest, takes in one item that was written to a source, and gives ten rows and, one time in
ten, a late one. Shown are bytes and files of the checkpoint, the memory of this process, and how long it takes to open
what is there: with everything kept as it comes (as up to 0.2), with everything kept and put together, and with
'results.keep' and 'rows.keep' set to 'none'. What Spark itself keeps is not in it. Files are not synced here.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import pyarrow as pa

from eventide.storage.compaction import Keep, compact
from eventide.storage.inbox import Entry, Inbox
from eventide.storage.results import Account, Results
from eventide.storage.spool import Spool

MODES = {"as it comes": None, "all, put together": Keep(), "none": Keep(0)}
EVERY = 32  # batches between two times that things are put together; a running stream goes by the clock
MAIN = pa.table({"k": [f"key {n}" for n in range(10)], "n": list(range(10)), "__rowtime": list(range(10))})
LATE = pa.table({"kind": ["late"], "original_event": ['{"k": "key 1", "n": 1}']})


@dataclass(frozen=True)
class Found:
    megabytes: float
    files: int
    memory: float  # MB more than at the beginning
    opening: float  # seconds


def simulate(folder: Path, batches: int, keep: Keep | None) -> Found:
    before = _memory()
    results, inbox, spool = Results(folder / "results"), Inbox(folder / "inbox"), Spool(folder / "source")
    for batch in range(batches):
        spool.append_rows(['{"k": "key 1", "n": 1}'] * 10, batch, batch + 1)
        inbox.publish([Entry("rows", "s", batch + 1)])
        side = LATE if batch % 10 == 0 else LATE.slice(0, 0)
        counts = {"rows_in": 10, "used": 10}
        results.write(MAIN, side, Account(batch, counts, {"rows_in": 10 * (batch + 1)}, began=batch, taken=batch + 1))
        if keep is not None and batch % EVERY == 0:
            inbox.settle(batch)
            compact(results, {"main": keep, "side": keep}, batch, batch)
            if keep.micros is not None:
                spool.forget(inbox.settled.get("s", 0), time.time_ns() // 1000)
    memory = _memory() - before
    began = time.perf_counter()
    Results(folder / "results").tidy()
    Inbox(folder / "inbox")
    Spool(folder / "source").last()
    opening = time.perf_counter() - began
    sizes = [os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names]
    return Found(sum(sizes) / 1e6, len(sizes), memory, opening)


def _memory() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss / 1e6)


def alone(batches: int, mode: str) -> Found:
    """In a process of its own, for its memory."""
    command = [sys.executable, "-m", "benchmarks.bounded", "--one", str(batches), mode]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return Found(**json.loads(told))


def table(sizes: Sequence[int]) -> None:
    print("| kept | batches | MB | files | memory, MB | opening, s |\n|---|---|---|---|---|---|")
    for mode in MODES:
        for batches in sizes:
            found = alone(batches, mode)
            print(
                f"| {mode} | {batches:,} | {found.megabytes:.1f} | {found.files:,} | {found.memory:.0f} "
                f"| {found.opening:.2f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is None:
        table(given.batches)
        return
    os.fsync = lambda descriptor: None
    with tempfile.TemporaryDirectory(prefix="bench-bounded-") as folder:
        print(json.dumps(asdict(simulate(Path(folder), int(given.one[0]), MODES[given.one[1]]))))


if __name__ == "__main__":
    main()
