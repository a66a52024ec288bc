"""Peak memory of one engine in its own process: engines that share a JVM would share its heap.

python -m benchmarks.alone ENGINE WORKLOAD     # prints the peak as a line of JSON
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
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


def measure(engine: str, workload: str) -> Sample:
    command = [sys.executable, "-m", "benchmarks.alone", engine, workload]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: Sample = json.loads(told.splitlines()[-1])
    return found


def peak(engine: str, workload: Workload, folder: Path) -> Sample:
    """Over all batches of the workload; the files are written before the engine starts."""
    material = runner.prepare(workload, folder)
    with Sampler() as sampler, runner.running(ENGINES[engine](acquire()), workload) as (run, watched):
        for spans in (material.plan.warm, material.plan.measured):
            data.link(material.of(spans), watched)
            run.take()
    release()
    return {MEMORY.key: max(sum(sizes.values()) for sizes in sampler.samples) / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("workload", choices=[workload.name for workload in EVERYTHING])
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    workload = next(workload for workload in EVERYTHING if workload.name == given.workload).smaller(given.scale)
    with tempfile.TemporaryDirectory(prefix="bench-alone-") as folder:
        print(json.dumps(peak(given.engine, workload, Path(folder))))


if __name__ == "__main__":
    main()
