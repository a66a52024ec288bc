"""Ten small streams in one database, and native Spark's ten queries: how many batches per second, when each gets a row.

    python -m benchmarks.many_streams [--streams 10] [--rounds 10]

In every round each stream gets a file with one row, and the round is over when all have taken theirs in. The first
rounds are not counted, and before them every engine has run, so that Java has compiled what each needs.
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
from benchmarks.engines.eventide import Eventide, source_sql
from benchmarks.engines.native import Native, in_memory, with_rocksdb
from benchmarks.process_tree import cpu_seconds
from benchmarks.runner import heat
from benchmarks.workloads import Data, Workload

_WARM_ROUNDS = 4
ROUNDS = 10
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
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    for name, speed, cpu in compared(given.streams, given.rounds):
        print(f"{given.streams} streams  {name:16} {speed:6.1f} batches/s  {cpu:6.3f} CPU-s a batch", flush=True)


def compared(streams: int, rounds: int) -> Iterator[tuple[str, float, float]]:
    """Of each engine batches per second, and CPU-seconds per batch."""
    with eventide.connect() as holder:
        natives = (with_rocksdb(holder.spark), in_memory(holder.spark))
        for engine in (Eventide(holder.spark), *natives):
            heat(engine)
        with folders_of(streams) as (checkpoint, watched), eventide.connect(checkpoint, holder.spark) as db:
            ours = ManyOfEventide(db, watched)
            yield ours.name, *measured(ours, watched, rounds)
        for engine in natives:
            with folders_of(streams) as (checkpoint, watched):
                many = ManyOfSpark(engine, watched, checkpoint)
                with contextlib.closing(many):
                    yield many.name, *measured(many, watched, rounds)


if __name__ == "__main__":
    main()
