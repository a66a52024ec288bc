"""What limits and load shedding cost on Spark: clicks in files, tumbling windows, with and without such options.

    python -m benchmarks.limits_on_spark [--repeat 3] [--scale 0.5]

All rows are admitted, and the answers are checked. Cases take turns on one session.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import eventide
from benchmarks import runner
from benchmarks.engines.eventide import Eventide
from benchmarks.figures import CPU, SPEED, Sample
from benchmarks.workloads import CLICKS

PLENTY = {"sla.max_events_per_sec": "1000000", "sla.burst": "1000000000"}
CASES = {
    "no options": {},
    "sla.max_lag": {"sla.max_lag": "100000 days"},
    "a rate": PLENTY,
    "a rate and a lag": {**PLENTY, "sla.max_lag": "100000 days"},
    "shed.policy = strict": {"shed.policy": "strict", "shed.target_latency": "1 hour"},
}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.limits_on_spark", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    with eventide.connect() as holder, tempfile.TemporaryDirectory(prefix="bench-files-") as folder:
        engines = {name: Eventide(holder.spark, options=options) for name, options in CASES.items()}
        runner.heat(engines["no options"])
        for workload in (CLICKS[0].smaller(given.scale), CLICKS[-1].smaller(given.scale)):
            material = runner.prepare(workload, Path(folder) / workload.name.replace(" ", "-"))
            samples: dict[str, list[Sample]] = {name: [] for name in engines}
            for engine in engines.values():
                runner.warm_up(engine, material)
            for turn in range(given.repeat):
                for name in runner.rotated(list(engines), turn):
                    samples[name].append(runner.measure(engines[name], material))
            print(f"\n{workload.name:40} {'CPU-s per million':>18} {'':>6} {'rows/s':>12}")
            medians = {
                name: {figure.key: statistics.median(one[figure.key] for one in found) for figure in (CPU, SPEED)}
                for name, found in samples.items()
            }
            for name, found in medians.items():
                ratio = found[CPU.key] / medians["no options"][CPU.key]
                print(f"{name:40} {found[CPU.key]:18.2f} {ratio:6.2f} {found[SPEED.key]:12,.0f}", flush=True)


if __name__ == "__main__":
    main()
