"""What a checkpoint accumulates: the storage of one stream, driven through many batches without Spark.

    python -m benchmarks.bounded [--batches 1_000 10_000 100_000] [--modes MODE ...] [--parts]

Every ten seconds a batch publishes a manifest, takes in one item that was written to a source and one file of a folder,
which is deleted then, and gives ten rows and, one time in ten, a late one, which is sent back to the source. Shown are
bytes and files of the checkpoint, the memory of this process, and how long it takes to open what is there:

    as it comes    nothing is put together or forgotten, as up to 0.2
    all            everything is kept, and put together
    none           'results.keep' and 'rows.keep' are 'none'
    none, ticks    the same, put together after every batch, as after a `tick`; the others every 32, for live streams

Of what Spark keeps, only its log of manifests is in it, written as Spark does. Files are not synced here.
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

from eventide.connectors.files.discoveries import DiscoveryLog
from eventide.connectors.files.listing import FoundFile
from eventide.spark.manifest_log import ManifestLog
from eventide.storage.compaction import Keep, compact
from eventide.storage.inbox import Entry, Inbox
from eventide.storage.outbox import Outbox, Returned
from eventide.storage.results import Account, Results
from eventide.storage.spool import Spool, Spools


@dataclass(frozen=True)
class Mode:
    keep: Keep | None  # None: nothing is put together
    every: int = 32  # batches between two times that things are put together; a running stream goes by the clock


MODES = {"as it comes": Mode(None), "all": Mode(Keep()), "none": Mode(Keep(0)), "none, ticks": Mode(Keep(0), 1)}
MAIN = pa.table({"k": [f"key {n}" for n in range(10)], "n": list(range(10)), "__rowtime": list(range(10))})
LATE = pa.table({"kind": ["late"], "original_event": ['{"k": "key 1", "n": 1}']})
BETWEEN, DAY = 10_000_000, 86_400_000_000  # microseconds from one batch to the next; 'forget_after', as by default
COMPACT_INTERVAL, RETAINED = 10, 100  # of Spark's logs, in batches


@dataclass(frozen=True)
class Found:
    megabytes: float
    files: int
    memory: float  # MB more than at the beginning
    opening: float  # seconds
    parts: dict[str, tuple[float, int]]  # kilobytes and files, by folder


class SparkLog:
    """The names of manifests that a file source has taken in, as Spark writes them: all of them every tenth batch."""

    def __init__(self, folder: Path, inbox: Path, last: int) -> None:
        self._folder, self._inbox, self._last = folder, inbox, last
        self._names: list[str] = []
        self._folder.mkdir(parents=True)

    def add(self, batch: int, manifest: int) -> None:
        path = f"file://{self._inbox}/{manifest:012d}.json"
        name = json.dumps({"path": path, "timestamp": batch, "batchId": batch}, separators=(",", ":"))
        self._names.append(name)
        is_compact = (batch + 1) % COMPACT_INTERVAL == 0
        if is_compact:
            self._names = self._before(batch) + self._names[-COMPACT_INTERVAL:]
        if batch >= self._last - RETAINED or len(self._names) < RETAINED * COMPACT_INTERVAL:
            lines = ["v1", *self._names] if is_compact else ["v1", name]
            (self._folder / _name(batch)).write_text("\n".join(lines))
        (self._folder / _name(batch - RETAINED)).unlink(missing_ok=True)

    def _before(self, batch: int) -> list[str]:
        """The names in the last file with all of them, which may have been made shorter."""
        path = self._folder / _name(batch - COMPACT_INTERVAL)
        return path.read_text().splitlines()[1:] if path.exists() else self._names[:-COMPACT_INTERVAL]


def _name(batch: int) -> str:
    return f"{batch}.compact" if (batch + 1) % COMPACT_INTERVAL == 0 else str(batch)


def simulate(folder: Path, batches: int, mode: Mode) -> Found:
    before, scans, source = _memory(), folder / "scans", folder / "source"
    results, inbox = Results(folder / "results"), Inbox(folder / "inbox")
    spools, outbox = Spools(lambda name: source), Outbox(folder / "reinject", "o")
    spark, shortened = (
        SparkLog(folder / "spark/sources/0", inbox.folder, batches),
        ManifestLog(folder / "spark", inbox.folder),
    )
    scans.mkdir()
    found = DiscoveryLog(scans)
    for batch in range(batches):
        spools.append("s", lambda spool, number: spool.append_rows(['{"k": "key 1", "n": 1}'] * 10, number, number))
        inbox.publish([Entry("rows", "s", batch + 1)])
        spark.add(batch, batch + 1)
        found.append([FoundFile(f"/data/clicks/2026-11-17/part-{batch:08d}.json", batch * BETWEEN, 1000)])
        is_late = batch % 10 == 0
        counts = {"rows_in": 10, "used": 10}
        account = Account(batch, counts, {"rows_in": 10 * (batch + 1)}, began=batch, taken=batch + 1)
        results.write(MAIN, LATE if is_late else LATE.slice(0, 0), account)
        if is_late:
            outbox.put(batch, [Returned("s", "late", f'{{"k": "key 1", "n": {batch}}}')], lambda kind, count: count)
            for path in (folder / "reinject").glob("[0-9]*.json"):
                path.unlink()  # as if it had been handed to its source
        if mode.keep is not None and batch % mode.every == 0:
            inbox.settle(batch)
            if found.is_long(batch):
                found.put_together(batch, list, DAY, now=batch * BETWEEN)
            compact(results, {"main": mode.keep, "side": mode.keep}, batch, batch)
            shortened.shorten(inbox.oldest)
            spools.put_together("s", inbox.settled.get("s", 0))
            if mode.keep.micros is not None:
                spools.spool("s").forget(inbox.settled.get("s", 0), time.time_ns() // 1000)
    memory = _memory() - before
    opening = _opening(folder)
    parts = {path.name: _size(path) for path in sorted(folder.iterdir())}
    kilobytes, files = (sum(column) for column in zip(*parts.values(), strict=True))
    return Found(kilobytes / 1000, files, memory, opening, parts)


def _opening(folder: Path) -> float:
    began = time.perf_counter()
    Results(folder / "results").tidy()
    Inbox(folder / "inbox")
    Spool(folder / "source").last()
    DiscoveryLog(folder / "scans")
    Outbox(folder / "reinject", "o")
    newest = max((folder / "spark/sources/0").glob("*.compact"), key=lambda path: int(path.stem))
    for line in newest.read_text().splitlines()[1:]:
        json.loads(line)
    return time.perf_counter() - began


def _size(folder: Path) -> tuple[float, int]:
    sizes = [os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names]
    return sum(sizes) / 1e3, len(sizes)


def _memory() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss / 1e6)


def alone(batches: int, mode: str) -> Found:
    """In a process of its own, for its memory."""
    command = [sys.executable, "-m", "benchmarks.bounded", "--one", str(batches), mode]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return Found(**json.loads(told))


def table(sizes: Sequence[int], modes: Sequence[str], shows_parts: bool) -> None:
    print("| kept | batches | MB | files | memory, MB | opening, s |\n|---|---|---|---|---|---|", flush=True)
    for mode in modes:
        for batches in sizes:
            found = alone(batches, mode)
            print(
                f"| {mode} | {batches:,} | {found.megabytes:.1f} | {found.files:,} | {found.memory:.0f} "
                f"| {found.opening:.2f} |",
                flush=True,
            )
            for part, (kilobytes, files) in found.parts.items() if shows_parts else ():
                print(f"| … {part} | | {kilobytes / 1000:.2f} | {files:,} | | |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--parts", action="store_true", help="show each part of the checkpoint by itself")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is None:
        table(given.batches, given.modes, given.parts)
        return
    os.fsync = lambda descriptor: None
    with tempfile.TemporaryDirectory(prefix="bench-bounded-") as folder:
        print(json.dumps(asdict(simulate(Path(folder), int(given.one[0]), MODES[given.one[1]]))))


if __name__ == "__main__":
    main()
