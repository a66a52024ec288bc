"""Eventide compared with native Spark Structured Streaming and one-shot DuckDB, on this machine, in one run.

python -m benchmarks               # everything: half an hour on two cores
python -m benchmarks --bar         # the workloads with a bar; exits with 1 if one is missed
python -m benchmarks --list        # the names for --only
python -m benchmarks --from artifacts/bench/results.json --write-docs
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import plot, suite
from benchmarks.bars import BARS, all_met, is_judged, verdicts
from benchmarks.engines.contract import OneShot
from benchmarks.engines.limit import Limit
from benchmarks.engines.peer import peers
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
MEMORY_WORKLOAD = "json, 100k keys"
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bar", action="store_true", help="only the workloads with a bar, and whether they meet it")
    parser.add_argument("--list", action="store_true", help="list the workloads")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", help="these workloads, and nothing else")
    parser.add_argument("--repeat", type=int, default=3, help="runs per engine and workload (default 3)")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=PYTHON", help="an interpreter that has bytewax or pathway"
    )
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
    unknown = set(given.only or ()) - {workload.name for workload in workloads}
    if unknown:
        raise SystemExit(f"no such workload: {', '.join(sorted(unknown))}; --list names them")
    wanted = [workload for workload in workloads if not given.only or workload.name in given.only]
    return [workload if given.scale == 1 else workload.smaller(given.scale) for workload in wanted]


def say(line: str) -> None:
    """Shows progress to whoever is waiting."""
    print(line, file=sys.stderr, flush=True)


def measured(given: argparse.Namespace) -> Report:
    if given.bar:
        results, problems = suite.comparison(chosen(given), [Limit()], given.repeat, say, is_judged)
    else:
        one_shots: list[OneShot] = [Limit(), *peers(dict(one.split("=", 1) for one in given.peer))]
        results, problems = suite.comparison(chosen(given), one_shots, given.repeat, say)
    if not given.only:
        results.update(suite.many_streams_at_once(say))
        results.update(suite.latencies(LATENCY_SECONDS, say))
        results.update(suite.cold_starts(given.repeat, say))
        results.update(suite.long_run(BAR_LONG_RUN if given.bar else LONG_RUN, say))
    if not given.only and not given.bar:
        results.update(suite.peak_memory(MEMORY_WORKLOAD, given.repeat, say))
    return Report(results, problems=problems)


def picture(report: Report, path: Path) -> None:
    try:
        plot.draw(report.results, path)
    except ImportError:
        say("no plot: matplotlib is missing; `make bench` or the extra `bench` installs it")


def main() -> int:
    given = arguments()
    if given.list:
        print("\n".join(workload.name for workload in EVERYTHING))
        return 0
    report = Report.load(given.kept) if given.kept else measured(given)
    if given.bar:
        bars = [bar for bar in BARS if not given.only or bar.workload in given.only]
        report = replace(report, verdicts=verdicts(report.results, bars))
    if not given.kept:
        report.save(given.output / "results.json")
    picture(report, given.output / "results.png")
    print(report.text())
    if given.write_docs:
        report.write_docs(PAGE)
    return 0 if all_met(report.verdicts) and not report.problems else 1


if __name__ == "__main__":
    sys.exit(main())
