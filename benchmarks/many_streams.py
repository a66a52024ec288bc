"""Ten small streams in one database, and native Spark's ten queries: how many batches per second, when each gets a row.

    python -m benchmarks.many_streams [--streams 10] [--rounds 10]

In every round each stream gets a file with one row, and the round is over when all have taken theirs in. The first
rounds are not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import eventide
from benchmarks.engines.eventide import source_sql
from benchmarks.engines.native import Native, in_memory, with_rocksdb
from benchmarks.process_tree import cpu_seconds
from benchmarks.workloads import Data, Workload

_WARM_ROUNDS = 4
WORKLOAD = Workload("many streams", Data(keys=10))


class Many(Protocol):
    """Streams that watch folders."""

    name: str

    def take(self) -> None:
        """Returns when all files have been taken in."""


class ManyOfEventide:
    name = "eventide"

    def __init__(self, db: eventide.Database, folders: Sequence[Path]) -> None:
        self._db = db
        for number, folder in enumerate(folders):
            db.execute(source_sql(WORKLOAD.data, folder, f"s{number}"))
            db.execute(
                f"CREATE STREAM o{number} AS SELECT window_start, k, count(*) AS n, sum(v) AS t FROM s{number} "
                "GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"
            )

    def take(self) -> None:
        self._db.tick()


class ManyOfSpark:
    def __init__(self, engine: Native, folders: Sequence[Path], checkpoint: Path) -> None:
        self.name = engine.name
        self._runs = [engine.start(WORKLOAD, folder, checkpoint / str(number)) for number, folder in enumerate(folders)]

    def take(self) -> None:
        for run in self._runs:
            run.take()

    def close(self) -> None:
        for run in self._runs:
            run.close()


def put(folders: Sequence[Path], round: int) -> None:
    """A file with one row for each, which closes nothing."""
    for folder in folders:
        hidden = folder / f".{round}"
        hidden.write_text(f'{{"k":{round % 10},"v":1,"ts":{1_000_000_000_000 + round}}}\n')
        hidden.rename(folder / f"{round:06d}.json")


def measured(many: Many, folders: Sequence[Path], rounds: int) -> tuple[float, float]:
    """Batches per second, and CPU-seconds per batch."""
    for round in range(_WARM_ROUNDS):
        put(folders, round)
        many.take()
    began, cpu = time.perf_counter(), cpu_seconds()
    for round in range(_WARM_ROUNDS, _WARM_ROUNDS + rounds):
        put(folders, round)
        many.take()
    batches = rounds * len(folders)
    return batches / (time.perf_counter() - began), (cpu_seconds() - cpu) / batches


@contextlib.contextmanager
def folders_of(streams: int) -> Iterator[tuple[Path, list[Path]]]:
    with tempfile.TemporaryDirectory(prefix="bench-many-") as folder:
        watched = [Path(folder) / f"in{number}" for number in range(streams)]
        for each in watched:
            each.mkdir()
        yield Path(folder) / "checkpoint", watched


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.many_streams", description=__doc__)
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    with eventide.connect() as holder:
        with folders_of(given.streams) as (checkpoint, watched), eventide.connect(checkpoint, holder.spark) as db:
            show(ManyOfEventide(db, watched), watched, given.rounds)
        for engine in (with_rocksdb(holder.spark), in_memory(holder.spark)):
            with folders_of(given.streams) as (checkpoint, watched):
                many = ManyOfSpark(engine, watched, checkpoint)
                with contextlib.closing(many):
                    show(many, watched, given.rounds)


def show(many: Many, watched: Sequence[Path], rounds: int) -> None:
    speed, cpu = measured(many, watched, rounds)
    print(f"{len(watched)} streams  {many.name:16} {speed:6.1f} batches/s  {cpu:6.3f} CPU-s a batch", flush=True)


if __name__ == "__main__":
    main()
