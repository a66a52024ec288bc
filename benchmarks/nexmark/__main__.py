"""Nexmark: all queries on Eventide, beside native Spark and Flink SQL, every answer checked by DuckDB.

python -m benchmarks.nexmark                                  # Eventide and native Spark
python -m benchmarks.nexmark --flink /path/to/python          # Flink too, by an interpreter that has apache-flink
python -m benchmarks.nexmark --only q5 q7 --rows 100000       # some of it
python -m benchmarks.nexmark --from artifacts/nexmark/results.json --write-docs
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import eventide
from benchmarks.figures import OURS, Results
from benchmarks.flink_jobs import BACKENDS
from benchmarks.nexmark import flink, report, runner
from benchmarks.nexmark.engines import Engine, Eventide, Native
from benchmarks.nexmark.events import Events
from benchmarks.nexmark.material import Material, prepare
from benchmarks.nexmark.queries import NAMES

PAGE = Path(__file__).parent.parent.parent / "docs" / "performance.md"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.nexmark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="QUERY", choices=NAMES, default=NAMES, help="these queries")
    parser.add_argument("--rows", type=int, default=1_000_000, help="events of a batch (default one million)")
    parser.add_argument("--batches", type=int, default=2, help="batches that are measured (default 2), after one")
    parser.add_argument("--repeat", type=int, default=1, help="runs per engine and query (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="of the events (default 1)")
    parser.add_argument("--engines", nargs="+", choices=("eventide", "native"), default=("eventide", "native"))
    parser.add_argument("--flink", metavar="PYTHON", help="an interpreter that has apache-flink and psutil")
    parser.add_argument("--backend", nargs="+", choices=tuple(BACKENDS), default=["Flink, RocksDB"])
    parser.add_argument("--output", type=Path, default=Path("artifacts/nexmark"), help="for results.json and .png")
    parser.add_argument("--from", dest="kept", type=Path, metavar="JSON", help="measure nothing; show these results")
    parser.add_argument("--write-docs", action="store_true", help="put table and plot into docs/performance.md")
    return parser.parse_args(given)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def measured(given: argparse.Namespace) -> report.NexmarkReport:
    with tempfile.TemporaryDirectory(prefix="nexmark-events-") as folder:
        material = prepare(Events(given.seed), Path(folder), given.rows, 1, given.batches)
        results, problems = on_spark(given, material)
        # Flink may take as long again: what is known is kept, should nobody want to wait for it
        report.NexmarkReport(results, problems, material.measured_rows).save(given.output / "results.json")
        for engine in given.backend if given.flink else ():
            for query, engines in flink.compare(given.flink, engine, given.only, material, given.repeat, say).items():
                results.setdefault(query, {}).update(engines)
    return report.NexmarkReport(results, problems, material.measured_rows)


def on_spark(given: argparse.Namespace, material: Material) -> tuple[Results, list[str]]:
    with eventide.connect() as holder:
        engines: dict[str, Engine] = {OURS: Eventide(holder.spark), "native": Native(holder.spark)}
        chosen = [engines[name] for name in given.engines]
        return runner.compare(given.only, chosen, material, given.repeat, say)


def main() -> int:
    given = arguments()
    found = report.NexmarkReport.load(given.kept) if given.kept else measured(given)
    if not given.kept:
        found.save(given.output / "results.json")
    found.draw(given.output / "results.png", say)
    print(found.text())
    if given.write_docs:
        found.write_docs(PAGE, say)
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
