"""Eventide compared with native Spark Structured Streaming and one-shot DuckDB, on this machine, in one run.

python -m benchmarks               # everything: half an hour on two cores
python -m benchmarks --bar         # the workloads with a bar; exits with 1 if one is missed
python -m benchmarks --bar --flink /path/to/python     # Flink SQL too, by an interpreter that has apache-flink
python -m benchmarks --list        # the names for --only
python -m benchmarks --from artifacts/bench/results.json --write-docs
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import plot, suite
from benchmarks.bars import ALONE, BARS, MEMORY_STATE, ROCKSDB_STATE, all_met, is_judged, verdicts
from benchmarks.engines.contract import OneShot
from benchmarks.engines.flink import flinks
from benchmarks.engines.limit import Limit
from benchmarks.engines.peer import peers
from benchmarks.figures import OURS, Results
from benchmarks.flink_jobs import BACKENDS
from benchmarks.report import Report
from benchmarks.workloads import (
    CLICKS,
    EVERYTHING,
    GENERAL_ROAD,
    JOINS,
    MILLION,
    ONE_SHOT_JOINS,
    OTHERS,
    SLIDING,
    TUMBLING,
    Workload,
)

BAR_LONG_RUN, LONG_RUN = 40 * MILLION, 100 * MILLION
LATENCY_SECONDS = 20  # python -m benchmarks.latency takes two minutes
MEMORY_WORKLOAD = TUMBLING[1]
PIP_TURNS = 2  # of two starts each
MEMORY_TURNS = 1
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bar", action="store_true", help="only the workloads with a bar, and whether they meet it")
    parser.add_argument("--list", action="store_true", help="list the workloads")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="these workloads and measurements of another kind, and nothing else"
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs per engine and workload (default 3)")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=PYTHON", help="an interpreter that has bytewax or pathway"
    )
    parser.add_argument("--flink", metavar="PYTHON", help="an interpreter that has apache-flink and psutil")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="multiplies the rows of every batch, to try things out"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("artifacts/bench"), help="folder for results.json and results.png"
    )
    parser.add_argument("--from", dest="kept", type=Path, metavar="JSON", help="measure nothing; show these results")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/performance.md")
    return parser.parse_args(given)


def chosen(given: argparse.Namespace) -> list[Workload]:
    judged = (*CLICKS, *GENERAL_ROAD, *TUMBLING, *OTHERS, *SLIDING, *JOINS, *ONE_SHOT_JOINS)
    workloads = judged if given.bar else EVERYTHING
    unknown = set(given.only or ()) - {workload.name for workload in workloads} - set(others(given))
    if unknown:
        raise SystemExit(f"no such workload: {', '.join(sorted(unknown))}; --list names them")
    wanted = [workload for workload in workloads if not given.only or workload.name in given.only]
    return [workload if given.scale == 1 else workload.smaller(given.scale) for workload in wanted]


def say(line: str) -> None:
    """Shows progress to whoever is waiting."""
    print(line, file=sys.stderr, flush=True)


def others(given: argparse.Namespace) -> dict[str, Callable[[], Results]]:
    """What is measured in another way than workloads are, by name."""
    return {
        "many streams": lambda: suite.many_streams_at_once(say),
        "latency": lambda: suite.latencies(LATENCY_SECONDS, say),
        "cold start": lambda: suite.cold_starts(given.repeat, say),
        "cold start with pip": lambda: suite.cold_starts_with_pip(min(given.repeat, PIP_TURNS), say),
        "scaling": lambda: suite.scaling_of_cores(say),
        "memory": lambda: memory_of(given),
        "long run": lambda: suite.long_run(BAR_LONG_RUN if given.bar else LONG_RUN, say),
    }


def memory_of(given: argparse.Namespace) -> Results:
    """One turn of each workload with a bar; without bars several turns, and all engines, of one more workload."""
    alone = [workload.smaller(given.scale) for workload in ALONE]
    results = suite.peak_memory(alone, (OURS, ROCKSDB_STATE), MEMORY_TURNS, say)
    if given.bar:
        return results
    return results | suite.peak_memory([MEMORY_WORKLOAD], (OURS, ROCKSDB_STATE, MEMORY_STATE), given.repeat, say)


def measured(given: argparse.Namespace) -> Report:
    results: Results = {}
    problems: list[str] = []
    workloads = chosen(given)
    one_shots: list[OneShot] = [Limit()]
    if not given.bar:
        one_shots += peers(dict(one.split("=", 1) for one in given.peer))
    if workloads:
        wanted = is_judged if given.bar else suite.any_engine
        results, problems = suite.comparison(workloads, one_shots, given.repeat, say, wanted, flinks(given.flink))
    for name, measure in others(given).items():
        if not given.only or name in given.only:
            results.update(measure())
    return Report(results, problems=problems)


def picture(report: Report, path: Path) -> None:
    try:
        plot.draw(report.results, path)
    except ImportError:
        say("no plot: matplotlib is missing; `make bench` or the extra `bench` installs it")


def main() -> int:
    given = arguments()
    if given.list:
        print("\n".join((*(workload.name for workload in EVERYTHING), *others(given))))
        return 0
    report = Report.load(given.kept) if given.kept else measured(given)
    if given.bar:
        bars = [bar for bar in BARS if not given.only or bar.workload in {*given.only, *report.results}]
        report = replace(report, verdicts=verdicts(report.results, bars, () if given.flink else BACKENDS))
    if not given.kept:
        report.save(given.output / "results.json")
    picture(report, given.output / "results.png")
    print(report.text())
    if given.write_docs:
        report.write_docs(PAGE)
    return 0 if all_met(report.verdicts) and not report.problems else 1


if __name__ == "__main__":
    sys.exit(main())
