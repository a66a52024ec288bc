"""How much faster a second core makes it: the same stream with one core and with two, each in a process of its own.

python -m benchmarks.scaling [--engine eventide|native] [--turns 3]
python -m benchmarks.scaling --cores 1      # one process: rows per second as a line of JSON

All of a process tree - Java's helper threads and the Python workers too - may use only so many cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.figures import OURS, SCALING, SPEED, Sample
from benchmarks.workloads import clicks

WORKLOAD = clicks(1_000)
ENGINES = (OURS, "native")
TURNS = 3
CORES = (1, 2)


def measure(engine: str, turns: int, say: Callable[[str], None] = lambda line: None) -> Sample:
    """The ratio, from the median turn with each number of cores."""
    speeds = {}
    for cores in CORES:
        found = _in_a_process(engine, cores, turns)
        speeds[cores] = statistics.median(found)
        extent = f"{min(found):,.0f} .. {max(found):,.0f}"
        say(f"  {engine}, cores {cores}: {speeds[cores]:,.0f} rows/s ({extent})")
    return {SCALING.key: speeds[2] / speeds[1]}


def _in_a_process(engine: str, cores: int, turns: int) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.scaling", "--engine", engine, "--turns", str(turns)]
    told = subprocess.run([*command, "--cores", str(cores)], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [float(speed) for speed in json.loads(told.splitlines()[-1])]


def pin(cores: int) -> None:
    """This process, and what it will start, to so many of the cores that it may use."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < cores:
        raise SystemExit(f"{cores} cores are needed; this process may use {len(allowed)}")
    os.sched_setaffinity(0, allowed[:cores])


def speeds(engine: str, cores: int, turns: int) -> list[float]:
    """Rows per second of every turn, each a query of its own and checked. Spark starts after the process was pinned."""
    pin(cores)
    from benchmarks import runner
    from benchmarks.engines.eventide import Eventide
    from benchmarks.engines.native import with_rocksdb
    from eventide.spark.session import SparkOptions, acquire, release

    spark = acquire(SparkOptions(master=f"local[{cores},4]"))
    chosen = Eventide(spark) if engine == OURS else with_rocksdb(spark)
    with tempfile.TemporaryDirectory(prefix="bench-scaling-") as folder:
        material = runner.prepare(WORKLOAD, Path(folder))
        runner.heat(chosen)
        runner.warm_up(chosen, material)
        found = [runner.measure(chosen, material)[SPEED.key] for _ in range(turns)]
    release(spark)
    return found


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=ENGINES, default=OURS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--cores", type=int, choices=CORES, help="measure with so many, in this process")
    chosen = parser.parse_args(given)
    if chosen.cores is not None:
        print(json.dumps(speeds(chosen.engine, chosen.cores, chosen.turns)))
    else:
        ratio = measure(chosen.engine, chosen.turns, print)[SCALING.key]
        print(f"{chosen.engine}: {ratio:.2f} times as fast with two cores as with one")


if __name__ == "__main__":
    main()
