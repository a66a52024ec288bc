"""Memory over a long run: does it stay flat, and does state depend only on the open windows?

    python -m benchmarks.memory [--rows 100_000_000] [--json]

Rows come in rounds, generated just before and deleted after, so little disk is needed. For each round, the peak
resident memory of the whole process tree is measured. The first third of the rounds is the warm-up, in which the JVM
grows into its heap, 512 MB here so that it does not take long; growth is the median of the last third's peaks divided
by that of the middle third's. State is what the engine says it holds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import data
from benchmarks.engines.eventide import Eventide, EventideRun
from benchmarks.figures import GROWTH, MEMORY, SPEED, STATE_GROWTH, Sample
from benchmarks.process_tree import Sampler
from benchmarks.workloads import MILLION, tumbling

BATCHES_PER_ROUND = 2
HEAP = {"spark.driver.memory": "512m"}
WORKLOAD = tumbling("json", 100_000)


@dataclass(frozen=True)
class Round:
    seconds: float
    peak: dict[str, int]  # bytes, by kind of process, when their sum was highest
    state: int

    @property
    def total(self) -> int:
        return sum(self.peak.values())


def rounds(rows: int, folder: Path) -> Iterator[Round]:
    watched, made = folder / "watched", folder / "made"
    watched.mkdir()
    made.mkdir()
    run = Eventide(conf=HEAP).start(WORKLOAD, watched, folder / "checkpoint")
    try:
        for first in range(0, rows // MILLION, BATCHES_PER_ROUND):
            spans = [data.Span(batch, batch * MILLION, MILLION) for batch in range(first, first + BATCHES_PER_ROUND)]
            files = [path for paths in data.write(WORKLOAD.data, spans, made).values() for path in paths]
            yield one_round(run, files, watched)
            for path in files:
                path.unlink()
                (watched / path.name).unlink()
    finally:
        run.close()


def one_round(run: EventideRun, files: Sequence[Path], watched: Path) -> Round:
    began = time.perf_counter()
    with Sampler() as sampler:
        data.link(files, watched)
        run.take()
    seconds = time.perf_counter() - began
    return Round(
        seconds, max(sampler.samples, key=lambda sizes: sum(sizes.values())), int(run.db.metrics()["o"]["state_bytes"])
    )


def growth(values: Sequence[float]) -> float:
    """The median of the last third divided by the median of the middle third."""
    third = len(values) // 3
    if third == 0:
        raise ValueError(f"{len(values)} rounds cannot show growth; at least 3 are needed")
    return statistics.median(values[-third:]) / statistics.median(values[third : 2 * third])


def sample(found: Sequence[Round]) -> Sample:
    return {
        GROWTH.key: growth([one.total for one in found]),
        STATE_GROWTH.key: growth([one.state for one in found]),
        MEMORY.key: max(one.total for one in found) / 1e6,
        SPEED.key: BATCHES_PER_ROUND * MILLION / statistics.median(one.seconds for one in found),
    }


def measure(rows: int) -> Sample:
    """In a separate process, so that no other engine's memory is included."""
    command = [sys.executable, "-m", "benchmarks.memory", "--rows", str(rows), "--json"]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: Sample = json.loads(told.splitlines()[-1])
    return found


def describe(number: int, one: Round) -> str:
    parts = ", ".join(f"{kind} {size / 1e6:,.0f}" for kind, size in one.peak.items())
    rows = (number + 1) * BATCHES_PER_ROUND * MILLION
    return (
        f"{rows:>12,} rows  {one.total / 1e6:7,.0f} MB ({parts})  state {one.state / 1e6:6.1f} MB  {one.seconds:5.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100 * MILLION)
    parser.add_argument("--json", action="store_true", help="end with a line of JSON")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as folder:
        for number, one in enumerate(rounds(given.rows, Path(folder))):
            found.append(one)
            print(describe(number, one), file=sys.stderr if given.json else sys.stdout, flush=True)
    result = sample(found)
    print(
        json.dumps(result)
        if given.json
        else f"memory {result[GROWTH.key]:.3f} times, state {result[STATE_GROWTH.key]:.3f} times"
    )


if __name__ == "__main__":
    main()
