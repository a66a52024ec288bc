"""Peak memory of one engine in its own process: engines that share a JVM would share its heap.

python -m benchmarks.alone ENGINE WORKLOAD FILES     # prints the peak as a line of JSON

FILES is a folder with the workload's files, which somebody else has written: what that took is no engine's memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import data, runner
from benchmarks.bars import MEMORY_STATE, ROCKSDB_STATE
from benchmarks.engines.contract import Engine
from benchmarks.engines.eventide import Eventide
from benchmarks.engines.native import in_memory, with_rocksdb
from benchmarks.figures import MEMORY, OURS, Sample
from benchmarks.process_tree import Sampler
from benchmarks.workloads import EVERYTHING, Workload
from eventide.spark.session import acquire, release

ENGINES: dict[str, Callable[..., Engine]] = {OURS: Eventide, ROCKSDB_STATE: with_rocksdb, MEMORY_STATE: in_memory}


def write_files(workload: Workload, folder: Path) -> None:
    """What `measure` needs: all batches but those of a single row that closes nothing."""
    plan = data.plan(workload)
    data.write(workload.data, (*plan.warm, *plan.measured, plan.closing), folder)


def measure(engine: str, workload: Workload, folder: Path) -> Sample:
    """In a separate process."""
    command = [sys.executable, "-m", "benchmarks.alone", engine, workload.name, str(folder)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: Sample = json.loads(told.splitlines()[-1])
    return found


def peak(engine: str, workload: Workload, files: Path) -> Sample:
    """Over all batches of the workload: those that warm up, the others, and the row that closes windows."""
    plan = data.plan(workload)
    paths = sorted(path for path in files.rglob("*") if path.is_file())
    spark = acquire()
    with Sampler() as sampler, runner.running(ENGINES[engine](spark), workload) as (run, watched):
        for spans in (plan.warm, plan.measured, [plan.closing]):
            batches = {span.batch for span in spans}
            data.link([path for path in paths if data.batch_of(path) in batches], watched)
            run.take()
        if run.totals().rows == 0:
            raise RuntimeError(f"{workload.name}: {engine} returned nothing")
    release(spark)
    return {MEMORY.key: max(sum(sizes.values()) for sizes in sampler.samples) / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("workload", choices=[workload.name for workload in EVERYTHING])
    parser.add_argument("files", type=Path)
    given = parser.parse_args()
    workload = next(workload for workload in EVERYTHING if workload.name == given.workload)
    print(json.dumps(peak(given.engine, workload, given.files)))


if __name__ == "__main__":
    main()
