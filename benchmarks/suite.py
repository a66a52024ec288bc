"""Everything that is measured, put together: the comparison on one Spark session, and what needs processes of its own."""

from __future__ import annotations

from collections.abc import Sequence

import eventide
from benchmarks import cold, runner
from benchmarks.bars import COLD_START
from benchmarks.engines.eventide import Eventide
from benchmarks.engines.limit import Limit
from benchmarks.engines.native import in_memory, with_rocksdb
from benchmarks.figures import COLD, Results, Sample
from benchmarks.runner import Say
from benchmarks.workloads import Workload


def comparison(workloads: Sequence[Workload], repeat: int, say: Say) -> Results:
    with eventide.connect() as holder:
        engines = [Eventide(holder.spark), with_rocksdb(holder.spark), in_memory(holder.spark)]
        return runner.compare_all(workloads, engines, [Limit()], repeat, say)


def cold_starts(repeat: int, say: Say) -> Results:
    say(COLD_START)
    samples: dict[str, list[Sample]] = {engine: [] for engine in cold.ENGINES}
    for turn in range(repeat):
        for engine in cold.ENGINES:
            samples[engine].append(cold.measure(engine))
            say(f"  {turn + 1}/{repeat} {engine}: {samples[engine][-1][COLD.key]:.1f} s")
    return {COLD_START: samples}
